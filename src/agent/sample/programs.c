#include "agent/sample/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sample/variant.h"
#include "base/cleanup.h"
#include "bpf/records.h"
#include "bpf/unwind_rows.h"
#include "sample.skel.h"
#include "sample_bounded.skel.h"

enum {
	RING_BYTES_DEFAULT = 1 << 20,
	RING_BYTES_MOST = 16 << 20,
	RECORD_BYTES_USUAL = 1024,
	CAPTURES_LEAST = 100,
	CAPTURES_MOST = 1000,
	SCALE_MOST = 8
};

/* Something that takes long in the kernel, on a thread of its own. */
struct part {
	pthread_t thread;
	bool threaded, ok;
	struct err err;
};

/* walk() once more, with other steps. */
struct walker {
	struct programs *programs;
	uint32_t index, steps;
	struct sample_bpf *object;
	struct part load;
	bool begun;
};

_Static_assert(sizeof(((struct sample_bpf *)0)->rodata->options) ==
		       sizeof(((struct sample_bounded_bpf *)0)->rodata->options),
	       "both compilations have one layout of options");

struct programs {
	struct sample_bpf *object;
	enum variant variant;
	struct seam_options options; /* of it nothing that is pointed to */
	struct walker walkers[UNWIND_WALKERS];
	uint32_t ring_bytes, cpu_count;
	int groups_fd;      /* of the outer map of rows; the object's */
	int first_group_fd; /* the rows of group 0; -1 */
	bool first_group_given;
	struct part load, first_group;
	bool loaded; /* both parts are over, and went well */
};

/* libbpf tells why something failed by printing: the first line is kept for the error, and of the
 * verifier's log the verdict. */
static _Thread_local char first_line[160], verdict[160];

/* The verdict is the last line before the figures. */
__attribute__((format(printf, 1, 0))) static void keep_verdict(const char *format, va_list ap)
{
	AUTO(ptr_free) char *log = NULL;
	char *last = NULL, *rest = NULL;

	if (vasprintf(&log, format, ap) < 0) {
		log = NULL;
		return;
	}
	for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "verification time ", 18) || !strncmp(line, "processed ", 10))
			break;
		last = line;
	}
	if (last)
		snprintf(verdict, sizeof(verdict), "%s", last);
}

__attribute__((format(printf, 2, 0))) static int keep_first_line(enum libbpf_print_level level,
								 const char *format, va_list ap)
{
	if (level == LIBBPF_WARN && strstr(format, "BEGIN PROG LOAD LOG"))
		keep_verdict(format, ap);
	else if (level == LIBBPF_WARN && !first_line[0]) {
		vsnprintf(first_line, sizeof(first_line), format, ap);
		first_line[strcspn(first_line, "\n")] = 0;
	}
	return 0;
}

static bool fail(struct err *err, int code, const char *what)
{
	errno = code < 0 ? -code : errno;
	if (verdict[0])
		return err_set(err, ERR_UNSUPPORTED, "%s: this kernel's verifier says: %s", what,
			       verdict);
	if (errno == EPERM || errno == EACCES)
		return err_set(err, ERR_PERMISSION,
			       "%s: not permitted; the capabilities BPF and PERFMON (or SYS_ADMIN) "
			       "are needed",
			       what);
	err_set_errno(err, "%s", what);
	if (first_line[0])
		err_prefix(err, "%s", first_line);
	return false;
}

/* What belongs to a pid is looked up in /proc: both have to be of one pid namespace. */
static bool proc_is_ours(struct err *err)
{
	char self[24] = "";
	ssize_t len = readlink("/proc/self", self, sizeof(self) - 1);
	int there;

	if (len <= 0)
		return err_set(
			err, ERR_UNSUPPORTED,
			"/proc does not know this process: mount the /proc of this pid namespace");
	there = (int)strtol(self, NULL, 10);
	return there == getpid() ||
	       err_set(err, ERR_UNSUPPORTED,
		       "/proc is another pid namespace's, in which this process is %d and not %d: "
		       "mount this one's (unshare --mount-proc; mount -t proc proc /proc)",
		       there, (int)getpid());
}

/* Both compilations have the same maps, programs and options: one skeleton serves them, with the
 * other's code. */
