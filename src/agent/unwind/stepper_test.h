/*
 * stepper_test.h - a program stepped from instruction to instruction by ptrace, while calls and
 * returns are noted as they happen; at each stop the twin must find exactly the noted stack, and
 * its end. What step_test.c (C) and step_go_test.c share; x86-64.
 *
 * The notes are an oracle that knows nothing of unwind information: a call is seen by the address
 * of the next instruction appearing on the stack, a return (or longjmp) by the stack pointer moving
 * past it, a signal by the kernel's jump to the handler.
 */
#pragma once
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/elf/elf_file.h"
#include "agent/unwind/store.h"
#include "agent/unwind/tables.h"
#include "agent/unwind/twin.h"
#include "base/cleanup.h"

enum { FILES_MOST = 16, MAPPINGS_SHOWN = 64, SHADOW_MOST = 512, BASE_MOST = 8 };

struct file {
	char path[400];
	struct elf_file *elf;
	struct unwind_tables *tables;
	uint32_t id;
};

struct shadow {
	uint64_t slot; /* gone once SP is above it */
	uint64_t pc;
	bool held; /* popped into a register, as vfork() does: gone once pc runs */
};

struct stepper {
	pid_t pid;
	int memory;
	struct unwind_store store;
	struct twin *twin;
	struct file files[FILES_MOST];
	uint32_t file_count, run, mapping_count;
	struct shadow shadow[SHADOW_MOST];
	uint64_t base[BASE_MOST]; /* what had called before the notes began */
	uint32_t base_count;
	uint64_t own_stack; /* SP when the notes began, where there are others (Go); 0: one stack */
	uint32_t depth;
	bool without_rows;
	uint64_t steps, checks, signals, deepest, wrong, longjmp, left, passed_over;
	/* A walk that differs from the notes and yet is as good as can be; NULL: there is none. */
	bool (*excused)(struct stepper *s, enum unwind_end end, const uint64_t *words,
			uint32_t count);
	struct user_regs_struct regs;
	char first_wrong[1600];
};

static bool read_target(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	const struct stepper *s = ctx;

	return pread(s->memory, to, bytes, (off_t)address) == (ssize_t)bytes;
}

/* ---- the files and mappings of the target ---- */

static struct elf_file *open_elf(struct stepper *s, struct file *f, uint64_t start, uint64_t end)
{
	struct err err = { 0 };
	struct elf_file *elf;

	if (strcmp(f->path, "[vdso]") == 0) {
		void *copy = malloc(end - start);

		assert_true(read_target(s, start, copy, (uint32_t)(end - start)));
		elf = elf_file_from_memory(copy, end - start, true, &err);
	} else {
		AUTO(fd_close) int fd = open(f->path, O_RDONLY | O_CLOEXEC);

		elf = fd < 0 ? NULL : elf_file_open(fd, &err);
	}
	if (!elf)
		fail_msg("%s: %s", f->path, err.msg);
	return elf;
}

static struct file *file_of(struct stepper *s, const char *path, uint64_t start, uint64_t end)
{
	struct file *f;
	struct err err = { 0 };
	uint64_t first, count;

	for (uint32_t i = 0; i < s->file_count; i++)
		if (strcmp(s->files[i].path, path) == 0)
			return &s->files[i];
	assert_true(s->file_count < FILES_MOST);
	f = &s->files[s->file_count++];
	snprintf(f->path, sizeof(f->path), "%s", path);
	f->elf = open_elf(s, f, start, end);
	f->tables = unwind_tables_open(f->elf, NULL, &err);
	if (!f->tables)
		fail_msg("%s: %s", path, err.msg);
	assert_true(unwind_store_take_executable(&s->store, &f->id));
	unwind_tables_pages(f->tables, &first, &count);
	assert_true(unwind_store_set_pages(&s->store, f->id, first, (uint32_t)count));
	if (unwind_tables_tracks_rbx(f->tables))
		unwind_store_tracks_rbx(&s->store, f->id);
	return f;
}

