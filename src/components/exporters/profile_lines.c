#include "components/exporters/profile_lines.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"
enum {
	SLOTS_KEPT = 1 << 14, /* half a megabyte: more than a real message has locations */
	SETS_KEPT = 1 << 14,
	FRAMES_A_TURN = 255, /* between two looks at the limits */
};

void profile_lines_init(struct profile_lines *l, struct json_parts *parts)
{
	*l = (struct profile_lines){ .parts = parts };
}

void profile_lines_release(struct profile_lines *l)
{
	free(l->slots);
	free(l->order);
	free(l->sets);
}

void profile_lines_begin(struct profile_lines *l, const struct profiles *p)
{
	uint32_t count = p->dict.location_count + p->bad_index_count;

	if (count > l->slot_cap || (l->slot_cap > SLOTS_KEPT && count <= SLOTS_KEPT)) {
		free(l->slots);
		free(l->order);
		l->slot_cap = count < 256 ? 256 : count;
		l->slots = malloc(l->slot_cap * sizeof(*l->slots));
		l->order = malloc(l->slot_cap * sizeof(*l->order));
		assert(l->slots && l->order);
	}
	if (l->set_cap > SETS_KEPT) {
		free(l->sets);
		l->sets = NULL;
		l->set_cap = 0;
	}
	l->slot_count = count;
	l->order_count = 0;
	memset(l->slots, 0, count * sizeof(*l->slots));
}

static void line_begin(struct profile_lines *l)
{
	for (uint32_t i = 0; i < l->order_count; i++)
		l->slots[l->order[i]].count = 0;
	l->order_count = l->frame_count = l->set_count = 0;
	l->parts->used_count = 0;
}

/* ---- frames ---- */

static uint32_t frames_of(const struct dictionary *d, uint32_t slot)
{
	uint32_t lines = slot < d->location_count ? d->locations[slot].lines.count : 0;

	return lines ? lines : 1;
}

static uint32_t put_number(char *to, uint32_t v)
{
	char digits[10], *end = digits + sizeof(digits), *at = end;

	do
		*--at = (char)('0' + v % 10);
	while (v /= 10);
	memcpy(to, at, (size_t)(end - at));
	return (uint32_t)(end - at);
}

/* ",17,18" of all the slot's frames, if it fits. */
static void slot_text(struct frame_slot *s)
{
	char text[sizeof(s->text) + 11];
	uint32_t len = 0;

	for (uint32_t i = 0; i < s->count && len <= FRAME_SLOT_TEXT; i++) {
		text[len++] = ',';
		len += put_number(text + len, s->first + i);
	}
	s->text_len = len <= FRAME_SLOT_TEXT ? len : 0;
	memcpy(s->text, text, s->text_len);
}

/* Gives a location, or a bad index, its place among the line's frames. */
static void slot_take(struct profile_lines *l, uint32_t profile, uint32_t slot)
{
	const struct dictionary *d = &l->parts->names.profiles->dict;
	struct frame_slot *s = &l->slots[slot];

	s->first = l->frame_count;
	s->count = frames_of(d, slot);
	slot_text(s);
	l->frame_count += s->count;
	l->order[l->order_count++] = slot;
	if (slot < d->location_count)
		json_mapping_use(l->parts, profile, d->locations[slot].mapping.v);
}

static inline const struct frame_slot *slot_of(struct profile_lines *l, uint32_t profile,
					       uint32_t slot)
{
	if (!l->slots[slot].count)
		slot_take(l, profile, slot);
	return &l->slots[slot];
}

