#include "agent/process/filter.h"

#include <assert.h>
#include <regex.h>
#include <stdlib.h>

#include "agent/agent.h"

struct filter {
	uint32_t *pids;
	uint32_t pid_count;
	bool has_regex;
	regex_t regex;
	char **cgroups;
	uint32_t cgroup_count;
};

struct filter *filter_new(const struct agent_filter *options, struct err *err)
{
	struct filter *f = calloc(1, sizeof(*f));
	char text[160];
	int code;

	assert(f);
	if (options->pid_count) {
		f->pids = malloc(options->pid_count * sizeof(*f->pids));
		assert(f->pids);
		memcpy(f->pids, options->pids, options->pid_count * sizeof(*f->pids));
		f->pid_count = options->pid_count;
	}
	if (options->process_regex && options->process_regex[0]) {
		code = regcomp(&f->regex, options->process_regex, REG_EXTENDED | REG_NOSUB);
		if (code) {
			regerror(code, &f->regex, text, sizeof(text));
			err_set(err, ERR_INVALID, "process filter \"%s\": %s",
				options->process_regex, text);
			filter_free(f);
			return NULL;
		}
		f->has_regex = true;
	}
	f->cgroups = calloc(options->cgroup_count + 1, sizeof(*f->cgroups));
	assert(f->cgroups);
	for (uint32_t i = 0; i < options->cgroup_count; i++) {
		f->cgroups[i] = strdup(options->cgroups[i]);
		assert(f->cgroups[i]);
		f->cgroup_count++;
	}
	return f;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	if (f->has_regex)
		regfree(&f->regex);
	for (uint32_t i = 0; i < f->cgroup_count; i++)
		free(f->cgroups[i]);
	free(f->cgroups);
	free(f->pids);
	free(f);
}

bool filter_is_empty(const struct filter *f)
{
	return !f->pid_count && !f->has_regex && !f->cgroup_count;
}

bool filter_needs_command_line(const struct filter *f)
{
	return f->has_regex;
}

bool filter_needs_parents(const struct filter *f)
{
	return f->pid_count > 0;
}

bool filter_needs_cgroups(const struct filter *f)
{
	return f->cgroup_count > 0;
}

const uint32_t *filter_pids(const struct filter *f, uint32_t *count)
{
	*count = f->pid_count;
	return f->pids;
}

bool filter_lists(const struct filter *f, uint32_t pid)
{
	for (uint32_t i = 0; i < f->pid_count; i++)
		if (f->pids[i] == pid)
			return true;
	return false;
}

static bool matches(const struct filter *f, struct str name)
{
	char text[256];

	if (!name.len)
		return false;
	snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
	return regexec(&f->regex, text, 0, NULL, 0) == 0;
}

static struct str base_name(struct str path)
{
	for (size_t i = path.len; i > 0; i--)
		if (path.ptr[i - 1] == '/')
			return str_skip(path, i);
	return path;
}

/* The script that an interpreter runs: the first argument that is no option. */
static struct str script_name(struct str command_line)
{
	struct str argument;

	if (!str_split(&command_line, 0, &argument))
		return STR("");
	while (command_line.len && str_split(&command_line, 0, &argument))
		if (argument.len && argument.ptr[0] != '-')
			return base_name(argument);
	return STR("");
}

/* `path` is the wanted cgroup or lies below it. */
static bool is_below(struct str path, struct str wanted)
{
	while (wanted.len > 1 && wanted.ptr[wanted.len - 1] == '/')
		wanted.len--;
	if (str_is(wanted, "/"))
		return true;
	return str_has_prefix(path, wanted) &&
	       (path.len == wanted.len || path.ptr[wanted.len] == '/');
}

static bool in_cgroups(const struct filter *f, struct str text)
{
	struct str line;

	while (text.len && str_split(&text, '\n', &line)) {
		ptrdiff_t slash = str_search(line, STR(":/"));

		if (slash < 0)
			continue;
		line = str_skip(line, (size_t)slash + 1);
		for (uint32_t i = 0; i < f->cgroup_count; i++)
			if (is_below(line, str_cstr(f->cgroups[i])))
				return true;
	}
	return false;
}

bool filter_wants(const struct filter *f, const struct filter_subject *s)
{
	if (f->pid_count && !s->pid_wanted)
		return false;
	if (f->has_regex && !matches(f, s->executable_name) && !matches(f, s->comm) &&
	    !matches(f, script_name(s->command_line)))
		return false;
	return !f->cgroup_count || in_cgroups(f, s->cgroups);
}
