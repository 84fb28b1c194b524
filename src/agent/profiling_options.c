#include "agent/profiling_options.h"

#include <regex.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/sample/events.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "pipeline/node.h"

#define OFF(member) offsetof(struct profiling_options, member)
#define FIELD(key, what, member, fallback, text, ...)                                             \
	{                                                                                         \
		.name = (key), .kind = (what), .offset = OFF(member), .default_text = (fallback), \
		.help = (text), ##__VA_ARGS__                                                     \
	}
#define OLD(...) .aliases = { __VA_ARGS__ }

/* clang-format off */
static const struct config_field switch_fields[] = {
	{ .name = "disabled", .kind = CONFIG_BOOL, .default_text = "false", .help = "leave its frames as native code" },
	{ 0 },
};

#define GO(member) (OFF(interpreters.go.member) - OFF(interpreters.go))
static const struct config_field go_fields[] = {
	{ .name = "disabled", .kind = CONFIG_BOOL, .offset = GO(disabled), .default_text = "false", .help = "no Go names and labels" },
	{ .name = "labels", .kind = CONFIG_SECTION, .offset = GO(labels), .fields = switch_fields, .help = "pprof labels" },
	{ .name = "symbolization", .kind = CONFIG_SECTION, .offset = GO(symbolization), .fields = switch_fields, .help = "function names" },
	{ 0 },
};
#undef GO

#define RUNTIME(key, member) \
	{ .name = (key), .kind = CONFIG_SECTION, .offset = OFF(interpreters.member) - OFF(interpreters), .fields = switch_fields, .help = (key) }
static const struct config_field interpreter_fields[] = {
	RUNTIME("python", python), RUNTIME("perl", perl), RUNTIME("php", php), RUNTIME("hotspot", hotspot),
	RUNTIME("ruby", ruby), RUNTIME("v8", v8), RUNTIME("dotnet", dotnet),
	{ .name = "go", .kind = CONFIG_SECTION, .offset = OFF(interpreters.go) - OFF(interpreters), .fields = go_fields, .help = "Go" },
	RUNTIME("beam", beam), RUNTIME("luajit", luajit),
	{ 0 },
};

static const char *const error_modes[] = { "propagate", "ignore", NULL };