/* The frames of a location or a bad index, the first one behind a comma if it is asked for. */
static bool append_slot(struct render_out *out, const struct frame_slot *s, bool comma,
			struct err *err)
{
	for (uint32_t i = 0; i < s->count; i++) {
		if (comma || i)
			buf_char(out->buf, ',');
		buf_u64(out->buf, s->first + i);
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

/* As many locations as go without a closer look, each behind a comma; how many they were. */
static uint32_t append_locations(struct profile_lines *l, struct buf *b, uint32_t profile,
				 const struct location_index *locations, uint32_t count)
{
	uint32_t turn = count < FRAMES_A_TURN ? count : FRAMES_A_TURN, k = 0;
	char *start = buf_reserve(b, turn * FRAME_SLOT_TEXT), *to = start;

	if (!start || l->parts->names.profiles->bad_index_count)
		return 0;
	for (; k < turn; k++) {
		const struct frame_slot *s = slot_of(l, profile, locations[k].v);

		if (!s->text_len)
			break;
		memcpy(to, s->text, FRAME_SLOT_TEXT); /* what is too much is overwritten */
		to += s->text_len;
	}
	buf_advance(b, (size_t)(to - start));
	return k;
}

static uint32_t bad_slot(const struct profiles *p, const struct bad_index *bad)
{
	return p->dict.location_count + NAMES_INDEX(p->bad_indices, bad);
}

static bool append_stack(struct profile_lines *l, struct render_out *out, uint32_t profile,
			 uint32_t stack, struct err *err)
{
	const struct names *names = &l->parts->names;
	const struct profiles *p = names->profiles;
	struct range list = p->dict.stacks[stack].locations;
	const struct location_index *locations = p->dict.stack_locations + list.first;

	for (uint32_t k = 0; k < list.count; k++) {
		const struct bad_index *bad = NULL;
		uint32_t slot = locations[k].v;

		if (!slot)
			bad = names_bad(names, MESSAGE_STACK, stack, "location_indices", k);
		if (bad)
			slot = bad_slot(p, bad);
		if (!append_slot(out, slot_of(l, profile, slot), k > 0, err))
			return false;
		k += append_locations(l, out->buf, profile, locations + k + 1, list.count - k - 1);
	}
	return true;
}

/* ,"frames":[0,1,2] of a sample, leaf first */
static bool append_frames(struct profile_lines *l, struct render_out *out, uint32_t profile,
			  uint32_t sample, struct err *err)
{
	const struct names *names = &l->parts->names;
	uint32_t stack = names->profiles->samples[sample].stack.v;
	const struct bad_index *bad =
		stack ? NULL : names_bad(names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	buf_lit(out->buf, ",\"frames\":[");
	if (bad ? !append_slot(out, slot_of(l, profile, bad_slot(names->profiles, bad)), false, err)
		: !append_stack(l, out, profile, stack, err))
		return false;
	buf_char(out->buf, ']');
	return true;
}

/* The table that they point into. */
static bool append_frame_table(struct profile_lines *l, struct render_out *out, struct err *err)
{
	const struct profiles *p = l->parts->names.profiles;

	buf_lit(out->buf, ",\"frames\":[");
	for (uint32_t i = 0; i < l->order_count; i++) {
		uint32_t slot = l->order[i];

		if (slot >= p->dict.location_count)
			json_bad_frame_append(
				out->buf, &p->bad_indices[slot - p->dict.location_count], i == 0);
		else if (!json_location_append(l->parts, out, slot, i == 0, err))
			return false;
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, ']');
	return true;
}

/* ---- attributes ---- */

static struct str set_bytes(const struct profiles *p, uint32_t sample)
{
	struct range list = p->samples[sample].attributes;

	return str_from(p->attribute_refs + list.first, list.count * sizeof(*p->attribute_refs));
}

static bool set_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profile_lines *l = ctx;

	return str_equal(set_bytes(l->parts->names.profiles, l->sets[index].sample),
			 *(const struct str *)key);
}

/* Lists are the same where they name the same attributes, but for bad indices: those are 0, and
 * each shows what it was. */
static bool set_is_shared(const struct profile_lines *l, uint32_t sample)
{
	const struct profiles *p = l->parts->names.profiles;
	struct range list = p->samples[sample].attributes;

	for (uint32_t i = 0; p->bad_index_count && i < list.count; i++)
		if (!names_attribute_ref(p, list, i).v)
			return false;
	return true;
}

static void set_add(struct profile_lines *l, uint32_t sample)
{
	const struct profiles *p = l->parts->names.profiles;

	VEC_ROOM(l->sets, l->set_count, l->set_cap);
	l->sets[l->set_count++] = (struct attribute_set){
		.sample = sample,
		.has_units = json_has_units(p, p->samples[sample].attributes),
	};
}

static uint32_t set_of(struct profile_lines *l, uint32_t sample)
{
	struct str bytes = set_bytes(l->parts->names.profiles, sample);
	uint32_t found = UINT32_MAX;

	if (set_is_shared(l, sample))
		found = intern_find_or_add(&l->set_table, hash64(bytes), set_same, l, &bytes,
					   l->set_count);
	if (found != UINT32_MAX)
		return found;
	set_add(l, sample);
	return l->set_count - 1;
}

static bool append_set_table(struct profile_lines *l, struct render_out *out, struct err *err)
{
	const struct profiles *p = l->parts->names.profiles;

	buf_lit(out->buf, ",\"attributes\":[");
	for (uint32_t i = 0; i < l->set_count; i++) {
		uint32_t sample = l->sets[i].sample;

		if (i)
			buf_char(out->buf, ',');
		if (!json_attributes_append(l->parts, out, p->samples[sample].attributes,
					    MESSAGE_SAMPLE, sample, err))
			return false;
	}
	buf_char(out->buf, ']');
	return render_out_check(out, err);
}

/* ---- the line ---- */

static bool append_sample(struct profile_lines *l, struct render_out *out, uint32_t profile,
			  uint32_t sample, struct err *err)
{
	const struct profiles *p = l->parts->names.profiles;
	const struct sample *s = &p->samples[sample];
	struct sample_total total = sample_total(p, &p->profiles[profile], s);
	uint32_t set = set_of(l, sample);
	struct buf *b = out->buf;

	buf_lit(b, "{\"value\":");
	buf_i64(b, total.value);
	buf_lit(b, ",\"events\":");
	buf_u64(b, total.events);
	if (!json_numbers_append(l->parts, out, s, err))
		return false;
	json_link_append(l->parts, b, sample);
	buf_lit(b, ",\"attributes\":");
	buf_u64(b, set);
	if (l->sets[set].has_units && !json_units_append(l->parts, out, s->attributes, err))
		return false;
	json_extras_append(l->parts, b, MESSAGE_SAMPLE, sample);
	if (!append_frames(l, out, profile, sample, err))
		return false;
	buf_char(b, '}');
	return render_out_check(out, err);
}

static bool append_samples(struct profile_lines *l, struct render_out *out, uint32_t profile,
			   const struct sample_list *list, struct err *err)
{
	buf_lit(out->buf, ",\"samples\":[");
	for (uint32_t i = 0; i < list->count; i++) {
		if (i)
			buf_char(out->buf, ',');
		if (!append_sample(l, out, profile, sample_list_at(list, i), err))
			return false;
	}
	buf_char(out->buf, ']');
	return true;
}

bool profile_line_append(struct profile_lines *l, struct render_out *out, struct str head,
			 uint32_t profile, const struct sample_list *samples, struct err *err)
{
	bool ok;

	line_begin(l);
	intern_init(&l->set_table);
	buf_str(out->buf, head);
	ok = append_samples(l, out, profile, samples, err) && append_set_table(l, out, err) &&
	     append_frame_table(l, out, err) && json_build_ids_append(l->parts, out, err);
	intern_release(&l->set_table);
	if (!ok)
		return false;
	buf_lit(out->buf, "}\n");
	return render_out_check(out, err);
}
