/*
 * The life of processes as the side band tells it, over a seam that serves made-up files of /proc:
 * what the table knows then, and what BPF was told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/process/table.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { FAKES = 8 };

struct fake_process {
	uint32_t pid;
	const char *maps, *exe, *cgroup, *environ, *cmdline, *stat;
};

struct rig {
	struct seam seam; /* first */
	struct fake_process fakes[FAKES];
	uint32_t maps_reads;
	struct unwind_store store;
	struct mapping_sets sets;
	struct modules modules;
	struct process_table table;
	struct filter *filter;
};

static const struct fake_process *fake_of(struct seam *s, uint32_t pid)
{
	const struct rig *r = (const struct rig *)(void *)s;

	for (int i = 0; i < FAKES; i++)
		if (r->fakes[i].pid == pid)
			return &r->fakes[i];
	return NULL;
}

static bool fake_open_proc(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
			   struct err *err)
{
	const struct fake_process *f = fake_of(s, pid);
	const char *text = NULL;

	if (f)
		text = file == SEAM_PROC_MAPS      ? f->maps
		       : file == SEAM_PROC_CGROUP  ? f->cgroup
		       : file == SEAM_PROC_ENVIRON ? f->environ
		       : file == SEAM_PROC_CMDLINE ? f->cmdline
		       : file == SEAM_PROC_STAT    ? f->stat
						   : NULL;
	((struct rig *)(void *)s)->maps_reads += file == SEAM_PROC_MAPS;
	if (!text)
		return err_set(err, ERR_NOT_FOUND, "no such process");
	*fd = memfd_create("proc", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(write(*fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(*fd, 0, SEEK_SET), 0);
	return true;
}

static bool fake_exe_path(struct seam *s, uint32_t pid, char *path, size_t cap, struct err *err)
{
	const struct fake_process *f = fake_of(s, pid);

	if (!f || !f->exe)
		return err_set(err, ERR_NOT_FOUND, "no such process");
	snprintf(path, cap, "%s", f->exe);
	return true;
}

static bool fake_list(struct seam *s, uint32_t *pids, uint32_t cap, uint32_t *count,
		      struct err *err)
{
	const struct rig *r = (const struct rig *)(void *)s;

	(void)cap;
	(void)err;
	*count = 0;
	for (int i = 0; i < FAKES; i++)
		if (r->fakes[i].pid)
			pids[(*count)++] = r->fakes[i].pid;
	return true;
}

static bool fake_open_mapped(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
			     struct err *err)
{
	(void)s;
	(void)pid;
	(void)fd;
	return err_set(err, ERR_NOT_FOUND, "%s", file->path);
}

static const struct seam_ops fake_ops = {
	.open_proc = fake_open_proc,
	.exe_path = fake_exe_path,
	.list = fake_list,
	.open_mapped = fake_open_mapped,
};

static void set_up(struct rig *r, const struct agent_filter *filter)
{
	static const struct agent_filter everything;
	struct err err;

	memset(r, 0, sizeof(*r));
	r->seam.ops = &fake_ops;
	assert_true(unwind_store_open_local(&r->store, 1 << 20, &err));
	r->sets = (struct mapping_sets){ .run_free = unwind_store_retire_run, .ctx = &r->store };
	modules_init(&r->modules, &r->store, &r->seam, &r->sets);
	r->filter = filter_new(filter ? filter : &everything, &err);
	assert_non_null(r->filter);
	r->table = (struct process_table){ .seam = &r->seam,
					   .store = &r->store,
					   .modules = &r->modules,
					   .sets = &r->sets,
					   .filter = r->filter };
	process_table_init(&r->table);
}

static void tear_down(struct rig *r)
{
	process_table_release(&r->table);
	assert_null(r->sets.first); /* no set outlives its processes */
	modules_release(&r->modules);
	filter_free(r->filter);
	unwind_store_tick(&r->store, 100 * STORE_GRACE_NS);
	assert_int_equal(r->store.mapping_runs.used, 0);
	unwind_store_close(&r->store);
}

static void tell_fork(struct rig *r, uint32_t pid, uint32_t ppid, uint64_t time)
{
	process_table_apply(
		&r->table,
		&(struct side_record){
			.kind = SIDE_FORK, .pid = pid, .tid = pid, .ppid = ppid, .time_ns = time });
}

static void tell_exec(struct rig *r, uint32_t pid, const char *comm, uint64_t time)
{
	process_table_apply(&r->table, &(struct side_record){ .kind = SIDE_EXEC,
							      .pid = pid,
							      .tid = pid,
							      .time_ns = time,
							      .name = str_cstr(comm) });
}

static void tell_mmap(struct rig *r, uint32_t pid, uint64_t start, uint64_t length, uint64_t inode,
		      const char *name)
{
	process_table_apply(&r->table, &(struct side_record){ .kind = SIDE_MMAP,
							      .pid = pid,
							      .tid = pid,
							      .start = start,
							      .length = length,
							      .inode = inode,
							      .device = 1,
							      .executable = true,
							      .name = str_cstr(name) });
}

static void tell_exit(struct rig *r, uint32_t pid, uint32_t tid)
{
	process_table_apply(&r->table,
			    &(struct side_record){ .kind = SIDE_EXIT, .pid = pid, .tid = tid });
}

static struct sample_record sample_of(uint32_t pid, uint64_t started, uint32_t exec_id)
{
	return (struct sample_record){ .kind = RECORD_SAMPLE,
				       .pid = pid,
				       .tid = pid,
				       .start_boottime_ns = started,
				       .exec_id = exec_id,
				       .comm = "sampled" };
}

#define MAPS                                                                      \
	"00400000-00401000 r--p 00000000 fe:01 7                  /bin/server\n"  \
	"00401000-00405000 r-xp 00001000 fe:01 7                  /bin/server\n"  \
	"7f0000000000-7f0000100000 r-xp 00020000 fe:01 9          /lib/libc.so\n" \
	"7f0000200000-7f0000201000 rwxp 00000000 00:00 0 \n"                      \
	"7ffff7fc0000-7ffff7fc2000 r-xp 00000000 00:00 0          [vdso]\n"       \
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n"

static void test_scan(void **state)
{
	struct process *p;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	r.fakes[1] = (struct fake_process){ .pid = 11, .maps = "" }; /* a kernel thread */
	assert_true(process_table_scan(&r.table, &err));
	p = process_table_find(&r.table, 10);
	assert_non_null(p);
	assert_int_equal(p->set->count, 4); /* not [vsyscall], not what is no code */
	assert_null(mapping_set_find(p->set, 0x400000));
	assert_non_null(mapping_set_find(p->set, 0x401000)->module);
	assert_null(mapping_set_find(p->set, 0x7f0000200000)->module); /* anonymous */
	assert_true(process_table_find(&r.table, 11)->kernel_thread);
	/* All that run at the start are told to BPF at once. */
	process_table_publish(&r.table);
	assert_int_equal(r.store.mapping_runs.used, 4);
	tear_down(&r);
}

/* Who has no time to read all of /proc reads what is asked for. */
static void test_scan_in_parts(void **state)
{
	const uint32_t asked_for[] = { 12 };
	const struct agent_filter filter = { .pids = asked_for, .pid_count = 1 };
	struct err err;
	struct rig r;
	bool whole;

	(void)state;
	set_up(&r, &filter);
	for (uint32_t i = 0; i < 3; i++)
		r.fakes[i] = (struct fake_process){ .pid = 10 + i, .maps = MAPS, .exe = "/bin/x" };
	assert_true(process_table_scan_until(&r.table, 0, &whole, &err));
	assert_false(whole);
	assert_non_null(process_table_find(&r.table, 12));
	assert_null(process_table_find(&r.table, 10));
	assert_true(process_table_scan_until(&r.table, UINT64_MAX, &whole, &err));
	assert_true(whole);
	assert_true(process_table_scan_until(&r.table, 0, &whole, &err)); /* nothing is left */
	assert_true(whole);
	assert_int_equal(r.table.count, 3);
	tear_down(&r);
}

/* Prefork servers: children run on the parent's set until one of them maps something. */
static void test_fork_shares(void **state)
{
	struct process *parent, *child, *other;
	struct sample_record s = sample_of(10, 5, 1);
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	assert_true(process_table_scan(&r.table, &err));
	parent = process_table_get(&r.table, &s);
	assert_true(process_wanted(&r.table, parent));
	process_table_publish(&r.table);
	assert_true(parent->published);
	tell_fork(&r, 20, 10, 100);
	tell_fork(&r, 21, 10, 101);
	child = process_table_find(&r.table, 20);
	other = process_table_find(&r.table, 21);
	assert_ptr_equal(child->set, parent->set);
	assert_int_equal(parent->set->refs, 3);
	process_table_publish(&r.table);
	assert_true(child->published);
	assert_int_equal(r.store.mapping_runs.used, 4); /* one run for all three */
	tell_mmap(&r, 20, 0x7f1000000000, 0x1000, 77, "/lib/plugin.so");
	assert_ptr_not_equal(child->set, parent->set);
	assert_ptr_equal(other->set, parent->set);
	assert_int_equal(child->set->count, 5);
	process_table_publish(&r.table);
	assert_int_equal(r.store.mapping_runs.used, 9);
	/* A thread is no process. */
	process_table_apply(
		&r.table,
		&(struct side_record){ .kind = SIDE_FORK, .pid = 10, .tid = 30, .ppid = 10 });
	assert_null(process_table_find(&r.table, 30));
	tell_exit(&r, 10, 30);
	assert_non_null(process_table_find(&r.table, 10));
	/* Its first thread ends, the others go on; then they end, too. */
	tell_exit(&r, 10, 10);
	process_table_bury(&r.table, 2 * SECOND_NS);
	assert_ptr_equal(process_table_find(&r.table, 10), parent);
	r.fakes[0].exe = NULL;
	process_table_bury(&r.table, 2 * SECOND_NS + 1); /* not again within a second */
	assert_ptr_equal(process_table_find(&r.table, 10), parent);
	process_table_bury(&r.table, 4 * SECOND_NS);
	assert_null(process_table_find(&r.table, 10));
	assert_int_equal(r.table.ended_count, 0);
	assert_int_equal(other->set->count, 4);
	/* One that never had another thread is known for a moment, but not to BPF: exit() goes on.
	 */
	s = sample_of(21, 0, 1);
	tell_exit(&r, 21, 21);
	assert_ptr_equal(process_table_get(&r.table, &s), other);
	process_table_publish(&r.table);
	assert_false(other->published);
	process_table_bury(&r.table, 6 * SECOND_NS);
	assert_null(process_table_find(&r.table, 21));
	tear_down(&r);
}

/* A child that calls exec() and is gone before anybody could read its /proc. */
static void test_short_life(void **state)
{
	struct sample_record s = sample_of(20, 50, 2);
	struct process_info *info;
	struct process *p;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){
		.pid = 10,
		.maps = MAPS,
		.exe = "/bin/sh",
		.cgroup = "0::/docker/"
			  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
	};
	assert_true(process_table_scan(&r.table, &err));
	s.pid = s.tid = 10;
	process_facts(&r.table, process_table_get(&r.table, &s));
	tell_fork(&r, 20, 10, 100);
	tell_exec(&r, 20, "burst", 101);
	tell_mmap(&r, 20, 0x555500000000, 0x1000, 5, "/opt/burst");
	tell_mmap(&r, 20, 0x7f0000000000, 0x1000, 9, "/lib/ld.so");
	s.pid = s.tid = 20;
	p = process_table_get(&r.table, &s);
	info = process_facts(&r.table, p);
	assert_true(str_is(info->executable_path, "/opt/burst"));
	assert_true(str_is(info->executable_name, "burst"));
	assert_true(str_has_prefix(info->container_id, STR("0123456789abcdef")));
	assert_int_equal(p->set->count, 2);
	tear_down(&r);
}

static void test_exec_replaces(void **state)
{
	struct sample_record s = sample_of(10, 5, 1);
	struct process *p;
	uint32_t image;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	assert_true(process_table_scan(&r.table, &err));
	p = process_table_get(&r.table, &s);
	assert_true(str_is(process_facts(&r.table, p)->executable_name, "server"));
	image = p->image;
	tell_exec(&r, 10, "other", 200);
	assert_int_not_equal(p->image, image);
	assert_int_equal(p->exec_id, 2);
	assert_int_equal(p->set->count, 0);
	tell_mmap(&r, 10, 0x400000, 0x1000, 8, "/bin/other");
	/* exec() counts up a moment after it has told: the same image. */
	image = p->image;
	assert_ptr_equal(process_table_get(&r.table, &s), p);
	assert_int_equal(p->image, image);
	s.exec_id = 2;
	process_table_get(&r.table, &s);
	assert_int_equal(p->image, image);
	assert_true(str_is(process_facts(&r.table, p)->executable_name, "other"));
	/* An exec() that nobody told of: /proc is asked. */
	r.fakes[0].exe = "/bin/third";
	s.exec_id = 3;
	process_table_get(&r.table, &s);
	assert_int_not_equal(p->image, image);
	assert_int_equal(p->set->count, 4);
	assert_true(str_is(process_facts(&r.table, p)->executable_name, "third"));
	tear_down(&r);
}

static void test_pid_reused(void **state)
{
	struct sample_record s = sample_of(10, 5, 1);
	struct process *p;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	assert_true(process_table_scan(&r.table, &err));
	p = process_table_get(&r.table, &s);
	process_facts(&r.table, p);
	r.fakes[0].exe = "/bin/new";
	s.start_boottime_ns = 6; /* another process has the number, and its fork was lost */
	p = process_table_get(&r.table, &s);
	assert_true(str_is(process_facts(&r.table, p)->executable_name, "new"));
	tear_down(&r);
}

static void test_resync(void **state)
{
	struct sample_record s = sample_of(10, 5, 1);
	struct process *p;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, NULL);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	r.fakes[1] = (struct fake_process){ .pid = 11, .maps = MAPS, .exe = "/bin/server" };
	assert_true(process_table_scan(&r.table, &err));
	p = process_table_get(&r.table, &s);
	r.fakes[1] = (struct fake_process){ .pid = 12, .maps = MAPS, .exe = "/bin/late" };
	r.fakes[0].maps = "00400000-00401000 r-xp 00000000 fe:01 7 /bin/server\n";
	process_table_resync(&r.table);
	assert_null(process_table_find(&r.table, 11));
	assert_non_null(process_table_find(&r.table, 12));
	assert_int_equal(p->set->count, 1);
	assert_false(p->exec_id_known);
	/* Not more often than it helps. */
	assert_false(process_reread(&r.table, p, p->read_ns + 1));
	tear_down(&r);
}