static struct sample_bpf *open_object(enum variant variant, const struct bpf_object_open_opts *opts)
{
	struct sample_bpf *o;

	if (variant == VARIANT_LOOP)
		return sample_bpf__open_opts(opts);
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	if (sample_bpf__create_skeleton(o) == 0) {
		o->skeleton->data = (void *)sample_bounded_bpf__elf_bytes(&o->skeleton->data_sz);
		if (bpf_object__open_skeleton(o->skeleton, opts) == 0)
			return o;
	}
	sample_bpf__destroy(o);
	return NULL;
}

/* In a pid namespace of our own, BPF must count pids as we do. */
static void set_pid_namespace(struct sample_bpf *o)
{
	enum { ROOT_PIDNS_INO = 0xEFFFFFFC }; /* PROC_PID_INIT_INO, part of the kernel's ABI */
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != (ino_t)ROOT_PIDNS_INO) {
		o->rodata->options.pidns_dev = st.st_dev;
		o->rodata->options.pidns_ino = st.st_ino;
	}
}

/* A second of samples of usual size from all CPUs, in 1 to 16 MiB. */
static uint32_t ring_for(const struct seam_options *options, uint32_t cpus)
{
	uint64_t need = (uint64_t)options->samples_per_second * cpus * RECORD_BYTES_USUAL;
	uint32_t bytes = RING_BYTES_DEFAULT;

	while (bytes < need && bytes < RING_BYTES_MOST)
		bytes *= 2;
	return bytes;
}

/* Every sample may carry its stack: where programs of a few milliseconds follow each other (a
 * build, a shell), BPF knows none of them when their samples come, and what is not copied is lost.
 * Past 1,000 a second it would cost too much; a second is one of 2^30 ns. */
static uint32_t captures_for(const struct seam_options *options)
{
	uint32_t rate = options->samples_per_second, all = rate + rate / 8;
	uint32_t most = rate / 4 > CAPTURES_MOST ? rate / 4 : CAPTURES_MOST;

	if (options->captures_per_second)
		return options->captures_per_second;
	if (all < CAPTURES_LEAST)
		return CAPTURES_LEAST;
	return all < most ? all : most;
}

static bool set_options(struct programs *p, struct sample_bpf *o,
			const struct seam_options *options)
{
	uint32_t scale = options->scale > SCALE_MOST ? SCALE_MOST : options->scale;

	p->cpu_count = (uint32_t)libbpf_num_possible_cpus();
	p->ring_bytes = options->ring_bytes ? options->ring_bytes : ring_for(options, p->cpu_count);
	o->rodata->options.send_idle = options->send_idle;
	o->rodata->options.only_listed = options->only_listed;
	o->rodata->options.ring_wake_bytes = p->ring_bytes / 2;
	o->rodata->options.ring_look_bytes = p->ring_bytes / 8 / p->cpu_count;
	/* Its walker is the native one; labels are copied before a walk. */
	o->rodata->options.steps_enabled = options->steps & 1u << UNWIND_STEP_GO;
	o->rodata->options.captures_per_second = captures_for(options);
	o->rodata->options.capture_bytes =
		options->capture_bytes && options->capture_bytes < UNWIND_CAPTURE_MAX
			? options->capture_bytes
			: UNWIND_CAPTURE_MAX;
	set_pid_namespace(o);
	return bpf_map__set_max_entries(o->maps.ring, p->ring_bytes) == 0 &&
	       bpf_map__set_max_entries(o->maps.counters, p->cpu_count) == 0 &&
	       bpf_map__set_max_entries(o->maps.known, p->cpu_count * UNWIND_KNOWN_SLOTS) == 0 &&
	       bpf_map__set_max_entries(o->maps.known_pages, p->cpu_count * UNWIND_KNOWN_PAGES) ==
		       0 &&
	       bpf_map__set_max_entries(o->maps.mappings, bpf_map__max_entries(o->maps.mappings)
								  << scale) == 0 &&
	       bpf_map__set_max_entries(o->maps.executables,
					bpf_map__max_entries(o->maps.executables) << scale) == 0 &&
	       bpf_map__set_max_entries(o->maps.pages, bpf_map__max_entries(o->maps.pages)
							       << scale) == 0 &&
	       bpf_map__set_max_entries(o->maps.runtimes, bpf_map__max_entries(o->maps.runtimes)
								  << (scale < 5 ? scale : 5)) == 0;
}