const struct config_field profiling_fields[] = {
	FIELD("samples_per_second", CONFIG_UINT32, samples_per_second, "20", "how often each CPU is looked at", OLD("!SamplesPerSecond")),
	FIELD("reporter_interval", CONFIG_DURATION, reporter_interval_ns, "5s", "how often a report is sent", OLD("!ReporterInterval", "!report_interval")),
	FIELD("reporter_jitter", CONFIG_DOUBLE, reporter_jitter, "0.2", "share of the interval that it varies by, 0 to 1", OLD("!ReporterJitter")),
	FIELD("monitor_interval", CONFIG_DURATION, monitor_interval_ns, "5s", "read for compatibility: own metrics are counted as things happen", OLD("!MonitorInterval")),
	FIELD("clock_sync_interval", CONFIG_DURATION, clock_sync_interval_ns, "3m", "how often the wall clock is compared with the kernel's; 0: at start only", OLD("!ClockSyncInterval")),
	FIELD("frame_cache_size", CONFIG_UINT32, frame_cache_size, "16384", "names of frames kept, 1024 to 1048576", OLD("!FrameCacheSize")),
	FIELD("probabilistic_interval", CONFIG_DURATION, probabilistic_interval_ns, "1m", "how often it is drawn whether to sample, 1m to 5m", OLD("!ProbabilisticInterval")),
	FIELD("probabilistic_threshold", CONFIG_UINT32, probabilistic_threshold, "100", "in how many of 100 intervals is sampled, 1 to 100", OLD("!ProbabilisticThreshold")),
	FIELD("tracers", CONFIG_STRING, tracers, "all", "runtimes whose frames are shown, a list"),
	FIELD("interpreters", CONFIG_SECTION, interpreters, NULL, "switches runtimes off one by one", .fields = interpreter_fields),
	FIELD("send_error_frames", CONFIG_BOOL, send_error_frames, "false", "a marker at the end of stacks that end early", OLD("!SendErrorFrames")),
	FIELD("send_idle_frames", CONFIG_BOOL, send_idle_frames, "false", "samples of idle CPUs too", OLD("!SendIdleFrames")),
	FIELD("filter_min_process_age", CONFIG_DURATION, filter_min_process_age_ns, "0s", "younger processes are not sampled", OLD("!FilterMinProcessAge")),
	FIELD("verbose_mode", CONFIG_BOOL, verbose_mode, "false", "read for compatibility: see service::telemetry::logs::level", OLD("!VerboseMode")),
	FIELD("off_cpu_threshold", CONFIG_DOUBLE, off_cpu_threshold, "0", "not offered yet: 0", OLD("!OffCPUThreshold")),
	FIELD("include_env_vars", CONFIG_STRINGS, include_env_vars, NULL, "variables of processes to send", OLD("!IncludeEnvVars")),
	FIELD("map_scale_factor", CONFIG_UINT32, map_scale_factor, "0", "BPF maps 2^N times as large, 0 to 8", OLD("!MapScaleFactor")),
	FIELD("bpf_verifier_log_level", CONFIG_UINT32, bpf_verifier_log_level, "0", "0 to 2", OLD("!BPFVerifierLogLevel")),
	FIELD("no_kernel_version_check", CONFIG_BOOL, no_kernel_version_check, "false", "read for compatibility: features are tried, not versions", OLD("!NoKernelVersionCheck")),
	FIELD("max_grpc_retries", CONFIG_UINT32, max_grpc_retries, "5", "read for compatibility: exporters retry", OLD("!MaxGRPCRetries")),
	FIELD("max_rpc_msg_size", CONFIG_SIZE, max_rpc_msg_size, "32MiB", "read for compatibility: exporters send", OLD("!MaxRPCMsgSize")),
	FIELD("bpf_fs_root", CONFIG_STRING, bpf_fs_root, "/sys/fs/bpf/", "read for compatibility: nothing is pinned", OLD("!BPFFSRoot")),
	FIELD("error_mode", CONFIG_ENUM, error_mode, "propagate", "when profiling cannot start: propagate, ignore (go on without it)", .choices = error_modes, OLD("!ErrorMode")),
	FIELD("obi_process_ctx", CONFIG_BOOL, obi_process_ctx, "false", "not offered yet", OLD("!OBIProcessCtx")),
	FIELD("pid_namespace_translation", CONFIG_BOOL, pid_namespace_translation, "false", "read for compatibility: pids are always those of the own namespace", OLD("!PIDNamespaceTranslation")),
	FIELD("pin_cpu_ids", CONFIG_STRING, pin_cpu_ids, "", "only these CPUs are sampled: 0-15,20,31", OLD("!PinCPUIDs")),
	FIELD("probes", CONFIG_ANY, probes, NULL, "not offered yet"),
	FIELD("u_probe_links", CONFIG_STRINGS, u_probe_links, NULL, "not offered yet", OLD("!UProbeLinks")),
	FIELD("load_probe", CONFIG_BOOL, load_probe, "false", "not offered yet", OLD("!LoadProbe")),
	/* ours */
	FIELD("service_name", CONFIG_STRING, service_name, NULL, "service.name of processes that name none"),
	FIELD("resource_attributes", CONFIG_MAP, resource_attributes, NULL, "attributes of every resource"),
	FIELD("process_filter", CONFIG_STRING, process_filter, NULL, "regular expression: only processes whose executable, comm or script matches"),
	FIELD("cgroups", CONFIG_STRINGS, cgroups, NULL, "only processes in these cgroups and below"),
	FIELD("pids", CONFIG_STRINGS, pids, NULL, "only these processes and what they start"),
	FIELD("native_symbols", CONFIG_BOOL, native_symbols, "true", "function names of native frames; false: as the reference sends them"),
	FIELD("inlines", CONFIG_BOOL, inlines, "false", "inlined functions from debug information"),
	FIELD("naming_budget", CONFIG_DURATION, naming_budget_ns, "200ms", "CPU time of naming per report; the rest is named later"),
	FIELD("symbol_memory", CONFIG_SIZE, symbol_memory_bytes, "8MiB", "for symbols, besides the mapped files; at least 1MiB"),
	FIELD("unwind_memory", CONFIG_SIZE, unwind_memory_bytes, "128MiB", "for unwind tables, at most; 1MiB or more"),
	FIELD("debuginfod_urls", CONFIG_STRING, debuginfod_urls, NULL, "servers of debug files, separated by blanks; unset: DEBUGINFOD_URLS"),
	FIELD("debuginfod_wait", CONFIG_DURATION, debuginfod_wait_ns, "0s", "how long naming waits for debug files, in all; their names come later then"),
	FIELD("runtime_tables", CONFIG_STRING, runtime_tables, NULL, "folder of tables of runtimes' offsets (cpython.table, php.table, ruby.table, v8.table) that replace the built-in ones"),
	FIELD("cache_dir", CONFIG_STRING, cache_dir, NULL, "keeps lines and debug files by build id over restarts"),
	{ 0 },
};
/* clang-format on */

