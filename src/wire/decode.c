#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/seal.h"
#include "wire/decode.h"
#include "wire/detect.h"
#include "wire/fault_place.h"

enum {
	NESTING_LIMIT_DEFAULT = 64,
	NESTING_LIMIT_MOST = 512, /* of the C stack: a level takes less than a kilobyte */
	MEMORY_PER_BODY = 16,     /* the model's default limit: this often the body, */
	PATH_SHOWN = 100,         /* characters of a fault's path */
};
#define MEMORY_LEAST ((size_t)1 << 20) /* and so much more, */
#define MEMORY_MOST  ((size_t)1 << 30) /* but never above that */

/* Indices are int32 on the wire, and seal.c's scan needs counts within 31 bits. */
#define COUNT_MOST ((size_t)INT32_MAX)

uint32_t decoder_array(struct decoder *d, void *array, size_t count, size_t size)
{
	void *new = count > 0 && count <= COUNT_MOST ? arena_alloc_array(&d->p->arena, count, size)
						     : NULL;

	if (!new)
		return 0; /* it keeps pointing to where profiles_new() has empty arrays point */
	*(void **)array = new;
	return (uint32_t)count;
}

bool decoder_grow(struct decoder *d, void *array, uint32_t *cap, uint32_t count, size_t extra,
		  size_t size)
{
	size_t least, bigger_cap;
	void *bigger;

	if (extra > COUNT_MOST - count)
		return false;
	least = count + extra;
	bigger_cap = (size_t)*cap * 2 < 16 ? 16 : (size_t)*cap * 2;
	if (bigger_cap < least)
		bigger_cap = least;
	if (bigger_cap > COUNT_MOST)
		bigger_cap = COUNT_MOST;
	bigger = arena_grow(&d->p->arena, *(void **)array, (size_t)*cap * size, bigger_cap * size);
	if (!bigger)
		return false;
	*(void **)array = bigger;
	*cap = (uint32_t)bigger_cap;
	return true;
}

void attribute_refs_add(struct decoder *d, struct pb_reader *r, struct str packed)
{
	struct profiles *p = d->p;
	size_t n;

	if (packed.len == 0)
		return;
	if (packed.len > d->room.attribute_refs - p->attribute_ref_count &&
	    !ROOM(d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs,
		  pb_packed_count(packed)))
		return;
	n = pb_packed_u32(packed, &p->attribute_refs[p->attribute_ref_count].v);
	if (n == PB_PACKED_BAD)
		pb_fail(r, PB_CUT, (const uint8_t *)packed.ptr);
	else
		p->attribute_ref_count += (uint32_t)n;
}

void attribute_ref_add(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	uint32_t v = (uint32_t)pb_varint(r);

	if (!r->fault && ROOM(d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs, 1))
		p->attribute_refs[p->attribute_ref_count++].v = v;
}

void decoder_extra(struct decoder *d, struct pb_reader *r, struct owner owner, enum extra_key key,
		   const struct any_value *v)
{
	struct profiles *p = d->p;

	if (!ROOM(d, r, p->extras, p->extra_count, extras, 1))
		return;
	p->extras[p->extra_count++] = (struct extra){
		.message = owner.message,
		.key = key,
		.index = owner.index,
		.value = *v,
	};
}

void decoder_extra_int(struct decoder *d, struct pb_reader *r, struct owner owner,
		       enum extra_key key, int64_t v)
{
	decoder_extra(d, r, owner, key, &(struct any_value){ .kind = ANY_INT, .integer = v });
}

void decoder_bad_index(struct decoder *d, struct pb_reader *r, const struct bad_index *bad)
{
	struct profiles *p = d->p;

	if (ROOM(d, r, p->bad_indices, p->bad_index_count, bad_indices, 1))
		p->bad_indices[p->bad_index_count++] = *bad;
}

static void keep_unknown(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			 struct owner owner, enum extra_key key)
{
	struct profiles *p = d->p;
	struct extra *last = p->extra_count ? &p->extras[p->extra_count - 1] : NULL;
	size_t len;

	pb_skip(r, tag);
	if (r->fault)
		return;
	p->unknown_field_count++;
	len = (size_t)(r->p - at);
	if (last && last->key == key && last->message == owner.message &&
	    last->index == owner.index &&
	    last->value.string.ptr + last->value.string.len == (const char *)at) {
		last->value.string.len += len;
		return;
	}
	decoder_extra(d, r, owner, key,
		      &(struct any_value){ .kind = ANY_BYTES, .string = str_from(at, len) });
}

