/*
 * kernel.h - the few kernel types our programs read, and nothing else.
 *
 * Structs carry only the fields we use; preserve_access_index makes clang record a relocation for
 * each access, and libbpf puts in the running kernel's offset (CO-RE). Nothing here depends on the
 * machine that builds. Types of the user API come from linux/bpf.h and linux/types.h.
 */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

/* bpf_helpers.h names them, but only BTF_KIND_PTR to them matters. */
struct task_struct;

#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct mm_struct {
	unsigned long
		start_stack; /* of the main thread: above it lie only arguments and environment */
} KERNEL_STRUCT;

struct list_head {
	struct list_head *next;
} KERNEL_STRUCT;

struct kernfs_node {
	u64 id;
} KERNEL_STRUCT;

struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL_STRUCT;

/* A hierarchy. */
struct cgroup_root {
	int hierarchy_id; /* 0: version 2 */
} KERNEL_STRUCT;

struct cgroup {
	struct cgroup_subsys_state self; /* its parent is the self of the group above */
	struct kernfs_node *kn;
	struct cgroup_root *root;
} KERNEL_STRUCT;

/* The groups of a task, one per hierarchy. */
struct css_set {
	struct list_head cgrp_links; /* of cgrp_cset_link.cgrp_link */
} KERNEL_STRUCT;

struct cgrp_cset_link {
	struct cgroup *cgrp;
	struct list_head cgrp_link;
} KERNEL_STRUCT;

struct thread_struct {
	unsigned long fsbase; /* x86-64 */
	struct {
		unsigned long tp_value;
	} uw; /* arm64 */
} KERNEL_STRUCT;

struct ns_common {
	unsigned int inum;
} KERNEL_STRUCT;

struct pid_namespace {
	struct ns_common ns;
} KERNEL_STRUCT;

/* The number of a task in one namespace. */
struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL_STRUCT;

struct pid {
	unsigned int level;     /* of the task's own namespace; 0: the root */
	struct upid numbers[1]; /* in each namespace from the root's on: level + 1 */
} KERNEL_STRUCT;

struct task_struct {
	void *stack;
	unsigned int flags; /* PF_* */
	int pid, tgid;
	struct mm_struct *mm; /* NULL: a kernel thread */
	u64 self_exec_id; /* how often this process and those it was forked from called exec() */
	u64 start_boottime;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
	struct css_set *cgroups;
	struct thread_struct thread;
} KERNEL_STRUCT;

#define PF_KTHREAD 0x00200000