static void test_filters(void **state)
{
	static const uint32_t pid_10 = 10;
	static const char *const cgroups[] = { "/kubepods/x" };
	static const struct {
		const char *what;
		struct agent_filter filter;
		bool wants_10, wants_11;
	} cases[] = {
		{ "nothing", { 0 }, true, true },
		{ "a pid", { .pids = &pid_10, .pid_count = 1 }, true, false },
		{ "executable name", { .process_regex = "^serv" }, true, false },
		{ "comm", { .process_regex = "^sampled$" }, true, true },
		{ "cgroup and what is below",
		  { .cgroups = cgroups, .cgroup_count = 1 },
		  true,
		  false },
		{ "both must agree",
		  { .process_regex = "^job", .cgroups = cgroups, .cgroup_count = 1 },
		  false,
		  false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sample_record s = sample_of(10, 5, 1), s11 = sample_of(11, 6, 1),
				     child = sample_of(20, 7, 1);
		struct process *p, *p11;
		struct err err;
		struct rig r;

		set_up(&r, &cases[i].filter);
		r.fakes[0] = (struct fake_process){ .pid = 10,
						    .maps = MAPS,
						    .exe = "/bin/server",
						    .cmdline = "server",
						    .cgroup = "0::/kubepods/x/y\n" };
		r.fakes[1] = (struct fake_process){ .pid = 11,
						    .maps = MAPS,
						    .exe = "/usr/bin/python3",
						    .cmdline = "python3",
						    .cgroup = "0::/kubepods/xy\n" };
		assert_true(process_table_scan(&r.table, &err));
		p = process_table_get(&r.table, &s);
		p11 = process_table_get(&r.table, &s11);
		if (process_wanted(&r.table, p) != cases[i].wants_10)
			fail_msg("%s: process 10", cases[i].what);
		if (process_wanted(&r.table, p11) != cases[i].wants_11)
			fail_msg("%s: process 11", cases[i].what);
		/* What it forks is wanted as it is. */
		tell_fork(&r, 20, 10, 100);
		assert_int_equal(process_wanted(&r.table, process_table_get(&r.table, &child)),
				 cases[i].wants_10);
		process_table_publish(&r.table);
		if (!cases[i].wants_10)
			assert_int_equal(p->verdict, PROCESS_DROP);
		tear_down(&r);
	}
}

/* Workers name themselves after fork(): the filter looks again. */
static void test_filter_and_new_names(void **state)
{
	const struct agent_filter kid = { .process_regex = "^kid$" };
	struct sample_record s = sample_of(20, 7, 1);
	struct side_record comm = { .kind = SIDE_COMM, .pid = 20, .tid = 20, .name = STR("kid") };
	struct process *p;
	struct err err;
	struct rig r;

	(void)state;
	set_up(&r, &kid);
	r.fakes[0] = (struct fake_process){ .pid = 10, .maps = MAPS, .exe = "/bin/server" };
	assert_true(process_table_scan(&r.table, &err));
	tell_fork(&r, 20, 10, 100);
	memcpy(s.comm, "server", 7);
	p = process_table_get(&r.table, &s);
	assert_false(process_wanted(&r.table, p));
	process_table_publish(&r.table);
	assert_true(p->published); /* as one to drop */
	process_table_apply(&r.table, &comm);
	assert_false(p->published); /* so that its next sample is seen */
	memcpy(s.comm, "kid", 4);
	assert_true(process_wanted(&r.table, process_table_get(&r.table, &s)));
	comm.name = STR("other");
	process_table_apply(&r.table, &comm);
	memcpy(s.comm, "other", 6);
	assert_false(process_wanted(&r.table, process_table_get(&r.table, &s)));
	tear_down(&r);
}

/* Of what runs already /proc tells who descends from the wanted, however it is called. */
static void test_descendants_that_run_already(void **state)
{
	static const struct fake_process fakes[] = {
		{ .pid = 9, .maps = "", .exe = "/o", .stat = "9 (other) S 1 9" },
		{ .pid = 10, .maps = "", .exe = "/w", .stat = "10 (wanted) S 9 10" },
		{ .pid = 11, .maps = "", .exe = "/c", .stat = "11 (child) S 10 10" },
		{ .pid = 12, .maps = "", .exe = "/g", .stat = "12 (x) S 9 (y) R 11 10" },
		{ .pid = 13, .maps = "", .exe = "/n", .stat = "13 (no 10) R 9 10" },
		{ .pid = 14, .maps = "", .exe = "/b", .stat = "14 cut" },
	};
	static const uint32_t pid_10 = 10;
	static const struct agent_filter filter = { .pids = &pid_10, .pid_count = 1 };
	struct rig r;
	struct err err;

	(void)state;
	set_up(&r, &filter);
	memcpy(r.fakes, fakes, sizeof(fakes));
	assert_true(process_table_scan(&r.table, &err));
	tell_fork(&r, 20, 12, 1); /* and what those start */
	for (uint32_t pid = 9; pid <= 20; pid++) {
		struct process *p = process_table_find(&r.table, pid);
		bool wanted = (pid >= 10 && pid <= 12) || pid == 20;

		if (!p)
			continue;
		p->kernel_thread = false; /* no maps: the fakes have none */
		if (process_wanted(&r.table, p) != wanted)
			fail_msg("process %u: wanted is %d", pid, !wanted);
	}
	tear_down(&r);
}

static void test_filter_text(void **state)
{
	const struct agent_filter bad = { .process_regex = "(" };
	const struct agent_filter script = { .process_regex = "^job\\.py$" };
	static const char line[] = "python3\0-u\0/srv/job.py\0--once";
	struct filter_subject s = { .command_line = { line, sizeof(line) } };
	struct filter *f;
	struct err err;

	(void)state;
	assert_null(filter_new(&bad, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	f = filter_new(&script, &err);
	assert_non_null(f);
	assert_true(filter_wants(f, &s));
	s.command_line = STR("python3");
	assert_false(filter_wants(f, &s));
	filter_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_fork_shares),
		cmocka_unit_test(test_short_life),
		cmocka_unit_test(test_exec_replaces),
		cmocka_unit_test(test_pid_reused),
		cmocka_unit_test(test_resync),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_filter_and_new_names),
		cmocka_unit_test(test_scan_in_parts),
		cmocka_unit_test(test_filter_text),
		cmocka_unit_test(test_descendants_that_run_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