void decoder_unknown(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
		     struct owner owner)
{
	keep_unknown(d, r, tag, at, owner, EXTRA_UNKNOWN_FIELDS);
}

void decoder_unknown_as(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			struct owner owner, enum extra_key key)
{
	keep_unknown(d, r, tag, at, owner, key);
}

void decoder_unknown_nested(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			    struct owner owner)
{
	keep_unknown(d, r, tag, at, owner, EXTRA_NESTED_UNKNOWN_FIELDS);
}

void decoder_unknown_add(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			 struct raw_fields *to)
{
	size_t len;
	char *bigger;

	pb_skip(r, tag);
	if (r->fault)
		return;
	d->p->unknown_field_count++;
	len = (size_t)(r->p - at);
	if (!to->bytes.len)
		to->bytes.ptr = (const char *)at;
	if (!to->cap && to->bytes.ptr + to->bytes.len == (const char *)at) {
		to->bytes.len += len;
		return;
	}
	if (to->cap - to->bytes.len < len || !to->cap) {
		bigger = arena_grow(&d->p->arena, to->cap ? (void *)to->bytes.ptr : NULL, to->cap,
				    2 * (to->bytes.len + len));
		if (!bigger) {
			pb_fail(r, PB_LIMIT, at);
			return;
		}
		if (!to->cap)
			memcpy(bigger, to->bytes.ptr, to->bytes.len);
		to->cap = 2 * (to->bytes.len + len);
		to->bytes.ptr = bigger;
	}
	memcpy((char *)to->bytes.ptr + to->bytes.len, at, len);
	to->bytes.len += len;
}

void comment_add(struct decoder *d, struct pb_reader *r, struct comment_list *list, struct str text)
{
	if (list->count == list->cap &&
	    !decoder_grow(d, &list->ptr, &list->cap, list->count, 1, sizeof(*list->ptr))) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	list->ptr[list->count++] = (struct any_value){ .kind = ANY_STRING, .string = text };
}

void comments_keep(struct decoder *d, struct pb_reader *r, struct owner owner,
		   const struct comment_list *list)
{
	if (list->count)
		decoder_extra(d, r, owner, EXTRA_COMMENTS,
			      &(struct any_value){ .kind = ANY_ARRAY,
						   .array = { list->ptr, list->count } });
}

/* What all samples hold, told from those that were looked into; an eighth more, since growing costs
 * more than room. */
static uint32_t of_all_samples(const struct survey *s, uint64_t in_some)
{
	uint64_t all = s->profile[2].len_count, some = s->samples_looked_into;

	if (some > 0 && some < all)
		in_some = in_some * all / some + in_some * all / some / 8;
	return in_some > COUNT_MOST ? 0 : (uint32_t)in_some; /* absurd: let it grow */
}

/* How much room the messages outside of the dictionary want, from the survey. */
static struct room room_wanted(const struct survey *s, enum wire_version version)
{
	bool v1_10 = version >= WIRE_V1_10;
	const struct field_tally *values = &s->sample[v1_10 ? 4 : 2];
	const struct field_tally *attributes = &s->sample[v1_10 ? 2 : 3];
	/* They are most of what samples hold, so that their bytes tell how many there may be. */
	size_t most_timestamps = s->profile[2].len_bytes / sizeof(uint64_t);

	return (struct room){
		.resources = s->resource_profiles,
		.scopes = s->scope_profiles,
		.profiles = s->profiles,
		.samples = s->profile[2].len_count,
		/* Of lists: attribute indices are small, values are large; both grow if that is not
		   so. */
		.attribute_refs =
			of_all_samples(s, attributes->len_bytes + attributes->varint_count) +
			s->dictionary[2].len_count + 2 * s->dictionary[1].len_count,
		.values = of_all_samples(s, values->len_bytes / 2 + values->varint_count),
		.timestamps = (uint32_t)(most_timestamps < COUNT_MOST ? most_timestamps : 0),
	};
}

/* The dictionary's arrays (decode_dictionary.c) and those of the messages, in bytes: the arena's
 * first block. */
