/* reader_dict.c - attribute sets, series, stacks, locations, links: from dictionary rows to what
 * they say. */
#include "store/clickhouse/snapshot.h"
#include "store/clickhouse/symbols.h"
#include "store/id_list.h"

enum { CHUNK = 16384, LISTED_MOST = 200000, LISTED_BYTES = 24 };

/* The set of an id that was fetched. */
static bool attributes_of(struct ch_snapshot *snap, uint64_t id, struct source_attributes *out,
			  struct err *err)
{
	const struct ch_entry *e;
	struct source_attribute *list;

	*out = (struct source_attributes){ 0 };
	if (!id)
		return true;
	e = ch_entry(snap, KIND_ATTRSET, id, err);
	if (!e)
		return false;
	if (e->text_count != (uint64_t)e->number_count * 4)
		return err_set(err, ERR_INVALID, "the attribute set %llu is damaged",
			       (unsigned long long)id);
	list = arena_alloc_array(&snap->kept, e->number_count, sizeof(*list));
	for (uint32_t i = 0; i < e->number_count; i++) {
		list[i] = (struct source_attribute){
			.key = ch_list_text(e, i, CH_LIST_KEY),
			.unit = ch_list_text(e, i, CH_LIST_UNIT),
		};
		if (!ch_value(e->numbers[i], ch_list_text(e, i, CH_LIST_VALUE), &snap->kept,
			      &list[i].value, err))
			return false;
	}
	*out = (struct source_attributes){ list, e->number_count };
	return true;
}

bool ch_attributes(struct source *source, const uint64_t *ids, uint32_t count,
		   source_attributes_fn *fn, void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	for (size_t from = 0; from < count; from += CHUNK) {
		size_t n = count - from < CHUNK ? count - from : CHUNK;

		ch_trim(snap);
		if (!ch_fetch(snap, KIND_ATTRSET, ids + from, n, err))
			return false;
		for (size_t i = 0; i < n; i++) {
			struct source_attributes a;

			if (!attributes_of(snap, ids[from + i], &a, err) ||
			    !fn(arg, ids[from + i], a, err))
				return false;
		}
	}
	return true;
}

/* ---- series ---- */

static bool fill_resource(struct ch_snapshot *snap, uint64_t id, struct source_series *x,
			  struct err *err)
{
	const struct ch_entry *e = id ? ch_entry(snap, KIND_RESOURCE, id, err) : NULL;

	return !id || (e && attributes_of(snap, ch_ref(e, 0), &x->resource, err));
}

static bool fill_scope(struct ch_snapshot *snap, uint64_t id, struct source_series *x,
		       struct err *err)
{
	const struct ch_entry *e = id ? ch_entry(snap, KIND_SCOPE, id, err) : NULL;

	if (!id || !e)
		return !id;
	x->scope_name = ch_text(e, 0);
	x->scope_version = ch_text(e, 1);
	return attributes_of(snap, ch_ref(e, 0), &x->scope, err);
}

static struct source_series said_of(const struct ch_entry *e)
{
	return (struct source_series){
		.id = e->id,
		.owner = ch_ref(e, 0) * UINT64_C(0x9e3779b97f4a7c15) ^ ch_ref(e, 1),
		.sample_type = ch_text(e, 1),
		.sample_unit = ch_text(e, 2),
		.period_type = ch_text(e, 3),
		.period_unit = ch_text(e, 4),
		.period = ch_number(e, 0),
		.process = (uint64_t)ch_number(e, 1),
	};
}

/* Series without a service have a made-up name, which queries may read differently. */
static bool is_brief(const struct source_series_ask *ask, const struct ch_entry *e)
{
	return ask->brief && !ask->key_count && !ask->profiler &&
	       (!ask->service.len || str_equal(ch_text(e, 5), ask->service));
}

