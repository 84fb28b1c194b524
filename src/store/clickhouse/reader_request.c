/*
 * reader_request.c - a whole request again, as a message: its rows as rebuild.h wants them.
 *
 * What a request refers to is known by now (request_page.h).
 */
#include <string.h>

#include "store/clickhouse/request_page.h"
#include "store/rebuild.h"

struct request_rebuild {
	struct rebuild base;
	struct ch_snapshot *snap;
	const struct ch_kept_request *row;
	uint32_t profile, note_at;
};

static struct request_rebuild *request_rebuild_of(struct rebuild *r)
{
	return CONTAINER_OF(r, struct request_rebuild, base);
}

/* ---- dictionary rows ---- */

enum { KEY_BY_REFERENCE = 256 }; /* of an attribute's kind */

static bool read_set(struct rebuild *r, uint64_t id, const struct ch_entry *set,
		     struct rebuild_entry *out, struct err *err)
{
	struct rebuild_attribute *list =
		arena_zalloc(&r->scratch, ((size_t)set->number_count + 1) * sizeof(*list));

	if (set->text_count != (uint64_t)set->number_count * 4)
		return err_set(err, ERR_INVALID, "attribute set %llu is damaged",
			       (unsigned long long)id);
	for (uint32_t i = 0; i < set->number_count; i++) {
		list[i] = (struct rebuild_attribute){
			.key = ch_list_text(set, i, CH_LIST_KEY),
			.unit = ch_list_text(set, i, CH_LIST_UNIT),
			.notes = ch_list_text(set, i, CH_LIST_NOTES),
			.key_by_reference = set->numbers[i] & KEY_BY_REFERENCE,
		};
		if (!ch_value(set->numbers[i], ch_list_text(set, i, CH_LIST_VALUE), &r->scratch,
			      &list[i].value, err))
			return false;
	}
	out->attributes = list;
	out->attribute_count = set->number_count;
	return true;
}

static bool read_entry(struct rebuild *r, enum store_kind kind, uint64_t id,
		       struct rebuild_entry *out, struct err *err)
{
	struct ch_snapshot *snap = request_rebuild_of(r)->snap;
	const struct ch_entry *e = ch_entry(snap, kind, id, err);
	uint32_t first_text = kind == KIND_SERIES; /* behind the service's name */

	if (!e)
		return false;
	if (kind == KIND_ATTRSET)
		return read_set(r, id, e, out, err);
	for (uint32_t i = 0; i < ARRAY_LEN(out->texts); i++)
		out->texts[i] = ch_text(e, first_text + i);
	out->notes = e->notes;
	out->numbers = e->numbers;
	out->number_count = e->number_count;
	out->refs = e->refs;
	out->ref_count = e->ref_count;
	return kind != KIND_STACK ||
	       ch_stack_locations(snap, e, &r->scratch, &out->refs, &out->ref_count, err);
}

/* ---- profiles ---- */

/* The notes of a number on the line. Both the notes and the calls are in its order. */
static struct str note_of(struct request_rebuild *r, uint64_t seq)
{
	while (r->note_at < r->row->note_count && r->row->note_seq[r->note_at] < seq)
		r->note_at++;
	return r->note_at < r->row->note_count && r->row->note_seq[r->note_at] == seq
		       ? r->row->note[r->note_at]
		       : (struct str){ 0 };
}

static void put_samples(struct request_rebuild *r, uint64_t seq, uint32_t count)
{
	for (uint32_t i = 0; i < count && !r->base.failed; i++) {
		const struct rebuild_sample *k = &r->row->samples[seq - r->row->seq + 1 + i];

		if (k->there)
			rebuild_sample(&r->base, k, note_of(r, seq + 1 + i));
		else
			r->base.failed = !err_set(r->base.err, ERR_NOT_FOUND,
						  "sample %u of profile %llu is not there", i,
						  (unsigned long long)seq);
	}
}

static void put_profile(struct rebuild *base)
{
	struct request_rebuild *r = request_rebuild_of(base);
	const struct ch_profile_columns *p = &r->row->profiles;
	uint32_t i = r->profile++;
	struct profile *to;

	rebuild_fail_when(base, i >= p->count, "request", r->row->seq);
	if (base->failed)
		return;
	to = builder_begin_profile(base->b);
	rebuild_types(base, p->series[i], to);
	to->time_unix_nano = p->time[i];
	to->duration_nano = p->duration[i];
	to->dropped_attributes_count = p->dropped[i];
	memcpy(to->profile_id, p->uid + (size_t)i * 16, 16);
	to->original_payload_format = rebuild_owned(base, p->payload_format[i]);
	to->original_payload = rebuild_owned(base, p->payload[i]);
	rebuild_profile_attributes(base, p->attributes[i]);
	if (base->failed)
		return;
	rebuild_notes(base, note_of(r, p->seq[i]), MESSAGE_PROFILE,
		      builder_newest(base->b, MESSAGE_PROFILE));
	rebuild_fail_when(base,
			  p->seq[i] <= r->row->seq || p->seq[i] + p->samples[i] > r->row->last_seq,
			  "profile", p->seq[i]);
	if (!base->failed)
		put_samples(r, p->seq[i], p->samples[i]);
}

/* ---- the whole ---- */

static struct profiles *rebuild_request(struct request_rebuild *r, struct err *err)
{
	const struct ch_kept_request *row = r->row;
	struct profiles *p;

	rebuild_begin(&r->base, read_entry, err);
	rebuild_fail_when(&r->base, row->damaged, "request", row->seq);
	if (!r->base.failed) {
		rebuild_layout(&r->base, row->layout, row->layout_count, row->seq, put_profile);
		rebuild_notes(&r->base, row->notes, MESSAGE_REQUEST, 0);
		rebuild_notes(&r->base, row->notes, MESSAGE_DICTIONARY, 0);
	}
	p = rebuild_end(&r->base);
	if (!p)
		return NULL;
	p->source_version = row->version;
	p->unknown_field_count = row->unknown_fields;
	return p;
}

bool ch_next_request(struct source *source, uint64_t after, uint64_t *seq, struct profiles **out,
		     struct err *err)
{
	struct request_rebuild r = { .snap = ch_snapshot_of(source) };

	*out = NULL;
	if (!ch_request_after(r.snap, after, &r.row, err))
		return false;
	if (!r.row)
		return true;
	*seq = r.row->seq;
	*out = rebuild_request(&r, err);
	return *out || err_prefix(err, "request %llu", (unsigned long long)*seq);
}