/* src/agent/runtimes/all.c */
#ifdef __x86_64__
#define HAS_RUNTIMES true
#else
#define HAS_RUNTIMES false
#endif

static const struct tracer_row {
	const char *name;
	bool offered;
} tracer_rows[TRACER_COUNT] = {
	[TRACER_PERL] = { "perl", false },
	[TRACER_PHP] = { "php", HAS_RUNTIMES },
	[TRACER_PYTHON] = { "python", HAS_RUNTIMES },
	[TRACER_HOTSPOT] = { "hotspot", HAS_RUNTIMES },
	[TRACER_RUBY] = { "ruby", HAS_RUNTIMES },
	[TRACER_V8] = { "v8", HAS_RUNTIMES },
	[TRACER_DOTNET] = { "dotnet", false },
	[TRACER_GO] = { "go", true },
	[TRACER_LABELS] = { "labels", HAS_RUNTIMES },
	[TRACER_BEAM] = { "beam", false },
	[TRACER_LUAJIT] = { "luajit", false },
};

uint32_t tracers_offered(void)
{
	uint32_t set = 0;

	for (int i = 0; i < TRACER_COUNT; i++)
		if (tracer_rows[i].offered)
			set |= 1u << i;
	return set;
}

static bool add_tracer(struct str name, uint32_t *set, uint32_t *named, struct err *err)
{
	if (str_equal_nocase(name, STR("all"))) {
		*set = (1u << TRACER_COUNT) - 1;
		return true;
	}
	if (str_equal_nocase(name, STR("native"))) /* always on; once it was a tracer */
		return true;
	for (int i = 0; i < TRACER_COUNT; i++)
		if (str_equal_nocase(name, str_cstr(tracer_rows[i].name))) {
			*set |= 1u << i;
			*named |= 1u << i;
			return true;
		}
	return err_set(err, ERR_INVALID,
		       "unknown tracer: %.*s (known: all, perl, php, python, hotspot, ruby, v8, "
		       "dotnet, go, labels, beam, luajit)",
		       STR_ARG(name));
}

bool tracers_parse(struct str list, uint32_t *set, uint32_t *named, struct err *err)
{
	struct str name;

	*set = *named = 0;
	while (str_split(&list, ',', &name))
		if (str_trim(name).len && !add_tracer(str_trim(name), set, named, err))
			return false;
	return true;
}

void tracers_append(struct buf *b, uint32_t set)
{
	size_t start = b->len;

	for (int i = 0; i < TRACER_COUNT; i++) {
		if (!(set & 1u << i))
			continue;
		if (b->len > start)
			buf_char(b, ',');
		buf_str(b, str_cstr(tracer_rows[i].name));
	}
}

