/* seam_remote.c - the worker's end of the seam. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervise/seam_wire.h"
#include "base/cleanup.h"

struct seam_remote {
	struct seam seam;
	int fd;
	pthread_mutex_t lock; /* one request at a time */
};

static struct seam_remote *remote_of(struct seam *s)
{
	return CONTAINER_OF(s, struct seam_remote, seam);
}

/* What a call wants back. */
struct answer {
	struct seam_reply reply;
	void *tail;
	size_t tail_room;
	int fds[SEAM_FDS_MOST];
	uint32_t fd_want; /* when it went well */
};

static bool exchange(struct seam_remote *r, struct seam_request *q, const void *tail,
		     struct answer *a, struct err *err)
{
	uint32_t fd_count;
	size_t got;

	if (!seam_packet_send(r->fd, q, sizeof(*q), tail, q->tail, NULL, 0, err) ||
	    !seam_packet_receive(r->fd, &a->reply, sizeof(a->reply), a->tail, a->tail_room, &got,
				 a->fds, SEAM_FDS_MOST, &fd_count, err))
		return false;
	if (got < sizeof(a->reply) || got - sizeof(a->reply) != a->reply.tail ||
	    fd_count != (a->reply.ok ? a->fd_want : 0)) {
		for (uint32_t i = 0; i < fd_count; i++)
			close(a->fds[i]);
		return err_set(err, ERR_UNAVAILABLE,
			       got ? "the sampler's answer makes no sense" : "the sampler is gone");
	}
	return true;
}

static bool call(struct seam *s, struct seam_request *q, const void *tail, size_t tail_bytes,
		 struct answer *a, struct err *err)
{
	struct seam_remote *r = remote_of(s);
	bool came;

	if (tail_bytes > SEAM_TAIL_MOST)
		return err_set(err, ERR_LIMIT, "a request of %zu bytes; %d is the most", tail_bytes,
			       SEAM_TAIL_MOST);
	q->tail = (uint32_t)tail_bytes;
	pthread_mutex_lock(&r->lock);
	came = exchange(r, q, tail, a, err);
	pthread_mutex_unlock(&r->lock);
	if (!came)
		return false;
	if (a->reply.ok)
		return true;
	err->kind = (enum err_kind)a->reply.err_kind;
	a->reply.msg[sizeof(a->reply.msg) - 1] = 0;
	memcpy(err->msg, a->reply.msg, sizeof(err->msg));
	return false;
}

static bool call_for_fd(struct seam *s, struct seam_request *q, const char *path, int *fd,
			struct err *err)
{
	struct answer a = { .fd_want = 1 };

	if (!call(s, q, path, path ? strlen(path) + 1 : 0, &a, err))
		return false;
	*fd = a.fds[0];
	return true;
}

static bool remote_attach(struct seam *s, const struct seam_options *options,
			  struct seam_maps *maps, struct err *err)
{
	size_t cpu_bytes = options->cpu_count * sizeof(uint32_t);
	struct seam_request q = { .op = SEAM_ATTACH };
	struct answer a = { .tail = maps, .tail_room = sizeof(*maps), .fd_want = 9 };
	struct seam_options plain = *options;
	char *tail;
	bool ok;

	if (options->cpu_count > SEAM_CPUS_MAX)
		return err_set(err, ERR_LIMIT, "%u CPUs; %d is the most", options->cpu_count,
			       SEAM_CPUS_MAX);
	tail = malloc(sizeof(plain) + cpu_bytes);
	assert(tail);
	plain.cpus = NULL;
	memcpy(tail, &plain, sizeof(plain));
	if (cpu_bytes)
		memcpy(tail + sizeof(plain), options->cpus, cpu_bytes);
	ok = call(s, &q, tail, sizeof(plain) + cpu_bytes, &a, err);
	free(tail);
	if (!ok)
		return false;
	maps->ring = a.fds[0];
	maps->processes = a.fds[1];
	maps->mappings = a.fds[2];
	maps->executables = a.fds[3];
	maps->pages = a.fds[4];
	maps->rules = a.fds[5];
	maps->runtimes = a.fds[6];
	maps->counters = a.fds[7];
	maps->cgroups = a.fds[8];
	return true;
}

static bool remote_side_band(struct seam *s, struct seam_side_band *out, struct err *err)
{
	struct seam_request q = { .op = SEAM_SIDE_BAND };
	struct answer a = { .fd_want = 1 };

	if (!call(s, &q, NULL, 0, &a, err))
		return false;
	*out = (struct seam_side_band){ .fd = a.fds[0], .cpu = (uint32_t)a.reply.numbers[0] };
	return true;
}

static bool remote_enable(struct seam *s, bool on, struct err *err)
{
	struct seam_request q = { .op = SEAM_ENABLE, .number = on };
	struct answer a = { .fd_want = 0 };

	return call(s, &q, NULL, 0, &a, err);
}

static bool remote_open_proc(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
			     struct err *err)
{
	struct seam_request q = { .op = SEAM_OPEN_PROC, .pid = pid, .number = file };

	return call_for_fd(s, &q, NULL, fd, err);
}

