/* reader_fetch.c - entries of the dictionary, by their numbers and many at a time, and values. */
#include "store/clickhouse/snapshot.h"
#include "store/id_list.h"

enum {
	UPPERS_EACH = 64,   /* upper halves of ids that have a condition each */
	SHORT_LIST = 32,    /* ids that stand in the query as they are */
	LOWER_MOST = 30000, /* lower halves in one query, which has at most 256 KiB */
};

/* ---- an answer ---- */

/* Columns of their halves: what an entry refers to has the same writer, which its own number says,
 * so that the page is enough. */
static uint64_t *get_refs(struct ch_snapshot *snap, struct codec *c, uint64_t id, uint32_t *count)
{
	uint32_t n = row_get_count(c, 2);
	struct str pages = row_get_fixed(c, (size_t)n * 2), places;
	uint64_t *refs = arena_alloc_array(&snap->kept, n, 8);

	if (row_get_count(c, 2) != n)
		c->failed = true;
	places = row_get_fixed(c, (size_t)n * 2);
	*count = c->failed ? 0 : n;
	for (uint32_t i = 0; i < *count; i++) {
		uint16_t page, place;

		memcpy(&page, pages.ptr + (size_t)2 * i, sizeof(page));
		memcpy(&place, places.ptr + (size_t)2 * i, sizeof(place));
		refs[i] = page ? (id & ~(uint64_t)UINT32_MAX) | (uint64_t)page << 16 | place : 0;
	}
	return refs;
}

/* Copies what the entry refers to into the arena. */
static bool keep_entry(struct ch_snapshot *snap, struct codec *c)
{
	unsigned kind = (unsigned)row_get(c, 1);
	struct ch_entry *e = arena_zalloc(&snap->kept, sizeof(*e));
	struct str *texts;
	struct str numbers;
	uint64_t *refs;
	int64_t *number_copy;
	struct idmap *map;

	e->id = row_get(c, 8) << 16;
	e->id |= row_get(c, 2);
	refs = get_refs(snap, c, e->id, &e->ref_count);
	e->number_count = row_get_count(c, 8);
	numbers = row_get_fixed(c, (size_t)e->number_count * 8);
	e->text_count = row_get_count(c, 1);
	if (c->failed || ch_slot(kind) >= CH_KIND_SLOTS)
		return false;
	number_copy = arena_alloc_array(&snap->kept, e->number_count, 8);
	texts = arena_alloc_array(&snap->kept, e->text_count, sizeof(*texts));
	if (e->number_count)
		memcpy(number_copy, numbers.ptr, numbers.len);
	for (uint32_t i = 0; i < e->text_count; i++)
		texts[i] = str_dup(&snap->kept, row_get_str(c));
	e->refs = refs;
	e->numbers = number_copy;
	e->texts = texts;
	e->notes = str_dup(&snap->kept, row_get_str(c));
	map = &snap->entries[ch_slot(kind)];
	if (!c->failed && e->id && !idmap_find(map, e->id))
		idmap_add(map, e->id)->ptr = e;
	return !c->failed;
}

/* ---- a question ---- */

/* As texts that the server makes an array of: numbers in SQL cost it 4 us each. */
void ch_put_numbers(struct buf *sql, const char *type, const uint64_t *ids, size_t count,
		    uint64_t mask)
{
	const char *comma = "";

	buf_str(sql, count > SHORT_LIST ? STR("(SELECT arrayJoin(CAST('[") : STR("("));
	for (size_t i = 0; i < count; i++) {
		buf_str(sql, str_cstr(comma));
		buf_u64(sql, ids[i] & mask);
		comma = ",";
	}
	if (count > SHORT_LIST)
		buf_printf(sql, "]' AS Array(%s)))", type);
	buf_char(sql, ')');
}

static size_t count_uppers(const uint64_t *ids, size_t count)
{
	size_t uppers = 1;

	for (size_t i = 1; i < count; i++)
		uppers += ids[i] >> 16 != ids[i - 1] >> 16;
	return uppers;
}

