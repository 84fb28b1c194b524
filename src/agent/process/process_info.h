/*
 * process_info.h - the facts of one process image that go onto the wire beside its samples.
 *
 * Made when a process is first seen, or seen again after exec(); immutable from then on, so that a
 * sample keeps the facts of the moment it was taken. Memory: counted references; strings belong to
 * it. Threads: any; made and freed on any.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>
#include "base/str.h"

struct process_variable {
	struct str name, value;
};

struct process_info {
	atomic_uint refs;
	uint32_t pid;               /* in the agent's pid namespace */
	uint64_t start_unix_nano;   /* of the image: fork or exec; 0 = not known */
	struct str executable_path; /* as /proc/PID/exe has it, without " (deleted)" */
	struct str executable_name; /* its base name; kernel threads: comm */
	struct str container_id;    /* "" = none */
	struct str service_name;    /* what the process itself says it is; "" = nothing */
	const struct process_variable *variables; /* those that -env-vars names */
	uint32_t variable_count;
	bool kernel_thread;
};

/* Copies everything of `facts` (its refs is ignored); one reference. */
struct process_info *process_info_new(const struct process_info *facts);
struct process_info *process_info_ref(struct process_info *p);
void process_info_unref(struct process_info *p); /* NULL is fine */