bool profiling_tracers(const struct profiling_options *o, uint32_t *set, uint32_t *named,
		       struct err *err)
{
	const struct {
		bool off;
		enum tracer tracer;
	} switches[] = {
		{ o->interpreters.python.disabled, TRACER_PYTHON },
		{ o->interpreters.perl.disabled, TRACER_PERL },
		{ o->interpreters.php.disabled, TRACER_PHP },
		{ o->interpreters.hotspot.disabled, TRACER_HOTSPOT },
		{ o->interpreters.ruby.disabled, TRACER_RUBY },
		{ o->interpreters.v8.disabled, TRACER_V8 },
		{ o->interpreters.dotnet.disabled, TRACER_DOTNET },
		{ o->interpreters.beam.disabled, TRACER_BEAM },
		{ o->interpreters.luajit.disabled, TRACER_LUAJIT },
		{ o->interpreters.go.disabled || o->interpreters.go.symbolization.disabled,
		  TRACER_GO },
		{ o->interpreters.go.disabled || o->interpreters.go.labels.disabled,
		  TRACER_LABELS },
	};

	if (!tracers_parse(str_cstr(o->tracers), set, named, err))
		return err_prefix(err, "tracers");
	for (size_t i = 0; i < ARRAY_LEN(switches); i++)
		if (switches[i].off)
			*set &= ~(1u << switches[i].tracer);
	*named &= *set;
	return true;
}

/* ---- checks ---- */

enum { MEMORY_LEAST = 1 << 20 };

static bool check_numbers(const struct profiling_options *o, struct err *err)
{
	if (o->samples_per_second < 1 || o->samples_per_second > 10000)
		return err_set(err, ERR_INVALID, "invalid sampling frequency: %u",
			       o->samples_per_second);
	if (o->map_scale_factor > 8)
		return err_set(err, ERR_INVALID,
			       "eBPF map scaling factor %u exceeds limit (max: 8)",
			       o->map_scale_factor);
	if (o->bpf_verifier_log_level > 2)
		return err_set(err, ERR_INVALID, "invalid eBPF verifier log level: %u",
			       o->bpf_verifier_log_level);
	if (o->probabilistic_interval_ns < MINUTE_NS ||
	    o->probabilistic_interval_ns > 5 * MINUTE_NS)
		return err_set(err, ERR_INVALID,
			       "invalid argument for probabilistic_interval: use a duration "
			       "between 1m and 5m");
	if (o->probabilistic_threshold < 1 || o->probabilistic_threshold > 100)
		return err_set(err, ERR_INVALID,
			       "invalid argument for probabilistic_threshold: %u; value should be "
			       "between 1 and 100",
			       o->probabilistic_threshold);
	if (o->frame_cache_size < 1024 || o->frame_cache_size > 1048576)
		return err_set(err, ERR_INVALID,
			       "invalid frame_cache_size %u: it is 1024 to 1048576",
			       o->frame_cache_size);
	if (o->symbol_memory_bytes < MEMORY_LEAST || o->unwind_memory_bytes < MEMORY_LEAST)
		return err_set(err, ERR_INVALID,
			       "%s of %llu bytes is less than the 1 MiB that anything needs",
			       o->symbol_memory_bytes < MEMORY_LEAST ? "symbol_memory"
								     : "unwind_memory",
			       (unsigned long long)(o->symbol_memory_bytes < MEMORY_LEAST
							    ? o->symbol_memory_bytes
							    : o->unwind_memory_bytes));
	if (!(o->reporter_jitter >= 0 && o->reporter_jitter <= 1))
		return err_set(err, ERR_INVALID, "invalid reporter_jitter %g: it is 0 to 1",
			       o->reporter_jitter);
	if (o->reporter_interval_ns < 100 * MILLI_NS)
		return err_set(err, ERR_INVALID, "reporter_interval is less than 100ms");
	return true;
}

static bool refuse_probes(const char *option, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED,
		       "%s: probes are not offered yet; leave it out and the rest runs", option);
}

static bool has_entries(const struct config_node *n)
{
	return n && n->kind != NODE_NULL && !(n->kind == NODE_LIST && n->count == 0);
}

