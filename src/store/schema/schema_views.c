/*
 * schema_views.c - views in plain words, for people with the sqlite3 shell; docs/store.md shows
 * them.
 *
 * Lists are varints in a BLOB, which SQL has no function for: `walk` takes one byte a step off the
 * BLOB's hex text (at: place in it, b: the byte there, acc and mul: the number so far), and v is
 * each whole number, n its place.
 *
 * Whoever opens a store pays for all of their words: SQLite parses every view first, 1,700
 * instructions a word. So nothing is written twice.
 */
#include "store/schema/schema.h"

/* clang-format off */
#define BYTES16(high)                                                                     \
	high "0" high "1" high "2" high "3" high "4" high "5" high "6" high "7" high "8"    \
	high "9" high "A" high "B" high "C" high "D" high "E" high "F"
#define BYTES                                                                             \
	BYTES16("0") BYTES16("1") BYTES16("2") BYTES16("3") BYTES16("4") BYTES16("5")       \
	BYTES16("6") BYTES16("7") BYTES16("8") BYTES16("9") BYTES16("A") BYTES16("B")       \
	BYTES16("C") BYTES16("D") BYTES16("E") BYTES16("F")
#define DIGIT(place) "instr('0123456789ABCDEF', substr(hx, " place ", 1))"
#define BYTE(at)     "16 * " DIGIT(at) " + " DIGIT(at " + 1") " - 17"
#define WALK_STEP                                                                    \
	"at + 2, " BYTE("at + 2") ", iif(b<128, 0, acc + (b - 128) * mul), iif(b<128, 1, " \
	"mul * 128), iif(b<128, acc + b * mul, NULL), n + (b<128)"
#define WALK_START      "1, " BYTE("1") ", 0, 1, NULL, -1"
#define WALK_OF(name, blob)                                                             \
	"WITH RECURSIVE " name "(hx, at, b, acc, mul, v, n) AS (SELECT hx, " WALK_START \
	" FROM (SELECT hex(" blob ") AS hx) UNION ALL SELECT hx, " WALK_STEP " FROM " name \
	" WHERE at<length(hx)) "
#define WALK(blob) WALK_OF("walk", blob)
/* A set's attributes as JSON; bytes, arrays and maps as hex text. */
#define ATTRIBUTES(set)                                                                        \
	"(" WALK("(SELECT attributes FROM attrset WHERE id=" set                               \
		 ")") "SELECT json_group_object(k.v, iif(typeof(a.v)='blob', hex(a.v), a.v)) " \
		      "FROM walk, attribute a, "                                               \
		      "string k WHERE a.id=walk.v AND k.id=a.key_id)"
/* Zigzag to signed. */
#define SIGNED(v) "((" v " >> 1) * (1 - 2 * (" v " & 1)) - (" v " & 1))"
#define TEXT(id)  "coalesce((SELECT v FROM string WHERE id=" id "), '')"
/* What `flametap symbolize` found for the location l: a row a line, innermost first. */
#define FOUND                                                                              \
	"mapping m, symbol y, json_each(y.lines) j WHERE m.id=l.mapping_id AND "           \
	"y.build_id=m.build_id AND y.address=coalesce(l.address, 0)"
#define FOUND_NAMES                                                                        \
	"(SELECT group_concat(fn, ';') FROM (SELECT j.value->>0 AS fn FROM " FOUND         \
	" ORDER BY j.key DESC))"
#define NAMELESS                                                                         \
	"(SELECT printf('%s+0x%x', coalesce((SELECT t.v FROM mapping m, string t WHERE " \
	"m.id=l.mapping_id AND t.id=m.filename_id), ''), l.address))"

/* Of a chunk's cells (chunk.h). The literal has the byte x at place x + 1. */
#define CELL(cells, n, i)                                                                      \
	"coalesce((SELECT sum((instr(x'" BYTES "', substr(" cells ", (" i "+1)*(length(" cells ")/" n     \
	")-k, 1))-1)<<8*k) FROM places WHERE k<length(" cells ")/" n "), 0)"
#define NUMBER(name, n, i) "(coalesce(" name "0, 0) + " CELL(name, n, i) ")"
#define ID(name, n, i)     "(coalesce(" name "0, 0) + nullif(" CELL(name, n, i) ", 0))"
/* A row each for 0, 1, ... n - 1. */
#define UP_TO(n) "json_each('[0' || replace(hex(zeroblob(" n " - 1)), '00', ',0') || ']')"

/*
 * chunk_rows: the samples of chunks, a row each; t0 = bucket * 600 s + dt. A chunk's columns are
 * held while its runs are walked, and a run's while its samples are: LIMIT -1 keeps SQLite from
 * reading them again for each number.
 * samples: a row a sample; value as in OTLP: events when none were sent; the period is what one
 * event stands for.
 */
