/*
 * schema_views.c - views in plain words, for people with the sqlite3 shell; docs/store.md shows
 * them.
 *
 * Lists are varints in a BLOB, which SQL has no function for: `walk` takes one byte a step off the
 * BLOB's hex text (at: place in it, acc and mul: the number so far), and v is each whole number, n
 * its place.
 */
#include "store/schema.h"

#define DIGIT(place) "(instr('0123456789ABCDEF', substr(hx, " place ", 1)) - 1)"
#define BYTE         "(16 * " DIGIT("at") " + " DIGIT("at + 1") ")"
#define WALK(blob)                                                                            \
	"WITH RECURSIVE walk(hx, at, acc, mul, v, n) AS (SELECT hex(" blob                    \
	"), 1, 0, 1, NULL, -1 UNION ALL SELECT hx, at + 2, iif(" BYTE "<128, 0, acc + (" BYTE \
	" - 128) * mul), iif(" BYTE "<128, 1, mul * 128), iif(" BYTE "<128, acc + " BYTE      \
	" * mul, NULL), n + (" BYTE "<128) FROM walk WHERE at<length(hx)) "
/* A set's attributes as JSON; bytes, arrays and maps as hex text. */
#define ATTRIBUTES(set)                                                                        \
	"(" WALK("(SELECT attributes FROM attrset WHERE id=" set                               \
		 ")") "SELECT json_group_object(k.v, iif(typeof(a.v)='blob', hex(a.v), a.v)) " \
		      "FROM walk, attribute a, "                                               \
		      "string k WHERE a.id=walk.v AND k.id=a.key_id)"
/* Zigzag to signed. */
#define SIGNED(v) "((" v " >> 1) * (1 - 2 * (" v " & 1)) - (" v " & 1))"
#define TEXT(id)  "coalesce((SELECT v FROM string WHERE id=" id "), '')"
#define NAMELESS                                                                         \
	"(SELECT printf('%s+0x%x', coalesce((SELECT t.v FROM mapping m, string t WHERE " \
	"m.id=l.mapping_id AND t.id=m.filename_id), ''), l.address))"

const char *schema_views(void)
{
	static const char views[] =
		/* One row a sample. value as in OTLP: events when none were sent. */
		"CREATE VIEW samples AS SELECT s.seq, s.bucket*600000000000+s.dt AS "
		"time_unix_nano, "
		"datetime(s.bucket*600+s.dt/1000000000, 'unixepoch') AS time, " TEXT(
			"e.service_id") " AS service, " TEXT("e.sample_type_id") " AS type, " TEXT("e.sample_unit_id") " AS unit, "
														       "coalesce(s."
														       "value, 1) "
														       "AS value, "
														       "s.stack_id, "
														       "s.series_id,"
														       " " ATTRIBUTES("s"
																      "."
																      "a"
																      "t"
																      "t"
																      "r"
																      "s"
																      "e"
																      "t"
																      "_"
																      "i"
																      "d") " AS attributes, " ATTRIBUTES("(SELECT attrset_id FROM resource WHERE id=e.resource_id)") " AS "
																												     "resource, hex(k.trace_id) AS "
																												     "trace_id, hex(k.span_id) AS span_id FROM sample s JOIN "
																												     "series e ON e.id=s.series_id LEFT JOIN link k ON "
																												     "k.id=s.link_id;\n"
																												     /* One row a location and line, place 0 innermost; without lines one row. */
																												     "CREATE VIEW frames AS SELECT l.id AS location_id, x.place, coalesce(x.function, " NAMELESS
																												     ") AS function, x.file, x.line, x.col, printf('0x%x', l.address) AS address, " TEXT("l.frame_type_id") " AS type, (SELECT t.v FROM mapping m, string t WHERE "
																																									    "m.id=l.mapping_id AND t.id=m.filename_id) AS binary, (SELECT build_id FROM mapping "
																																									    "WHERE id=l.mapping_id) AS build_id FROM location l LEFT JOIN (WITH RECURSIVE "
																																									    "walk(id, hx, at, acc, mul, v, n) AS (SELECT id, hex(lines), 1, 0, 1, NULL, -1 FROM "
																																									    "location UNION ALL SELECT id, hx, at + 2, iif(" BYTE
																																									    "<128, 0, acc + (" BYTE " - 128) * mul), iif(" BYTE "<128, 1, mul * 128), iif(" BYTE "<128, acc + " BYTE " * mul, NULL), n + (" BYTE
																																									    "<128) FROM walk WHERE at<length(hx)) SELECT walk.id, "
																																									    "n / 3 AS place, max(iif(n % 3=0, (SELECT t.v FROM function f, string t WHERE f.id=walk.v "
																																									    "AND t.id=f.name_id), NULL)) AS function, max(iif(n % 3=0, (SELECT t.v FROM function f, "
																																									    "string t WHERE f.id=walk.v AND t.id=f.filename_id), NULL)) AS file, max(iif(n % 3=1, " SIGNED(
																																										    "walk.v") ", NULL)) AS line, max(iif(n % 3=2, " SIGNED("walk.v") ", NULL)) AS col FROM walk WHERE v IS NOT NULL GROUP BY walk.id, n / 3) x ON "
																																																		     "x.id=l.id;\n"
																																																		     /* One row a stack: its functions from the root to the leaf, ';' between. */
																																																		     "CREATE VIEW stacks_text AS SELECT s.id AS stack_id, s.depth, (SELECT "
																																																		     "group_concat(name, ';') FROM (" WALK(
																																																			     "s.locations") "SELECT coalesce((SELECT group_concat(fn, ';') FROM (WITH RECURSIVE inner_walk(hx, at, "
																																																					    "acc, mul, v, n) AS (SELECT hex(l.lines), 1, 0, 1, NULL, -1 UNION ALL SELECT hx, at + 2, "
																																																					    "iif(" BYTE
																																																					    "<128, 0, acc + (" BYTE
																																																					    " - 128) * mul), iif(" BYTE "<128, 1, mul * 128), iif(" BYTE "<128, acc + " BYTE " * mul, NULL), n + (" BYTE "<128) FROM inner_walk WHERE at<length(hx)) SELECT t.v AS fn FROM inner_walk, function f, "
																																																					    "string t WHERE inner_walk.v IS NOT NULL AND n % 3=0 AND f.id=inner_walk.v AND "
																																																					    "t.id=f.name_id ORDER BY n DESC)), " NAMELESS
																																																					    ") AS name FROM walk, location l WHERE l.id=walk.v ORDER BY n DESC)) AS text FROM stack "
																																																					    "s;\n";

	return views;
}