/* with_scope: of a brief one, too. */
static bool read_series(struct ch_snapshot *snap, const struct source_series_ask *ask, uint64_t id,
			bool with_scope, struct source_series *x, struct err *err)
{
	const struct ch_entry *e = ch_entry(snap, KIND_SERIES, id, err);

	if (!e)
		return false;
	*x = said_of(e);
	if (is_brief(ask, e)) {
		x->brief = true;
		x->of_service = ask->service.len > 0;
		return !with_scope || fill_scope(snap, ch_ref(e, 1), x, err);
	}
	return attributes_of(snap, ch_ref(e, 2), &x->lifted, err) &&
	       fill_resource(snap, ch_ref(e, 0), x, err) && fill_scope(snap, ch_ref(e, 1), x, err);
}

/* Scopes say which type to show first, which matters only where there are several. */
static bool types_differ(struct ch_snapshot *snap, const uint64_t *ids, size_t n, struct err *err)
{
	const struct ch_entry *first = n ? ch_entry(snap, KIND_SERIES, ids[0], err) : NULL;

	for (size_t i = 1; first && i < n; i++) {
		const struct ch_entry *e = ch_entry(snap, KIND_SERIES, ids[i], err);

		if (e && !str_equal(ch_text(e, 1), ch_text(first, 1)))
			return true;
	}
	return false;
}

/* What a chunk of series refers to, of those that do not say all by themselves. *with_scopes: of
 * those, the scopes all the same. */
static bool fetch_series(struct ch_snapshot *snap, const struct source_series_ask *ask,
			 const uint64_t *ids, size_t n, bool *with_scopes, struct err *err)
{
	struct id_list resources = { 0 }, scopes = { 0 }, sets = { 0 };
	bool ok = ch_fetch(snap, KIND_SERIES, ids, n, err);

	*with_scopes = ok && ask->scopes && types_differ(snap, ids, n, err);
	for (size_t i = 0; ok && i < n; i++) {
		const struct ch_entry *e = ch_entry(snap, KIND_SERIES, ids[i], err);

		ok = e != NULL;
		if (!ok)
			break;
		if (*with_scopes || !is_brief(ask, e))
			id_list_add(&scopes, ch_ref(e, 1));
		if (is_brief(ask, e))
			continue;
		id_list_add(&resources, ch_ref(e, 0));
		id_list_add(&sets, ch_ref(e, 2));
	}
	ok = ok &&
	     ch_fetch_kinds(snap,
			    (struct ch_wanted[]){ { KIND_RESOURCE, resources.ids, resources.count },
						  { KIND_SCOPE, scopes.ids, scopes.count } },
			    2, err);
	for (size_t i = 0; ok && i < resources.count; i++) {
		const struct idmap_slot *r =
			idmap_find(&snap->entries[KIND_RESOURCE], resources.ids[i]);

		id_list_add(&sets, r ? ch_ref(r->ptr, 0) : 0);
	}
	for (size_t i = 0; ok && i < scopes.count; i++) {
		const struct idmap_slot *s = idmap_find(&snap->entries[KIND_SCOPE], scopes.ids[i]);

		id_list_add(&sets, s ? ch_ref(s->ptr, 0) : 0);
	}
	ok = ok && ch_fetch(snap, KIND_ATTRSET, sets.ids, sets.count, err);
	free(resources.ids);
	free(scopes.ids);
	free(sets.ids);
	return ok;
}

/* Ascending: the service's own, and that of series without a service, whose made-up name queries
 * may read differently. */
static void ids_of_service(struct str service, uint64_t ids[2])
{
	ids[0] = ch_service_id(service);
	ids[1] = ch_service_id(CH_NO_SERVICE);
	qsort(ids, 2, sizeof(*ids), id_list_order);
}

/* Pages of the service that came with the store's state. */
static void list_known_pages(const struct ch_snapshot *snap, struct str service,
			     struct id_list *pages)
{
	uint64_t ids[2];

	ids_of_service(service, ids);
	for (size_t i = 0; i < snap->page_count; i++)
		if (id_list_has(ids, 2, snap->pages[i].service))
			id_list_add(pages, snap->pages[i].page);
}

