#include "agent/symbolize/process_code.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/cleanup.h"

enum {
	STATUS_BYTES = 8192,
	MAPS_BYTES_MOST = 8 << 20, /* of /proc/PID/maps that are searched for a jitdump */
	WAIT_MOST = 64,            /* updates between two searches */
};

struct process_code {
	uint32_t pid, own_pid; /* own_pid: in the innermost pid namespace, its own; 0: not known */
	uint64_t start_unix_nano;
	size_t limit_bytes;
	struct code_map *perf, *dump;
	uint32_t updates, next_search, wait;
};

struct process_code *process_code_new(uint32_t pid, uint64_t start_unix_nano, size_t limit_bytes)
{
	struct process_code *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->pid = pid;
	p->start_unix_nano = start_unix_nano;
	p->limit_bytes = limit_bytes;
	p->wait = 1;
	return p;
}

void process_code_free(struct process_code *p)
{
	if (!p)
		return;
	code_map_free(p->perf);
	code_map_free(p->dump);
	free(p);
}

bool process_code_is(const struct process_code *p, uint32_t pid, uint64_t start_unix_nano)
{
	return p->pid == pid && p->start_unix_nano == start_unix_nano;
}

size_t process_code_bytes(const struct process_code *p)
{
	return sizeof(*p) + (p->perf ? code_map_bytes(p->perf) : 0) +
	       (p->dump ? code_map_bytes(p->dump) : 0);
}

static size_t read_up_to(int fd, char *out, size_t cap)
{
	size_t have = 0;

	while (have < cap) {
		ssize_t n = read(fd, out + have, cap - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

/* "NSpid:\t4711\t12": one number for each namespace from ours down to its own. */
static uint32_t last_pid_of(struct str status)
{
	ptrdiff_t at = str_search(status, STR("\nNSpid:"));
	struct str line, number;
	uint64_t pid = 0;

	if (at < 0)
		return 0;
	status = str_skip(status, (size_t)at + 7);
	if (!str_split(&status, '\n', &line))
		return 0;
	while (str_split(&line, '\t', &number)) {
		if (number.len && !str_to_u64(number, &pid))
			return 0;
	}
	return pid > UINT32_MAX ? 0 : (uint32_t)pid;
}

static void find_own_pid(struct process_code *p, const struct symbol_access *access)
{
	char text[STATUS_BYTES];
	AUTO(fd_close) int fd = -1;
	struct err err;

	p->own_pid = p->pid;
	if (!access->open_status || !access->open_status(access->ctx, p->pid, &fd, &err))
		return;
	p->own_pid = last_pid_of(str_from(text, read_up_to(fd, text, sizeof(text))));
	if (!p->own_pid)
		p->own_pid = p->pid;
}

static void open_perf_map(struct process_code *p, const struct symbol_access *access)
{
	char path[64];
	struct err err;
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", p->own_pid);
	if (access->open_path && access->open_path(access->ctx, p->pid, path, &fd, &err))
		p->perf = code_map_new(fd, CODE_MAP_PERF, p->limit_bytes);
}

/* A runtime that writes a jitdump maps a page of it executable, so that it can be found. */
static bool jitdump_in(struct str line, struct str *path)
{
	ptrdiff_t at = str_find(line, '/');
	struct str name;

	if (at < 0 || !str_has_suffix(line, STR(".dump")))
		return false;
	*path = str_skip(line, (size_t)at);
	name = *path;
	while ((at = str_find(name, '/')) >= 0)
		name = str_skip(name, (size_t)at + 1);
	return str_has_prefix(name, STR("jit-"));
}

static bool jitdump_in_maps(int fd, char *path, size_t cap)
{
	size_t size = 64 * 1024, have = 0, total = 0;
	AUTO(ptr_free) char *text = malloc(size);
	struct str line, rest, found;

	if (!text)
		abort();
	while (total < MAPS_BYTES_MOST) {
		size_t n = read_up_to(fd, text + have, size - have);

		rest = str_from(text, have + n);
		total += n;
		while (str_find(rest, '\n') >= 0 && str_split(&rest, '\n', &line)) {
			if (jitdump_in(line, &found) && found.len < cap) {
				snprintf(path, cap, "%.*s", STR_ARG(found));
				return true;
			}
		}
		if (!n)
			return false;
		have = rest.len < size ? rest.len : 0;
		if (have)
			memmove(text, rest.ptr, have);
	}
	return false;
}

static void open_jitdump(struct process_code *p, const struct symbol_access *access)
{
	AUTO(fd_close) int maps = -1;
	char path[512];
	struct err err;
	int fd;

	if (!access->open_maps || !access->open_path ||
	    !access->open_maps(access->ctx, p->pid, &maps, &err))
		return;
	if (jitdump_in_maps(maps, path, sizeof(path)) &&
	    access->open_path(access->ctx, p->pid, path, &fd, &err))
		p->dump = code_map_new(fd, CODE_MAP_JITDUMP, p->limit_bytes);
}

/* At the first update, and then ever more seldom: most processes have neither file. */
static void search(struct process_code *p, const struct symbol_access *access)
{
	if (p->updates++ < p->next_search)
		return;
	if (!p->own_pid)
		find_own_pid(p, access);
	if (!p->perf)
		open_perf_map(p, access);
	if (!p->dump)
		open_jitdump(p, access);
	p->next_search = p->updates + p->wait - 1;
	p->wait = p->wait < WAIT_MOST ? p->wait * 2 : WAIT_MOST;
}

bool process_code_update(struct process_code *p, const struct symbol_access *access,
			 struct work_budget *budget)
{
	bool done = true;

	search(p, access);
	if (p->perf)
		done &= code_map_update(p->perf, budget);
	if (p->dump)
		done &= code_map_update(p->dump, budget);
	return done;
}

bool process_code_find(const struct process_code *p, uint64_t pc, struct buf *text,
		       struct code_hit *out)
{
	return (p->dump && code_map_find(p->dump, pc, text, out)) ||
	       (p->perf && code_map_find(p->perf, pc, text, out));
}
