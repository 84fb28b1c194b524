/* The sampler in the worker's own process: the seam as plain calls. */
#include "agent/seam.h"

#include <fcntl.h>
#include <stdlib.h>

#include "agent/sample/events.h"
#include "agent/sample/programs.h"
#include "agent/sample/target.h"
#include "base/cleanup.h"

struct seam_local {
	struct seam seam;
	struct programs *programs;
	struct events *events;
	bool bound; /* the events run the programs */
};

static struct seam_local *local_of(struct seam *s)
{
	return CONTAINER_OF(s, struct seam_local, seam);
}

static bool local_attach(struct seam *s, const struct seam_options *options, struct seam_maps *maps,
			 struct err *err)
{
	struct seam_local *l = local_of(s);

	l->programs = programs_start(options, err);
	if (!l->programs)
		return false;
	l->events = events_new(options, err);
	if (!l->events)
		return false;
	maps->side_band_bytes = SIDE_BAND_BYTES;
	return programs_maps(l->programs, maps, err);
}

static bool local_side_band(struct seam *s, struct seam_side_band *out, struct err *err)
{
	struct seam_local *l = local_of(s);
	int fd = events_next_side_band(l->events, &out->cpu);

	err->kind = ERR_NONE;
	if (fd < 0) { /* nothing is left of what was there: look again */
		if (!events_refresh(l->events, err))
			return false;
		fd = events_next_side_band(l->events, &out->cpu);
	}
	if (fd < 0)
		return false;
	out->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return out->fd >= 0 || err_set_errno(err, "a descriptor for the side band");
}

static bool local_enable(struct seam *s, bool on, struct err *err)
{
	struct seam_local *l = local_of(s);

	if (!l->bound) {
		if (!programs_wait(l->programs, err) ||
		    !events_bind(l->events, programs_sample_fd(l->programs), err))
			return false;
		l->bound = true;
	}
	return events_enable(l->events, on, err);
}

static bool local_open_proc(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
			    struct err *err)
{
	(void)s;
	return target_open_proc(pid, file, fd, err);
}

static bool local_exe_path(struct seam *s, uint32_t pid, char *path, size_t cap, struct err *err)
{
	(void)s;
	return target_exe_path(pid, path, cap, err);
}

static bool local_list(struct seam *s, uint32_t *pids, uint32_t cap, uint32_t *count,
		       struct err *err)
{
	(void)s;
	return target_list(pids, cap, count, err);
}

static bool local_open_mapped(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
			      struct err *err)
{
	(void)s;
	return target_open_mapped(pid, file, fd, err);
}

static bool local_open_in_root(struct seam *s, uint32_t pid, const char *path, int *fd,
			       struct err *err)
{
	(void)s;
	return target_open_in_root(pid, path, fd, err);
}

static bool local_read_memory(struct seam *s, uint32_t pid, uint64_t address, void *to,
			      size_t bytes, size_t *got, struct err *err)
{
	(void)s;
	return target_read_memory(pid, address, to, bytes, got, err);
}

static bool local_open_kallsyms(struct seam *s, int *fd, struct err *err)
{
	(void)s;
	return target_open_kallsyms(fd, err);
}

static bool local_add_blocks(struct seam *s, uint32_t index, int *fd, struct err *err)
{
	return programs_add_blocks(local_of(s)->programs, index, fd, err);
}

static bool local_drop_blocks(struct seam *s, uint32_t index, struct err *err)
{
	return programs_drop_blocks(local_of(s)->programs, index, err);
}

static bool local_load_walker(struct seam *s, uint32_t index, uint32_t steps, struct err *err)
{
	return programs_load_walker(local_of(s)->programs, index, steps, err);
}

static bool local_run_time(struct seam *s, uint64_t *ns, uint64_t *runs, struct err *err)
{
	return programs_run_time(local_of(s)->programs, ns, runs, err);
}

static void local_free(struct seam *s)
{
	struct seam_local *l = local_of(s);

	events_free(l->events);
	programs_free(l->programs);
	free(l);
}

struct seam *seam_local_new(void)
{
	static const struct seam_ops ops = {
		.attach = local_attach,
		.side_band = local_side_band,
		.enable = local_enable,
		.open_proc = local_open_proc,
		.exe_path = local_exe_path,
		.list = local_list,
		.open_mapped = local_open_mapped,
		.open_in_root = local_open_in_root,
		.read_memory = local_read_memory,
		.open_kallsyms = local_open_kallsyms,
		.add_blocks = local_add_blocks,
		.drop_blocks = local_drop_blocks,
		.load_walker = local_load_walker,
		.run_time = local_run_time,
		.free = local_free,
	};
	struct seam_local *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->seam.ops = &ops;
	return &l->seam;
}
