#include "agent/process/facts.h"

#include <limits.h>
#include <time.h>

#include "agent/process/container_id.h"
#include "agent/process/read_proc.h"
#include "base/clock.h"

enum { VARIABLES_MOST = 64, TEXT_BYTES_MOST = 256 * 1024 };

bool environ_find(struct str environ, struct str name, struct str *value)
{
	struct str entry;

	while (environ.len && str_split(&environ, 0, &entry)) {
		if (entry.len > name.len && entry.ptr[name.len] == '=' &&
		    str_has_prefix(entry, name)) {
			*value = str_skip(entry, name.len + 1);
			return true;
		}
	}
	return false;
}

struct str environ_service_name(struct str environ)
{
	struct str value, attribute;

	if (environ_find(environ, STR("OTEL_SERVICE_NAME"), &value) && value.len)
		return value;
	if (!environ_find(environ, STR("OTEL_RESOURCE_ATTRIBUTES"), &value))
		return STR("");
	while (value.len && str_split(&value, ',', &attribute)) {
		attribute = str_trim(attribute);
		if (str_has_prefix(attribute, STR("service.name=")))
			return str_skip(attribute, STR("service.name=").len);
	}
	return STR("");
}

static uint64_t now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static uint64_t start_unix_nano(const struct facts_wish *wish)
{
	if (wish->start_ns)
		return wish->start_ns + now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
	if (wish->start_boottime_ns)
		return wish->start_boottime_ns + now_of(CLOCK_REALTIME) - now_of(CLOCK_BOOTTIME);
	return 0;
}

static struct str base_name(struct str path)
{
	for (size_t i = path.len; i > 0; i--)
		if (path.ptr[i - 1] == '/')
			return str_skip(path, i);
	return path;
}

struct process_info *facts_gather(struct seam *seam, const struct facts_wish *wish)
{
	struct process_variable variables[VARIABLES_MOST];
	struct process_info facts = {
		.pid = wish->pid,
		.start_unix_nano = start_unix_nano(wish),
		.kernel_thread = wish->kernel_thread,
		.variables = variables,
	}, *made;
	struct buf environ, cgroup;
	char path[PATH_MAX];
	struct err err;

	buf_init(&environ, TEXT_BYTES_MOST);
	buf_init(&cgroup, TEXT_BYTES_MOST);
	if (!wish->kernel_thread) {
		if (wish->path)
			facts.executable_path = str_cstr(wish->path);
		else if (seam->ops->exe_path(seam, wish->pid, path, sizeof(path), &err))
			facts.executable_path = str_cstr(path);
		if (str_has_suffix(facts.executable_path, STR(" (deleted)")))
			facts.executable_path.len -= STR(" (deleted)").len;
		read_proc(seam, wish->pid, SEAM_PROC_CGROUP, &cgroup);
		read_proc(seam, wish->pid, SEAM_PROC_ENVIRON, &environ);
	}
	facts.executable_name = base_name(facts.executable_path);
	if (!facts.executable_name.len)
		facts.executable_name = str_cstr(wish->comm);
	facts.container_id = container_id_find(buf_view(&cgroup));
	if (!cgroup.len && wish->parent)
		facts.container_id = wish->parent->container_id;
	facts.service_name = environ_service_name(buf_view(&environ));
	for (uint32_t i = 0; i < wish->variable_count && facts.variable_count < VARIABLES_MOST;
	     i++) {
		struct process_variable *v = &variables[facts.variable_count];

		v->name = str_cstr(wish->variables[i]);
		if (environ_find(buf_view(&environ), v->name, &v->value))
			facts.variable_count++;
	}
	made = process_info_new(&facts);
	buf_release(&environ);
	buf_release(&cgroup);
	return made;
}
