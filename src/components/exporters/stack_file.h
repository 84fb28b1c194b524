/*
 * stack_file.h - one sample as the JSON file that the lazy backend of 2026 writes: two spaces of
 * indent, keys in this order, attributes sorted, all values as text, no newline at the end.
 *
 *   {
 *     "container_id": "ab12",
 *     "profile_id": "32 hex digits",
 *     "sample_type": "samples",
 *     "timestamps_unix_nano": [        left out when there are none, as "attributes"
 *       1767225600050000000
 *     ],
 *     "attributes": {
 *       "thread.id": "7"
 *     },
 *     "frames": [                      leaf first; null when there are none
 *       {
 *         "type": "go",
 *         "function": "main.main",     what is empty or 0 is left out
 *         "file": "main.go",
 *         "line": 7,
 *         "column": 1
 *       },
 *       {
 *         "type": "native",
 *         "address": "0x401110",
 *         "mapping": "shop"            "<unknown>" without a mapping
 *       }
 *     ]
 *   }
 * Source: opentelemetry-lazybackend, receiver/filesystem, June 2026.
 *
 * Memory: caches kept between requests. Threads: one at a time.
 */
#pragma once
#include "formats/line_cache.h"
#include "formats/names.h"

struct pair;

struct stack_file {
	struct names names;
	struct line_cache frames; /* by location: its objects */
	struct buf text;          /* of a value or a name */
	struct pair *pairs;       /* the attributes of the sample at hand, sorted by key */
	uint32_t pair_cap;
};

void stack_file_init(struct stack_file *f);
void stack_file_release(struct stack_file *f);
void stack_file_begin(struct stack_file *f, const struct profiles *p); /* a new message */
/* Appends the file of a sample. Past the buffer's limit b->failed is set. */
void stack_file_append(struct stack_file *f, struct buf *b, struct str container_id,
		       const struct profile *profile, uint32_t sample);
/* The sample type's name as directory and file have it: "unknown" when it is empty. */
struct str stack_file_sample_type(const struct profiles *p, const struct profile *profile);