/* Where at least half of what lies between them is wanted, all of it is asked for. */
static void put_lowers(struct buf *sql, const uint64_t *ids, size_t count)
{
	uint64_t first = ids[0] & UINT16_MAX, last = ids[count - 1] & UINT16_MAX;

	buf_printf(sql, "(id_high = %llu AND ", (unsigned long long)(ids[0] >> 16));
	if (count > SHORT_LIST && count * 2 > last - first) {
		buf_printf(sql, "id_low >= %llu AND id_low <= %llu)", (unsigned long long)first,
			   (unsigned long long)last);
		return;
	}
	buf_lit(sql, "id_low IN ");
	ch_put_numbers(sql, "UInt16", ids, count, UINT16_MAX);
	buf_char(sql, ')');
}

static void put_by_upper(struct buf *sql, const uint64_t *ids, size_t count)
{
	size_t from = 0;

	for (size_t i = 1; i <= count; i++) {
		if (i < count && ids[i] >> 16 == ids[from] >> 16)
			continue;
		buf_str(sql, from ? STR(" OR ") : STR("("));
		put_lowers(sql, ids + from, i - from);
		from = i;
	}
	buf_char(sql, ')');
}

/* The key is in halves: where the upper ones are many only from where to where they go helps. */
static void put_by_both(struct buf *sql, const uint64_t *ids, size_t count)
{
	buf_printf(sql, "id_high >= %llu AND id_high <= %llu AND id IN ",
		   (unsigned long long)(ids[0] >> 16), (unsigned long long)(ids[count - 1] >> 16));
	ch_put_ids(sql, ids, count);
}

void ch_put_wanted(struct buf *sql, const struct ch_wanted *w)
{
	buf_printf(sql, "kind = %u AND ", w->kind);
	if (count_uppers(w->ids, w->count) <= UPPERS_EACH)
		put_by_upper(sql, w->ids, w->count);
	else
		put_by_both(sql, w->ids, w->count);
}

/* Of stacks and stems, which are most of what is fetched, refs say all. */
static bool has_texts(const struct ch_wanted *w, size_t kinds)
{
	for (size_t i = 0; i < kinds; i++)
		if (w[i].kind != KIND_STACK && w[i].kind != CH_KIND_STEM)
			return true;
	return false;
}

/* texts: are wanted. The condition follows. */
static void put_columns(struct ch_snapshot *snap, bool texts)
{
	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT kind, id_high, id_low, arrayMap(x -> toUInt16(x), refs_high), refs_low, "
		   "numbers, %s, %s FROM flametap_dictionary WHERE ",
		   snap->whole || texts ? "texts" : "emptyArrayString()",
		   snap->whole ? "notes" : "''");
}

static void put_question(struct ch_snapshot *snap, const struct ch_wanted *w, size_t kinds)
{
	struct buf *sql = &snap->sql;
	const char *between = "(";

	put_columns(snap, has_texts(w, kinds));
	for (size_t i = 0; i < kinds; i++) {
		buf_str(sql, str_cstr(between));
		ch_put_wanted(sql, &w[i]);
		between = ") OR (";
	}
	buf_char(sql, ')');
	if (w->kind == CH_KIND_SYMBOL) /* the newest of each */
		buf_lit(sql, " ORDER BY hash_hi DESC LIMIT 1 BY id_high, id_low");
	buf_lit(sql, " FORMAT RowBinary");
}

static bool fetch_some(struct ch_snapshot *snap, const struct ch_wanted *w, size_t kinds,
		       struct err *err)
{
	struct codec c;

	put_question(snap, w, kinds);
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c))
		if (!keep_entry(snap, &c))
			break;
	return ch_answer_ended(&c, "the dictionary", err);
}

/* ---- what is not known yet ---- */

static void list_unknown(const struct ch_snapshot *snap, const struct ch_wanted *w,
			 struct id_list *out)
{
	const struct idmap *map = &snap->entries[ch_slot(w->kind)];
	size_t kept = 0;

	for (size_t i = 0; i < w->count; i++)
		if (w->ids[i] && !idmap_find(map, w->ids[i]))
			id_list_add(out, w->ids[i]);
	if (out->count)
		qsort(out->ids, out->count, sizeof(*out->ids), id_list_order);
	for (size_t i = 0; i < out->count; i++)
		if (!i || out->ids[i] != out->ids[i - 1])
			out->ids[kept++] = out->ids[i];
	out->count = kept;
}

