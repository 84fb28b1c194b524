#include "agent/naming.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/load_bias.h"
#include "agent/process/read_proc.h"
#include "agent/runtimes/hotspot/names.h"
#include "agent/runtimes/cpython/names.h"
#include "agent/runtimes/php/names.h"
#include "agent/runtimes/ruby/names.h"
#include "agent/runtimes/v8/names.h"
#include "agent/symbolize/symbolizer.h"
#include "base/clock.h"

enum { RUNTIME_NAMES_SHARE = 4 }; /* a part of symbol_memory_bytes, for each runtime */
#define SYMBOL_MEMORY_DEFAULT (UINT64_C(8) << 20)

/* Where a file lay in a process a moment ago: for the many names that are new at the same time. */
enum { BIASES_KEPT = 16, MAPS_BYTES_MOST = 16 << 20 };
#define BIAS_KEPT_NS (2 * SECOND_NS)
struct known_bias {
	uint64_t executable, bias, read_ns; /* executable: its id */
	uint32_t pid;
};

struct naming {
	struct symbolizer *symbolizer;
	struct namer inner, outer;
	pthread_mutex_t
		lock;        /* held while names are asked for: agent and seam stay what they are */
	struct agent *agent; /* lock; NULL: none runs now */
	struct seam *seam;   /* lock */

	/* Runtimes read memory while names are asked for, and from the trace thread. */
	pthread_rwlock_t memory_lock;
	struct seam *memory_seam; /* memory_lock */
	pthread_mutex_t bias_lock;
	struct known_bias biases[BIASES_KEPT]; /* bias_lock */
	uint32_t next_bias;                    /* bias_lock */
	struct runtime_memory memory;
	struct cpython_names *cpython;
	struct hotspot_names *hotspot;
	struct frame_names *php, *ruby, *v8;
	struct namer runtimes[FRAME_KIND_COUNT]; /* by kind; name is NULL where there is none */
};

/* ---- how files are got at; called with the lock held, from inside naming_name() ---- */

static bool no_agent(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "no sampler runs now");
}

static bool open_executable(void *ctx, const struct executable *e, int *fd, struct err *err)
{
	struct naming *n = ctx;

	return n->agent ? agent_open_executable(n->agent, e, fd, err) : no_agent(err);
}

/* A file of this machine (debug symbols): nothing but a regular one, and no waiting for a FIFO. */
static bool open_own_path(const char *path, int *fd, struct err *err)
{
	int own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (own < 0)
		return err_set_errno(err, "%s", path);
	if (fstat(own, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(own);
		return err_set(err, ERR_INVALID, "%s is no regular file", path);
	}
	*fd = own;
	return true;
}

static bool open_path(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err)
{
	struct naming *n = ctx;

	if (pid == 0)
		return open_own_path(path, fd, err);
	return n->seam ? n->seam->ops->open_in_root(n->seam, pid, path, fd, err) : no_agent(err);
}

static bool open_proc(struct naming *n, uint32_t pid, enum seam_proc_file file, int *fd,
		      struct err *err)
{
	return n->seam ? n->seam->ops->open_proc(n->seam, pid, file, fd, err) : no_agent(err);
}

static bool open_status(void *ctx, uint32_t pid, int *fd, struct err *err)
{
	return open_proc(ctx, pid, SEAM_PROC_STATUS, fd, err);
}

static bool open_maps(void *ctx, uint32_t pid, int *fd, struct err *err)
{
	return open_proc(ctx, pid, SEAM_PROC_MAPS, fd, err);
}

static bool open_kallsyms(void *ctx, int *fd, struct err *err)
{
	struct naming *n = ctx;

	return n->seam ? n->seam->ops->open_kallsyms(n->seam, fd, err) : no_agent(err);
}

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct naming *n = ctx;
	struct err err;
	size_t got = 0;
	bool ok;

	pthread_rwlock_rdlock(&n->memory_lock);
	ok = n->memory_seam &&
	     n->memory_seam->ops->read_memory(n->memory_seam, pid, address, to, bytes, &got, &err);
	pthread_rwlock_unlock(&n->memory_lock);
	return ok && got == bytes;
}

static bool known_bias(struct naming *n, uint32_t pid, uint64_t executable, uint64_t *bias)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool found = false;

	pthread_mutex_lock(&n->bias_lock);
	for (uint32_t i = 0; i < BIASES_KEPT && !found; i++) {
		const struct known_bias *b = &n->biases[i];

		found = b->read_ns && b->pid == pid && b->executable == executable &&
			now_ns - b->read_ns < BIAS_KEPT_NS;
		if (found)
			*bias = b->bias;
	}
	pthread_mutex_unlock(&n->bias_lock);
	return found;
}

static void keep_bias(struct naming *n, uint32_t pid, uint64_t executable, uint64_t bias)
{
	pthread_mutex_lock(&n->bias_lock);
	n->biases[n->next_bias++ % BIASES_KEPT] =
		(struct known_bias){ executable, bias, clock_monotonic_ns(), pid };
	pthread_mutex_unlock(&n->bias_lock);
}

static bool load_bias(void *ctx, uint32_t pid, const struct executable *e, uint64_t *bias)
{
	struct naming *n = ctx;
	struct buf maps;
	bool ok;

	if (known_bias(n, pid, e->id, bias))
		return true;
	buf_init(&maps, MAPS_BYTES_MOST);
	pthread_rwlock_rdlock(&n->memory_lock);
	ok = n->memory_seam && read_proc(n->memory_seam, pid, SEAM_PROC_MAPS, &maps);
	pthread_rwlock_unlock(&n->memory_lock);
	ok = ok && load_bias_find(buf_view(&maps), e, bias);
	buf_release(&maps);
	if (ok)
		keep_bias(n, pid, e->id, *bias);
	return ok;
}

