#include "agent/process/cgroups.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { PROC_TEXT_MOST = 4 << 20 };

struct cgroups {
	char **paths;
	const struct cgroup_mount **in; /* by path; NULL: every mount */
	bool *here;                     /* by path */
	uint32_t path_count;
	struct cgroup_mounts mounts;
	bool in_kernel;
	struct unwind_cgroup known[CGROUPS_MOST];
	uint32_t known_count;
	uint64_t looked_ns;
};

/* ---- mounts -----------------------------------------------------------------------------------
 */

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Spaces and the like are written as \040 there. */
static char *unescape(struct str s)
{
	char *out = malloc(s.len + 1), *to = out;

	assert(out);
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] == '\\' && s.len - i > 3 && is_octal(s.ptr[i + 1]) &&
		    is_octal(s.ptr[i + 2]) && is_octal(s.ptr[i + 3])) {
			*to++ = (char)((s.ptr[i + 1] - '0') << 6 | (s.ptr[i + 2] - '0') << 3 |
				       (s.ptr[i + 3] - '0'));
			i += 3;
		} else {
			*to++ = s.ptr[i];
		}
	}
	*to = 0;
	return out;
}

static bool list_has(struct str list, struct str wanted)
{
	struct str item;

	while (list.len && str_split(&list, ',', &item))
		if (str_equal(item, wanted))
			return true;
	return false;
}

/* Version 1: "4:memory:/path" of our own groups; options of the mount: "rw,memory". */
static bool find_hierarchy(struct str own, struct str options, uint32_t *out)
{
	struct str line, number, controllers, controller;
	uint64_t n;

	while (own.len && str_split(&own, '\n', &line)) {
		if (!str_split(&line, ':', &number) || !str_split(&line, ':', &controllers) ||
		    !controllers.len || !str_to_u64(number, &n) || n > UINT32_MAX ||
		    !str_split(&controllers, ',', &controller) || !list_has(options, controller))
			continue;
		*out = (uint32_t)n;
		return true;
	}
	return false;
}

/* 36 35 98:0 /root /point rw,noatime shared:1 - cgroup cgroup rw,memory */
static bool parse_mount(struct str line, struct str own, struct cgroup_mount *out)
{
	struct str word, root = STR(""), point = STR(""), type, source;

	for (int i = 0; i < 6; i++) {
		if (!str_split(&line, ' ', &word))
			return false;
		if (i == 3)
			root = word;
		else if (i == 4)
			point = word;
	}
	do
		if (!line.len || !str_split(&line, ' ', &word))
			return false;
	while (!str_is(word, "-"));
	if (!line.len || !str_split(&line, ' ', &type) || !line.len ||
	    !str_split(&line, ' ', &source))
		return false;
	out->hierarchy = 0;
	if (!str_is(type, "cgroup2") &&
	    !(str_is(type, "cgroup") && find_hierarchy(own, line, &out->hierarchy)))
		return false;
	out->root = unescape(root);
	out->point = unescape(point);
	return true;
}

void cgroup_mounts_parse(struct cgroup_mounts *m, struct str mountinfo, struct str own)
{
	struct str line;

	m->count = 0;
	while (m->count < CGROUP_MOUNTS_MOST && mountinfo.len && str_split(&mountinfo, '\n', &line))
		m->count += parse_mount(line, own, &m->list[m->count]);
}

void cgroup_mounts_release(struct cgroup_mounts *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		free(m->list[i].root);
		free(m->list[i].point);
	}
	m->count = 0;
}

/* Every component once, led by a slash: "a//./b/" is "/a/b", nothing is "/". */
static bool tidy(struct str path, char *out, size_t room)
{
	struct str component;
	size_t len = 0;

	while (path.len && str_split(&path, '/', &component)) {
		if (!component.len || str_is(component, "."))
			continue;
		if (component.len + 2 > room - len)
			return false;
		out[len++] = '/';
		memcpy(out + len, component.ptr, component.len);
		len += component.len;
	}
	if (room < 2)
		return false;
	if (!len)
		out[len++] = '/';
	out[len] = 0;
	return true;
}