/* ---- maps ---- */

static bool fail_map(struct err *err, int code)
{
	struct rlimit limit;

	if (code == -EPERM && maps_are_locked_memory() && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		return err_set(err, ERR_LIMIT,
			       "making the BPF maps: this kernel counts them as locked memory, "
			       "limited to %llu bytes: ulimit -l unlimited (systemd: "
			       "LimitMEMLOCK=infinity)",
			       (unsigned long long)limit.rlim_cur);
	return fail(err, code, "making the BPF maps");
}

static int make_group(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, create, .map_flags = BPF_F_MMAPABLE);

	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_rows", sizeof(uint32_t),
			      UNWIND_BLOCK_ROWS * sizeof(struct unwind_row), UNWIND_GROUP_BLOCKS,
			      &create);
}

/* The kernel waits for all walks that may run: 10 to 90 ms. */
static bool put_group(int groups_fd, uint32_t index, int group, struct err *err)
{
	return bpf_map_update_elem(groups_fd, &index, &group, BPF_ANY) == 0 ||
	       fail(err, 0, "adding unwind rows");
}

/* libbpf makes maps only when it loads programs, too late for those who want to fill them. */
static bool make_map(struct programs *p, struct bpf_map *map, struct err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, create, .map_flags = bpf_map__map_flags(map));
	AUTO(fd_close) int fd = -1;
	int code;

	if (bpf_map__type(map) == BPF_MAP_TYPE_ARRAY_OF_MAPS)
		create.inner_map_fd = (uint32_t)p->first_group_fd;
	fd = bpf_map_create(bpf_map__type(map), bpf_map__name(map), bpf_map__key_size(map),
			    bpf_map__value_size(map), bpf_map__max_entries(map), &create);
	code = fd < 0 ? fd : bpf_map__reuse_fd(map, fd);
	if (code < 0) {
		fail_map(err, code);
		return err_prefix(err, "map %s", bpf_map__name(map));
	}
	return true;
}

static bool make_maps(struct programs *p, struct err *err)
{
	struct bpf_map *map;

	p->first_group_fd = make_group();
	if (p->first_group_fd < 0)
		return fail_map(err, p->first_group_fd);
	bpf_object__for_each_map(map, p->object->obj) if (!bpf_map__is_internal(map) &&
							  !make_map(p, map, err)) return false;
	p->groups_fd = bpf_map__fd(p->object->maps.row_groups);
	return true;
}

/* ---- what takes long ---- */

static bool put_walker(struct programs *p, uint32_t index, struct sample_bpf *o, struct err *err)
{
	int fd = bpf_program__fd(o->progs.walk);

	return bpf_map_update_elem(bpf_map__fd(p->object->maps.walkers), &index, &fd, BPF_ANY) ==
		       0 ||
	       fail(err, 0, "putting a walker into place");
}

static void *load(void *arg)
{
	struct programs *p = arg;
	int code;

	first_line[0] = verdict[0] = 0;
	code = sample_bpf__load(p->object);
	p->load.ok = (code == 0 || fail(&p->load.err, code, "loading the BPF programs")) &&
		     put_walker(p, UNWIND_WALKER_NATIVE, p->object, &p->load.err);
	return NULL;
}

/* All maps are the first object's. */
static bool share_maps(const struct programs *p, struct sample_bpf *o, struct err *err)
{
	struct bpf_map *map, *other;

	bpf_object__for_each_map(map, o->obj)
	{
		if (bpf_map__is_internal(map))
			continue;
		other = bpf_object__find_map_by_name(p->object->obj, bpf_map__name(map));
		if (bpf_map__reuse_fd(map, bpf_map__fd(other)) < 0)
			return fail(err, 0, "sharing the BPF maps");
	}
	return true;
}