/* Samples that may be of the service. known: its pages, where they are known. */
static void put_of_service(struct ch_snapshot *snap, struct str service,
			   const struct id_list *known)
{
	uint64_t ids[2];

	if (snap->pages_known) {
		buf_lit(&snap->sql, " AND " CH_SERIES_PAGE " IN ");
		if (known->count)
			ch_put_ids(&snap->sql, known->ids, known->count);
		else
			buf_lit(&snap->sql, "(0)");
	} else {
		ids_of_service(service, ids);
		buf_lit(&snap->sql, " AND " CH_SERIES_PAGE " GLOBAL IN (SELECT hash_hi FROM "
				    "flametap_dictionary WHERE ");
		ch_put_wanted(&snap->sql, &(struct ch_wanted){ CH_KIND_PAGE, ids, 2 });
		buf_char(&snap->sql, ')');
	}
}

/* Who scans them later need not ask how much there is. */
static void note_listed(struct ch_snapshot *snap, const struct source_series_ask *ask,
			struct codec c)
{
	struct ch_listed *l = &snap->listed[snap->listed_next % ARRAY_LEN(snap->listed)];
	size_t count = (size_t)(c.end - c.at) / LISTED_BYTES;

	if (count > LISTED_MOST)
		return;
	snap->listed_next++;
	l->range = ask->range;
	l->whole = !ask->service.len;
	l->ids.count = 0;
	free(l->rows);
	free(l->inner);
	l->rows = calloc(count + 1, sizeof(*l->rows));
	l->inner = calloc(count + 1, sizeof(*l->inner));
	assert(l->rows && l->inner);
	for (size_t i = 0; i < count; i++) {
		id_list_add(&l->ids, row_get(&c, 8));
		l->rows[i] = row_get(&c, 8);
		l->inner[i] = row_get(&c, 8);
	}
}

/* How many of a series' samples are in buckets that need no look at their times. */
static bool put_inner(struct ch_snapshot *snap, const struct source_series_ask *ask,
		      struct err *err)
{
	struct buf inner, edges;
	struct str before;

	if (!ch_window_before(snap, ask->range.from, &before, err))
		return false;
	buf_init(&inner, 0);
	buf_init(&edges, 0);
	if (snap->reaching)
		ch_window_parts(snap, ask->range, before, &inner, &edges);
	buf_printf(&snap->sql, "countIf(%.*s)", STR_ARG(inner.len ? buf_view(&inner) : STR("0")));
	buf_release(&inner);
	buf_release(&edges);
	return true;
}

static bool put_list(struct ch_snapshot *snap, const struct source_series_ask *ask,
		     const struct id_list *pages, struct err *err)
{
	struct buf where;
	bool ok;

	buf_init(&where, 0);
	ok = ch_window(snap, ask->range, &where, err);
	buf_reset(&snap->sql);
	buf_lit(&snap->sql, "SELECT series, count(), ");
	ok = ok && put_inner(snap, ask, err);
	buf_printf(&snap->sql, " FROM flametap_samples WHERE base <= %llu AND ",
		   (unsigned long long)snap->asof);
	buf_str(&snap->sql, buf_view(&where));
	if (ask->service.len)
		put_of_service(snap, ask->service, pages);
	buf_lit(&snap->sql, " GROUP BY series ORDER BY series FORMAT RowBinary");
	buf_release(&where);
	return ok;
}

/* Those of the window, ascending, and how many samples they have in its buckets. */
static bool read_list(struct ch_snapshot *snap, const struct source_series_ask *ask,
		      const struct id_list *pages, struct id_list *ids, struct err *err)
{
	struct codec c;

	if (!put_list(snap, ask, pages, err) || !ch_ask(snap, &c, err))
		return false;
	note_listed(snap, ask, c);
	while (codec_more(&c)) {
		id_list_add(ids, row_get(&c, 8));
		row_get(&c, 8);
		row_get(&c, 8);
	}
	return ch_answer_ended(&c, "series", err);
}

static bool list_series(struct ch_snapshot *snap, const struct source_series_ask *ask,
			struct id_list *ids, struct err *err)
{
	struct id_list pages = { 0 };
	bool ok;

	if (ask->service.len && snap->pages_known)
		list_known_pages(snap, ask->service, &pages);
	ok = read_list(snap, ask, &pages, ids, err);
	free(pages.ids);
	return ok;
}