static bool check_offered(const struct profiling_options *o, struct err *err)
{
	if (!(o->off_cpu_threshold >= 0 && o->off_cpu_threshold <= 1))
		return err_set(err, ERR_INVALID,
			       "invalid off_cpu_threshold %g: it is a probability, 0 to 1",
			       o->off_cpu_threshold);
	if (o->off_cpu_threshold > 0)
		return err_set(err, ERR_UNSUPPORTED,
			       "-off-cpu-threshold, off_cpu_threshold: off-CPU profiling is not "
			       "offered yet; 0 leaves it off");
	if (o->obi_process_ctx)
		return err_set(err, ERR_UNSUPPORTED,
			       "obi_process_ctx: reading OBI's contexts is not offered yet");
	if (has_entries(o->probes))
		return refuse_probes("probes", err);
	if (o->u_probe_links.count)
		return refuse_probes("-probe-link, u_probe_links", err);
	if (o->load_probe)
		return refuse_probes("-load-probe, load_probe", err);
	return true;
}

static bool check_regex(const char *text, struct err *err)
{
	char why[160];
	regex_t re;
	int failed;

	if (!text || !*text)
		return true;
	failed = regcomp(&re, text, REG_EXTENDED | REG_NOSUB);
	if (!failed) {
		regfree(&re);
		return true;
	}
	regerror(failed, &re, why, sizeof(why));
	return err_set(err, ERR_INVALID, "process_filter \"%s\" is no regular expression: %s", text,
		       why);
}

static bool parse_pids(const struct config_strings *list, uint32_t *out, struct err *err)
{
	for (uint32_t i = 0; i < list->count; i++) {
		uint64_t pid;

		if (!str_to_u64(str_trim(str_cstr(list->items[i])), &pid) || pid == 0 ||
		    pid > INT32_MAX)
			return err_set(err, ERR_INVALID, "pids: \"%s\" is no process id",
				       list->items[i]);
		if (out)
			out[i] = (uint32_t)pid;
	}
	return true;
}

bool profiling_options_check(const struct profiling_options *o, struct err *err)
{
	uint32_t set, named, cpus[SEAM_CPUS_MAX], count;

	if (o->pin_cpu_ids[0] &&
	    !cpu_list_parse(str_cstr(o->pin_cpu_ids), cpus, SEAM_CPUS_MAX, &count, err))
		return err_prefix(err, "-pin-cpu-ids, pin_cpu_ids");
	for (uint32_t i = 0; i < o->cgroups.count; i++)
		if (!str_trim(str_cstr(o->cgroups.items[i])).len)
			return err_set(err, ERR_INVALID,
				       "-cgroup, cgroups: the name of a control group is empty");
	return check_numbers(o, err) && check_offered(o, err) &&
	       profiling_tracers(o, &set, &named, err) && check_regex(o->process_filter, err) &&
	       parse_pids(&o->pids, NULL, err);
}

static bool is_in(const uint32_t *list, uint32_t count, uint32_t cpu)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == cpu)
			return true;
	return false;
}

bool profiling_cpus_check(const struct profiling_options *o, struct str online, struct str possible,
			  struct buf *absent, struct err *err)
{
	uint32_t wanted[SEAM_CPUS_MAX], here[SEAM_CPUS_MAX], ever[SEAM_CPUS_MAX];
	uint32_t count, here_count, ever_count, usable = 0;

	if (!o->pin_cpu_ids[0])
		return true;
	if (!cpu_list_parse(str_cstr(o->pin_cpu_ids), wanted, SEAM_CPUS_MAX, &count, err) ||
	    !cpu_list_parse(str_trim(online), here, SEAM_CPUS_MAX, &here_count, err) ||
	    !cpu_list_parse(str_trim(possible), ever, SEAM_CPUS_MAX, &ever_count, err))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		usable += is_in(ever, ever_count, wanted[i]);
		if (!is_in(here, here_count, wanted[i]))
			buf_printf(absent, "%s%u", absent->len ? ", " : "", wanted[i]);
	}
	return usable ||
	       err_set(err, ERR_INVALID,
		       "-pin-cpu-ids, pin_cpu_ids: this machine has no CPU %s, it has %.*s",
		       o->pin_cpu_ids, STR_ARG(str_trim(possible)));
}

