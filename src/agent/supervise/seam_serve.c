/* seam_serve.c - the sampler's end of the seam: requests -> calls -> replies. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervise/seam_wire.h"

struct call {
	struct seam *local;
	void (*explain)(struct err *err);
	bool loaded; /* the programs are */
	struct seam_request in;
	struct seam_reply out;
	int fds[SEAM_FDS_MOST];
	char *tail_in, *tail_out; /* SEAM_TAIL_MOST each */
};

/* The tail as a path; NULL: it is none. */
static const char *path_of(struct call *c, struct err *err)
{
	if (c->in.tail == 0 || c->in.tail > SEAM_PATH_MOST || c->tail_in[c->in.tail - 1] != 0) {
		err_set(err, ERR_INVALID, "a path of %u bytes, or without its end", c->in.tail);
		return NULL;
	}
	return c->tail_in;
}

/* By pointer: the call that opens it may be the argument before. */
static bool give_fd(struct call *c, bool ok, const int *fd)
{
	if (ok)
		c->fds[c->out.fd_count++] = *fd;
	return ok;
}

static bool serve_attach(struct call *c, struct err *err)
{
	struct seam_options options;
	struct seam_maps maps;

	if (c->in.tail < sizeof(options))
		return err_set(err, ERR_INVALID, "options of %u bytes", c->in.tail);
	memcpy(&options, c->tail_in, sizeof(options));
	if (options.cpu_count > SEAM_CPUS_MAX ||
	    c->in.tail - sizeof(options) != options.cpu_count * sizeof(uint32_t))
		return err_set(err, ERR_INVALID, "%u CPUs in %zu bytes", options.cpu_count,
			       c->in.tail - sizeof(options));
	options.cpus = (const uint32_t *)(c->tail_in + sizeof(options));
	if (!c->local->ops->attach(c->local, &options, &maps, err)) {
		if (c->explain)
			c->explain(err);
		return false;
	}
	const int fds[] = { maps.ring,  maps.processes, maps.mappings, maps.executables, maps.pages,
			    maps.rules, maps.runtimes,  maps.counters, maps.cgroups };

	memcpy(c->fds, fds, sizeof(fds));
	c->out.fd_count = sizeof(fds) / sizeof(fds[0]);
	memcpy(c->tail_out, &maps, sizeof(maps));
	c->out.tail = sizeof(maps);
	return true;
}

static bool serve_enable(struct call *c, struct err *err)
{
	if (c->local->ops->enable(c->local, c->in.number != 0, err)) {
		c->loaded = true;
		return true;
	}
	if (!c->loaded && c->explain)
		c->explain(err);
	return false;
}

static bool serve_side_band(struct call *c, struct err *err)
{
	struct seam_side_band band;

	err->kind = ERR_NONE;
	if (!c->local->ops->side_band(c->local, &band, err))
		return false;
	c->out.numbers[0] = band.cpu;
	return give_fd(c, true, &band.fd);
}

static bool serve_open_proc(struct call *c, struct err *err)
{
	int fd = -1;

	if (c->in.number >= SEAM_PROC_FILES)
		return err_set(err, ERR_INVALID, "there is no /proc file %u", c->in.number);
	return give_fd(c,
		       c->local->ops->open_proc(c->local, c->in.pid,
						(enum seam_proc_file)c->in.number, &fd, err),
		       &fd);
}

static bool serve_exe_path(struct call *c, struct err *err)
{
	size_t room = c->in.bytes < SEAM_PATH_MOST ? c->in.bytes : SEAM_PATH_MOST;

	if (!c->local->ops->exe_path(c->local, c->in.pid, c->tail_out, room, err))
		return false;
	c->out.tail = (uint32_t)strlen(c->tail_out) + 1;
	return true;
}

/* A part of the list: from `number` on, as many as a packet holds. */
static bool serve_list(struct call *c, struct err *err)
{
	uint32_t count = 0, skip = c->in.number, cap = SEAM_PIDS_MOST;
	uint32_t *pids;
	bool ok;

	if (skip > UINT32_MAX - cap || skip > 1u << 22)
		return err_set(err, ERR_INVALID, "%u pids to skip", skip);
	pids = malloc((skip + (size_t)cap) * sizeof(*pids));
	if (!pids)
		return err_set(err, ERR_LIMIT, "no memory for %u pids", skip + cap);
	ok = c->local->ops->list(c->local, pids, skip + cap, &count, err);
	if (ok) {
		uint32_t there = count > skip ? count - skip : 0;

		there = there < cap ? there : cap;
		memcpy(c->tail_out, pids + skip, there * sizeof(*pids));
		c->out.tail = there * (uint32_t)sizeof(*pids);
		c->out.numbers[0] = count;
	}
	free(pids);
	return ok;
}

static bool serve_open_mapped(struct call *c, struct err *err)
{
	struct seam_file file = {
		.start = c->in.start, .end = c->in.end, .device = c->in.device, .inode = c->in.inode
	};
	int fd = -1;

	if (c->in.number) {
		file.path = path_of(c, err);
		if (!file.path)
			return false;
	}
	return give_fd(c, c->local->ops->open_mapped(c->local, c->in.pid, &file, &fd, err), &fd);
}