bool ch_series(struct source *source, const struct source_series_ask *ask, source_series_fn *fn,
	       void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	struct id_list ids = { 0 };
	bool ok = true, scopes;

	if (ask->range.to <= ask->range.from)
		return true;
	for (size_t i = 0; ask->ids && i < ask->id_count; i++)
		id_list_add(&ids, ask->ids[i]);
	ok = ask->ids || list_series(snap, ask, &ids, err);
	for (size_t at = 0; ok && at < ids.count; at += CHUNK) {
		size_t n = ids.count - at < CHUNK ? ids.count - at : CHUNK;

		ch_trim(snap);
		ok = fetch_series(snap, ask, ids.ids + at, n, &scopes, err);
		for (size_t i = 0; ok && i < n; i++) {
			struct source_series x;

			ok = read_series(snap, ask, ids.ids[at + i], scopes, &x, err) &&
			     fn(arg, &x, err);
		}
	}
	free(ids.ids);
	return ok;
}

bool ch_sample_keys(struct source *source, source_key_fn *fn, void *ctx, bool *known,
		    struct err *err)
{
	const struct ch_snapshot *snap = ch_snapshot_of(source);
	struct codec c = codec_of(buf_view(&snap->keys));

	*known = true;
	while (codec_more(&c))
		if (!fn(ctx, row_get_str(&c), err))
			return false;
	return ch_answer_ended(&c, "keys", err);
}

/* ---- stacks ---- */

bool ch_fetch_stems(struct ch_snapshot *snap, const uint64_t *stacks, size_t count, struct err *err)
{
	struct id_list stems = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < count; i++) {
		const struct ch_entry *e =
			stacks[i] ? ch_entry(snap, KIND_STACK, stacks[i], err) : NULL;
		int64_t n = ch_number(e, 1);

		ok = e || !stacks[i];
		for (int64_t k = 0; ok && k < n && k < e->ref_count; k++)
			id_list_add(&stems, e->refs[e->ref_count - 1 - k]);
	}
	ok = ok && ch_fetch(snap, CH_KIND_STEM, stems.ids, stems.count, err);
	free(stems.ids);
	return ok;
}

bool ch_stack_locations(struct ch_snapshot *snap, const struct ch_entry *e, struct arena *arena,
			const uint64_t **out, uint32_t *count, struct err *err)
{
	int64_t depth = ch_number(e, 0), stems = ch_number(e, 1);
	uint32_t n = 0, leaf;
	uint64_t *at;

	if (stems < 0 || stems > e->ref_count || depth != e->ref_count - stems + stems * CH_STEM)
		return err_set(err, ERR_INVALID, "the stack %llu is damaged",
			       (unsigned long long)e->id);
	leaf = e->ref_count - (uint32_t)stems;
	at = arena_alloc_array(arena, (size_t)depth, sizeof(*at));
	for (; n < leaf; n++)
		at[n] = e->refs[n];
	for (uint32_t i = leaf; i < e->ref_count; i++) {
		const struct ch_entry *stem = ch_entry(snap, CH_KIND_STEM, e->refs[i], err);

		if (!stem)
			return false;
		if (stem->ref_count != CH_STEM)
			return err_set(err, ERR_INVALID, "the stem %llu is damaged",
				       (unsigned long long)stem->id);
		memcpy(at + n, stem->refs, CH_STEM * sizeof(*at));
		n += CH_STEM;
	}
	*out = at;
	*count = n;
	return true;
}

bool ch_stacks(struct source *source, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
	       void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	for (size_t from = 0; from < count; from += CHUNK) {
		size_t n = count - from < CHUNK ? count - from : CHUNK;

		ch_trim(snap);
		if (!ch_fetch(snap, KIND_STACK, ids + from, n, err) ||
		    !ch_fetch_stems(snap, ids + from, n, err))
			return false;
		for (size_t i = 0; i < n; i++) {
			const struct ch_entry *e = ch_entry(snap, KIND_STACK, ids[from + i], err);
			const uint64_t *locations;
			uint32_t location_count;

			if (!e ||
			    !ch_stack_locations(snap, e, &snap->kept, &locations, &location_count,
						err) ||
			    !fn(arg, e->id, locations, location_count, err))
				return false;
		}
	}
	return true;
}

/* ---- locations ---- */