static void *load_walker(void *arg)
{
	LIBBPF_OPTS(bpf_object_open_opts, open);
	struct walker *w = arg;
	struct programs *p = w->programs;
	int code;

	first_line[0] = verdict[0] = 0;
	w->object = open_object(p->variant, &open);
	if (!w->object) {
		fail(&w->load.err, 0, "opening the BPF object");
		return NULL;
	}
	bpf_program__set_autoload(w->object->progs.sample_on_cpu, false);
	if (!set_options(p, w->object, &p->options)) {
		err_set(&w->load.err, ERR_INVALID, "the sizes of the BPF maps: %s", first_line);
		return NULL;
	}
	w->object->rodata->options.steps_enabled = w->steps;
	if (!share_maps(p, w->object, &w->load.err))
		return NULL;
	code = sample_bpf__load(w->object);
	w->load.ok = (code == 0 || fail(&w->load.err, code, "loading a walker")) &&
		     put_walker(p, w->index, w->object, &w->load.err);
	return NULL;
}

static void *put_first_group(void *arg)
{
	struct programs *p = arg;

	p->first_group.ok = put_group(p->groups_fd, 0, p->first_group_fd, &p->first_group.err);
	return NULL;
}

static void start_part(struct part *part, void *(*run)(void *), void *arg)
{
	part->threaded = pthread_create(&part->thread, NULL, run, arg) == 0;
	if (!part->threaded) /* then the caller waits */
		run(arg);
}

static void end_part(struct part *part)
{
	if (part->threaded)
		pthread_join(part->thread, NULL);
	part->threaded = false;
}

static bool choose(struct programs *p, const struct seam_options *options, struct err *err)
{
	const struct kernel_features features = kernel_features_probe();

	if (!variant_choose(&features, &p->variant, err))
		return false;
	if (options->bounded_loops)
		p->variant = VARIANT_BOUNDED;
	first_line[0] = verdict[0] = 0; /* of what was tried */
	return true;
}

struct programs *programs_start(const struct seam_options *options, struct err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, open, .kernel_log_level = options->verifier_log);
	struct programs *p;

	if (!proc_is_ours(err))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p) {
		err_set(err, ERR_LIMIT, "no memory for the BPF programs");
		return NULL;
	}
	p->first_group_fd = -1;
	first_line[0] = verdict[0] = 0;
	if (!options->verifier_log)
		libbpf_set_print(keep_first_line);
	if (!choose(p, options, err))
		goto refused;
	p->object = open_object(p->variant, &open);
	if (!p->object) {
		fail(err, 0, "opening the BPF object");
		goto refused;
	}
	p->options = *options;
	p->options.cpus = NULL;
	if (!set_options(p, p->object, options)) {
		err_set(err, ERR_INVALID, "the sizes of the BPF maps: %s", first_line);
		goto refused;
	}
	if (!make_maps(p, err))
		goto refused;
	start_part(&p->first_group, put_first_group, p);
	start_part(&p->load, load, p);
	return p;
refused:
	programs_free(p);
	return NULL;
}

bool programs_load_walker(struct programs *p, uint32_t index, uint32_t steps, struct err *err)
{
	struct walker *w = &p->walkers[index < UNWIND_WALKERS ? index : 0];

	if (index == UNWIND_WALKER_NATIVE || index >= UNWIND_WALKERS)
		return err_set(err, ERR_INVALID, "walker %u, there are %d", index, UNWIND_WALKERS);
	if (w->begun)
		return true;
	*w = (struct walker){
		.programs = p, .index = index, .steps = steps & p->options.steps, .begun = true
	};
	start_part(&w->load, load_walker, w);
	return true;
}

bool programs_wait_walker(struct programs *p, uint32_t index, struct err *err)
{
	struct walker *w = &p->walkers[index];

	end_part(&w->load);
	if (!w->load.ok)
		*err = w->load.err;
	return w->load.ok;
}

bool programs_wait(struct programs *p, struct err *err)
{
	end_part(&p->load);
	end_part(&p->first_group);
	p->loaded = p->load.ok && p->first_group.ok;
	if (!p->loaded)
		*err = p->load.ok ? p->first_group.err : p->load.err;
	return p->loaded;
}

struct programs *programs_load(const struct seam_options *options, struct err *err)
{
	struct programs *p = programs_start(options, err);