static bool fetch_many(struct ch_snapshot *snap, unsigned kind, const struct id_list *ids,
		       struct err *err)
{
	size_t from = 0;

	while (from < ids->count) {
		struct ch_wanted w = { kind, ids->ids + from, ids->count - from };

		w.count = w.count < LOWER_MOST ? w.count : LOWER_MOST;
		if (count_uppers(w.ids, w.count) > UPPERS_EACH)
			w.count = w.count < CH_IDS_MOST ? w.count : CH_IDS_MOST;
		if (!fetch_some(snap, &w, 1, err))
			return false;
		from += w.count;
	}
	return true;
}

bool ch_fetch_kinds(struct ch_snapshot *snap, const struct ch_wanted *wanted, size_t kinds,
		    struct err *err)
{
	struct id_list unknown[CH_KINDS_AT_ONCE] = { 0 };
	struct ch_wanted some[CH_KINDS_AT_ONCE];
	size_t count = 0, all = 0;
	bool ok = true;

	assert(kinds <= CH_KINDS_AT_ONCE);
	for (size_t i = 0; i < kinds; i++) {
		list_unknown(snap, &wanted[i], &unknown[i]);
		all += unknown[i].count;
		if (unknown[i].count)
			some[count++] = (struct ch_wanted){ wanted[i].kind, unknown[i].ids,
							    unknown[i].count };
	}
	if (count && all <= CH_IDS_MOST)
		ok = fetch_some(snap, some, count, err);
	for (size_t i = 0; i < kinds; i++) {
		if (ok && all > CH_IDS_MOST)
			ok = fetch_many(snap, wanted[i].kind, &unknown[i], err);
		free(unknown[i].ids);
	}
	return ok;
}

bool ch_fetch(struct ch_snapshot *snap, unsigned kind, const uint64_t *ids, size_t count,
	      struct err *err)
{
	struct ch_wanted w = { kind, ids, count };

	return ch_fetch_kinds(snap, &w, 1, err);
}

const struct ch_entry *ch_entry(struct ch_snapshot *snap, unsigned kind, uint64_t id,
				struct err *err)
{
	struct idmap_slot *slot = idmap_find(&snap->entries[ch_slot(kind)], id);

	if (slot)
		return slot->ptr;
	err_set(err, ERR_NOT_FOUND, "the dictionary has no entry %llu of kind %u",
		(unsigned long long)id, kind);
	return NULL;
}

/* ---- values ---- */

static bool parse_double(struct str text, double *out)
{
	char number[64], *end;
	uint64_t bits;

	if (!text.len || text.len >= sizeof(number))
		return false;
	memcpy(number, text.ptr, text.len);
	number[text.len] = 0;
	if (strncmp(number, "nan:", 4) == 0) {
		bits = strtoull(number + 4, &end, 16);
		memcpy(out, &bits, sizeof(bits));
	} else {
		*out = strtod(number, &end);
	}
	return !*end;
}

bool ch_value(int64_t kind, struct str text, struct arena *arena, struct any_value *out,
	      struct err *err)
{
	struct any_value v = { .kind = (enum any_kind)(kind & 127) };
	bool ok = true;
	struct codec c;

	switch (v.kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		v.string = text;
		codec_string_reference(&v, (kind & 128) != 0);
		break;
	case ANY_BYTES:
		v.string = text;
		break;
	case ANY_BOOL:
		v.boolean = str_is(text, "true");
		break;
	case ANY_INT:
		ok = str_to_i64(text, &v.integer);
		break;
	case ANY_DOUBLE:
		ok = parse_double(text, &v.real);
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		c = codec_of(text);
		v = codec_get_any(&c, arena);
		ok = !c.failed && !codec_more(&c);
		break;
	default:
		ok = false;
	}
	if (ok)
		*out = v;
	return ok || err_set(err, ERR_INVALID, "an attribute's value of kind %lld is damaged",
			     (long long)kind);
}