static void read_mappings(struct stepper *s)
{
	char path[64], line[512], name[400];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", s->pid);
	maps = fopen(path, "r");
	assert_non_null(maps);
	s->mapping_count = 0;
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset, bias = UNWIND_BIAS_UNKNOWN;
		struct file *f = NULL;
		char flags[8];

		name[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %399[^\n]", &start, &end, flags, &offset,
			   name) < 4 ||
		    flags[2] != 'x' || strcmp(name, "[vsyscall]") == 0)
			continue;
		if (name[0] == '/' || strcmp(name, "[vdso]") == 0) {
			f = file_of(s, name, start, end);
			assert_true(elf_file_load_bias(f->elf, start, offset, true, &bias));
		}
		assert_true(s->mapping_count < MAPPINGS_SHOWN);
		s->store.mappings[s->run + s->mapping_count++] = (struct unwind_mapping){
			.start = start, .end = end, .load_bias = bias, .executable = f ? f->id : 0
		};
	}
	fclose(maps);
}

static bool mapped(const struct stepper *s, uint64_t pc)
{
	for (uint32_t i = 0; i < s->mapping_count; i++) {
		const struct unwind_mapping *m = &s->store.mappings[s->run + i];

		if (pc >= m->start && pc < m->end)
			return true;
	}
	return false;
}

/* Builds the page that the walk has stopped for. */
static bool build_page(struct stepper *s, uint64_t pc)
{
	static struct unwind_row rows[UNWIND_BLOCK_ROWS];
	struct err err = { 0 };
	uint32_t count;

	for (uint32_t i = 0; i < s->mapping_count; i++) {
		const struct unwind_mapping *m = &s->store.mappings[s->run + i];
		struct unwind_page *page;
		struct file *f = NULL;

		if (pc < m->start || pc >= m->end)
			continue;
		for (uint32_t k = 0; k < s->file_count; k++)
			if (s->files[k].id == m->executable)
				f = &s->files[k];
		if (!f)
			return false;
		page = unwind_store_page(&s->store, f->id, (pc - m->load_bias) >> 16);
		if (!page || page->state != UNWIND_PAGE_ABSENT)
			return false;
		if (unwind_tables_build_page(f->tables, (pc - m->load_bias) >> 16, &s->store.rules,
					     rows, UNWIND_BLOCK_ROWS, &count) != UNWIND_BUILD_ROWS)
			unwind_store_put_empty(page);
		else if (!unwind_store_put_rows(&s->store, page, rows, count, &err))
			fail_msg("%s", err.msg);
		return true;
	}
	return false;
}

/* ---- the twin against the notes ---- */

static enum unwind_end unwind(struct stepper *s)
{
	const struct user_regs_struct *r = &s->regs;
	const uint64_t leaf[UNWIND_LEAF_REGS] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsi, r->rdi, r->r8,
		r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};
	struct unwind_cursor c = {
		.pc = r->rip, .sp = r->rsp, .fp = r->rbp, .tp = r->fs_base, .leaf_known = 1
	};
	const struct twin_memory memory = { read_target, s };
	enum unwind_end end;

	memcpy(c.leaf, leaf, sizeof(leaf));
	twin_start(s->twin, &s->store, &memory, &c, NULL);
	twin_run(s->twin, s->run, s->mapping_count);
	do {
		const struct unwind_cursor *at = twin_cursor(s->twin);

		end = twin_walk(s->twin);
		if (end != UNWIND_END_NO_TABLE || !build_page(s, at->pc - at->return_address))
			return end;
	} while (true);
}

/* The i-th frame's pc, found back through its executable's mapping. */
static uint64_t frame_pc(const struct stepper *s, const uint64_t *words, uint32_t i)
{
	uint32_t id = (uint32_t)(words[2 * i] >> 32);

	for (uint32_t k = 0; id && k < s->mapping_count; k++) {
		const struct unwind_mapping *m = &s->store.mappings[s->run + k];

		if (m->executable == id)
			return words[2 * i + 1] + m->load_bias;
	}
	return words[2 * i + 1];
}

static const char *place_name(const struct stepper *s, uint64_t pc, char *out, size_t cap)
{
	snprintf(out, cap, "%lx", pc);
	for (uint32_t i = 0; i < s->mapping_count; i++) {
		const struct unwind_mapping *m = &s->store.mappings[s->run + i];

		for (uint32_t k = 0; k < s->file_count; k++)
			if (pc >= m->start && pc < m->end && s->files[k].id == m->executable)
				snprintf(out, cap, "%s+%lx",
					 strrchr(s->files[k].path, '/') ?: "vdso",
					 (uint64_t)(pc - m->load_bias));
	}
	return out;
}