static bool fill_lines(struct ch_snapshot *snap, const struct ch_entry *e,
		       struct source_location *l, struct err *err)
{
	struct source_line *lines = arena_zalloc(&snap->kept, l->line_count * sizeof(*lines));

	for (uint32_t i = 0; i < l->line_count; i++) {
		uint64_t function = ch_ref(e, 2 + i);
		const struct ch_entry *f =
			function ? ch_entry(snap, KIND_FUNCTION, function, err) : NULL;

		if (function && !f)
			return false;
		lines[i] = (struct source_line){
			.function = ch_text(f, 0),
			.system_name = ch_text(f, 1),
			.file = ch_text(f, 2),
			.start_line = ch_number(f, 0),
			.line = ch_number(e, 1 + 2 * i),
			.column = ch_number(e, 2 + 2 * i),
		};
	}
	l->lines = lines;
	return true;
}

/* What was found later, where nothing was sent. */
static bool fill_overlay(struct ch_snapshot *snap, struct source_location *l, struct err *err)
{
	const struct idmap_slot *slot;
	const struct ch_entry *e;
	struct source_line *lines;

	if (!snap->names_put_ns || l->line_count || !l->build_id.len)
		return true;
	slot = idmap_find(&snap->entries[ch_slot(CH_KIND_SYMBOL)],
			  ch_symbol_id(l->build_id, l->address));
	e = slot ? slot->ptr : NULL;
	if (!e || !str_equal(ch_text(e, 0), l->build_id) || (uint64_t)ch_number(e, 0) != l->address)
		return true;
	if (e->text_count != e->number_count || e->text_count % 3 != 1)
		return err_set(err, ERR_INVALID, "the names %llu are damaged",
			       (unsigned long long)e->id);
	l->line_count = e->text_count / 3;
	lines = arena_zalloc(&snap->kept, l->line_count * sizeof(*lines));
	for (uint32_t i = 0; i < l->line_count; i++)
		lines[i] = (struct source_line){
			.function = ch_text(e, 1 + 3 * i),
			.system_name = ch_text(e, 2 + 3 * i),
			.file = ch_text(e, 3 + 3 * i),
			.line = ch_number(e, 1 + 3 * i),
			.column = ch_number(e, 2 + 3 * i),
			.start_line = ch_number(e, 3 + 3 * i),
		};
	l->lines = lines;
	l->found_later = l->line_count != 0;
	return true;
}

static bool read_location(struct ch_snapshot *snap, const struct ch_entry *e,
			  struct source_location *l, struct err *err)
{
	const struct ch_entry *m;
	uint64_t mapping = ch_ref(e, 0);

	*l = (struct source_location){
		.id = e->id,
		.address = (uint64_t)ch_number(e, 0),
		.frame_type = ch_text(e, 0),
		.line_count = e->ref_count > 2 ? e->ref_count - 2 : 0,
	};
	if (mapping) {
		m = ch_entry(snap, KIND_MAPPING, mapping, err);
		if (!m)
			return false;
		l->mapping_start = (uint64_t)ch_number(m, 0);
		l->mapping_limit = (uint64_t)ch_number(m, 1);
		l->mapping_offset = (uint64_t)ch_number(m, 2);
		l->mapping = ch_text(m, 0);
		l->build_id = ch_text(m, 1);
	}
	return fill_lines(snap, e, l, err) && fill_overlay(snap, l, err);
}

/* Names found later of fetched locations without lines, whose mappings were fetched. */
static bool fetch_overlay(struct ch_snapshot *snap, const uint64_t *ids, size_t n, struct err *err)
{
	struct id_list symbols = { 0 };
	bool ok = true;

	for (size_t i = 0; i < n && snap->names_put_ns; i++) {
		const struct idmap_slot *l = idmap_find(&snap->entries[KIND_LOCATION], ids[i]);
		const struct ch_entry *e = l ? l->ptr : NULL;
		const struct idmap_slot *m =
			e && e->ref_count <= 2
				? idmap_find(&snap->entries[KIND_MAPPING], ch_ref(e, 0))
				: NULL;
		struct str build_id = m ? ch_text(m->ptr, 1) : (struct str){ 0 };

		if (build_id.len)
			id_list_add(&symbols, ch_symbol_id(build_id, (uint64_t)ch_number(e, 0)));
	}
	if (symbols.count)
		ok = ch_fetch(snap, CH_KIND_SYMBOL, symbols.ids, symbols.count, err);
	free(symbols.ids);
	return ok;
}