/* ---- the namer ---- */

static bool name_frame(void *ctx, const struct trace_frame *frame, struct process_info *process,
		       struct frame_name *out)
{
	struct naming *n = ctx;
	const struct namer *runtime = &n->runtimes[frame->kind];
	bool named;

	if (runtime->name)
		return runtime->name(runtime->ctx, frame, process, out);
	pthread_mutex_lock(&n->lock);
	named = n->inner.name(n->inner.ctx, frame, process, out);
	if (!n->agent) /* what could not be opened now may be later */
		out->final = false;
	pthread_mutex_unlock(&n->lock);
	return named;
}

static void prepare_frame(void *ctx, const struct trace_frame *frame, struct process_info *process)
{
	const struct naming *n = ctx;
	const struct namer *runtime = &n->runtimes[frame->kind];

	if (runtime->prepare)
		runtime->prepare(runtime->ctx, frame, process);
}

static void begin_report(void *ctx, uint64_t budget_ns)
{
	struct naming *n = ctx;

	if (n->inner.begin)
		n->inner.begin(n->inner.ctx, budget_ns);
}

struct naming *naming_new(const struct naming_options *options)
{
	uint64_t memory =
		options->symbol_memory_bytes ? options->symbol_memory_bytes : SYMBOL_MEMORY_DEFAULT;
	struct naming *n = calloc(1, sizeof(*n));
	struct symbolizer_options symbols = { .memory_bytes = options->symbol_memory_bytes,
					      .lines = options->inlines,
					      .cache_dir = options->cache_dir,
					      .debuginfod_urls = options->debuginfod_urls,
					      .debuginfod_wait_ns = options->debuginfod_wait_ns };
	const struct symbol_access access = { .open_executable = open_executable,
					      .open_path = open_path,
					      .open_status = open_status,
					      .open_maps = open_maps,
					      .open_kallsyms = open_kallsyms,
					      .ctx = n };

	assert(n);
	pthread_mutex_init(&n->lock, NULL);
	pthread_rwlock_init(&n->memory_lock, NULL);
	pthread_mutex_init(&n->bias_lock, NULL);
	n->memory = (struct runtime_memory){ read_memory, n, load_bias };
	n->cpython = cpython_names_new(&n->memory, memory / RUNTIME_NAMES_SHARE);
	n->runtimes[FRAME_CPYTHON] = cpython_names_namer(n->cpython);
	n->hotspot = hotspot_names_new(&n->memory, memory / RUNTIME_NAMES_SHARE);
	n->runtimes[FRAME_HOTSPOT] = hotspot_names_namer(n->hotspot);
	n->php = frame_names_new(&php_names, &n->memory, memory / RUNTIME_NAMES_SHARE);
	n->runtimes[FRAME_PHP] = frame_names_namer(n->php);
	n->ruby = frame_names_new(&ruby_names, &n->memory, memory / RUNTIME_NAMES_SHARE);
	n->runtimes[FRAME_RUBY] = frame_names_namer(n->ruby);
	n->v8 = frame_names_new(&v8_names, &n->memory, memory / RUNTIME_NAMES_SHARE);
	n->runtimes[FRAME_V8] = frame_names_namer(n->v8);
	n->symbolizer = symbolizer_new(&symbols, &access);
	n->inner = symbolizer_namer(n->symbolizer);
	n->outer = (struct namer){
		.name = name_frame, .prepare = prepare_frame, .begin = begin_report, .ctx = n
	};
	return n;
}

void naming_bind(struct naming *n, struct agent *agent, struct seam *seam)
{
	pthread_mutex_lock(&n->lock);
	n->agent = agent;
	n->seam = seam;
	pthread_mutex_unlock(&n->lock);
	pthread_rwlock_wrlock(&n->memory_lock);
	n->memory_seam = seam;
	pthread_rwlock_unlock(&n->memory_lock);
}

void naming_kernel_changed(struct naming *n)
{
	symbolizer_kernel_changed(n->symbolizer);
}

void naming_free(struct naming *n)
{
	if (!n)
		return;
	symbolizer_free(n->symbolizer);
	cpython_names_free(n->cpython);
	hotspot_names_free(n->hotspot);
	frame_names_free(n->php);
	frame_names_free(n->ruby);
	frame_names_free(n->v8);
	pthread_rwlock_destroy(&n->memory_lock);
	pthread_mutex_destroy(&n->bias_lock);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

const struct namer *naming_namer(const struct naming *n)
{
	return &n->outer;
}

uint64_t naming_bytes(const struct naming *n)
{
	struct symbolizer_stats stats;
	struct cpython_names_stats cpython;
	struct hotspot_names_stats hotspot;
	struct frame_names_stats php, ruby, v8;

	symbolizer_stats(n->symbolizer, &stats);
	cpython_names_stats(n->cpython, &cpython);
	hotspot_names_stats(n->hotspot, &hotspot);
	frame_names_stats(n->php, &php);
	frame_names_stats(n->ruby, &ruby);
	frame_names_stats(n->v8, &v8);
	return stats.memory_bytes + cpython.bytes + hotspot.bytes + php.bytes + ruby.bytes +
	       v8.bytes;
}
