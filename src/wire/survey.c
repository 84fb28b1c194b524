#include "wire/survey.h"

#include <stddef.h>

#include "wire/pb_reader.h"

static void tally_len(struct field_tally *t, size_t len)
{
	t->len_count++;
	t->len_bytes += len;
}

/* Counts a field in its table and steps over it; a LEN field's content comes back, else an empty
 * slice. */
static struct pb_reader tally(struct pb_reader *r, uint32_t tag, struct field_tally *table,
			      uint32_t fields)
{
	uint32_t number = tag >> 3;
	struct field_tally *t = &table[number < fields ? number : 0];
	struct pb_reader content = { .p = r->p, .end = r->p };

	switch (tag & 7) {
	case PB_LEN:
		content = pb_message(r);
		tally_len(t, (size_t)(content.end - content.p));
		break;
	case PB_VARINT:
		t->varint_count++;
		pb_varint(r);
		break;
	case PB_I64:
		t->i64_count++;
		pb_fixed64(r);
		break;
	default:
		pb_skip(r, tag);
	}
	return content;
}

/*
 * Steps over a run of fields with the one-byte tag `tag` (LEN, with a length of one or two bytes);
 * the rest of the run is for the general walk. Most of a body is passed in here.
 */
static void tally_run(struct pb_reader *r, uint8_t tag, struct field_tally *t)
{
	const uint8_t *p = r->p, *end = r->end;
	uint32_t count = 0;
	size_t bytes = 0;

	/* Each turn waits for the length in front of it: nothing but one sum stands between them.
	 */
	while (end - p > 2 && *p == tag) {
		const uint8_t *content = p + 2;
		size_t len = p[1];

		if (__builtin_expect(len >= 0x80, 0)) {
			if (p[2] >= 0x80)
				break;
			len = (len & 0x7f) | (size_t)p[2] << 7;
			content++;
		}
		if (len > (size_t)(end - content))
			break;
		p = content + len;
		bytes += len;
		count++;
	}
	t->len_count += count;
	t->len_bytes += bytes;
	r->p = p;
}

static size_t content_len(const struct pb_reader *content)
{
	return (size_t)(content->end - content->p);
}

static struct str content_str(const struct pb_reader *content)
{
	return str_from(content->p, content_len(content));
}

static void survey_sample(struct survey *s, struct pb_reader r)
{
	struct pb_reader list2 = { 0 };
	size_t times_bytes = 0, entries2 = 0;
	uint32_t varints3 = 0, varints4 = 0;
	bool other = false;

	s->samples_looked_into++;
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader content = tally(&r, tag, s->sample, SURVEY_SAMPLE_FIELDS);

		switch (tag) {
		case PB_TAG(2, PB_LEN):
			list2 = content;
			entries2 += 1; /* stands for the list until it is counted below */
			break;
		case PB_TAG(2, PB_VARINT):
			entries2 += 2;
			break;
		case PB_TAG(5, PB_LEN):
			times_bytes += content_len(&content);
			break;
		case PB_TAG(5, PB_I64):
			times_bytes += 8;
			break;
		case PB_TAG(3, PB_VARINT):
			varints3++;
			break;
		case PB_TAG(4, PB_VARINT):
			varints4++;
			break;
		case PB_TAG(3, PB_LEN):
		case PB_TAG(4, PB_LEN):
			other = true;
			break;
		}
	}
	s->broken |= r.fault != PB_OK;
	s->samples_3_unpacked_list += varints3 > 1;
	s->samples_4_unpacked_list += varints4 > 1;
	if (other || varints3 || varints4 || entries2 == 0)
		return;
	if (times_bytes == 0)
		s->samples_2_without_5++;
	else if (entries2 == 1)
		s->samples_2_and_5_differ +=
			pb_packed_count(content_str(&list2)) != times_bytes / 8;
}

static void survey_value_type(struct survey *s, struct pb_reader r)
{
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		s->temporality += tag == PB_TAG(3, PB_VARINT);
		pb_skip(&r, tag);
	}
}