static size_t bytes_wanted(const struct survey *s, const struct room *w)
{
	const struct field_tally *t = s->dictionary;
	const struct profiles *p = NULL;
	size_t n = 512; /* alignment, and the attributes of a small message */

	n += (t[1].len_count + 1) * sizeof(*p->dict.mappings) +
	     (t[2].len_count + 1) * sizeof(*p->dict.locations) +
	     (t[3].len_count + 1) * sizeof(*p->dict.functions) +
	     (t[4].len_count + 1) * sizeof(*p->dict.links) +
	     (t[5].len_count + 1) * sizeof(*p->dict.strings) +
	     (t[6].len_count + 1) * sizeof(*p->dict.attributes) +
	     (t[7].len_count + 1) * sizeof(*p->dict.stacks) +
	     t[2].len_count / 2 * sizeof(*p->dict.lines) +
	     t[7].len_bytes * sizeof(*p->dict.stack_locations);
	n += w->resources * sizeof(*p->resources) + w->scopes * sizeof(*p->scopes) +
	     w->profiles * sizeof(*p->profiles) + w->samples * sizeof(*p->samples) +
	     w->attribute_refs * sizeof(*p->attribute_refs) + w->values * sizeof(*p->values) +
	     w->timestamps * sizeof(*p->timestamps);
	/* Resource and scope attributes: lists of eight to begin with. */
	return n + (w->resources + w->scopes) * 8 * sizeof(struct key_value);
}

#define ARRAY_NEW(d, array, cap, n) \
	((d)->room.cap = decoder_array((d), &(d)->p->array, (n), sizeof(*(d)->p->array)))

static void arrays_new(struct decoder *d, const struct room *w)
{
	ARRAY_NEW(d, resources, resources, w->resources);
	ARRAY_NEW(d, scopes, scopes, w->scopes);
	ARRAY_NEW(d, profiles, profiles, w->profiles);
	ARRAY_NEW(d, samples, samples, w->samples);
	ARRAY_NEW(d, attribute_refs, attribute_refs, w->attribute_refs);
	ARRAY_NEW(d, values, values, w->values);
	ARRAY_NEW(d, timestamps, timestamps, w->timestamps);
}

/* Calls one decoder for each top-level field of a tag; others are left to a later walk. */
static void each_top_field(struct decoder *d, struct pb_reader *body, uint32_t wanted,
			   const char *name, void (*decode)(struct decoder *d, struct pb_reader *r))
{
	while (pb_more(body)) {
		uint32_t tag = pb_tag(body);
		struct pb_reader nested;

		if (tag != wanted) {
			pb_skip(body, tag);
			continue;
		}
		nested = pb_message(body);
		decode(d, &nested);
		decoder_join(d, body, &nested, name);
	}
}

static void unknown_top_fields(struct decoder *d, struct pb_reader *body)
{
	while (pb_more(body)) {
		const uint8_t *at = body->p;
		uint32_t tag = pb_tag(body);

		if (tag == PB_TAG(1, PB_LEN) || tag == PB_TAG(2, PB_LEN))
			pb_skip(body, tag);
		else
			decoder_unknown(d, body, tag, at, (struct owner){ MESSAGE_REQUEST, 0 });
	}
}

/*
 * v1.8 and later: the dictionary first, wherever it stands, since attributes may refer to its
 * strings; then the rest. A fault in one walk does not keep the others from reading what they can.
 * The first fault comes back.
 */
static struct pb_reader request_decode(struct decoder *d, struct str body)
{
	struct pb_reader whole = pb_reader_of(body), first = whole, r = whole;

	dictionary_begin(d);
	each_top_field(d, &first, PB_TAG(2, PB_LEN), "ProfilesDictionary", dictionary_decode);
	dictionary_end(d);
	if (d->unresolved_references)
		references_resolve(d, &first);
	d->dictionary_complete = true;
	each_top_field(d, &r, PB_TAG(1, PB_LEN), "ResourceProfiles", resource_profiles_decode);
	pb_join(&first, &r);
	r = whole;
	unknown_top_fields(d, &r);
	pb_join(&first, &r);
	return first;
}

static uint32_t message_count(const struct profiles *p, enum message_kind message)
{
	switch (message) {
	case MESSAGE_REQUEST:
	case MESSAGE_DICTIONARY:
		return 1;
	case MESSAGE_RESOURCE_PROFILES:
	case MESSAGE_RESOURCE:
		return p->resource_count;
	case MESSAGE_SCOPE_PROFILES:
	case MESSAGE_SCOPE:
		return p->scope_count;
	case MESSAGE_PROFILE:
		return p->profile_count;
	case MESSAGE_SAMPLE:
		return p->sample_count;
	case MESSAGE_MAPPING:
		return p->dict.mapping_count;
	case MESSAGE_LOCATION:
		return p->dict.location_count;
	case MESSAGE_LINE:
		return p->dict.line_count;
	case MESSAGE_FUNCTION:
		return p->dict.function_count;
	case MESSAGE_LINK:
		return p->dict.link_count;
	case MESSAGE_ATTRIBUTE:
		return p->dict.attribute_count;
	case MESSAGE_STACK:
		return p->dict.stack_count;
	}
	return 0;
}

