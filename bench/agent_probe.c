/*
 * agent_probe - samples this machine for some seconds through the agent's core, and prints what was
 * seen and what it cost: the measuring stick of src/agent.
 *
 *   build/release/bench/agent_probe [-F HZ] [-d SECONDS] [-p PID]... [-t TOP] [-s]
 *
 * -t prints that many of the most frequent stacks, as executable+address. -s turns the kernel's BPF
 * statistics on, for nanoseconds per sample. Needs the capabilities of the agent.
 */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

enum { STACKS_MOST = 65536, PIDS_MOST = 16 };

struct stack {
	uint64_t hash, count;
	char *text;
};

struct seen {
	struct stack *stacks; /* open addressing */
	uint64_t traces, frames, cut;
	uint64_t first_ns, started_ns;
	bool keep;
};

static void render(const struct trace *t, struct buf *out)
{
	buf_printf(out, "%.*s;%s", STR_ARG(t->process->executable_name), t->comm);
	for (uint32_t i = t->frame_count; i-- > 0;) {
		const struct trace_frame *f = &t->frames[i];

		if (f->kind == FRAME_END)
			buf_printf(out, ";[end %llu]", (unsigned long long)f->address);
		else if (f->executable)
			buf_printf(out, ";%.*s+0x%llx", STR_ARG(f->executable->filename),
				   (unsigned long long)f->address);
		else
			buf_printf(out, ";%s0x%llx", f->kind == FRAME_KERNEL ? "k:" : "",
				   (unsigned long long)f->address);
	}
}

static void take_trace(void *ctx, const struct trace *t)
{
	struct seen *s = ctx;
	struct buf text;
	uint64_t hash;
	uint32_t at;
	size_t length;

	if (!s->traces++)
		s->first_ns = clock_monotonic_ns();
	s->frames += t->frame_count;
	if (!s->keep)
		return;
	buf_init(&text, 0);
	render(t, &text);
	hash = hash64(buf_view(&text));
	for (at = hash % STACKS_MOST; s->stacks[at].count && s->stacks[at].hash != hash;)
		at = (at + 1) % STACKS_MOST;
	if (!s->stacks[at].count++) {
		buf_char(&text, 0);
		s->stacks[at].hash = hash;
		s->stacks[at].text = buf_take(&text, &length);
	}
	buf_release(&text);
}

static int by_count(const void *x, const void *y)
{
	const struct stack *a = x, *b = y;

	return (a->count < b->count) - (a->count > b->count);
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec * 1e3 + (double)u.ru_utime.tv_usec / 1e3 +
	       (double)u.ru_stime.tv_sec * 1e3 + (double)u.ru_stime.tv_usec / 1e3;
}

static void print_memory(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "Rss", 3) == 0 || strncmp(line, "Pss_", 4) == 0)
			printf("%s", line);
	if (f)
		fclose(f);
}

