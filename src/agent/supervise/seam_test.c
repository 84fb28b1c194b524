/* The seam over a socketpair: a sampler that is made up on one end, the remote seam on the other.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/supervise/seam_wire.h"
#include "base/cleanup.h"

/* ---- a sampler that remembers what it was asked ---- */

struct fake {
	struct seam seam;
	struct seam_options options;
	uint32_t cpus[4];
	char said[300]; /* the last call, as text */
	uint32_t bands_left, pids;
};

static struct fake *fake_of(struct seam *s)
{
	return (struct fake *)s;
}

#define SAY(s, ...) snprintf(fake_of(s)->said, sizeof(fake_of(s)->said), __VA_ARGS__)

static int some_fd(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool fake_attach(struct seam *s, const struct seam_options *o, struct seam_maps *maps,
			struct err *err)
{
	struct fake *f = fake_of(s);

	(void)err;
	f->options = *o;
	if (o->cpu_count)
		memcpy(f->cpus, o->cpus, o->cpu_count * sizeof(*o->cpus));
	*maps = (struct seam_maps){ .ring = some_fd(),
				    .processes = some_fd(),
				    .mappings = some_fd(),
				    .executables = some_fd(),
				    .pages = some_fd(),
				    .rules = some_fd(),
				    .runtimes = some_fd(),
				    .counters = some_fd(),
				    .cgroups = some_fd() };
	maps->ring_bytes = 4711;
	return true;
}

static bool fake_side_band(struct seam *s, struct seam_side_band *out, struct err *err)
{
	err->kind = ERR_NONE;
	if (!fake_of(s)->bands_left)
		return false;
	*out = (struct seam_side_band){ some_fd(), --fake_of(s)->bands_left };
	return true;
}

static bool fake_enable(struct seam *s, bool on, struct err *err)
{
	SAY(s, "enable %d", on);
	return on || err_set(err, ERR_BUSY, "not off");
}

static bool fake_open_proc(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
			   struct err *err)
{
	(void)err;
	SAY(s, "proc %u %d", pid, (int)file);
	*fd = some_fd();
	return true;
}

static bool fake_exe_path(struct seam *s, uint32_t pid, char *path, size_t cap, struct err *err)
{
	SAY(s, "exe %u %zu", pid, cap);
	if (pid == 2)
		return err_set(err, ERR_NOT_FOUND, "no process 2");
	snprintf(path, cap, "/bin/x");
	return true;
}

static bool fake_list(struct seam *s, uint32_t *pids, uint32_t cap, uint32_t *count,
		      struct err *err)
{
	(void)err;
	*count = fake_of(s)->pids;
	for (uint32_t i = 0; i < *count && i < cap; i++)
		pids[i] = i + 1;
	return true;
}

static bool fake_open_mapped(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
			     struct err *err)
{
	(void)err;
	SAY(s, "mapped %u %llx-%llx %s %llu:%llu", pid, (unsigned long long)file->start,
	    (unsigned long long)file->end, file->path ? file->path : "(none)",
	    (unsigned long long)file->device, (unsigned long long)file->inode);
	*fd = some_fd();
	return true;
}

static bool fake_open_in_root(struct seam *s, uint32_t pid, const char *path, int *fd,
			      struct err *err)
{
	SAY(s, "root %u %s", pid, path);
	*fd = -1;
	return err_set(err, ERR_PERMISSION, "not %s", path);
}

/* Memory ends at 1 MiB. */
static bool fake_read_memory(struct seam *s, uint32_t pid, uint64_t address, void *to, size_t bytes,
			     size_t *got, struct err *err)
{
	enum { END = 1 << 20 };

	SAY(s, "memory %u %llx %zu", pid, (unsigned long long)address, bytes);
	if (address >= END)
		return err_set(err, ERR_NOT_FOUND, "nothing there");
	*got = bytes < END - address ? bytes : END - address;
	for (size_t i = 0; i < *got; i++)
		((uint8_t *)to)[i] = (uint8_t)((address + i) * 7);
	return true;
}

static bool fake_kallsyms(struct seam *s, int *fd, struct err *err)
{
	(void)s, (void)err;
	*fd = some_fd();
	return true;
}

static bool fake_add_blocks(struct seam *s, uint32_t index, int *fd, struct err *err)
{
	(void)err;
	SAY(s, "add %u", index);
	*fd = some_fd();
	return true;
}

static bool fake_drop_blocks(struct seam *s, uint32_t index, struct err *err)
{
	(void)err;
	SAY(s, "drop %u", index);
	return true;
}

static bool fake_load_walker(struct seam *s, uint32_t index, uint32_t steps, struct err *err)
{
	SAY(s, "walker %u %x", index, steps);
	return index < 32 || err_set(err, ERR_INVALID, "walker %u", index);
}

static bool fake_run_time(struct seam *s, uint64_t *ns, uint64_t *runs, struct err *err)
{
	(void)s, (void)err;
	*ns = 1ull << 40;
	*runs = 12;
	return true;
}

static const struct seam_ops fake_ops = {
	fake_attach,     fake_side_band,   fake_enable,       fake_open_proc,   fake_exe_path,
	fake_list,       fake_open_mapped, fake_open_in_root, fake_read_memory, fake_kallsyms,
	fake_add_blocks, fake_drop_blocks, fake_load_walker,  fake_run_time,    NULL,
};

/* ---- both ends ---- */

struct ends {
	struct fake fake;
	struct seam *remote;
	int sampler_fd;
	pthread_t thread;
	bool served;
	struct err err;
};

static void *serve(void *arg)
{
	struct ends *e = arg;

	e->served = seam_serve(e->sampler_fd, &e->fake.seam, NULL, &e->err);
	close(e->sampler_fd);
	return NULL;
}

static int ends_init_raw(struct ends *e)
{
	int fds[2];

	*e = (struct ends){ .fake.seam.ops = &fake_ops };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	e->sampler_fd = fds[0];
	assert_int_equal(pthread_create(&e->thread, NULL, serve, e), 0);
	return fds[1];
}

static void ends_init(struct ends *e)
{
	struct seam_options options = { .samples_per_second = 20 };
	struct seam_maps maps;
	struct err err;

	e->remote = NULL;
	e->remote = seam_remote_new(ends_init_raw(e));
	assert_true(e->remote->ops->attach(e->remote, &options, &maps, &err));
	for (int i = 0; i < 7; i++)
		close(((int *)&maps)[i]);
}

static void ends_release(struct ends *e)
{
	seam_free(e->remote);
	pthread_join(e->thread, NULL);
	assert_true(e->served); /* the end of the connection is no failure */
}

static void assert_fd(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

static void test_attach(void **state)
{
	const uint32_t cpus[] = { 3, 1, 7 };
	struct seam_options options = {
		.samples_per_second = 97, .cpu_count = 3, .cpus = cpus, .scale = 2
	};
	struct seam_maps maps;
	struct err err;
	struct ends e;

	(void)state;
	e.remote = NULL;
	int fd = ends_init_raw(&e);

	e.remote = seam_remote_new(fd);
	assert_false(e.remote->ops->enable(e.remote, true, &err)); /* nothing to switch on yet */
	assert_int_equal(err.kind, ERR_INVALID);
	assert_true(e.remote->ops->attach(e.remote, &options, &maps, &err));
	assert_int_equal(e.fake.options.samples_per_second, 97);
	assert_int_equal(e.fake.options.scale, 2);
	assert_memory_equal(e.fake.cpus, cpus, sizeof(cpus));
	assert_int_equal(maps.ring_bytes, 4711);
	assert_fd(maps.ring);
	assert_fd(maps.processes);
	assert_fd(maps.mappings);
	assert_fd(maps.executables);
	assert_fd(maps.pages);
	assert_fd(maps.rules);
	assert_fd(maps.runtimes);
	assert_fd(maps.counters);
	assert_fd(maps.cgroups);
	assert_false(e.remote->ops->attach(e.remote, &options, &maps, &err)); /* once only */
	ends_release(&e);
}

static void test_calls(void **state)
{
	struct seam_side_band band;
	struct seam_file file = { 0x1000, 0x2000, "/lib/y.so", 8, 99 };
	uint64_t ns, runs;
	char path[100];
	struct err err;
	struct ends e;
	int fd;

	(void)state;
	ends_init(&e);
	e.fake.bands_left = 1;
	assert_true(e.remote->ops->side_band(e.remote, &band, &err));
	assert_int_equal(band.cpu, 0);
	assert_fd(band.fd);
	assert_false(e.remote->ops->side_band(e.remote, &band, &err));
	assert_int_equal(err.kind, ERR_NONE);
	assert_true(e.remote->ops->enable(e.remote, true, &err));
	assert_string_equal(e.fake.said, "enable 1");
	assert_false(e.remote->ops->enable(e.remote, false, &err));
	assert_int_equal(err.kind, ERR_BUSY);
	assert_string_equal(err.msg, "not off");
	assert_true(e.remote->ops->open_proc(e.remote, 5, SEAM_PROC_CGROUP, &fd, &err));
	assert_string_equal(e.fake.said, "proc 5 4");
	assert_fd(fd);
	assert_true(e.remote->ops->exe_path(e.remote, 1, path, sizeof(path), &err));
	assert_string_equal(path, "/bin/x");
	assert_string_equal(e.fake.said, "exe 1 100");
	assert_false(e.remote->ops->exe_path(e.remote, 2, path, sizeof(path), &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	assert_true(e.remote->ops->open_mapped(e.remote, 6, &file, &fd, &err));
	assert_string_equal(e.fake.said, "mapped 6 1000-2000 /lib/y.so 8:99");
	assert_fd(fd);
	file.path = NULL;
	assert_true(e.remote->ops->open_mapped(e.remote, 6, &file, &fd, &err));
	assert_string_equal(e.fake.said, "mapped 6 1000-2000 (none) 8:99");
	assert_fd(fd);
	assert_false(e.remote->ops->open_in_root(e.remote, 7, "/tmp/perf-7.map", &fd, &err));
	assert_string_equal(err.msg, "not /tmp/perf-7.map");
	assert_true(e.remote->ops->open_kallsyms(e.remote, &fd, &err));
	assert_fd(fd);
	assert_true(e.remote->ops->add_blocks(e.remote, 17, &fd, &err));
	assert_fd(fd);
	assert_true(e.remote->ops->drop_blocks(e.remote, 17, &err));
	assert_string_equal(e.fake.said, "drop 17");
	assert_true(e.remote->ops->load_walker(e.remote, 31, UINT32_MAX, &err));
	assert_string_equal(e.fake.said, "walker 31 ffffffff");
	assert_false(e.remote->ops->load_walker(e.remote, 32, 1, &err));
	assert_true(e.remote->ops->run_time(e.remote, &ns, &runs, &err));
	assert_true(ns == 1ull << 40 && runs == 12);
	ends_release(&e);
}

/* More than a packet holds comes in several. */
static void test_large_answers(void **state)
{
	enum { PIDS = SEAM_PIDS_MOST * 2 + 5, BYTES = 700000 };
	uint32_t *pids = malloc(PIDS * sizeof(*pids)), count;
	uint8_t *memory = malloc(BYTES);
	struct err err;
	struct ends e;
	size_t got;

	(void)state;
	ends_init(&e);
	e.fake.pids = PIDS;
	assert_true(e.remote->ops->list(e.remote, pids, PIDS, &count, &err));
	assert_int_equal(count, PIDS);
	for (uint32_t i = 0; i < PIDS; i++)
		assert_int_equal(pids[i], i + 1);
	assert_true(e.remote->ops->list(e.remote, pids, 3, &count, &err));
	assert_int_equal(count, PIDS); /* there are more than were asked for */
	assert_true(e.remote->ops->read_memory(e.remote, 1, 1000, memory, BYTES, &got, &err));
	assert_int_equal(got, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		if (memory[i] != (uint8_t)((1000 + i) * 7))
			fail_msg("byte %zu", i);
	assert_true(e.remote->ops->read_memory(e.remote, 1, (1 << 20) - 200000, memory, BYTES, &got,
					       &err));
	assert_int_equal(got, 200000); /* where memory ends */
	assert_false(e.remote->ops->read_memory(e.remote, 1, 1 << 20, memory, 8, &got, &err));
	ends_release(&e);
	free(pids);
	free(memory);
}

static void test_the_sampler_is_gone(void **state)
{
	struct err err;
	int fds[2], fd;
	struct seam *remote;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	remote = seam_remote_new(fds[0]);
	close(fds[1]);
	assert_false(remote->ops->open_kallsyms(remote, &fd, &err));
	assert_int_equal(err.kind, ERR_UNAVAILABLE);
	seam_free(remote);
}

/* A worker that was taken over sends what it likes. */
static void test_bad_requests(void **state)
{
	static const struct {
		struct seam_request q;
		uint32_t tail_sent;
		bool ends; /* the connection */
	} cases[] = {
		{ { .op = 0 }, 0, false },
		{ { .op = 99 }, 0, false },
		{ { .op = SEAM_OPEN_PROC, .number = SEAM_PROC_FILES }, 0, false },
		{ { .op = SEAM_OPEN_IN_ROOT }, 0, false },              /* no path */
		{ { .op = SEAM_OPEN_IN_ROOT, .tail = 10 }, 10, false }, /* without its end */
		{ { .op = SEAM_OPEN_MAPPED, .number = 1, .tail = 9 }, 9, false },
		{ { .op = SEAM_OPEN_IN_ROOT, .tail = 60000 }, 60000, false }, /* too long */
		{ { .op = SEAM_ATTACH, .tail = 4 }, 4, false },
		{ { .op = SEAM_ATTACH, .tail = 4096 }, 4096, false }, /* CPUs beyond the packet */
		{ { .op = SEAM_LIST, .number = UINT32_MAX }, 0, false },
		{ { .op = SEAM_SIDE_BAND }, 0, false }, /* before attaching */
		{ { .op = SEAM_OPEN_IN_ROOT, .tail = 50 }, 20, true },
		{ { .op = SEAM_OPEN_IN_ROOT, .tail = UINT32_MAX }, 20, true },
	};
	char *tail = malloc(SEAM_TAIL_MOST);

	(void)state;
	memset(tail, 'x', SEAM_TAIL_MOST);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seam_reply reply;
		uint32_t fd_count;
		struct ends e;
		struct err err;
		int fds[8];
		size_t got;

		int fd = ends_init_raw(&e);

		assert_true(seam_packet_send(fd, &cases[i].q, sizeof(cases[i].q), tail,
					     cases[i].tail_sent, NULL, 0, &err));
		if (!seam_packet_receive(fd, &reply, sizeof(reply), NULL, 0, &got, fds, 8,
					 &fd_count, &err))
			fail_msg("case %zu: %s", i, err.msg);
		if ((got == 0) != cases[i].ends)
			fail_msg("case %zu: %zu bytes came", i, got);
		if (got && (reply.ok || !reply.msg[0]))
			fail_msg("case %zu was taken", i);
		assert_int_equal(fd_count, 0);
		close(fd);
		pthread_join(e.thread, NULL);
		assert_int_equal(e.served, !cases[i].ends);
	}
	free(tail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),        cmocka_unit_test(test_calls),
		cmocka_unit_test(test_large_answers), cmocka_unit_test(test_the_sampler_is_gone),
		cmocka_unit_test(test_bad_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