/* Notes about an entry that broke off and so is not there. */
static void drop_orphaned_notes(struct profiles *p)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->extra_count; i++)
		if (p->extras[i].index < message_count(p, p->extras[i].message))
			p->extras[kept++] = p->extras[i];
	p->extra_count = kept;
	kept = 0;
	for (uint32_t i = 0; i < p->bad_index_count; i++)
		if (p->bad_indices[i].index < message_count(p, p->bad_indices[i].message))
			p->bad_indices[kept++] = p->bad_indices[i];
	p->bad_index_count = kept;
}

static size_t memory_limit(const struct otlp_decode_options *o, size_t body_bytes)
{
	if (o->memory_limit_bytes)
		return o->memory_limit_bytes;
	if (body_bytes > (MEMORY_MOST - MEMORY_LEAST) / MEMORY_PER_BODY)
		return MEMORY_MOST;
	return body_bytes * MEMORY_PER_BODY + MEMORY_LEAST;
}

static uint32_t nesting_limit(const struct otlp_decode_options *o)
{
	uint32_t limit = o->nesting_limit ? o->nesting_limit : NESTING_LIMIT_DEFAULT;

	return limit < NESTING_LIMIT_MOST ? limit : NESTING_LIMIT_MOST;
}

static void report_first_problem(const struct profiles *p, struct otlp_decode_report *report)
{
	struct buf text;

	report->first_problem[0] = '\0';
	if (p->bad_index_count == 0)
		return;
	buf_init(&text, 0);
	bad_index_append_text(&text, p, &p->bad_indices[0]);
	snprintf(report->first_problem, sizeof(report->first_problem), "%.*s",
		 STR_ARG(buf_view(&text)));
	buf_release(&text);
}

static void report_fill(const struct profiles *p, struct otlp_decode_report *report)
{
	report->unknown_field_count = p->unknown_field_count;
	report->bad_index_count = p->bad_index_count;
	report->refused_profiles = p->refused_profile_count;
	report_first_problem(p, report);
}

/* True when the version is settled; false when the survey looked into too few samples to be sure.
 */
static bool version_choose(const struct survey *s, struct str body,
			   const struct otlp_decode_options *o, struct otlp_decode_report *report)
{
	struct verdict v;

	if (o->version != WIRE_AUTO) {
		report->version = o->version;
		report->version_forced = true;
		snprintf(report->evidence, sizeof(report->evidence), "set by option");
		return true;
	}
	detect_decide(s, body, o->hint, &v);
	report->version = v.version;
	report->version_ambiguous = v.ambiguous;
	memcpy(report->evidence, v.evidence, sizeof(report->evidence));
	return v.firm || v.version < WIRE_V1_8 || s->samples_looked_into >= s->profile[2].len_count;
}

/* An Export request of v1.6 has samples but no tables: that release forgot to extend the request.
 */
static bool v1_6_lacks_tables(const struct survey *s, enum wire_version version)
{
	uint32_t tables = s->top[2].len_count;

	for (unsigned i = 3; i < SURVEY_TOP_FIELDS; i++)
		tables += s->top[i].len_count;
	return version == WIRE_V1_6 && tables == 0 && s->profile[2].len_count > 0;
}

/* The fault's place: in the body, when it is there (a merged message of v1.3 lies elsewhere). */
static bool fault_report(const struct decoder *d, const struct pb_reader *r, struct str body,
			 struct err *err)
{
	const uint8_t *base = (const uint8_t *)body.ptr;
	struct fault_place fault = { .at = r->fault_at, .fault = r->fault };
	bool limit = r->fault == PB_DEEP || r->fault == PB_LIMIT;
	char memory[64] = "", place[80] = "";
	struct buf path;
	size_t shown;