/* The Profile of v1.3, inside its container. */
static void survey_inner_profile(struct survey *s, struct pb_reader r)
{
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader content = tally(&r, tag, s->inner_profile, SURVEY_PROFILE_FIELDS);

		if (tag == PB_TAG(2, PB_LEN))
			survey_sample(s, content);
	}
	s->broken |= r.fault != PB_OK;
}

/* Were it a list of indices: the greatest of all. */
static void note_indices(uint64_t *most, struct pb_reader list)
{
	while (pb_more(&list)) {
		uint64_t index = pb_varint(&list);

		if (index > *most)
			*most = index;
	}
	if (list.fault != PB_OK)
		*most = UINT64_MAX;
}

static void note_profile_field(struct survey *s, uint32_t tag, struct pb_reader content)
{
	size_t len = content_len(&content);
	bool id_like = len == 0 || len == 16;

	if (tag == PB_TAG(7, PB_LEN)) {
		s->profile_7_len_0_or_16 += id_like;
		s->profile_7_len_other += !id_like;
		if (!id_like)
			note_indices(&s->profile_7_most, content);
	} else if (tag == PB_TAG(8, PB_LEN)) {
		s->profile_8_len_0_or_16 += id_like;
		s->profile_8_len_other += !id_like;
	} else if (tag == PB_TAG(11, PB_LEN)) {
		note_indices(&s->profile_11_most, content);
	}
}

/* Once enough samples were looked into, runs of them are only counted. */
static void pass_samples(struct survey *s, struct pb_reader *r, struct field_tally *t)
{
	if (s->samples_looked_into >= s->samples_limit && *r->p == PB_TAG(2, PB_LEN))
		tally_run(r, PB_TAG(2, PB_LEN), t);
}

static void survey_profile(struct survey *s, struct pb_reader r)
{
	struct pb_reader content, field8 = { 0 };
	uint32_t sample_types = 0;
	bool start_time = false, samples = false, end_time = false;

	s->profiles++;
	while (pb_more(&r)) {
		uint32_t tag;

		pass_samples(s, &r, &s->profile[2]);
		if (!pb_more(&r))
			break;
		tag = pb_tag(&r);
		content = tally(&r, tag, s->profile, SURVEY_PROFILE_FIELDS);
		switch (tag) {
		case PB_TAG(1, PB_LEN):
			sample_types++;
			survey_value_type(s, content);
			break;
		case PB_TAG(2, PB_LEN):
			samples = true;
			survey_sample(s, content);
			break;
		case PB_TAG(2, PB_I64):
			start_time = true;
			break;
		case PB_TAG(3, PB_I64):
			end_time = true;
			break;
		case PB_TAG(5, PB_LEN):
			survey_value_type(s, content);
			break;
		case PB_TAG(7, PB_LEN):
		case PB_TAG(11, PB_LEN):
			note_profile_field(s, tag, content);
			break;
		case PB_TAG(8, PB_LEN):
			note_profile_field(s, tag, content);
			field8 = content;
			break;
		}
	}
	s->broken |= r.fault != PB_OK;
	/* Only a ProfileContainer has a fixed64 as field 2; its end time alone is told from v1.8's
	 * start by what is beside it. */
	if (start_time || s->container ||
	    (end_time && !samples && s->profile[4].varint_count == 0 && field8.p))
		s->container = true;
	if (s->container && field8.p)
		survey_inner_profile(s, field8);
	if (!s->container)
		s->repeated_sample_types += sample_types > 1;
}

static void survey_scope_profiles(struct survey *s, struct pb_reader r)
{
	s->scope_profiles++;
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(2, PB_LEN))
			survey_profile(s, pb_message(&r));
		else
			pb_skip(&r, tag);
	}
	s->broken |= r.fault != PB_OK;
}

static void survey_resource_profiles(struct survey *s, struct pb_reader r)
{
	s->resource_profiles++;
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(2, PB_LEN))
			survey_scope_profiles(s, pb_message(&r));
		else
			pb_skip(&r, tag);
	}
	s->broken |= r.fault != PB_OK;
}