static void print_stats(const struct agent_stats *s)
{
	static const char *const ends[] = {
#define X(name, text, help) text,
		UNWIND_ENDS(X)
#undef X
	};
	const struct sample_counters *k = &s->kernel;

	printf("fired %llu idle %llu filtered %llu sampled %llu dropped: ring %llu ns %llu\n",
	       (unsigned long long)k->fired, (unsigned long long)k->idle,
	       (unsigned long long)k->filtered, (unsigned long long)k->sampled,
	       (unsigned long long)k->dropped_ring, (unsigned long long)k->dropped_ns);
	printf("captured %llu (refused: rate %llu, ring %llu) frames %llu, program time %.2f us "
	       "per sample\n",
	       (unsigned long long)k->captured, (unsigned long long)k->capture_limit,
	       (unsigned long long)k->capture_ring, (unsigned long long)k->frames,
	       k->sampled ? (double)k->time_ns / 1e3 / (double)k->sampled : 0);
	printf("median: native stacks %.2f us, with a runtime's frames %.2f us\n",
	       (double)s->native_ns / 1e3, (double)s->runtime_ns / 1e3);
	if (s->bpf_runs)
		printf("BPF run time %.2f us per run, %llu runs\n",
		       (double)s->bpf_ns / 1e3 / (double)s->bpf_runs,
		       (unsigned long long)s->bpf_runs);
	printf("traces %llu frames %llu resumed %llu held %llu bad %llu\n",
	       (unsigned long long)s->traces, (unsigned long long)s->frames,
	       (unsigned long long)s->resumed, (unsigned long long)s->held_dropped,
	       (unsigned long long)s->bad_records);
	for (int i = 0; i < UNWIND_END_COUNT; i++)
		if (s->ended[i] || k->ended[i])
			printf("  end %-16s %8llu (kernel %llu)\n", ends[i],
			       (unsigned long long)s->ended[i], (unsigned long long)k->ended[i]);
	printf("side band %llu lost %llu resyncs %llu\n", (unsigned long long)s->side_band_records,
	       (unsigned long long)s->side_band_lost, (unsigned long long)s->resyncs);
	printf("processes %u mapping slots %u executables %u (opened %llu refused %llu) blocks %u "
	       "rules %u\n",
	       s->processes, s->mappings, s->executables, (unsigned long long)s->files_opened,
	       (unsigned long long)s->files_refused, s->row_blocks, s->rules);
	printf("pages built %llu empty %llu refused %llu evicted %llu in %.2f ms CPU\n",
	       (unsigned long long)s->pages_built, (unsigned long long)s->pages_empty,
	       (unsigned long long)s->pages_refused, (unsigned long long)s->pages_evicted,
	       (double)s->build_ns / 1e6);
}

int main(int argc, char **argv)
{
	struct agent_options options = { .sampling = { .samples_per_second = 20,
						       .steps = UINT32_MAX },
					 .frames_of_ends = true };
	struct seen seen = { .stacks = calloc(STACKS_MOST, sizeof(struct stack)) };
	const struct trace_sink sink = { take_trace, &seen };
	unsigned seconds = 5, top = 0;
	struct agent_stats stats;
	struct seam *seam = seam_local_new();
	struct agent *agent;
	uint32_t pids[PIDS_MOST];
	double start_ms, run_ms;
	struct err err;
	int c;

	while ((c = getopt(argc, argv, "F:d:p:t:s")) >= 0) {
		switch (c) {
		case 'F':
			options.sampling.samples_per_second = (uint32_t)atoi(optarg);
			break;
		case 'd':
			seconds = (unsigned)atoi(optarg);
			break;
		case 'p':
			if (options.filter.pid_count == PIDS_MOST)
				return 2;
			pids[options.filter.pid_count++] = (uint32_t)atoi(optarg);
			options.filter.pids = pids;
			break;
		case 't':
			top = (unsigned)atoi(optarg);
			break;
		case 's':
			if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
				perror("BPF statistics");
			break;
		default:
			return 2;
		}
	}
	seen.keep = top > 0;
	seen.started_ns = clock_monotonic_ns();
	agent = agent_start(&options, seam, &sink, &err);
	if (!agent) {
		fprintf(stderr, "agent_probe: %s\n", err.msg);
		seam_free(seam);
		return 1;
	}
	start_ms = cpu_ms();
	printf("started in %.1f ms, CPU %.1f ms\n",
	       (double)(clock_monotonic_ns() - seen.started_ns) / 1e6, start_ms);
	sleep(seconds);
	run_ms = cpu_ms() - start_ms;
	agent_stop(agent);
	agent_stats(agent, &stats);
	printf("first sample after %.0f ms; CPU while running %.1f ms = %.3f %% of a core\n",
	       (double)(seen.first_ns - seen.started_ns) / 1e6, run_ms, run_ms / seconds / 10);
	print_stats(&stats);
	print_memory();
	if (top) {
		qsort(seen.stacks, STACKS_MOST, sizeof(*seen.stacks), by_count);
		for (unsigned i = 0; i < top && i < STACKS_MOST && seen.stacks[i].count; i++)
			printf("%6llu %s\n", (unsigned long long)seen.stacks[i].count,
			       seen.stacks[i].text);
	}
	for (uint32_t i = 0; i < STACKS_MOST; i++)
		free(seen.stacks[i].text);
	free(seen.stacks);
	agent_free(agent);
	seam_free(seam);
	return 0;
}