/* Of mounts within one another the innermost, of those over one another the last. */
static const struct cgroup_mount *mount_of(const struct cgroup_mounts *m, struct str path)
{
	const struct cgroup_mount *best = NULL;
	size_t best_len = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		struct str point = str_cstr(m->list[i].point);

		if (point.len > 1 && point.len >= best_len && str_has_prefix(path, point) &&
		    (path.len == point.len || path.ptr[point.len] == '/')) {
			best = &m->list[i];
			best_len = point.len;
		}
	}
	return best;
}

bool cgroup_path(const struct cgroup_mounts *m, const char *text, char *out, size_t room,
		 const struct cgroup_mount **in)
{
	char whole[PATH_MAX], below[2 * PATH_MAX];
	const struct cgroup_mount *mount;

	if (!tidy(str_cstr(text), whole, sizeof(whole)))
		return false;
	mount = text[0] == '/' ? mount_of(m, str_cstr(whole)) : NULL;
	*in = mount;
	if (!mount)
		return tidy(str_cstr(whole), out, room);
	if (snprintf(below, sizeof(below), "%s%s", mount->root, whole + strlen(mount->point)) >=
	    (int)sizeof(below))
		return false;
	return tidy(str_cstr(below), out, room);
}

static bool climbs(struct str path)
{
	struct str component;

	while (path.len && str_split(&path, '/', &component))
		if (str_is(component, ".."))
			return true;
	return false;
}

bool cgroup_folder(const struct cgroup_mount *m, const char *path, char *out, size_t room)
{
	struct str rest = str_cstr(path), root = str_cstr(m->root);
	int n;

	if (rest.len && rest.ptr[0] != '/')
		return false;
	if (!str_is(root, "/")) {
		if (!str_has_prefix(rest, root) ||
		    (rest.len > root.len && rest.ptr[root.len] != '/'))
			return false;
		rest = str_skip(rest, root.len);
	}
	if (climbs(rest))
		return false;
	n = snprintf(out, room, "%s%.*s", m->point, STR_ARG(rest));
	return n >= 0 && (size_t)n < room;
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static bool read_own(const char *path, struct buf *out)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	while (fd >= 0) {
		char *to = buf_reserve(out, 16384);

		n = to ? read(fd, to, 16384) : -1;
		if (n <= 0)
			break;
		buf_advance(out, (size_t)n);
	}
	return n == 0;
}

static bool read_mounts(struct cgroups *c, struct err *err)
{
	AUTO(buf_release) struct buf mounts = { 0 }, own = { 0 };

	buf_init(&mounts, PROC_TEXT_MOST);
	buf_init(&own, PROC_TEXT_MOST);
	if (!read_own("/proc/self/cgroup", &own))
		return err_set(err, ERR_UNSUPPORTED,
			       "processes cannot be chosen by control group: this kernel has none "
			       "(/proc/self/cgroup is not there)");
	if (read_own("/proc/self/mountinfo", &mounts))
		cgroup_mounts_parse(&c->mounts, buf_view(&mounts), buf_view(&own));
	return true;
}

/* Could it be seen, whether it is there or not? */
static bool is_shown(const struct cgroups *c, const char *path)
{
	char folder[PATH_MAX];

	for (uint32_t i = 0; i < c->mounts.count; i++)
		if (cgroup_folder(&c->mounts.list[i], path, folder, sizeof(folder)))
			return true;
	return false;
}

/* With the links of what is there followed: /sys/fs/cgroup/cpu is one, in many a hierarchy. What is
 * not there yet stays as it is. */
static bool follow_links(const char *name, char *out, size_t room)
{
	char there[PATH_MAX], real[PATH_MAX];
	size_t len = strlen(name), end = len;

	if (name[0] != '/' || len >= sizeof(there))
		return false;
	memcpy(there, name, len + 1);
	while (end > 1 && !realpath(there, real)) {
		while (end > 1 && there[--end] != '/')
			;
		there[end] = 0;
	}
	return end > 1 && snprintf(out, room, "%s%s", real, name + end) < (int)room;
}

static bool add_path(struct cgroups *c, const char *name, struct err *err)
{
	char path[PATH_MAX], followed[PATH_MAX], other[PATH_MAX];
	const struct cgroup_mount *in, *behind;

	if (!cgroup_path(&c->mounts, name, path, sizeof(path), &in))
		return err_set(err, ERR_LIMIT,
			       "the name of a control group has more than %d characters", PATH_MAX);
	if (!in && follow_links(name, followed, sizeof(followed)) &&
	    cgroup_path(&c->mounts, followed, other, sizeof(other), &behind) && behind) {
		in = behind;
		memcpy(path, other, sizeof(path));
	}
	c->paths[c->path_count] = strdup(path);
	assert(c->paths[c->path_count]);
	c->in[c->path_count++] = in;
	c->in_kernel &= in || is_shown(c, path);
	return true;
}

