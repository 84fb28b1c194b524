/* readers_writers.h - what the rows of the table of formats point to. Only src/formats includes
 * this. */
#pragma once
#include "formats/formats.h"

format_read_fn pprof_read, speedscope_read, cpuprofile_read, firefox_read, folded_read,
	perf_script_read;

format_write_fn pprof_write;
/* pprof for Go's profile-guided optimisation: the frames next to the leaf, a sample a stack. */
format_write_fn go_pgo_write;
format_write_fn folded_write;
/* speedscope's JSON: a profile a thread, in the order of time. */
format_write_fn speedscope_write;
/* The Firefox Profiler's processed profile: a thread a thread and profile type. */
format_write_fn firefox_write;
