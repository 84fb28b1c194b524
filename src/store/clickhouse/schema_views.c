/*
 * schema_views.c - views for people in ClickHouse; docs/clickhouse.md shows them.
 *
 * The first six show the dictionary's kinds in plain names. frames, stacks_text and samples_text
 * are what an SQLite store has as frames, stacks_text and samples, column by column where there is
 * the same. 18.16 takes one JOIN a SELECT and no condition but USING; GLOBAL for a cluster's
 * tables.
 */
#include "store/clickhouse/schema.h"

/* clang-format off */
#define JOIN " GLOBAL ANY LEFT JOIN "

/* A row a line of a location, place 0 innermost; without lines one row, and its address. */
#define LINES                                                                                     \
	"SELECT id AS location_id, arrayJoin(range(toUInt64(greatest(toInt64(length(refs)) - 2, 1)))) " \
	"AS place, refs[3 + place] AS function_id, numbers[2 * place + 2] AS line, "              \
	"numbers[2 * place + 3] AS col, reinterpretAsUInt64(reinterpretAsString(numbers[1])) AS " \
	"address, texts[1] AS type, refs[1] AS mapping_id FROM flametap_dictionary WHERE kind = " \
	"6 LIMIT 1 BY id, place"
#define NAMED_LINES                                                                        \
	"SELECT location_id, place, function_id, name, file, line, col, address, type, "   \
	"mapping_id FROM (" LINES ") AS l" JOIN "(SELECT id AS function_id, texts[1] AS name, " \
	"texts[3] AS file FROM flametap_dictionary WHERE kind = 4) AS r USING function_id"
#define FRAMES                                                                           \
	"location_id, place, if(name = '' AND function_id = 0, concat(binary, '+0x', "   \
	"replaceRegexpOne(lower(hex(address)), '^0', '')), name) AS function, file, line, " \
	"col, address, type, binary, build_id FROM (" NAMED_LINES ") AS l" JOIN               \
	"(SELECT id AS mapping_id, texts[1] AS binary, texts[2] AS build_id FROM "       \
	"flametap_dictionary WHERE kind = 5) AS r USING mapping_id"

/* A row a ref of a stack: a location, or a stem of 16; then a row a location. */
#define PIECES                                                                            \
	"SELECT id AS stack_id, numbers[1] AS depth, arrayJoin(arrayMap((r, i) -> (r, "   \
	"toUInt64(i)), refs, arrayEnumerate(refs))) AS piece, piece.1 AS part, piece.2 AS " \
	"nth FROM flametap_dictionary WHERE kind = 7 LIMIT 1 BY id, nth"
#define PLACES                                                                           \
	"SELECT stack_id, depth, arrayJoin(if(empty(inside), [(part, nth * 16 + 1)], "   \
	"arrayMap((r, i) -> (r, nth * 16 + i), inside, arrayEnumerate(inside)))) AS at, " \
	"at.1 AS location_id, at.2 AS from_leaf FROM (SELECT stack_id, depth, part, nth, " \
	"inside FROM (" PIECES ") AS p" JOIN "(SELECT id AS part, refs AS inside FROM "       \
	"flametap_dictionary WHERE kind = 64) AS r USING part)"
/* The names of the highest order first. */
#define NAMES_BY(order, name)                                                            \
	"arrayStringConcat(arrayMap(x -> x.2, arrayReverseSort(x -> x.1, groupArray((" order \
	", " name ")))), ';')"
#define STACKS_TEXT                                                                      \
	"stack_id, any(depth) AS depth, " NAMES_BY("from_leaf", "name")                  \
	" AS text FROM (SELECT stack_id, depth, from_leaf, name FROM (" PLACES ") AS p" JOIN  \
	"(SELECT location_id, " NAMES_BY("place", "function")                            \
	" AS name FROM flametap_frames GROUP BY location_id) AS r USING location_id) GROUP BY stack_id"

#define SAMPLES_TEXT                                                                       \
	"base + place AS seq, t0 AS time_unix_nano, toDateTime(intDiv(t0, 1000000000)) AS " \
	"time, service, type, unit, value, stack AS stack_id, series AS series_id, "       \
	"attributes AS attributes_id, link AS link_id, period, period_type, period_unit "  \
	"FROM flametap_samples AS s" JOIN "(SELECT id AS series, texts[6] AS service, texts[2] AS " \
	"type, texts[3] AS unit, numbers[1] AS period, texts[4] AS period_type, texts[5] " \
	"AS period_unit FROM flametap_dictionary WHERE kind = 11) AS r USING series"
/* clang-format on */

const struct ch_view ch_views[] = {
	{ "functions",
	  "id, texts[1] AS name, texts[2] AS system_name, texts[3] AS filename, numbers[1] AS "
	  "start_line FROM flametap_dictionary WHERE kind = 4" },
	{ "mappings",
	  "id, texts[1] AS filename, texts[2] AS build_id, reinterpretAsUInt64(reinterpretAsString("
	  "numbers[1])) AS memory_start, reinterpretAsUInt64(reinterpretAsString(numbers[2])) AS "
	  "memory_limit, reinterpretAsUInt64(reinterpretAsString(numbers[3])) AS file_offset FROM "
	  "flametap_dictionary WHERE kind = 5" },
	{ "locations",
	  "id, refs[1] AS mapping, reinterpretAsUInt64(reinterpretAsString(numbers[1])) AS "
	  "address, "
	  "texts[1] AS frame_type, arraySlice(refs, 3) AS functions FROM flametap_dictionary WHERE "
	  "kind = 6" },
	{ "stacks", "id, numbers[1] AS depth, arraySlice(refs, 1, length(refs) - numbers[2]) AS "
		    "leaf_locations, "
		    "arraySlice(refs, length(refs) - numbers[2] + 1) AS stems FROM "
		    "flametap_dictionary WHERE kind "
		    "= 7" },
	{ "attributes",
	  "id, arrayFilter((x, i) -> i % 3 = 1 AND i <= 3 * length(numbers), texts, "
	  "arrayEnumerate(texts)) AS keys, arraySlice(texts, 3 * length(numbers) + 1) AS "
	  "values_of, numbers AS kinds FROM flametap_dictionary WHERE kind = 3" },
	{ "series", "id, texts[1] AS tenant, texts[2] AS type, texts[3] AS unit, texts[4] AS "
		    "period_type, texts[5] "
		    "AS period_unit, texts[6] AS service, numbers[1] AS period, refs[1] AS "
		    "resource, refs[2] AS "
		    "scope, refs[3] AS lifted FROM flametap_dictionary WHERE kind = 11" },
	{ "frames", FRAMES },
	{ "stacks_text", STACKS_TEXT },
	{ "samples_text", SAMPLES_TEXT },
	{ 0 },
};
_Static_assert(KIND_ATTRSET == 3 && KIND_FUNCTION == 4 && KIND_MAPPING == 5 && KIND_LOCATION == 6 &&
		       KIND_STACK == 7 && KIND_SERIES == 11,
	       "named in the views");
_Static_assert(CH_KIND_STEM == 64 && CH_STEM == 16, "named in the views");
