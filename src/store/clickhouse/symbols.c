#include "store/clickhouse/symbols.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "store/clickhouse/encode.h"
#include "store/clickhouse/snapshot.h"

enum { PAGE = 50000, DAY_S = 86400 };

struct ch_symbols {
	struct store *store;
	struct source *source;
	struct ch_snapshot *snap; /* the source */
	struct arena arena;
	struct store_nameless *list;
	size_t count, cap;
	bool again;
};

uint64_t ch_symbol_id(struct str build_id, uint64_t address)
{
	struct hash128 parts[2] = { ident_text(build_id), { address, 0 } };

	return ch_id(ident_bytes((enum store_kind)CH_KIND_SYMBOL, str_from(parts, sizeof(parts))));
}

bool ch_symbols_open(const char *url, struct ch_symbols **out, struct err *err)
{
	struct store_open_options options = { .location = url };
	struct ch_symbols *s = calloc(1, sizeof(*s));

	assert(s);
	arena_init(&s->arena, 64 << 10, 0);
	if (!ch_open(&options, &s->store, err) || !store_begin(s->store, &s->source, err)) {
		ch_symbols_close(s);
		return false;
	}
	s->snap = ch_snapshot_of(s->source);
	*out = s;
	return true;
}

void ch_symbols_close(struct ch_symbols *s)
{
	if (!s)
		return;
	source_free(s->source);
	store_close(s->store);
	arena_release(&s->arena);
	free(s->list);
	free(s);
}

/* ---- what has no name ---- */

static bool add(void *ctx, const struct source_location *l, struct err *err)
{
	struct ch_symbols *s = ctx;

	if (!l->build_id.len || (l->line_count && !(l->found_later && s->again)))
		return true;
	if (s->count == SYMBOL_ADDRESSES_MOST)
		return err_set(err, ERR_LIMIT, "more than %d addresses without a name",
			       SYMBOL_ADDRESSES_MOST);
	VEC_ROOM(s->list, s->count, s->cap);
	s->list[s->count++] = (struct store_nameless){
		.build_id = str_dup(&s->arena, l->build_id),
		.file = str_dup(&s->arena, l->mapping),
		.frame_type = str_dup(&s->arena, l->frame_type),
		.address = l->address,
		.memory_start = l->mapping_start,
		.memory_limit = l->mapping_limit,
		.file_offset = l->mapping_offset,
	};
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct store_nameless *x = a, *y = b;
	int order = str_compare(x->build_id, y->build_id);

	return order ? order : (x->address > y->address) - (x->address < y->address);
}

/* The next locations without lines, ascending. */
static bool next_page(struct ch_symbols *s, uint64_t after, struct id_list *ids, struct err *err)
{
	struct codec c;

	ids->count = 0;
	buf_reset(&s->snap->sql);
	buf_printf(&s->snap->sql,
		   "SELECT DISTINCT id FROM flametap_dictionary WHERE kind = %d AND "
		   "length(refs_low) <= 2 "
		   "AND id > %llu ORDER BY id LIMIT %d FORMAT RowBinary",
		   KIND_LOCATION, (unsigned long long)after, PAGE);
	if (!ch_ask(s->snap, &c, err))
		return false;
	while (codec_more(&c))
		id_list_add(ids, row_get(&c, 8));
	return ch_answer_ended(&c, "locations", err);
}

bool ch_symbols_list(struct ch_symbols *s, bool again, const struct store_nameless **out,
		     size_t *count, struct err *err)
{
	struct id_list ids = { 0 };
	uint64_t after = 0;
	bool ok;

	s->count = 0;
	s->again = again;
	do {
		ok = next_page(s, after, &ids, err) &&
		     ch_locations(s->source, ids.ids, (uint32_t)ids.count, add, s, err);
		after = ids.count ? ids.ids[ids.count - 1] : 0;
	} while (ok && ids.count == PAGE);
	free(ids.ids);
	if (!ok)
		return false;
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), by_place);
	*out = s->list;
	*count = s->count;
	return true;
}

/* ---- names ---- */

static void put_row(struct buf *b, const struct store_symbol *x, uint64_t now_ns)
{
	row_u8(b, CH_KIND_SYMBOL);
	ch_put_id(b, ch_symbol_id(x->build_id, x->address));
	row_u64(b, now_ns);
	row_u16(b, (uint16_t)(now_ns / SECOND_NS / DAY_S));
	ch_put_refs(b, NULL, 0);
	row_count(b, 1 + (uint64_t)x->line_count * 3);
	row_u64(b, x->address);
	for (uint32_t i = 0; i < x->line_count; i++) {
		row_u64(b, (uint64_t)x->lines[i].line);
		row_u64(b, (uint64_t)x->lines[i].column);
		row_u64(b, (uint64_t)x->lines[i].start_line);
	}
	row_count(b, 1 + (uint64_t)x->line_count * 3);
	row_str(b, x->build_id);
	for (uint32_t i = 0; i < x->line_count; i++) {
		row_str(b, x->lines[i].function);
		row_str(b, x->lines[i].system_name);
		row_str(b, x->lines[i].file);
	}
	row_str(b, (struct str){ 0 });
}

bool ch_symbols_put(struct ch_symbols *s, const struct store_symbol *symbols, size_t count,
		    struct err *err)
{
	uint64_t now_ns = clock_realtime_ns();
	struct buf rows;
	bool ok;

	if (!count)
		return true;
	buf_init(&rows, 0);
	for (size_t i = 0; i < count; i++)
		put_row(&rows, &symbols[i], now_ns);
	ok = ch_insert(s->snap->server, str_cstr(ch_insert_dictionary),
		       "&insert_distributed_sync=1", buf_view(&rows), err);
	buf_release(&rows);
	return ok;
}