#define SAMPLE_VIEWS \
	"CREATE VIEW chunk_rows AS WITH places(k) AS MATERIALIZED " \
	"(VALUES(0), (1), (2), (3), (4), (5), (6), (7)) " \
	"SELECT bucket, series_id, " NUMBER("dt", "n", "(j.key + first)") " AS dt, run_seq + j.key " \
	"AS seq, " ID("stack", "n", "(j.key + first)") " AS stack_id, " ID("attrset", "n", "(j.key + first)") \
	" AS attrset_id, " ID("link", "n", "(j.key + first)") " AS link_id, " NUMBER("r.value", "n", "(j.key + first)") \
	" AS value FROM (SELECT bucket, n, " \
	"seq + " CELL("run_seq", "runs", "run") " AS run_seq, " \
	ID("series", "runs", "run") " AS series_id, " CELL("run_first", "runs", "run") \
	" AS first, iif(run + 1 < runs, " CELL("run_first", "runs", "(run+1)") \
	", n) AS run_end, dt0, dt, stack0, stack, attrset0, attrset, link0, link, value0, " \
	"value FROM (SELECT bucket, n, seq, runs, run_seq, run_first, series0, series, dt0, dt, " \
	"stack0, stack, attrset0, attrset, link0, link, value0, chunk.value AS value, j.key AS run FROM " \
	"chunk, " UP_TO("chunk.runs") \
	" j LIMIT -1) LIMIT -1) r, " UP_TO("(run_end - first)") " j;\n" \
	"CREATE VIEW samples AS SELECT s.seq, s.bucket*600000000000+s.dt AS " \
	"time_unix_nano, datetime(s.bucket*600+s.dt/1000000000, 'unixepoch') AS time, " \
	TEXT("e.service_id") " AS service, " TEXT("e.sample_type_id") " AS type, " \
	TEXT("e.sample_unit_id") " AS unit, coalesce(s.value, 1) AS value, s.stack_id, " \
	"s.series_id, " ATTRIBUTES("s.attrset_id") " AS attributes, " \
	ATTRIBUTES("(SELECT attrset_id FROM resource WHERE id=e.resource_id)") \
	" AS resource, lower(hex(k.trace_id)) AS trace_id, lower(hex(k.span_id)) AS span_id, " \
	"coalesce(e.period, 0) AS period, " TEXT("e.period_type_id") " AS period_type, " \
	TEXT("e.period_unit_id") " AS period_unit FROM " \
	"chunk_rows s JOIN series e ON e.id=s.series_id LEFT JOIN link k " \
	"ON k.id=s.link_id;\n"

/*
 * frames: one row a location and line, place 0 innermost; without lines, neither sent nor found
 * later, one row.
 * stacks_text: one row a stack: its functions from the root to the leaf, ';' between.
 */
#define FRAME_VIEWS \
		"CREATE VIEW frames AS SELECT l.id AS location_id, x.place, coalesce(x.function, " NAMELESS \
		") AS function, x.file, x.line, x.col, printf('0x%x', l.address) AS address, " \
		TEXT("l.frame_type_id") " AS type, (SELECT t.v FROM mapping m, string t WHERE " \
		"m.id=l.mapping_id AND t.id=m.filename_id) AS binary, (SELECT build_id FROM mapping " \
		"WHERE id=l.mapping_id) AS build_id FROM location l LEFT JOIN (WITH RECURSIVE " \
		"walk(id, hx, at, b, acc, mul, v, n) AS (SELECT id, hx, " WALK_START " FROM (SELECT id, hex(lines) AS hx FROM " \
		"location) UNION ALL SELECT id, hx, " WALK_STEP " FROM walk WHERE at<length(hx)) SELECT walk.id, " \
		"n / 3 AS place, max(iif(n % 3=0, (SELECT t.v FROM function f, string t WHERE f.id=walk.v " \
		"AND t.id=f.name_id), NULL)) AS function, max(iif(n % 3=0, (SELECT t.v FROM function f, " \
		"string t WHERE f.id=walk.v AND t.id=f.filename_id), NULL)) AS file, max(iif(n % 3=1, " \
		SIGNED("walk.v") ", NULL)) AS line, max(iif(n % 3=2, " SIGNED("walk.v") \
		", NULL)) AS col FROM walk WHERE v IS NOT NULL GROUP BY walk.id, n / 3 UNION " \
		"ALL SELECT l.id, j.key, j.value->>0, j.value->>2, j.value->>3, j.value->>4 FROM location l, " \
		FOUND " AND coalesce(length(l.lines), 0)=0) x ON x.id=l.id;\n" \
		"CREATE VIEW stacks_text AS SELECT s.id AS stack_id, s.depth, (SELECT " \
		"group_concat(name, ';') FROM (" WALK("s.locations") \
		"SELECT coalesce((SELECT group_concat(fn, ';') FROM (" WALK_OF("inner_walk", "l.lines") "SELECT t.v AS fn FROM inner_walk, function f, " \
		"string t WHERE inner_walk.v IS NOT NULL AND n % 3=0 AND f.id=inner_walk.v AND " \
		"t.id=f.name_id ORDER BY n DESC)), " FOUND_NAMES ", " NAMELESS \
		") AS name FROM walk, location l WHERE l.id=walk.v ORDER BY n DESC)) AS text FROM stack " \
		"s;\n"

const char *schema_views(void)
{
	static const char views[] = SAMPLE_VIEWS FRAME_VIEWS;

	return views;
}
/* clang-format on */
