/*
 * attribute_actions.h - insert, update, upsert, delete, hash, extract and convert: what the
 * processors `attributes` and `resource` do to a list of attributes.
 *
 * Names and meaning are the Collector's. Memory: in the arena given; attribute_actions_release()
 * frees the regexes. Threads: apply from any.
 */
#pragma once
#include <pthread.h>
#include "base/regex.h"
#include "model/edit.h"
#include "pipeline/component.h"
#include "pipeline/node.h"

enum attribute_verb {
	ATTRIBUTE_INSERT,
	ATTRIBUTE_UPDATE,
	ATTRIBUTE_UPSERT,
	ATTRIBUTE_DELETE,
	ATTRIBUTE_HASH,
	ATTRIBUTE_EXTRACT,
	ATTRIBUTE_CONVERT,
};

struct attribute_action {
	const char *key_text, *from_attribute, *from_context, *pattern, *converted_type;
	int verb;
	const struct config_node *value_node, *default_node;

	struct str key;                   /* may be empty: delete and hash by pattern */
	struct any_value value, fallback; /* ANY_EMPTY: none */
	struct regex *regex;
};

struct attribute_actions {
	struct arena *arena;
	struct attribute_action *items;
	uint32_t count;
	bool adds;            /* one may add an attribute that was not there */
	pthread_mutex_t lock; /* of the regexes */
};

/* A list of actions; what is wrong with it is reported with its place. */
void attribute_actions_read(struct attribute_actions *actions, const struct config_node *list,
			    const char *path, struct arena *arena, struct problems *problems);
void attribute_actions_release(struct attribute_actions *actions);
/* May an action concern an attribute of this key? (Where one `adds`, any list.) */
bool attribute_actions_touch(struct attribute_actions *actions, struct str key);
/* All actions in their order. What they make lies in `scratch` until the list is stored. `peer` is
 * the sender's address ("" unknown). */
bool attribute_actions_apply(struct attribute_actions *actions, struct edit_list *l,
			     struct arena *scratch, const char *peer, bool *changed,
			     struct err *err) MUST_CHECK;
/* What a YAML value means as an attribute's: text, numbers, bools, lists and maps. */
struct any_value any_value_of_node(struct arena *arena, const struct config_node *n);