	if (!p || programs_wait(p, err))
		return p;
	programs_free(p);
	return NULL;
}

void programs_free(struct programs *p)
{
	if (!p)
		return;
	end_part(&p->load);
	end_part(&p->first_group);
	for (uint32_t i = 0; i < UNWIND_WALKERS; i++) {
		end_part(&p->walkers[i].load);
		sample_bpf__destroy(p->walkers[i].object);
	}
	fd_close(&p->first_group_fd);
	sample_bpf__destroy(p->object);
	free(p);
}

int programs_sample_fd(const struct programs *p)
{
	return bpf_program__fd(p->object->progs.sample_on_cpu);
}

bool programs_maps(const struct programs *p, struct seam_maps *out, struct err *err)
{
	const struct sample_bpf *o = p->object;
	const struct {
		const struct bpf_map *map;
		int *fd;
	} list[] = {
		{ o->maps.ring, &out->ring },         { o->maps.processes, &out->processes },
		{ o->maps.mappings, &out->mappings }, { o->maps.executables, &out->executables },
		{ o->maps.pages, &out->pages },       { o->maps.rules, &out->rules },
		{ o->maps.runtimes, &out->runtimes }, { o->maps.counters, &out->counters },
		{ o->maps.cgroups, &out->cgroups },
	};

	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		*list[i].fd = fcntl(bpf_map__fd(list[i].map), F_DUPFD_CLOEXEC, 3);
		if (*list[i].fd >= 0)
			continue;
		err_set_errno(err, "a descriptor for map %s", bpf_map__name(list[i].map));
		while (i--)
			close(*list[i].fd);
		return false;
	}
	out->mapping_count = bpf_map__max_entries(o->maps.mappings);
	out->executable_count = bpf_map__max_entries(o->maps.executables);
	out->page_count = bpf_map__max_entries(o->maps.pages);
	out->rule_count = bpf_map__max_entries(o->maps.rules);
	out->runtime_count = bpf_map__max_entries(o->maps.runtimes);
	out->cpu_count = p->cpu_count;
	out->ring_bytes = p->ring_bytes;
	return true;
}

bool programs_add_blocks(struct programs *p, uint32_t index, int *fd, struct err *err)
{
	int group;

	if (index >= UNWIND_GROUPS_MAX)
		return err_set(err, ERR_LIMIT, "group %u of unwind rows, there are %u", index,
			       UNWIND_GROUPS_MAX);
	if (index == 0 && !p->first_group_given) { /* it is there, or nearly */
		*fd = fcntl(p->first_group_fd, F_DUPFD_CLOEXEC, 3);
		p->first_group_given = *fd >= 0;
		return *fd >= 0 || err_set_errno(err, "a descriptor for unwind rows");
	}
	group = make_group();
	if (group < 0)
		return fail(err, group, "a map of unwind rows");
	if (!put_group(p->groups_fd, index, group, err)) {
		close(group);
		return false;
	}
	*fd = group;
	return true;
}

bool programs_drop_blocks(struct programs *p, uint32_t index, struct err *err)
{
	if (bpf_map_delete_elem(p->groups_fd, &index))
		return fail(err, 0, "dropping unwind rows");
	return true;
}

static bool info(const struct programs *p, int fd, struct bpf_prog_info *out)
{
	uint32_t bytes = sizeof(*out);

	if (!p->loaded) {
		errno = EAGAIN;
		return false;
	}
	memset(out, 0, sizeof(*out));
	return bpf_obj_get_info_by_fd(fd, out, &bytes) == 0;
}

bool programs_run_time(const struct programs *p, uint64_t *ns, uint64_t *runs, struct err *err)
{
	struct bpf_prog_info i;

	if (!info(p, programs_sample_fd(p), &i))
		return fail(err, 0, "the run time of the BPF programs");
	*ns = i.run_time_ns;
	*runs = i.run_cnt;
	return true;
}

uint64_t programs_verified(const struct programs *p, uint32_t walker)
{
	const struct sample_bpf *o =
		walker == UNWIND_WALKER_NATIVE ? p->object : p->walkers[walker].object;
	struct bpf_prog_info i;

	return info(p, bpf_program__fd(o->progs.walk), &i) ? i.verified_insns : 0;
}
