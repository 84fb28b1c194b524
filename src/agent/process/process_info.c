#include "agent/process/process_info.h"

#include <assert.h>
#include <stdlib.h>

/* One block: the struct, its variables, then all text. */
static struct str put_text(char **at, struct str s)
{
	struct str copy = { *at, s.len };

	if (s.len)
		memcpy(*at, s.ptr, s.len);
	(*at)[s.len] = 0;
	*at += s.len + 1;
	return copy;
}

static size_t text_bytes(const struct process_info *p)
{
	size_t sum = p->executable_path.len + p->executable_name.len + p->container_id.len +
		     p->service_name.len + 4;

	for (uint32_t i = 0; i < p->variable_count; i++)
		sum += p->variables[i].name.len + p->variables[i].value.len + 2;
	return sum;
}

struct process_info *process_info_new(const struct process_info *facts)
{
	size_t list_bytes = facts->variable_count * sizeof(struct process_variable);
	struct process_info *p = malloc(sizeof(*p) + list_bytes + text_bytes(facts));
	struct process_variable *variables;
	char *text;

	assert(p);
	variables = (struct process_variable *)(p + 1);
	text = (char *)(p + 1) + list_bytes;
	*p = *facts;
	atomic_init(&p->refs, 1);
	p->executable_path = put_text(&text, facts->executable_path);
	p->executable_name = put_text(&text, facts->executable_name);
	p->container_id = put_text(&text, facts->container_id);
	p->service_name = put_text(&text, facts->service_name);
	for (uint32_t i = 0; i < facts->variable_count; i++) {
		variables[i].name = put_text(&text, facts->variables[i].name);
		variables[i].value = put_text(&text, facts->variables[i].value);
	}
	p->variables = variables;
	return p;
}

struct process_info *process_info_ref(struct process_info *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void process_info_unref(struct process_info *p)
{
	if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
		free(p);
}
