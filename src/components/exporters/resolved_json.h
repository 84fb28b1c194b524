/*
 * resolved_json.h - samples in JSON with everything resolved, in two forms of lines.
 *
 * JSON_LINE_A_SAMPLE, one object a sample (`decode --format json`):
 *
 *   {"resource":{"service.name":"shop"},
 *    "resource_dropped_attributes_count":1,
 *    "scope":{"name":"n","version":"v","attributes":{},"dropped_attributes_count":1},
 *    "profile":{"profile_id":"32 hex","time_unix_nano":1,"duration_nano":2,
 *               "period_type":"cpu","period_unit":"nanoseconds","period":3,
 *               "dropped_attributes_count":4,"original_payload_format":"pprof","attributes":{},
 *               "extra":{"aggregation_temporality":1,"comments":["text"]}},
 *    "sample_type":"samples","sample_unit":"count",
 *    "original_payload":"base64",                 on the first line of its profile only
 *    "value":2,"events":2,                        what it counts for (sample_total())
 *    "values":[1,1],"timestamps_unix_nano":[5,6], as they came
 *    "trace_id":"32 hex","span_id":"16 hex",
 *    "attributes":{"thread.id":7},"attribute_units":{"heap.size":"By"},
 *    "extra":{"labels":[{"key":"k","str":"v"}]},
 *    "frames":[{"type":"go","function":"main.main","system_name":"s","file":"main.go",
 *               "line":1,"column":2,"start_line":3,"inline":true,
 *               "address":"0x4a","mapping":"shop"}],
 *    "build_ids":{"shop":"hex"}}
 *
 * JSON_LINE_A_PROFILE, one object a profile (the filesystem exporter's jsonl): what its samples
 * share stands in it once, and a sample's frames and attributes are places in the line's own lists:
 *
 *   {"resource":{...},"scope":{...},"profile":{...},"sample_type":"samples","sample_unit":"count",
 *    "samples":[{"value":2,"events":2,"timestamps_unix_nano":[5,6],"attributes":0,"frames":[0,1]},
 *               ...],
 *    "attributes":[{"thread.id":7}],
 *    "frames":[{"type":"go","function":"main.main",...},{...}],
 *    "build_ids":{"shop":"hex"}}
 *
 * The same resolved again, an object a sample:
 *
 *   jq -c '. as $p | .samples[] | .attributes |= $p.attributes[.] | .frames[] |= $p.frames[.]'
 *
 * What is not set is left out. Frames are leaf first; `inline` marks those that the next one
 * holds. A frame's build id is its own "build_id", else that of its mapping's name in build_ids:
 * the first mapping of a name in the message has it there, another one of that name shows its own
 * ("" for none). `extra` is what only older wire versions have of a profile (its temporality,
 * comments, drop_frames, ...) and of a sample (labels, stacktrace_id); the names are
 * extra_key_name()'s, the values json_any.h's. Attributes keep their kind (json_any.h). Integers
 * are JSON numbers with all their digits: read them with a reader that keeps 64 bits (Python, Go,
 * jq >= 1.7). Strings are valid UTF-8. A bad index is the string "<bad index 7 of 5>" in the name's
 * place. Not here: schema URLs, mapping ranges, unknown fields, extras of mappings and locations;
 * the format otlp and layout full have them.
 *
 * Memory: caches kept between requests. Threads: one at a time per renderer.
 */
#pragma once
#include "formats/render_out.h"
#include "model/profiles.h"
#include "pipeline/options.h"

struct json_renderer;

enum json_lines { JSON_LINE_A_SAMPLE, JSON_LINE_A_PROFILE };

struct json_renderer *json_renderer_new(
	enum json_lines lines,
	const struct config_strings *sample_types); /* copied, not deeply; empty = all */
void json_renderer_free(struct json_renderer *j);   /* NULL is fine */
/* Asked for each sample from now on; false leaves it out, and a profile of which nothing is left
 * too. A profile without samples is asked for with NULL. */
typedef bool json_sample_wanted_fn(void *ctx, const struct profiles *p,
				   const struct resource_profiles *r, const struct sample *s);
void json_renderer_filter(struct json_renderer *j, json_sample_wanted_fn *wanted, void *ctx);
/* Appends the lines of a message; the caller calls render_out_finish(). Refused profiles are left
 * out. Fails as `out` does only. */
bool json_render(struct json_renderer *j, const struct profiles *p, struct render_out *out,
		 struct err *err) MUST_CHECK;
