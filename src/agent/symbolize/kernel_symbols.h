/*
 * kernel_symbols.h - the kernel's function symbols, from /proc/kallsyms: its own, modules', BPF
 * programs'.
 *
 *   line: address (hex) SP type SP name [TAB "[" module "]"]
 *
 * Only code (types t, T, w, W) is kept, without the compiler's paddings (__pfx_, __cfi_), in arrays
 * of { u32 address - base, u32 name }. Reading stops when the budget is spent and goes on later. A
 * kernel that hides its addresses shows zeros: then there are no names, and `problem` says why.
 *
 * Memory: own heap within the limit. Threads: one.
 */
#pragma once
#include "agent/symbolize/work_budget.h"
#include "base/err.h"
#include "base/str.h"

struct kernel_symbols;

struct kernel_hit {
	struct str name,
		module;        /* module "vmlinux" for the kernel itself, "bpf" for BPF programs */
	uint64_t start;        /* of the function */
	uint64_t module_start; /* lowest function of the module; _text of the kernel */
};

struct kernel_symbols *kernel_symbols_new(size_t limit_bytes);
void kernel_symbols_free(struct kernel_symbols *k);

/* Begins anew with this fd (taken over). What was read before stays in use until this is done. */
void kernel_symbols_read(struct kernel_symbols *k, int fd);
/* Goes on reading; true: nothing is left to read. */
bool kernel_symbols_step(struct kernel_symbols *k, struct work_budget *budget);
bool kernel_symbols_ready(const struct kernel_symbols *k);
bool kernel_symbols_find(const struct kernel_symbols *k, uint64_t pc, struct kernel_hit *out);
uint32_t kernel_symbols_count(const struct kernel_symbols *k);
size_t kernel_symbols_bytes(const struct kernel_symbols *k);
/* "" when the last reading gave addresses. */
const char *kernel_symbols_problem(const struct kernel_symbols *k);