static bool remote_exe_path(struct seam *s, uint32_t pid, char *path, size_t cap, struct err *err)
{
	struct seam_request q = { .op = SEAM_EXE_PATH, .pid = pid, .bytes = cap };
	struct answer a = { .tail = path, .tail_room = cap };

	if (!call(s, &q, NULL, 0, &a, err))
		return false;
	if (a.reply.tail == 0 || path[a.reply.tail - 1] != 0)
		return err_set(err, ERR_UNAVAILABLE, "the sampler's answer makes no sense");
	return true;
}

static bool remote_list(struct seam *s, uint32_t *pids, uint32_t cap, uint32_t *count,
			struct err *err)
{
	uint32_t *part = malloc(SEAM_TAIL_MOST);
	uint32_t had = 0, got;
	bool ok;

	assert(part);
	do {
		struct seam_request q = { .op = SEAM_LIST, .number = had };
		struct answer a = { .tail = part, .tail_room = SEAM_TAIL_MOST };

		ok = call(s, &q, NULL, 0, &a, err);
		got = ok ? a.reply.tail / (uint32_t)sizeof(*part) : 0;
		for (uint32_t i = 0; i < got && had + i < cap; i++)
			pids[had + i] = part[i];
		had += got;
		*count = ok ? (uint32_t)a.reply.numbers[0] : *count;
	} while (ok && got == SEAM_PIDS_MOST && had < cap);
	free(part);
	return ok;
}

static bool remote_open_mapped(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
			       struct err *err)
{
	struct seam_request q = { .op = SEAM_OPEN_MAPPED,
				  .pid = pid,
				  .number = file->path != NULL,
				  .start = file->start,
				  .end = file->end,
				  .device = file->device,
				  .inode = file->inode };

	return call_for_fd(s, &q, file->path, fd, err);
}

static bool remote_open_in_root(struct seam *s, uint32_t pid, const char *path, int *fd,
				struct err *err)
{
	struct seam_request q = { .op = SEAM_OPEN_IN_ROOT, .pid = pid };

	return call_for_fd(s, &q, path, fd, err);
}

static bool remote_read_memory(struct seam *s, uint32_t pid, uint64_t address, void *to,
			       size_t bytes, size_t *got, struct err *err)
{
	size_t had = 0;

	while (had < bytes) {
		size_t part = bytes - had < SEAM_TAIL_MOST ? bytes - had : SEAM_TAIL_MOST;
		struct seam_request q = {
			.op = SEAM_READ_MEMORY, .pid = pid, .start = address + had, .bytes = part
		};
		struct answer a = { .tail = (char *)to + had, .tail_room = part };

		if (!call(s, &q, NULL, 0, &a, err)) {
			if (had == 0)
				return false;
			break; /* what came before is there */
		}
		had += a.reply.tail;
		if (a.reply.tail < part)
			break;
	}
	*got = had;
	return true;
}

static bool remote_open_kallsyms(struct seam *s, int *fd, struct err *err)
{
	struct seam_request q = { .op = SEAM_OPEN_KALLSYMS };

	return call_for_fd(s, &q, NULL, fd, err);
}

static bool remote_add_blocks(struct seam *s, uint32_t index, int *fd, struct err *err)
{
	struct seam_request q = { .op = SEAM_ADD_BLOCKS, .number = index };

	return call_for_fd(s, &q, NULL, fd, err);
}

static bool remote_drop_blocks(struct seam *s, uint32_t index, struct err *err)
{
	struct seam_request q = { .op = SEAM_DROP_BLOCKS, .number = index };
	struct answer a = { .fd_want = 0 };

	return call(s, &q, NULL, 0, &a, err);
}

static bool remote_load_walker(struct seam *s, uint32_t index, uint32_t steps, struct err *err)
{
	struct seam_request q = { .op = SEAM_LOAD_WALKER, .number = index, .bytes = steps };
	struct answer a = { .fd_want = 0 };

	return call(s, &q, NULL, 0, &a, err);
}

static bool remote_run_time(struct seam *s, uint64_t *ns, uint64_t *runs, struct err *err)
{
	struct seam_request q = { .op = SEAM_RUN_TIME };
	struct answer a = { .fd_want = 0 };

	if (!call(s, &q, NULL, 0, &a, err))
		return false;
	*ns = a.reply.numbers[0];
	*runs = a.reply.numbers[1];
	return true;
}

static void remote_free(struct seam *s)
{
	struct seam_remote *r = remote_of(s);

	close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static const struct seam_ops remote_ops = {
	.attach = remote_attach,
	.side_band = remote_side_band,
	.enable = remote_enable,
	.open_proc = remote_open_proc,
	.exe_path = remote_exe_path,
	.list = remote_list,
	.open_mapped = remote_open_mapped,
	.open_in_root = remote_open_in_root,
	.read_memory = remote_read_memory,
	.open_kallsyms = remote_open_kallsyms,
	.add_blocks = remote_add_blocks,
	.drop_blocks = remote_drop_blocks,
	.load_walker = remote_load_walker,
	.run_time = remote_run_time,
	.free = remote_free,
};

struct seam *seam_remote_new(int fd)
{
	struct seam_remote *r = calloc(1, sizeof(*r));

	assert(r);
	r->seam.ops = &remote_ops;
	r->fd = fd;
	pthread_mutex_init(&r->lock, NULL);
	return &r->seam;
}

int seam_remote_fd(const struct seam *s)
{
	return s->ops == &remote_ops ? ((const struct seam_remote *)s)->fd : -1;
}