/* ---- for the agent ---- */

static bool put_cpus(const struct profiling_options *o, struct arena *arena,
		     struct agent_options *out, struct err *err)
{
	uint32_t *cpus;

	if (!o->pin_cpu_ids[0])
		return true;
	cpus = arena_alloc_array(arena, SEAM_CPUS_MAX, sizeof(*cpus));
	out->sampling.cpus = cpus;
	return cpu_list_parse(str_cstr(o->pin_cpu_ids), cpus, SEAM_CPUS_MAX,
			      &out->sampling.cpu_count, err);
}

/* The runtimes whose frames BPF walks. */
static uint32_t steps_of(const struct profiling_options *o)
{
	uint32_t set, named, steps = 0;
	struct err err;

	if (!profiling_tracers(o, &set, &named, &err)) /* checked before */
		return 0;
	if (set & 1u << TRACER_PYTHON)
		steps |= 1u << UNWIND_STEP_CPYTHON;
	if (set & 1u << TRACER_HOTSPOT)
		steps |= 1u << UNWIND_STEP_HOTSPOT;
	if (set & 1u << TRACER_PHP)
		steps |= 1u << UNWIND_STEP_PHP | 1u << UNWIND_STEP_PCRE;
	if (set & 1u << TRACER_RUBY)
		steps |= 1u << UNWIND_STEP_RUBY;
	if (set & 1u << TRACER_V8)
		steps |= 1u << UNWIND_STEP_V8;
	if (set & 1u << TRACER_LABELS)
		steps |= 1u << UNWIND_STEP_GO;
	return steps;
}

bool profiling_agent_options(const struct profiling_options *o, struct arena *arena,
			     struct agent_options *out, struct err *err)
{
	uint32_t *pids = arena_alloc_array(arena, o->pids.count, sizeof(*pids));

	*out = (struct agent_options){
		.sampling = { .samples_per_second = o->samples_per_second,
			      .send_idle = o->send_idle_frames,
			      .scale = o->map_scale_factor,
			      .verifier_log = o->bpf_verifier_log_level,
			      .steps = steps_of(o) },
		.filter = { .pids = pids,
			    .pid_count = o->pids.count,
			    .process_regex = o->process_filter,
			    .cgroups = o->cgroups.items,
			    .cgroup_count = o->cgroups.count },
		.unwind_memory_bytes = o->unwind_memory_bytes,
		.clock_sync_ns = o->clock_sync_interval_ns ? o->clock_sync_interval_ns
							   : UINT64_MAX, /* at start only */
		.runtime_tables = o->runtime_tables,
		.variables = o->include_env_vars.items,
		.variable_count = o->include_env_vars.count,
		.frames_of_ends = true,
	};
	return parse_pids(&o->pids, pids, err) && put_cpus(o, arena, out, err);
}

static void put_text(struct buf *out, const char *text)
{
	buf_str(out, str_cstr(text ? text : ""));
	buf_char(out, text ? '\0' : '\1');
}

static void put_list(struct buf *out, const struct config_strings *list)
{
	buf_printf(out, "%u:", list->count);
	for (uint32_t i = 0; i < list->count; i++)
		put_text(out, list->items[i]);
}

void profiling_sampler_key(const struct profiling_options *o, struct buf *out)
{
	buf_printf(out, "%u %d %u %u %u %llu %llu ", (unsigned)o->samples_per_second,
		   o->send_idle_frames, (unsigned)o->map_scale_factor,
		   (unsigned)o->bpf_verifier_log_level, steps_of(o),
		   (unsigned long long)o->unwind_memory_bytes,
		   (unsigned long long)o->clock_sync_interval_ns);
	put_text(out, o->pin_cpu_ids);
	put_text(out, o->runtime_tables);
	put_list(out, &o->include_env_vars);
	put_list(out, &o->pids);
}