static void note_wrong(struct stepper *s, enum unwind_end end, const uint64_t *words,
		       uint32_t count)
{
	size_t cap = sizeof(s->first_wrong), n = 0;
	char name[80];

	if (s->wrong++)
		return;
	n += (size_t)snprintf(s->first_wrong, cap, "step %lu: end %d; found:", s->steps, (int)end);
	for (uint32_t i = 0; i < count && i < 12 && n < cap; i++)
		n += (size_t)snprintf(s->first_wrong + n, cap - n, " %s",
				      place_name(s, frame_pc(s, words, i), name, sizeof(name)));
	if (n < cap)
		n += (size_t)snprintf(s->first_wrong + n, cap - n, "; noted: %s",
				      place_name(s, s->regs.rip, name, sizeof(name)));
	for (uint32_t i = s->depth; i-- > 0 && n < cap;)
		n += (size_t)snprintf(s->first_wrong + n, cap - n, " %s",
				      place_name(s, s->shadow[i].pc, name, sizeof(name)));
}

/* The i-th pc of the stack as noted, innermost first; there are depth + 1 + base_count. */
static uint64_t noted_pc(const struct stepper *s, uint32_t i)
{
	if (!i)
		return s->regs.rip;
	return i <= s->depth ? s->shadow[s->depth - i].pc : s->base[i - s->depth - 1];
}

static void check(struct stepper *s)
{
	enum unwind_end end = unwind(s);
	uint32_t words, count;
	const uint64_t *w = twin_words(s->twin, &words);

	count = words / 2;
	s->checks++;
	if (s->excused && s->excused(s, end, w, count))
		return;
	if (s->depth + 1 > s->deepest)
		s->deepest = s->depth + 1;
	if (end != UNWIND_END_BOTTOM || count != s->depth + 1 + s->base_count) {
		note_wrong(s, end, w, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (frame_pc(s, w, i) == noted_pc(s, i))
			continue;
		note_wrong(s, end, w, count);
		return;
	}
}

/* ---- stepping ---- */

static void push(struct stepper *s, uint64_t slot, uint64_t pc)
{
	assert_true(s->depth < SHADOW_MOST);
	s->shadow[s->depth++] = (struct shadow){ slot, pc, false };
}

/* Goroutines and threads have their stacks terabytes apart. */
static bool same_stack(uint64_t a, uint64_t b)
{
	return a >> 40 == b >> 40;
}

/*
 * Calls whose slot SP has moved past have returned. Go's runtime works on the thread's stack for a
 * goroutine: nothing of the goroutine's returns meanwhile, and all is over there when SP is back.
 */
static void forget_returned(struct stepper *s)
{
	uint64_t sp = s->regs.rsp;

	if (s->depth && s->shadow[s->depth - 1].held && s->regs.rip != s->shadow[s->depth - 1].pc)
		return;
	while (s->own_stack && s->depth && same_stack(sp, s->own_stack) &&
	       !same_stack(s->shadow[s->depth - 1].slot, sp))
		s->depth--;
	while (s->depth && s->shadow[s->depth - 1].slot < sp &&
	       (!s->own_stack || same_stack(s->shadow[s->depth - 1].slot, sp)))
		s->depth--;
}

/* A return address popped by an instruction after which the code just goes on. */
static void note_held(struct stepper *s, const struct user_regs_struct *before)
{
	struct shadow *newest = s->depth ? &s->shadow[s->depth - 1] : NULL;
	uint64_t bytes = s->regs.rip - before->rip;

	if (newest && newest->slot == before->rsp && s->regs.rsp == before->rsp + 8 &&
	    (bytes == 1 || bytes == 2) && s->regs.rip != newest->pc)
		newest->held = true;
}

/* Has this step been a call? Then the address behind it is the newest word of the stack. */
static void note_calls(struct stepper *s, const struct user_regs_struct *before)
{
	const struct user_regs_struct *now = &s->regs;
	uint64_t top = 0, after;

	note_held(s, before);
	forget_returned(s);
	if (now->rsp != before->rsp - 8 || !read_target(s, now->rsp, &top, 8))
		return;
	after = top - before->rip;
	if (after >= 2 && after <= 9 && now->rip != top)
		push(s, now->rsp, top);
}

static bool wait_stop(struct stepper *s, int *signal_number)
{
	int status;

	assert_int_equal(waitpid(s->pid, &status, __WALL), s->pid);
	if (!WIFSTOPPED(status))
		return false;
	*signal_number = WSTOPSIG(status);
	assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &s->regs), 0);
	return true;
}

