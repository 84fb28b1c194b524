/*
 * import.h - reads a profile of any known format into the model, told apart by its content.
 *
 * OTLP (protobuf and JSON, every wire version), pprof, speedscope, Chrome's .cpuprofile, the
 * Firefox Profiler's processed profile, folded stacks, `perf script` text. The bytes are
 * decompressed already. Memory: the result takes its own reference of the bytes where it borrows
 * from them. Threads: no state. What each format is stands at the top of its reader.
 */
#pragma once
#include "base/blob.h"
#include "model/profiles.h"

enum import_format {
	IMPORT_OTLP,
	IMPORT_OTLP_JSON,
	IMPORT_PPROF,
	IMPORT_SPEEDSCOPE,
	IMPORT_CPUPROFILE,
	IMPORT_FIREFOX,
	IMPORT_FOLDED,
	IMPORT_PERF_SCRIPT,
};

/* What the content looks like. OTLP where it looks like nothing else: its decoder says what is
 * wrong. */
enum import_format import_tell(struct str bytes);
const char *import_format_name(enum import_format f);
bool import_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;

/* What is known of a profile besides its bytes; NULL or zero: nothing. */
struct import_rename {
	struct str from, to; /* sample types */
};
struct import_hints {
	const struct key_value *resource; /* its attributes */
	uint32_t resource_count;
	uint64_t time, duration;             /* where the bytes do not say, ns */
	const struct import_rename *renames; /* pprof */
	uint32_t rename_count;
	struct str type, unit, period_type, period_unit; /* folded */
	int64_t period;
	bool lines; /* folded: each line is a stack and counts once */
};
bool pprof_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		     struct err *err) MUST_CHECK;
bool folded_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		      struct err *err) MUST_CHECK;

/* The readers one by one. */
bool pprof_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
bool speedscope_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
bool cpuprofile_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
bool firefox_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
bool folded_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
bool perf_script_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