static bool serve_open_in_root(struct call *c, struct err *err)
{
	const char *path = path_of(c, err);
	int fd = -1;

	return path &&
	       give_fd(c, c->local->ops->open_in_root(c->local, c->in.pid, path, &fd, err), &fd);
}

static bool serve_read_memory(struct call *c, struct err *err)
{
	size_t bytes = c->in.bytes < SEAM_TAIL_MOST ? c->in.bytes : SEAM_TAIL_MOST, got = 0;

	if (!c->local->ops->read_memory(c->local, c->in.pid, c->in.start, c->tail_out, bytes, &got,
					err))
		return false;
	c->out.tail = (uint32_t)got;
	return true;
}

static bool serve(struct call *c, struct err *err)
{
	const struct seam_ops *ops = c->local->ops;
	int fd = -1;

	switch ((enum seam_op)c->in.op) {
	case SEAM_ATTACH:
		return serve_attach(c, err);
	case SEAM_SIDE_BAND:
		return serve_side_band(c, err);
	case SEAM_ENABLE:
		return serve_enable(c, err);
	case SEAM_OPEN_PROC:
		return serve_open_proc(c, err);
	case SEAM_EXE_PATH:
		return serve_exe_path(c, err);
	case SEAM_LIST:
		return serve_list(c, err);
	case SEAM_OPEN_MAPPED:
		return serve_open_mapped(c, err);
	case SEAM_OPEN_IN_ROOT:
		return serve_open_in_root(c, err);
	case SEAM_READ_MEMORY:
		return serve_read_memory(c, err);
	case SEAM_OPEN_KALLSYMS:
		return give_fd(c, ops->open_kallsyms(c->local, &fd, err), &fd);
	case SEAM_ADD_BLOCKS:
		return give_fd(c, ops->add_blocks(c->local, c->in.number, &fd, err), &fd);
	case SEAM_DROP_BLOCKS:
		return ops->drop_blocks(c->local, c->in.number, err);
	case SEAM_LOAD_WALKER:
		return ops->load_walker(c->local, c->in.number, (uint32_t)c->in.bytes, err);
	case SEAM_RUN_TIME:
		return ops->run_time(c->local, &c->out.numbers[0], &c->out.numbers[1], err);
	}
	return err_set(err, ERR_INVALID, "there is no call %u", c->in.op);
}

static bool reply(int fd, struct call *c, struct err *err)
{
	bool sent = seam_packet_send(fd, &c->out, sizeof(c->out), c->tail_out, c->out.tail, c->fds,
				     c->out.fd_count, err);

	for (uint32_t i = 0; i < c->out.fd_count; i++)
		close(c->fds[i]);
	return sent;
}

/* Before a call that needs it: only attach() makes what these work on. */
static bool needs_attached(uint32_t op)
{
	return op == SEAM_SIDE_BAND || op == SEAM_ENABLE || op == SEAM_ADD_BLOCKS ||
	       op == SEAM_DROP_BLOCKS || op == SEAM_RUN_TIME || op == SEAM_LOAD_WALKER;
}

static bool serve_all(int fd, struct call *c, struct err *err)
{
	bool attached = false;
	uint32_t strange;
	size_t got;

	for (;;) {
		struct err why = { .kind = ERR_NONE };
		int none[1];

		if (!seam_packet_receive(fd, &c->in, sizeof(c->in), c->tail_in, SEAM_TAIL_MOST,
					 &got, none, 0, &strange, err))
			return false;
		if (got == 0)
			return true;
		c->out = (struct seam_reply){ 0 };
		if (got < sizeof(c->in) || c->in.tail != got - sizeof(c->in))
			return err_set(err, ERR_INVALID, "a request of %zu bytes says %u follow",
				       got, c->in.tail);
		if (c->in.op == SEAM_ATTACH ? attached : needs_attached(c->in.op) && !attached)
			err_set(&why, ERR_INVALID, "call %u before, or again after, attaching",
				c->in.op);
		else
			c->out.ok = serve(c, &why);
		attached |= c->in.op == SEAM_ATTACH && c->out.ok;
		c->out.err_kind = (uint32_t)why.kind;
		memcpy(c->out.msg, why.msg, sizeof(c->out.msg));
		if (!reply(fd, c, err))
			return err->kind == ERR_UNAVAILABLE;
	}
}

bool seam_serve(int fd, struct seam *local, void (*explain)(struct err *err), struct err *err)
{
	struct call c = { .local = local,
			  .explain = explain,
			  .tail_in = malloc(SEAM_TAIL_MOST),
			  .tail_out = malloc(SEAM_TAIL_MOST) };
	bool ok = c.tail_in && c.tail_out;

	ok = ok ? serve_all(fd, &c, err) : err_set(err, ERR_LIMIT, "no memory for the seam");
	free(c.tail_in);
	free(c.tail_out);
	return ok;
}