struct cgroups *cgroups_new(const char *const *names, uint32_t count, struct err *err)
{
	struct cgroups *c = calloc(1, sizeof(*c));
	bool ok;

	assert(c);
	c->paths = calloc(count + 1, sizeof(*c->paths));
	c->in = calloc(count + 1, sizeof(*c->in));
	c->here = calloc(count + 1, sizeof(*c->here));
	assert(c->paths && c->in && c->here);
	ok = !count || read_mounts(c, err);
	c->in_kernel = count > 0;
	for (uint32_t i = 0; ok && i < count; i++)
		ok = add_path(c, names[i], err);
	if (ok)
		return c;
	cgroups_free(c);
	return NULL;
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->path_count; i++)
		free(c->paths[i]);
	free(c->paths);
	free(c->in);
	free(c->here);
	cgroup_mounts_release(&c->mounts);
	free(c);
}

bool cgroups_in_kernel(const struct cgroups *c)
{
	return c && c->in_kernel;
}

const char *const *cgroups_paths(const struct cgroups *c)
{
	return (const char *const *)c->paths;
}

uint32_t cgroups_found(const struct cgroups *c)
{
	return c->known_count;
}

bool cgroups_has(const struct cgroups *c, uint32_t i)
{
	return i < c->path_count && c->here[i];
}

static bool is_among(const struct unwind_cgroup *g, const struct unwind_cgroup *list,
		     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i].id == g->id && list[i].hierarchy == g->hierarchy)
			return true;
	return false;
}

/* The number of a group is its folder's inode (Linux, kernfs: 64 bits since 5.5). */
static bool find_group(const struct cgroup_mount *m, const char *path, struct unwind_cgroup *out)
{
	char folder[PATH_MAX];
	struct stat st;

	if (!cgroup_folder(m, path, folder, sizeof(folder)) || stat(folder, &st) != 0 ||
	    !S_ISDIR(st.st_mode))
		return false;
	*out = (struct unwind_cgroup){ .hierarchy = m->hierarchy, .id = st.st_ino };
	return true;
}

static uint32_t look(struct cgroups *c, struct unwind_cgroup *out)
{
	struct unwind_cgroup g;
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->path_count; i++) {
		c->here[i] = false;
		for (uint32_t k = 0; k < c->mounts.count && count < CGROUPS_MOST; k++) {
			const struct cgroup_mount *m = &c->mounts.list[k];

			if ((c->in[i] && c->in[i] != m) || !find_group(m, c->paths[i], &g))
				continue;
			c->here[i] = true;
			if (!is_among(&g, out, count))
				out[count++] = g;
		}
	}
	return count;
}

void cgroups_publish(struct cgroups *c, const struct cgroups *was, int map_fd,
		     struct sample_counters *counters, uint32_t cpu_count, uint64_t now_ns)
{
	struct unwind_cgroup before[CGROUPS_MOST];
	bool on = cgroups_in_kernel(c);
	uint32_t before_count = 0;

	if (!was && (!on || (c->looked_ns && now_ns - c->looked_ns < SECOND_NS)))
		return;
	if (cgroups_in_kernel(was ? was : c)) {
		before_count = (was ? was : c)->known_count;
		memcpy(before, (was ? was : c)->known, before_count * sizeof(*before));
	}
	if (on) {
		c->looked_ns = now_ns;
		c->known_count = look(c, c->known);
		for (uint32_t i = 0; i < c->known_count; i++)
			if (!is_among(&c->known[i], before, before_count))
				bpf_map_update_elem(map_fd, &c->known[i], &(uint32_t){ 1 },
						    BPF_ANY);
	}
	for (uint32_t i = 0; i < cpu_count; i++)
		__atomic_store_n(&counters[i].by_cgroup, on, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < before_count; i++)
		if (!on || !is_among(&before[i], c->known, c->known_count))
			bpf_map_delete_elem(map_fd, &before[i]);
}
