/* Configuration -> wired instances (a generation), and the life cycle of generations. */
#include "pipeline/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/generation.h"
#include "pipeline/handover.h"

struct graph {
	struct graph_env env;
	struct generation *now; /* NULL when nothing runs */
	struct handover handover;
};

struct graph *graph_new(struct config *config, const struct graph_env *env,
			struct problems *problems)
{
	struct graph *g = calloc(1, sizeof(*g));

	assert(g);
	g->env = *env;
	g->env.handover = &g->handover;
	g->now = generation_new(config, &g->env, problems);
	if (g->now)
		return g;
	free(g);
	return NULL;
}

bool graph_start(struct graph *g, struct err *err)
{
	return generation_start(g->now, err);
}

bool graph_running(const struct graph *g)
{
	return g->now && generation_running(g->now);
}

const struct config *graph_config(const struct graph *g)
{
	return g->now ? generation_config(g->now) : NULL;
}

static bool nodes_equal(const struct config_node *a, const struct config_node *b)
{
	if (a->kind != b->kind || a->count != b->count || !str_equal(a->text, b->text))
		return false;
	for (uint32_t i = 0; a->kind == NODE_MAP && i < a->count; i++)
		if (!str_equal(a->entries[i].key, b->entries[i].key) ||
		    !nodes_equal(a->entries[i].value, b->entries[i].value))
			return false;
	for (uint32_t i = 0; a->kind == NODE_LIST && i < a->count; i++)
		if (!nodes_equal(a->items[i], b->items[i]))
			return false;
	return true;
}

static void first_problem(const struct problems *problems, struct err *err)
{
	for (uint32_t i = 0; i < problems->count; i++) {
		if (problems->items[i].warning)
			continue;
		err_set(err, ERR_INVALID, "%s", problems->items[i].text);
		return;
	}
	err_set(err, ERR_INVALID, "the configuration is not usable");
}

static struct generation *generation_make(struct graph *g, struct config *config, struct err *err)
{
	struct generation *made;
	struct problems problems;

	problems_init(&problems);
	made = generation_new(config, &g->env, &problems);
	if (!made)
		first_problem(&problems, err);
	problems_release(&problems);
	return made;
}

/* The old configuration once more, after the new one did not start. */
static bool graph_restore(struct graph *g, struct config *old, struct err *err)
{
	struct err again;

	g->now = generation_make(g, old, &again);
	if (g->now && generation_start(g->now, &again)) {
		LOG(LOG_WARN, "The new configuration failed to start, the old one runs again",
		    LOG_S("error", err->msg));
		return true;
	}
	generation_free(g->now);
	g->now = NULL;
	LOG(LOG_ERROR, "Neither the new nor the old configuration starts",
	    LOG_S("error", again.msg));
	return false;
}

static bool graph_replace(struct graph *g, struct config *config, uint64_t deadline_ns,
			  struct err *err)
{
	struct generation *next = generation_make(g, config, err);
	struct config *old;

	if (!next)
		return false;
	LOG(LOG_INFO, "Config updated, restart service");
	handover_open(&g->handover);
	generation_stop(g->now, deadline_ns);
	old = generation_take_config(g->now);
	generation_free(g->now);
	g->now = next;
	if (generation_start(next, err)) {
		handover_close(&g->handover);
		config_free(old);
		return true;
	}
	generation_free(next);
	graph_restore(g, old, err);
	handover_close(&g->handover);
	return false;
}

bool graph_reload(struct graph *g, struct config *config, uint64_t deadline_ns, struct err *err)
{
	const struct config *now = graph_config(g);

	if (now && config->engine.max_inflight_bytes != now->engine.max_inflight_bytes)
		LOG(LOG_WARN, "A new max_inflight_mib needs a restart of the process");
	if (!g->now) {
		g->now = generation_make(g, config, err);
		if (g->now && generation_start(g->now, err))
			return true;
		generation_free(g->now);
		g->now = NULL;
		return false;
	}
	if (!nodes_equal(now->root, config->root))
		return graph_replace(g, config, deadline_ns, err);
	config_free(config);
	return generation_reload(g->now, err);
}

void graph_stop(struct graph *g, uint64_t deadline_ns)
{
	if (g->now)
		generation_stop(g->now, deadline_ns);
}

void graph_free(struct graph *g)
{
	if (!g)
		return;
	if (g->now)
		generation_stop(g->now, 0);
	generation_free(g->now);
	free(g);
}
