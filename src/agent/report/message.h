/*
 * message.h - a window of samples as an OTLP profiles message, in the shape of the eBPF profiler.
 *
 * One resource per process, in it one scope with one profile per origin (docs/agent.md).
 * Native functions, lines and inlined frames are ours; without native_symbols native frames are as
 * the reference sends them: address and mapping only. The last resource is the host's: a profile
 * without samples, whose attributes say what was seen and what was lost:
 *
 *   flametap.window_ns         how long was sampled
 *   flametap.sampled           samples in this report
 *   flametap.dropped.REASON    samples that are not in it
 *   flametap.cut.REASON        samples in it whose stack ends early
 *   flametap.unnamed           frames, each as often as it was sampled, that no name was found for
 */
#pragma once
#include "agent/report/frame_cache.h"
#include "agent/report/window.h"
#include "model/profiles.h"

struct report_options {
	uint32_t samples_per_second;
	bool native_symbols;                /* names of native frames */
	bool inlines;                       /* else only the function that was not inlined */
	struct str service_name;            /* of processes that name none; "" = none */
	const struct key_value *attributes; /* of every resource: host, tags */
	uint32_t attribute_count;
	struct str scope_name, scope_version;
	const char *(*end_name)(uint64_t reason); /* of FRAME_END; NULL: its number */
};

struct report_count {
	const char *reason; /* static; lower case, words joined by '_' */
	uint64_t count;
};

struct report_facts {
	uint64_t start_unix_nano, end_unix_nano;
	uint64_t sampled_ns; /* of that time */
	const struct report_count *dropped;
	uint32_t dropped_count;
};

struct report_totals {
	uint64_t samples, unnamed;
	uint32_t processes;
};

enum { REPORT_MESSAGE_MOST_BYTES = 256 << 20 };

/* NULL and err when the message does not fit (ERR_LIMIT). Names come from the cache, else from the
 * namer, which may be NULL. */
struct profiles *report_message(const struct window *w, const struct report_options *o,
				const struct report_facts *facts, struct frame_cache *cache,
				const struct namer *namer, struct report_totals *totals,
				struct err *err) MUST_CHECK;

/* What htlhash is to a file, for the kernel and its modules: FNV-1a, 128 bits, of the GNU build id
 * as hex digits; 32 hex digits and a NUL. */
void report_kernel_hash(struct str build_id_hex, char out[33]);