	buf_init(&path, 0);
	if (fault.at && fault.at >= base && fault.at <= base + body.len) {
		fault = fault_place_append(&path, body, d->version, r);
		snprintf(place, sizeof(place), " at byte %td", fault.at - base);
	} else if (d->fault_in) {
		buf_str(&path, str_cstr(d->fault_in));
	}
	if (r->fault == PB_LIMIT)
		snprintf(memory, sizeof(memory), " (%zu bytes for a body of %zu)",
			 d->p->arena.limit_bytes, body.len);
	if (fault.cut)
		snprintf(place, sizeof(place), ": %llu bytes from byte %td on, %llu are there",
			 (unsigned long long)fault.announced, fault.at - base,
			 (unsigned long long)fault.there);
	shown = path.len < PATH_SHOWN ? path.len : PATH_SHOWN;
	err_set(err, limit ? ERR_LIMIT : ERR_INVALID, "OTLP profiles v%s, %.*s%s%s%s%s",
		wire_version_name(d->version), STR_ARG(str_from(path.ptr, shown)),
		shown < path.len ? "...: "
		: shown          ? ": "
				 : "",
		fault.cut ? "is cut short" : pb_fault_text(fault.fault), memory, place);
	buf_release(&path);
	return false;
}

/* Of a body whose first samples told the version: did others have fields that this version has not?
 */
static bool samples_have_unknown_fields(const struct profiles *p)
{
	for (uint32_t i = 0; i < p->extra_count; i++)
		if (p->extras[i].message == MESSAGE_SAMPLE &&
		    p->extras[i].key == EXTRA_UNKNOWN_FIELDS)
			return true;
	return false;
}

static void body_decode(struct decoder *d, struct blob *blob, const struct otlp_decode_options *o,
			struct pb_reader *result)
{
	struct str body = blob_view(blob);
	struct room wanted = room_wanted(d->survey, d->version);

	d->nesting_limit = nesting_limit(o);
	d->no_fast_path = o->no_fast_path;
	d->readable_end = (const uint8_t *)body.ptr + body.len;
	d->p = profiles_new(bytes_wanted(d->survey, &wanted), memory_limit(o, body.len));
	d->p->source_version = (uint8_t)d->version;
	d->p->body = blob_ref(blob);
	arrays_new(d, &wanted);
	*result =
		d->version >= WIRE_V1_8 ? request_decode(d, body) : legacy_request_decode(d, body);
}

bool otlp_decode(struct blob *blob, const struct otlp_decode_options *options,
		 struct profiles **out, struct otlp_decode_report *report,
		 struct profiles **partial, struct err *err)
{
	static const struct otlp_decode_options defaults = { 0 };
	const struct otlp_decode_options *o = options ? options : &defaults;
	struct str body = blob_view(blob);
	struct otlp_decode_report unused;
	struct decoder d = { 0 };
	struct survey survey;
	struct pb_reader result;
	struct err seal_err;
	bool sealed;
	bool experimental = detect_experimental(body, o->hint) || o->version == WIRE_V1_3;

	if (!report)
		report = &unused;
	*report = (struct otlp_decode_report){ 0 };
	if (partial)
		*partial = NULL;
	survey_take(&survey, body, experimental, SURVEY_SAMPLES_FEW);
	if (survey.hopeless)
		return err_set(err, ERR_INVALID, "the body is no protobuf message (%zu bytes)",
			       body.len);
	if (!version_choose(&survey, body, o, report)) {
		survey_take(&survey, body, experimental, UINT32_MAX);
		version_choose(&survey, body, o, report);
	}
	if (v1_6_lacks_tables(&survey, report->version))
		return err_set(err, ERR_INVALID,
			       "an Export request of OTLP profiles v1.6 cannot carry its tables: "
			       "nothing to resolve its %u samples with",
			       survey.profile[2].len_count);

	d = (struct decoder){ .survey = &survey, .version = report->version };
	body_decode(&d, blob, o, &result);
	if (o->version == WIRE_AUTO && survey.samples_looked_into < survey.profile[2].len_count &&
	    samples_have_unknown_fields(d.p)) {
		survey_take(&survey, body, experimental, UINT32_MAX);
		version_choose(&survey, body, o, report);
		if (report->version != d.version) {
			profiles_free(d.p);
			d = (struct decoder){ .survey = &survey, .version = report->version };
			body_decode(&d, blob, o, &result);
		}
	}
	zero_entries_ensure(&d);
	if (result.fault)
		drop_orphaned_notes(d.p);
	sealed = profiles_seal(d.p, o->strict, &seal_err);
	report_fill(d.p, report);
	if (!result.fault && sealed) {
		*out = d.p;
		return true;
	}
	if (result.fault)
		fault_report(&d, &result, body, err);
	else
		*err = seal_err;
	if (partial)
		*partial = d.p;
	else
		profiles_free(d.p);
	return false;
}