static bool fetch_locations(struct ch_snapshot *snap, const uint64_t *ids, size_t n,
			    struct err *err)
{
	struct id_list mappings = { 0 }, functions = { 0 };
	bool ok = ch_fetch(snap, KIND_LOCATION, ids, n, err);

	for (size_t i = 0; ok && i < n; i++) {
		const struct ch_entry *e = ch_entry(snap, KIND_LOCATION, ids[i], err);

		ok = e != NULL;
		id_list_add(&mappings, ch_ref(e, 0));
		for (uint32_t k = 2; e && k < e->ref_count; k++)
			id_list_add(&functions, e->refs[k]);
	}
	ok = ok &&
	     ch_fetch_kinds(
		     snap,
		     (struct ch_wanted[]){ { KIND_MAPPING, mappings.ids, mappings.count },
					   { KIND_FUNCTION, functions.ids, functions.count } },
		     2, err) &&
	     fetch_overlay(snap, ids, n, err);
	free(mappings.ids);
	free(functions.ids);
	return ok;
}

bool ch_locations(struct source *source, const uint64_t *ids, uint32_t count,
		  source_location_fn *fn, void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	for (size_t from = 0; from < count; from += CHUNK) {
		size_t n = count - from < CHUNK ? count - from : CHUNK;

		ch_trim(snap);
		if (!fetch_locations(snap, ids + from, n, err))
			return false;
		for (size_t i = 0; i < n; i++) {
			const struct ch_entry *e =
				ch_entry(snap, KIND_LOCATION, ids[from + i], err);
			struct source_location l;

			if (!e || !read_location(snap, e, &l, err) || !fn(arg, &l, err))
				return false;
		}
	}
	return true;
}

/* ---- links ---- */

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	memset(out, 0, size);
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

bool ch_links(struct source *source, const uint64_t *ids, uint32_t count, source_link_fn *fn,
	      void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	for (size_t from = 0; from < count; from += CHUNK) {
		size_t n = count - from < CHUNK ? count - from : CHUNK;

		ch_trim(snap);
		if (!ch_fetch(snap, KIND_LINK, ids + from, n, err))
			return false;
		for (size_t i = 0; i < n; i++) {
			const struct ch_entry *e = ch_entry(snap, KIND_LINK, ids[from + i], err);
			struct source_link l = { .id = ids[from + i] };

			if (!e)
				return false;
			copy_id(l.trace_id, sizeof(l.trace_id), ch_text(e, 0));
			copy_id(l.span_id, sizeof(l.span_id), ch_text(e, 1));
			if (!fn(arg, &l, err))
				return false;
		}
	}
	return true;
}

static void put_hex(struct buf *b, const char *column, const uint8_t *id, size_t size)
{
	buf_printf(b, " AND %s = toFixedString(unhex('", column);
	buf_hex(b, id, size);
	buf_printf(b, "'), %zu)", size);
}

bool ch_find_links(struct source *source, const uint8_t *trace_id, const uint8_t *span_id,
		   source_link_fn *fn, void *ctx, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	struct id_list ids = { 0 };
	struct codec c;
	bool ok;

	buf_reset(&snap->sql);
	buf_lit(&snap->sql, "SELECT DISTINCT link FROM flametap_links WHERE 1");
	if (trace_id)
		put_hex(&snap->sql, "trace_id", trace_id, 16);
	if (span_id)
		put_hex(&snap->sql, "span_id", span_id, 8);
	buf_lit(&snap->sql, " ORDER BY link FORMAT RowBinary");
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c))
		id_list_add(&ids, row_get(&c, 8));
	ok = ch_answer_ended(&c, "links", err);
	if (ok && ids.count > UINT32_MAX / 2)
		ok = err_set(err, ERR_LIMIT, "%zu links of one trace", ids.count);
	ok = ok && ch_links(source, ids.ids, (uint32_t)ids.count, fn, ctx, err);
	free(ids.ids);
	return ok;
}