/* The kernel has built a frame and jumped to the handler: the interrupted code is a frame of its
 * own. */
static void note_signal(struct stepper *s, const struct user_regs_struct *before)
{
	uint64_t restorer = 0;

	assert_true(read_target(s, s->regs.rsp, &restorer, 8));
	/* On a stack of its own the slots' order says nothing: gone when the restorer is. */
	push(s, s->regs.rsp + 8, before->rip);
	push(s, s->regs.rsp, restorer);
	s->signals++;
}

static bool at_syscall(struct stepper *s)
{
	uint8_t code[2] = { 0, 0 };

	read_target(s, s->regs.rip, code, 2);
	return code[0] == 0x0f && code[1] == 0x05;
}

/* One instruction, or the delivery of a signal. False: the target has ended. */
static bool step(struct stepper *s, int deliver)
{
	struct user_regs_struct before = s->regs;
	bool system_call = at_syscall(s);
	int signal_number;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->pid, NULL, (void *)(intptr_t)deliver), 0);
	if (!wait_stop(s, &signal_number))
		return false;
	if (signal_number != SIGTRAP)
		return step(s, signal_number);
	s->steps++;
	if (deliver && s->regs.rdi == (uint64_t)deliver && s->regs.rsp != before.rsp)
		note_signal(s, &before); /* else it was ignored */
	else
		note_calls(s, &before);
	if (system_call || !mapped(s, s->regs.rip))
		read_mappings(s);
	return true;
}

/* False: this place does not allow ptrace. */
static bool stepper_open(struct stepper *s, char *const *argv)
{
	char path[64];
	struct err err = { 0 };
	int signal_number;

	memset(s, 0, sizeof(*s));
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		personality(ADDR_NO_RANDOMIZE);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(126);
		execv(argv[0], argv);
		_exit(127);
	}
	if (!wait_stop(s, &signal_number))
		return false;
	assert_int_equal(signal_number, SIGTRAP);
	ptrace(PTRACE_SETOPTIONS, s->pid, NULL, (void *)(intptr_t)PTRACE_O_EXITKILL);
	snprintf(path, sizeof(path), "/proc/%d/mem", s->pid);
	s->memory = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(s->memory >= 0);
	assert_true(unwind_store_open_local(&s->store, 16 << 20, &err));
	assert_true(extents_take(&s->store.mapping_runs, MAPPINGS_SHOWN, &s->run));
	s->twin = twin_new();
	read_mappings(s);
	return true;
}

static void stepper_close(struct stepper *s)
{
	int status;

	close(s->memory);
	kill(s->pid, SIGKILL);
	while (waitpid(-1, &status, __WALL) > 0 || errno == EINTR)
		; /* its threads too: the process is gone when they all are */
	for (uint32_t i = 0; i < s->file_count; i++) {
		unwind_tables_free(s->files[i].tables);
		elf_file_free(s->files[i].elf);
	}
	twin_free(s->twin);
	unwind_store_close(&s->store);
}

/* On to an address of the program. */
static void run_to(struct stepper *s, uint64_t pc)
{
	int signal_number;
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, s->pid, (void *)pc, NULL);
	assert_int_equal(errno, 0);
	assert_int_equal(
		ptrace(PTRACE_POKETEXT, s->pid, (void *)pc, (void *)((word & ~0xffL) | 0xcc)), 0);
	do {
		assert_int_equal(ptrace(PTRACE_CONT, s->pid, NULL, NULL), 0);
		assert_true(wait_stop(s, &signal_number));
	} while (signal_number != SIGTRAP);
	assert_int_equal(s->regs.rip, pc + 1);
	assert_int_equal(ptrace(PTRACE_POKETEXT, s->pid, (void *)pc, (void *)word), 0);
	s->regs.rip = pc;
	assert_int_equal(ptrace(PTRACE_SETREGS, s->pid, NULL, &s->regs), 0);
	read_mappings(s);
}
