/*
 * heap.h - objects of a Ruby process: strings, arrays, names of IDs, class paths.
 *
 * Everything is read as it is found: false, or nothing appended, where it makes no sense.
 */
#pragma once
#include "agent/runtimes/ruby/ruby.h"
#include "base/buf.h"

struct ruby_heap {
	const struct runtime_memory *memory;
	const struct ruby_offsets *o;
	uint64_t symbols; /* pc-space: see struct ruby_facts */
	uint32_t pid;
};

bool ruby_read(const struct ruby_heap *h, uint64_t address, void *to, size_t bytes);
/* Appends a String. */
bool ruby_string(const struct ruby_heap *h, uint64_t value, struct buf *out);
/* An element of an Array. */
bool ruby_element(const struct ruby_heap *h, uint64_t array, uint64_t index, uint64_t *value);
/* Appends the name of an ID. */
bool ruby_id(const struct ruby_heap *h, uint64_t id, struct buf *out);
/* Appends what stands before a method's name: "Module::Class#" or, of a singleton, "Class.";
 * nothing for classes without a name. */
void ruby_class(const struct ruby_heap *h, uint64_t class_value, struct buf *out);
