/*
 * node.h - a YAML document as a tree, with the place of every key and value.
 *
 * Scalars keep their text; what it means (number, duration, bool) is for the option it is read
 * into. A scalar that came from a ${...} reference keeps the text of the reference too, so that it
 * can be printed without its value. Memory: in the arena that the tree was made with. Threads:
 * values; read-only once made.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "pipeline/problems.h"

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_MAP, NODE_LIST };

struct config_node;

struct config_entry {
	struct str key;
	struct config_pos pos;
	struct config_node *value;
};

struct config_node {
	enum node_kind kind;
	bool quoted; /* SCALAR: was written in quotes or as a block: never null, number or bool */
	char quote;  /* SCALAR: ' or " around it; '|' a block; 0 plain */
	struct config_pos pos;
	struct str text;      /* SCALAR; followed by a NUL */
	struct str reference; /* as written, when it held ${...}; else len 0. Also of NULL, MAP and
				 LIST that came of one */
	struct config_entry *entries; /* MAP */
	struct config_node **items;   /* LIST */
	uint32_t count;               /* of entries or items */
	uint32_t cap;
};

/* Most that one configuration may hold: all sources together, aliases counted as what they stand
 * for. */
enum { NODES_MOST = 100000, NODE_DEPTH_MOST = 64, NODE_SOURCE_BYTES_MOST = 8 << 20 };

/* Parses one YAML document; an empty one is a null node. NULL when problems got an error. Merge
 * keys (<<), anchors and aliases are resolved; a key that is there twice is an error. *nodes_left
 * is counted down. */
struct config_node *node_parse(struct arena *a, struct str yaml, const char *file,
			       uint32_t *nodes_left, struct problems *problems) MUST_CHECK;
/* Puts `over` on top of `base`: maps deeply, all else replaced, by a null too. Either may be NULL.
 */
struct config_node *node_merge(struct arena *a, struct config_node *base, struct config_node *over);
/* Wraps a value into maps: "a::b::c" -> {a: {b: {c: value}}}. */
struct config_node *node_wrap(struct arena *a, struct str path, struct str separator,
			      struct config_node *value);

struct config_node *node_get(const struct config_node *map,
			     const char *key); /* NULL: not a map, or not there */
struct config_entry *node_entry(const struct config_node *map, struct str key);
struct config_node *node_new(struct arena *a, enum node_kind kind, struct config_pos pos);
struct config_entry *node_add(struct arena *a, struct config_node *map, struct str key,
			      struct config_pos pos, struct config_node *value);
void node_append(struct arena *a, struct config_node *list, struct config_node *item);
/* The place of the byte at `offset` of a scalar's text, as far as the text stands as it is in one
 * line of the file; else the place of the scalar. */
struct config_pos node_pos_within(const struct config_node *n, size_t offset);
const char *node_kind_name(const struct config_node *n); /* the Collector's word: 'map', 'slice',
							    'string', 'int', ... */
