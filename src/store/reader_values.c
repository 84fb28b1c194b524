/* reader_values.c - of many sets of attributes what they say of one key. */
#include "store/codec.h"
#include "store/reader_walk.h"

#include <stdlib.h>

/* Sets whose attributes are read together; so many attributes are remembered from one such time to
 * the next. */
enum { SETS_AT_ONCE = 1 << 15, ATTRIBUTES_KEPT = 1 << 18, KEYS_KEPT = 16 };

struct value_reader {
	struct sqlite_snapshot *snap;
	struct str key;
	struct {
		uint64_t id;
		bool same;
	} keys[KEYS_KEPT]; /* that were met, and whether it is `key` */
	uint32_t key_count;
	struct idmap attributes;  /* number: of the value, 0: of another key */
	struct wanted_ids wanted; /* of those, the ones that are to be read */
	struct buf bytes;         /* the sets', one behind another */
	size_t *ends;
	struct arena arena; /* of one value */
	uint32_t count;     /* of values */
	source_value_fn *fn;
	void *arg;
};

static bool take_set(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct value_reader *r = ctx;
	struct str ids = row_bytes(columns[0]);
	struct codec c = codec_of(ids);

	(void)err;
	buf_str(&r->bytes, ids);
	r->ends[at] = r->bytes.len;
	while (codec_more(&c)) {
		uint64_t id = codec_get(&c);

		if (!id || idmap_find(&r->attributes, id))
			continue;
		idmap_add(&r->attributes, id)->number = 0;
		wanted_ids_add(&r->wanted, id);
	}
	return true;
}

static bool is_key(struct value_reader *r, uint64_t id, bool *out, struct err *err)
{
	struct str text;

	for (uint32_t i = 0; i < r->key_count; i++)
		if (r->keys[i].id == id) {
			*out = r->keys[i].same;
			return true;
		}
	if (!reader_text(r->snap, id, &text, err))
		return false;
	*out = str_equal(text, r->key);
	if (r->key_count < KEYS_KEPT) {
		r->keys[r->key_count].id = id;
		r->keys[r->key_count++].same = *out;
	}
	return true;
}

/* key_id, kind, v, unit_id */
static bool take_attribute(void *ctx, size_t at, sqlite3_value **columns, struct err *err)
{
	struct value_reader *r = ctx;
	struct source_attribute a = { .key = r->key };
	struct any_cell cell;
	bool wanted;

	if (!is_key(r, row_u64(columns[0]), &wanted, err))
		return false;
	if (!wanted)
		return true;
	arena_reset(&r->arena);
	cell = row_any_cell(columns[1], columns[2]);
	if (!reader_any(&cell, &r->arena, &a.value, err))
		return false;
	if (!r->fn(r->arg, &a, err))
		return false;
	idmap_find(&r->attributes, r->wanted.ids[at])->number = ++r->count;
	return true;
}

/* The first attribute of that key that a set has; 0: none. */
static bool value_of(const struct value_reader *r, struct str set, uint32_t *out, struct err *err)
{
	struct codec c = codec_of(set);

	*out = 0;
	while (codec_more(&c) && !*out) {
		uint64_t id = codec_get(&c);

		if (c.failed)
			return err_set(err, ERR_INVALID, "a set of attributes is damaged");
		if (id)
			*out = (uint32_t)idmap_find(&r->attributes, id)->number;
	}
	return true;
}

static bool read_values(struct value_reader *r, const uint64_t *ids, size_t count, uint32_t *out,
			struct err *err)
{
	size_t from = 0;

	buf_reset(&r->bytes);
	r->wanted.count = 0;
	if (r->attributes.used > ATTRIBUTES_KEPT)
		idmap_clear(&r->attributes);
	if (!row_each(r->snap, EACH_ATTRSET, ids, count, take_set, r, err))
		return false;
	wanted_ids_sort(&r->wanted);
	if (!row_each(r->snap, EACH_ATTRIBUTE, r->wanted.ids, r->wanted.count, take_attribute, r,
		      err))
		return false;
	for (size_t i = 0; i < count; from = r->ends[i++])
		if (!value_of(r, str_from(r->bytes.ptr + from, r->ends[i] - from), &out[i], err))
			return false;
	return true;
}

bool sqlite_values(struct source *source, struct str key, const uint64_t *ids, uint32_t count,
		   source_value_fn *fn, void *arg, uint32_t *out, struct err *err)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	struct value_reader r = { .snap = snap, .key = key, .fn = fn, .arg = arg };
	size_t room = count < SETS_AT_ONCE ? count : SETS_AT_ONCE;
	bool ok = true;

	r.ends = calloc(room + 1, sizeof(*r.ends));
	assert(r.ends);
	buf_init(&r.bytes, 0);
	arena_init(&r.arena, 4096, 0);
	reader_trim(snap);
	for (size_t from = 0; ok && from < count; from += room) {
		size_t n = count - from < room ? count - from : room;

		ok = read_values(&r, ids + from, n, out + from, err);
	}
	free(r.ends);
	free(r.wanted.ids);
	idmap_release(&r.attributes);
	buf_release(&r.bytes);
	arena_release(&r.arena);
	return ok;
}
