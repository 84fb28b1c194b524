#include "store/schema/references.h"

#include "store/schema/chunk.h"
#include "store/schema/codec.h"

const struct reference_source reference_sources[] = {
	{ 0,
	  "chunk",
	  "SELECT " CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK CHUNK_COLUMNS_ATTRIBUTES
		  CHUNK_COLUMNS_LINK " FROM chunk",
	  { { REFERENCE_CHUNK, 0 } } },
	{ 0,
	  "profile",
	  "SELECT series, attrset_id FROM profile",
	  { { REFERENCE_NUMBER_OR_IDS, KIND_SERIES }, { REFERENCE_ID, KIND_ATTRSET } } },
	{ 0, "request", "SELECT layout FROM request", { { REFERENCE_LAYOUT, 0 } } },
	{ 0,
	  "coverage",
	  "SELECT host_id, reason_id FROM coverage",
	  { { REFERENCE_ID, KIND_STRING }, { REFERENCE_ID, KIND_STRING } } },
	{ KIND_SERIES,
	  "series",
	  "SELECT id, tenant_id, resource_id, scope_id, sample_type_id, sample_unit_id, "
	  "period_type_id, period_unit_id, lifted_id, service_id, labels FROM series",
	  { { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_RESOURCE },
	    { REFERENCE_ID, KIND_SCOPE },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_ATTRSET },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_IDS, KIND_ATTRIBUTE } } },
	{ KIND_RESOURCE,
	  "resource",
	  "SELECT id, attrset_id, schema_url_id FROM resource",
	  { { REFERENCE_ID, KIND_ATTRSET }, { REFERENCE_ID, KIND_STRING } } },
	{ KIND_SCOPE,
	  "scope",
	  "SELECT id, name_id, version_id, attrset_id, schema_url_id FROM scope",
	  { { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_ATTRSET },
	    { REFERENCE_ID, KIND_STRING } } },
	{ KIND_LINK, "link", "SELECT id FROM link", { { REFERENCE_NONE, 0 } } },
	{ KIND_STACK,
	  "stack",
	  "SELECT id, locations FROM stack",
	  { { REFERENCE_IDS, KIND_LOCATION } } },
	{ KIND_LOCATION,
	  "location",
	  "SELECT id, mapping_id, attrset_id, frame_type_id, lines FROM location",
	  { { REFERENCE_ID, KIND_MAPPING },
	    { REFERENCE_ID, KIND_ATTRSET },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_LINES, KIND_FUNCTION } } },
	{ KIND_MAPPING,
	  "mapping",
	  "SELECT id, filename_id, attrset_id FROM mapping",
	  { { REFERENCE_ID, KIND_STRING }, { REFERENCE_ID, KIND_ATTRSET } } },
	{ KIND_FUNCTION,
	  "function",
	  "SELECT id, name_id, system_name_id, filename_id FROM function",
	  { { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING },
	    { REFERENCE_ID, KIND_STRING } } },
	{ KIND_ATTRSET,
	  "attrset",
	  "SELECT id, attributes FROM attrset",
	  { { REFERENCE_IDS, KIND_ATTRIBUTE } } },
	{ KIND_ATTRIBUTE,
	  "attribute",
	  "SELECT id, key_id, unit_id FROM attribute",
	  { { REFERENCE_ID, KIND_STRING }, { REFERENCE_ID, KIND_STRING } } },
	{ KIND_STRING, "string", "SELECT id FROM string", { { REFERENCE_NONE, 0 } } },
	{ 0 },
};

static const char *const tables[KIND_COUNT] = {
	[KIND_STRING] = "string",     [KIND_ATTRIBUTE] = "attribute", [KIND_ATTRSET] = "attrset",
	[KIND_FUNCTION] = "function", [KIND_MAPPING] = "mapping",     [KIND_LOCATION] = "location",
	[KIND_STACK] = "stack",       [KIND_LINK] = "link",           [KIND_RESOURCE] = "resource",
	[KIND_SCOPE] = "scope",       [KIND_SERIES] = "series",
};

const char *store_table(enum store_kind kind)
{
	return tables[kind];
}

struct naming {
	reference_fn *fn;
	void *ctx;
};

static void name_row(const struct naming *n, enum store_kind kind, uint64_t id)
{
	if (id)
		n->fn(n->ctx, kind, id);
}

/* Every number of the bytes, of which each `step`th is an id. */
static bool name_ids(const struct naming *n, enum store_kind kind, struct str bytes, unsigned step)
{
	struct codec c = codec_of(bytes);

	while (codec_more(&c)) {
		uint64_t id = codec_get(&c);

		for (unsigned i = 1; i < step; i++)
			codec_get(&c);
		if (!c.failed)
			name_row(n, kind, id);
	}
	return !c.failed;
}

/* writer_put.c says what a layout is. */
static bool name_layout(const struct naming *n, struct str bytes)
{
	struct codec c = codec_of(bytes);
	uint64_t resources = codec_get(&c);

	for (uint64_t i = 0; i < resources && !c.failed; i++) {
		uint64_t scopes;

		name_row(n, KIND_RESOURCE, codec_get(&c));
		scopes = codec_get(&c);
		for (uint64_t k = 0; k < scopes && !c.failed; k++) {
			name_row(n, KIND_SCOPE, codec_get(&c));
			codec_get(&c);
		}
	}
	return !c.failed;
}

static bool name_chunk(const struct naming *n, sqlite3_stmt *row, struct err *err)
{
	struct chunk c;

	if (!chunk_read(row, &c, err))
		return false;
	for (uint32_t i = 0; i < c.n; i++) {
		name_row(n, KIND_STACK, cells_id(&c.stack, i));
		name_row(n, KIND_ATTRSET, cells_id(&c.attrset, i));
		name_row(n, KIND_LINK, cells_id(&c.link, i));
	}
	for (uint32_t i = 0; i < c.runs; i++)
		name_row(n, KIND_SERIES, cells_id(&c.series, i));
	return true;
}

static bool name_column(const struct naming *n, const struct reference *r, sqlite3_stmt *row,
			int column)
{
	bool number = sqlite3_column_type(row, column) == SQLITE_INTEGER;

	switch (r->form) {
	case REFERENCE_LINES:
		return name_ids(n, r->kind, db_bytes(row, column), 3);
	case REFERENCE_LAYOUT:
		return name_layout(n, db_bytes(row, column));
	case REFERENCE_IDS:
		return name_ids(n, r->kind, db_bytes(row, column), 1);
	case REFERENCE_NUMBER_OR_IDS:
		if (!number)
			return name_ids(n, r->kind, db_bytes(row, column), 1);
		break;
	default:
		break;
	}
	name_row(n, r->kind, db_u64(row, column));
	return true;
}

bool references_of(const struct reference_source *source, sqlite3_stmt *row, reference_fn *fn,
		   void *ctx, struct err *err)
{
	const struct naming n = { fn, ctx };
	int first = source->kind ? 1 : 0;

	if (source->columns[0].form == REFERENCE_CHUNK)
		return name_chunk(&n, row, err);
	for (int i = 0; i < REFERENCES_MOST && source->columns[i].form; i++)
		if (!name_column(&n, &source->columns[i], row, first + i))
			return err_set(err, ERR_INVALID, "a row of %s is damaged: %s",
				       source->table, sqlite3_column_name(row, first + i));
	return true;
}
