/* resource: inserts, changes and deletes attributes of resources; options are the Collector's. */
#include <stdio.h>

#include "components/processors/attribute_actions.h"
#include "components/processors/changed.h"
#include "components/processors/processors.h"

struct resource {
	const struct config_node *list;

	struct attribute_actions actions;
	const struct component_host *host;
};

#define OFF(member) .offset = offsetof(struct resource, member)

/* clang-format off */
static const struct config_field resource_fields[] = {
	{ .name = "attributes", .kind = CONFIG_ANY, OFF(list), .required = true,
	  .help = "list of {key, action, value | from_attribute | from_context, default_value, pattern, converted_type}" },
	{ 0 },
};
/* clang-format on */

static void resource_read(void *state, const struct config_node *node, const char *path,
			  struct arena *arena, struct problems *problems)
{
	struct resource *r = state;
	char at[160];

	(void)node;
	snprintf(at, sizeof(at), "%s::attributes", path);
	attribute_actions_read(&r->actions, r->list, at, arena, problems);
}

static bool resource_check(void *state, struct err *err)
{
	const struct resource *r = state;

	return r->actions.count || err_set(err, ERR_INVALID, "\"attributes\" must hold an action");
}

static bool resource_start(void *state, const struct component_host *host, struct err *err)
{
	struct resource *r = state;

	(void)err;
	r->host = host;
	return true;
}

static void resource_release(void *state)
{
	struct resource *r = state;

	attribute_actions_release(&r->actions);
}

static bool change_all(struct resource *r, struct batch *batch, struct edit *edit, struct err *err)
{
	struct profiles *p = batch->profiles;
	struct edit_list list = { 0 };
	struct arena scratch;
	bool changed, ok = true;

	arena_init(&scratch, 1024, 0);
	for (uint32_t i = 0; i < p->resource_count && ok; i++) {
		edit_load(p, MESSAGE_RESOURCE, i, &list);
		ok = attribute_actions_apply(&r->actions, &list, &scratch, batch->peer, &changed,
					     err) &&
		     (!changed || edit_store(edit, &list, err));
	}
	arena_release(&scratch);
	edit_list_release(&list);
	return ok;
}

static void resource_consume(void *state, struct batch *batch, struct completion *done)
{
	struct edit *edit = edit_new(batch->profiles);
	struct resource *r = state;
	struct err err = { 0 };
	bool ok = change_all(r, batch, edit, &err);

	changed_hand_on(r->host, batch, edit, ok, &err, done);
	edit_free(edit);
}

const struct component_ops resource_processor = {
	.type = "resource",
	.summary = "inserts, changes and deletes attributes of resources",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct resource),
	.fields = resource_fields,
	.mutates = true,
	.read = resource_read,
	.check = resource_check,
	.start = resource_start,
	.consume = resource_consume,
	.release = resource_release,
};