/* KeyValue of v1.7 or KeyValueAndUnit of v1.8? Most entries say so with their first byte. */
static void survey_attribute(struct survey *s, struct pb_reader r)
{
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		/* An empty key says nothing: it may be the zero entry of either. */
		if (tag == PB_TAG(1, PB_LEN)) {
			s->attribute_key_text += pb_bytes(&r).len > 0;
			continue;
		}
		s->attribute_key_index +=
			tag == PB_TAG(1, PB_VARINT) || tag == PB_TAG(3, PB_VARINT);
		pb_skip(&r, tag);
	}
}

static void survey_dictionary(struct survey *s, struct pb_reader r)
{
	while (pb_more(&r)) {
		bool told = s->attribute_key_text + s->attribute_key_index >= SURVEY_ATTRIBUTES_FEW;
		struct pb_reader content;
		uint32_t tag;

		/* Tables 1 to 7 but the first attributes, which are looked into. */
		if ((*r.p & 0xc7) == PB_LEN && *r.p >= PB_TAG(1, PB_LEN) &&
		    (told || *r.p != PB_TAG(6, PB_LEN))) {
			tally_run(&r, *r.p, &s->dictionary[*r.p >> 3]);
			if (!pb_more(&r))
				break;
		}
		tag = pb_tag(&r);
		content = tally(&r, tag, s->dictionary, SURVEY_DICTIONARY_FIELDS);

		if (tag == PB_TAG(6, PB_LEN))
			survey_attribute(s, content);
	}
	s->broken |= r.fault != PB_OK;
}

void survey_take(struct survey *s, struct str body, bool experimental, uint32_t samples_limit)
{
	struct pb_reader r = pb_reader_of(body);
	bool any = false;

	*s = (struct survey){ .container = experimental, .samples_limit = samples_limit };
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader content;

		if (r.fault)
			break;
		any = true;
		content = tally(&r, tag, s->top, SURVEY_TOP_FIELDS);
		if (tag == PB_TAG(1, PB_LEN))
			survey_resource_profiles(s, content);
		else if (tag == PB_TAG(2, PB_LEN))
			survey_dictionary(s, content);
	}
	s->broken |= r.fault != PB_OK;
	s->hopeless = r.fault != PB_OK && !any;
}

/* Descends along a path of LEN fields and gives each content at its end to `visit`. */
struct walk {
	const uint8_t *path;
	size_t depth;
	bool (*visit)(void *arg, struct str content);
	void *arg;
};

static bool walk_down(const struct walk *w, size_t level, struct pb_reader r)
{
	if (level == w->depth)
		return w->visit(w->arg, content_str(&r));
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag != PB_TAG(w->path[level], PB_LEN))
			pb_skip(&r, tag);
		else if (!walk_down(w, level + 1, pb_message(&r)))
			return false;
	}
	return true;
}

static bool walk_path(struct str body, const uint8_t *path, size_t depth,
		      bool (*visit)(void *arg, struct str content), void *arg)
{
	const struct walk w = { path, depth, visit, arg };

	return walk_down(&w, 0, pb_reader_of(body));
}

void survey_each_sample(struct str body, bool (*visit)(void *arg, struct str sample), void *arg)
{
	static const uint8_t samples[] = { 1, 2, 2, 2 };

	walk_path(body, samples, sizeof(samples), visit, arg);
}

void survey_each_attribute(struct str body, bool (*visit)(void *arg, struct str key_value),
			   void *arg)
{
	static const uint8_t resource[] = { 1, 1, 1 }, scope[] = { 1, 2, 1, 3 };

	if (walk_path(body, resource, sizeof(resource), visit, arg))
		walk_path(body, scope, sizeof(scope), visit, arg);
}

void survey_each_table_attribute(struct str body, bool (*visit)(void *arg, struct str entry),
				 void *arg)
{
	static const uint8_t table[] = { 2, 6 };

	walk_path(body, table, sizeof(table), visit, arg);
}
