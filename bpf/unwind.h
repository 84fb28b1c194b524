/*
 * unwind.h - the unwinder: one frame per step, compiled twice.
 *
 * In a BPF program the steps run under one bpf_loop; in user space (unwind/twin.c) under a for
 * loop, over a stopped process, a recorded one, or the copied stack of a sample. Whoever includes
 * this file gives it, before:
 *
 *   bool env_read(struct unwind_cursor *c, void *to, __u32 bytes, __u64 address)   target's memory
 *   const struct unwind_mapping *env_mapping(c, __u32 index)      NULL: out of range
 *   struct unwind_executable *env_executable(c, __u32 id)   NULL: out of range
 *   const struct unwind_page *env_page(c, __u32 index)            NULL: out of range
 *   const struct unwind_row *env_block(c, __u32 block)            NULL: not there
 *   const struct unwind_rule *env_rule(c, __u32 index)            NULL: out of range
 *   const struct unwind_runtime *env_runtime(c, __u32 index)      NULL: out of range
 *   struct unwind_known *env_known(c, __u32 slot)           slot < UNWIND_KNOWN_SLOTS; NULL: none
 *   struct unwind_known_page *env_known_page(c, __u32 slot)  slot < UNWIND_KNOWN_PAGES
 *   bool env_stack_miss(c, __u64 at)                        unwind_stack_miss(walk of c, at)
 *   __u32 env_steps(c)             steps that are switched on, bits 1 << enum unwind_step_kind
 *
 * A step goes one frame on. cursor.step says whose turn it is: unwind_native() hands over where pc
 * lies in code of a runtime, before it pushes the frame; the runtime's step (step_*.h) then either
 * pushes and moves, or declines (unwind_decline()), and gives the turn back.
 *
 * Memory of the target is never trusted: every address is one that a read may refuse, every
 * frame must lie above the one it called, and no loop depends on what was read.
 */
#pragma once
#include "records.h"
#include "unwind_rows.h"

#ifndef UNWIND_INLINE
#define UNWIND_INLINE static inline __attribute__((always_inline))
#endif
#include "machine.h"

enum unwind_result {
	UNWIND_AGAIN,   /* the cursor stands on the next frame */
	UNWIND_STOPPED, /* walk.end says why */
	/* Inside a step only: go by frame pointer. One call for all who want it keeps the
	 * verifier's work small. */
	UNWIND_BY_FP,         /* if it is plausible */
	UNWIND_BY_SURE_FP,    /* the table promises one */
	UNWIND_BY_FOREIGN_FP, /* as sure, and the frame may lie on another stack */
	UNWIND_NOT_KNOWN,     /* nothing is remembered: look into the tables */
	UNWIND_BY_ROWS,       /* those in w->rows */
};

/* A walk: the cursor and what it has found so far. */
struct unwind_walk {
	struct unwind_cursor cursor;
	struct unwind_mapping mapping; /* the last one found: the next frame often lies in it */
	__u32 first_mapping, mapping_count;
	__u32 end; /* enum unwind_end, once stopped */
	__u32 word_count;
	__u32 executable;        /* of the frame of cursor.pc, if it has one */
	__u32 owner;             /* enum unwind_step_kind: whose frame that is */
	__u32 tracks_rbx;        /* of that executable's rules */
	struct unwind_page rows; /* among which its rule is */
	__u64 load_bias;
	__u32 now;                               /* the clock of unwind_executable.used */
	__u16 runtimes[UNWIND_PROCESS_RUNTIMES]; /* of the process */
	__u32 known_at;      /* UNWIND_KNOWN_AT(): what is remembered from another time is void */
	__u32 hotspot_named; /* hotspot.named is of this walk */
	__u32 padding;
	struct cpython_walk cpython;
	struct php_walk php;
	struct ruby_walk ruby;
	struct v8_walk v8;
	struct unwind_rule rule; /* as it stands at cursor.pc */
	struct unwind_window stack;
	struct sample_record record; /* directly before its words: what is sent is one piece */
	__u64 words[UNWIND_WORDS_MAX];
	/* Behind them: a native stack shall touch no more pages than it must. */
	struct cpython_room cpython_room;
	struct hotspot_walk hotspot;
};

UNWIND_INLINE int unwind_stop(struct unwind_walk *w, enum unwind_end end)
{
	w->end = end;
	return UNWIND_STOPPED;
}

/* The mapping that holds pc, into w->mapping. At most 2^16 mappings. Without a branch in the
 * search: unwind_find() says why. */
UNWIND_INLINE bool unwind_map(struct unwind_walk *w, __u64 pc)
{
	const struct unwind_mapping *m;
	__u64 lo = w->first_mapping, left = w->mapping_count;

	if (pc >= w->mapping.start && pc < w->mapping.end)
		return true;
	if (!left)
		return false;
	/* The first mapping whose end lies above pc. Ends are below 2^63; no pc above is found. */
	for (int i = 0; i < 16 && left > 1; i++) {
		__u64 half = left >> 1, below;

		m = env_mapping(&w->cursor, (__u32)(lo + half - 1));
		if (!m)
			return false;
		below = (__u64)((__s64)(m->end - 1 - pc) >> 63);
		UNWIND_OPAQUE(below);
		lo += half & below;
		left -= half;
	}
	m = env_mapping(&w->cursor, (__u32)lo);
	if (!m || pc < m->start || pc >= m->end)
		return false;
	w->mapping = *m;
	return true;
}

/* The data of this runtime in this process, or NULL. */
UNWIND_INLINE const struct unwind_runtime *unwind_runtime_of(struct unwind_walk *w, __u32 step)
{
	const struct unwind_runtime *r;

#pragma GCC unroll 6
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++) {
		if (!w->runtimes[i])
			break;
		r = env_runtime(&w->cursor, w->runtimes[i]);
		if (r && r->step == step)
			return r;
	}
	return NULL;
}

/* A walk begins: no runtime has had its turn. */
UNWIND_INLINE void unwind_begin(struct unwind_walk *w)
{
	w->cursor.step = UNWIND_STEP_NATIVE;
	w->cpython.frame = 0;
	w->cpython.state = CPYTHON_NEW;
	w->cpython.pushed = w->cpython.compiled = 0;
	w->cpython.scanned = 0;
	w->cpython.code = w->cpython.near = 0;
	w->cpython.window_bytes = 0;
	w->hotspot_named = 0;
	w->php.state = PHP_NEW;
	w->php.frame = 0;
	w->php.pushed = w->php.waiting = w->php.pcre_from = 0;
	w->ruby.state = RUBY_NEW;
	w->ruby.object = w->ruby.method = w->ruby.definition = 0;
	w->ruby.pushed = w->ruby.left_loop = w->ruby.started = 0;
	w->v8.function_map = w->v8.array_map = 0;
	w->stack.bytes = w->stack.careful = 0;
	w->end = UNWIND_END_DEPTH; /* what is true when the steps end by themselves */
}

/* Behind the outermost frame of the program lies one that only ends the list. */
UNWIND_INLINE bool ruby_is_cut(const struct ruby_walk *p)
{
	return p->state == RUBY_LOST ||
	       (p->state == RUBY_WALKING && p->end - p->frame > RUBY_FRAME_MOST);
}

/* The walk has ended: by what is known now, was it whole? */
UNWIND_INLINE void unwind_finish(struct unwind_walk *w)
{
	/* A fiber's stack of C begins with a return address of zero. */
	if (w->end == UNWIND_END_ZERO_PC && w->ruby.state == RUBY_WALKING && !ruby_is_cut(&w->ruby))
		w->end = UNWIND_END_BOTTOM;
	if (w->end == UNWIND_END_BOTTOM &&
	    (w->cpython.state == CPYTHON_LOST || w->php.state == PHP_LOST || w->php.frame ||
	     ruby_is_cut(&w->ruby)))
		w->end = UNWIND_END_RUNTIME;
}

/*
 * Reads memory from w->stack.start on into the window: as much as it holds, or, once that was
 * refused, only to the end of the page. A read costs a call and some 80 ns, however short it is:
 * one for a window of a stack instead of one for each frame.
 */
UNWIND_INLINE bool unwind_window_fill(struct unwind_walk *w)
{
	struct unwind_window *s = &w->stack;
	__u32 left = UNWIND_WINDOW_BYTES;

	if (!s->careful) {
		s->bytes = UNWIND_WINDOW_BYTES;
		if (env_read(&w->cursor, s->words, UNWIND_WINDOW_BYTES, s->start))
			return true;
		s->careful = 1;
	}
	left = 4096 - (s->start & 4095);
	if (left > UNWIND_WINDOW_BYTES)
		left = UNWIND_WINDOW_BYTES;
	s->bytes = left;
	if (env_read(&w->cursor, s->words, left, s->start))
		return true;
	s->bytes = 0;
	return false;
}

/* A word of the stack that is not in the window, into w->stack.word. */
UNWIND_INLINE bool unwind_stack_miss(struct unwind_walk *w, __u64 at)
{
	struct unwind_window *s = &w->stack;
	__u64 offset = at - w->cursor.sp;

	if (at & 7)
		return env_read(&w->cursor, &s->word, 8, at);
	/* What else will be asked for lies above SP. */
	s->start = (offset < UNWIND_WINDOW_BYTES / 2 ? w->cursor.sp : at) & ~7ull;
	/* A copied stack does not end with a page. */
	if (!unwind_window_fill(w))
		return env_read(&w->cursor, &s->word, 8, at);
	offset = at - s->start;
	if (offset >= s->bytes)
		return env_read(&w->cursor, &s->word, 8, at);
	s->word = s->words[(offset >> 3) & (UNWIND_WINDOW_BYTES / 8 - 1)];
	return true;
}

/* A word of the stack, which is read window by window. */
UNWIND_INLINE bool unwind_stack_word(struct unwind_walk *w, __u64 at, __u64 *value)
{
	struct unwind_window *s = &w->stack;
	__u64 offset = at - s->start;

	if (offset >= s->bytes || at & 7) {
		if (!env_stack_miss(&w->cursor, at))
			return false;
		*value = s->word;
		return true;
	}
	*value = s->words[(offset >> 3) & (UNWIND_WINDOW_BYTES / 8 - 1)];
	return true;
}

/* A runtime's step has nothing to say of this frame. */
UNWIND_INLINE int unwind_decline(struct unwind_walk *w)
{
	w->cursor.pushed = UNWIND_FRAME_DECLINED;
	w->cursor.step = UNWIND_STEP_NATIVE;
	return UNWIND_AGAIN;
}

/* Pushes a runtime's frame. False: no room is left. */
UNWIND_INLINE bool unwind_push_runtime(struct unwind_walk *w, __u32 tag, __u32 executable,
				       __u64 address, __u64 extra)
{
	__u32 n = w->word_count;

	if (n > UNWIND_WORDS_MAX - UNWIND_FRAME_WORDS_MAX ||
	    w->cursor.frame_count >= UNWIND_FRAMES_MAX)
		return false;
	w->words[n] = FRAME_HEADER(tag, 0, 2, executable);
	w->words[n + 1] = address;
	w->words[n + 2] = extra;
	w->word_count = n + 3;
	w->cursor.frame_count++;
	return true;
}

/* Pushes the frame of cursor.pc. False: no room is left. */
UNWIND_INLINE bool unwind_push(struct unwind_walk *w, __u32 tag, __u32 executable, __u64 address)
{
	__u32 n = w->word_count;

	if (n > UNWIND_WORDS_MAX - UNWIND_FRAME_WORDS_MAX ||
	    w->cursor.frame_count >= UNWIND_FRAMES_MAX)
		return false;
	w->words[n] = FRAME_HEADER(tag, w->cursor.return_address, 1, executable);
	w->words[n + 1] = address;
	w->word_count = n + 2;
	w->cursor.frame_count++;
	w->cursor.pushed = UNWIND_FRAME_PUSHED;
	return true;
}

/* The value of a register in this frame; only SP and FP are known above the leaf. */
UNWIND_INLINE bool unwind_register(const struct unwind_cursor *c, __u32 reg, __u64 *value)
{
	if (reg == UNWIND_REG_SP) {
		*value = c->sp;
		return true;
	}
	if (reg == UNWIND_REG_FP) {
		*value = c->fp;
		return true;
	}
	reg -= UNWIND_REG_LEAF;
	if (reg >= UNWIND_LEAF_REGS)
		return false;
	if (c->leaf_known != LEAF_ALL &&
	    (c->leaf_known != LEAF_RBX || reg != UNWIND_REG_RBX - UNWIND_REG_LEAF))
		return false;
	*value = c->leaf[reg];
	return true;
}

/* On to the caller. A frame lies above the one it called; only a leaf without a frame may keep SP.
 */
UNWIND_INLINE int unwind_to(struct unwind_walk *w, __u64 pc, __u64 sp, __u64 fp)
{
	struct unwind_cursor *c = &w->cursor;

	pc = unwind_code_address(pc);
	if (!pc)
		return unwind_stop(w, UNWIND_END_ZERO_PC);
	if (sp < c->sp || (sp == c->sp && !c->leaf_known))
		return unwind_stop(w, UNWIND_END_BAD_CFA);
	c->pc = pc;
	c->sp = sp;
	c->fp = fp;
	c->return_address = 1;
	c->leaf_known = LEAF_UNKNOWN;
	c->pushed = UNWIND_FRAME_NEW;
	return UNWIND_AGAIN;
}

#include "calls.h"

/*
 * By frame pointer. `sure` says that the table promises one; else it must be plausible: aligned,
 * above SP, not far, and a return address in executable memory; the next one above it or zero,
 * unless a call lies before the return address: the caller may use FP for something else.
 */
UNWIND_INLINE int unwind_by_frame_pointer(struct unwind_walk *w, bool sure, bool other_stack)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 pair[2] = { 0, 0 }, fp = c->fp;

#if !UNWIND_ARM64
	/* What CPython compiles is no function: FP is that of who entered it. */
	if (!sure && !c->return_address && w->owner != UNWIND_STEP_CPYTHON) {
		__u64 at = unwind_frameless(w);

		if (at && unwind_stack_word(w, at, &pair[1]))
			return unwind_to(w, pair[1], at + 8, fp);
	}
#endif
	if (!fp)
		return unwind_stop(w, sure ? UNWIND_END_BOTTOM : UNWIND_END_NO_RULE);
	if (!other_stack && fp < c->sp)
		return unwind_stop(w, sure ? UNWIND_END_BAD_CFA : UNWIND_END_NO_RULE);
	if (!sure && (fp & 7 || fp - c->sp > 1 << 20))
		return unwind_stop(w, UNWIND_END_NO_RULE);
	if (!unwind_stack_word(w, fp, &pair[0]) || !unwind_stack_word(w, fp + 8, &pair[1]))
		return unwind_stop(w, sure ? UNWIND_END_UNREADABLE : UNWIND_END_NO_RULE);
	if (!sure) {
		if (pair[0] && pair[0] <= fp && !unwind_returns(w, unwind_code_address(pair[1])))
			return unwind_stop(w, UNWIND_END_NO_RULE);
		/* A program's entry clears FP and leaves no return address: a good end. */
		if (!pair[0] && !pair[1])
			return unwind_stop(w, UNWIND_END_BOTTOM);
		if (!unwind_map(w, unwind_code_address(pair[1]) - 1))
			return unwind_stop(w, UNWIND_END_NO_RULE);
	}
	if (other_stack)
		c->sp = 0; /* the order of stacks says nothing: the next frame may lie anywhere */
	return unwind_to(w, pair[1], fp + 16, pair[0]);
}

/* The kernel's signal frame: the interrupted registers lie at `at`. */
UNWIND_INLINE int unwind_signal(struct unwind_walk *w, __u64 at)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 r[SIGNAL_REGISTERS];

	if (!env_read(c, r, sizeof(r), at))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	if (!r[SIGNAL_PC])
		return unwind_stop(w, UNWIND_END_ZERO_PC);
	/* A handler may run on a stack of its own: the order of the two stacks says nothing. */
	unwind_take_signal(c, r);
	c->return_address = 0;
	c->leaf_known = LEAF_ALL;
	c->pushed = UNWIND_FRAME_NEW;
	return UNWIND_AGAIN;
}

/* Go: from g0's stack to the goroutine that needed more stack (UNWIND_GO_MORESTACK), or has called
 * systemstack (UNWIND_GO_SYSTEMSTACK). */
UNWIND_INLINE int unwind_go_goroutine(struct unwind_walk *w, const struct unwind_rule *rule)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 g = 0, m = 0, saved[2], fp = c->fp;

	if (!env_read(c, &g, 8, c->tp + (__s64)rule->cfa_offset) || !env_read(c, &m, 8, g + 48) ||
	    !env_read(c, &g, 8, m + (__s64)rule->fp_offset))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	if (!g) /* the thread has let go of the goroutine and looks for another one */
		return unwind_stop(w, UNWIND_END_BOTTOM);
	if (!env_read(c, saved, sizeof(saved), g + 56))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	if (rule->kind == UNWIND_GO_SYSTEMSTACK) {
		if (!env_read(c, &saved[1], 8, saved[0]))
			return unwind_stop(w, UNWIND_END_UNREADABLE);
		saved[0] += 8;
	} else if (!env_read(c, &fp, 8, g + (__s64)rule->go_bp)) {
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	}
	c->sp = 0;
	return unwind_to(w, saved[1], saved[0], fp);
}

/* Where the caller's FP or RA is: `from` of a rule. */
UNWIND_INLINE bool unwind_value(struct unwind_walk *w, __u32 from, __s32 offset, __u64 cfa,
				__u64 *value, enum unwind_end *why)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 base;

	if (from == UNWIND_FROM_CFA) {
		base = cfa;
	} else if (from == UNWIND_FROM_FP) {
		base = c->fp;
	} else if (from == UNWIND_FROM_SP) {
		base = c->sp;
	} else if (from == UNWIND_FROM_LOST) {
		*value = 0;
		return true;
	} else if (UNWIND_ARM64 && from == UNWIND_FROM_SAME) {
		*why = UNWIND_END_LEAF_REGISTER;
		return unwind_register(c, UNWIND_REG_LR, value);
	} else if (from >= UNWIND_FROM_REG && from < UNWIND_FROM_COUNT) {
		*why = UNWIND_END_LEAF_REGISTER;
		return unwind_register(c, from - UNWIND_FROM_REG, value);
	} else {
		*why = UNWIND_END_BAD_RULE;
		return false;
	}
	*why = UNWIND_END_UNREADABLE;
	return unwind_stack_word(w, base + (__s64)offset, value);
}

/*
 * What is known of an address is remembered where it is a usual rule. A stack has few addresses
 * that the last ones had not, and the way through mappings, pages and rows touches a dozen cache
 * lines, which on the way of a sample are cold: 16 us of 20 for a stack of 30 frames.
 */
UNWIND_INLINE __u32 unwind_known_slot(__u64 pc)
{
	return (__u32)((pc * 0x9e3779b97f4a7c15u) >> (64 - UNWIND_KNOWN_BITS));
}

UNWIND_INLINE void unwind_remember(struct unwind_walk *w, __u32 kind, __s32 cfa_offset,
				   __s32 fp_offset)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 pc = c->pc - (c->return_address ? 1 : 0);
	struct unwind_known *k = env_known(c, unwind_known_slot(pc));

	if (!k || cfa_offset != (__s16)cfa_offset || fp_offset != (__s16)fp_offset)
		return;
	k->pc = pc;
	k->load_bias = w->load_bias;
	k->run = w->first_mapping;
	k->when = w->known_at;
	k->cfa_offset = (__s16)cfa_offset;
	k->fp_offset = (__s16)fp_offset;
	k->what = KNOWN(kind, w->owner, w->executable);
}

UNWIND_INLINE void unwind_remember_rule(struct unwind_walk *w, const struct unwind_rule *rule)
{
	if (rule->kind != UNWIND_CFA || rule->cfa_base > UNWIND_REG_FP ||
	    rule->ra_from != UNWIND_FROM_CFA || rule->ra_offset != -8)
		return;
	if (rule->fp_from == UNWIND_FROM_SAME)
		unwind_remember(w, KNOWN_BY_SP + rule->cfa_base, rule->cfa_offset, 0);
	else if (rule->fp_from == UNWIND_FROM_CFA && rule->fp_offset)
		unwind_remember(w, KNOWN_BY_SP + rule->cfa_base, rule->cfa_offset, rule->fp_offset);
}

/* CFA, FP and RA by the rule's own words: kinds CFA, CFA_RUN (as it stands at `low`), CFA_DEREF and
 * PLT. */
UNWIND_INLINE int unwind_by_rule(struct unwind_walk *w, const struct unwind_rule *in_row, __u32 low,
				 __u32 row_low)
{
	struct unwind_cursor *c = &w->cursor;
	/* Not on the stack: the verifier would follow each value of it on its own. */
	struct unwind_rule *rule = &w->rule;
	enum unwind_end why = UNWIND_END_BAD_RULE;
	__u64 cfa = 0, fp = c->fp, ra = 0, index = 0;
	__u32 ra_from = UNWIND_FROM_CFA;
	__s32 ra_offset = -8;

	unwind_rule_at(in_row, low, row_low, rule);
	if (!w->tracks_rbx)
		unwind_remember_rule(w, rule);
	if (rule->kind == UNWIND_PLT) {
		cfa = c->sp + 8 + ((c->pc & 15) >= (__u64)rule->cfa_offset ? 8 : 0);
		if (!unwind_stack_word(w, cfa - 8, &ra))
			return unwind_stop(w, UNWIND_END_UNREADABLE);
		return unwind_to(w, ra, cfa, fp);
	}
	if (!unwind_register(c, rule->cfa_base, &cfa))
		return unwind_stop(w, UNWIND_END_LEAF_REGISTER);
	cfa += (__s64)rule->cfa_offset;
	if (rule->kind == UNWIND_CFA_DEREF) {
		if (rule->index != UNWIND_REG_NONE) {
			if (!unwind_register(c, rule->index, &index))
				return unwind_stop(w, UNWIND_END_LEAF_REGISTER);
			cfa += index << 3;
		}
		if (!env_read(c, &cfa, 8, cfa))
			return unwind_stop(w, UNWIND_END_UNREADABLE);
		cfa += (__s64)rule->post;
	} else if (rule->kind == UNWIND_CFA) {
		ra_from = rule->ra_from;
		ra_offset = rule->ra_offset;
	}
	if (!unwind_value(w, ra_from, ra_offset, cfa, &ra, &why))
		return unwind_stop(w, why);
	if (rule->fp_from != UNWIND_FROM_SAME &&
	    !unwind_value(w, rule->fp_from, rule->fp_offset, cfa, &fp, &why))
		return unwind_stop(w, why);
	return unwind_to(w, ra, cfa, fp);
}

/* A step has been made by `rule`, with SP at the CFA: rbx in the caller, if it can be told. */
UNWIND_INLINE int unwind_track_rbx(struct unwind_cursor *c, const struct unwind_rule *rule,
				   __u32 known_before)
{
	if (rule->kind == UNWIND_CFA_RBX)
		known_before = env_read(c, &c->leaf[UNWIND_REG_RBX - UNWIND_REG_LEAF], 8,
					c->sp + (__s64)rule->rbx_offset);
	if (known_before)
		c->leaf_known = LEAF_RBX;
	return UNWIND_AGAIN;
}

/* Do all of these 4 KiB of elf_vaddr belong to the same step? */
UNWIND_INLINE bool unwind_one_owner(const struct unwind_executable *e, __u64 start)
{
	return !e->interpreter_step ||
	       (e->interpreter[0] - start - 1 >= 4095 && e->interpreter[1] - start - 1 >= 4095 &&
		e->interpreter2[0] - start - 1 >= 4095 && e->interpreter2[1] - start - 1 >= 4095);
}

UNWIND_INLINE void unwind_remember_page(struct unwind_walk *w, const struct unwind_executable *e,
					const struct unwind_row *rows, __u64 at)
{
	__u64 page = (at + w->load_bias) >> UNWIND_KNOWN_PAGE_SHIFT;
	struct unwind_known_page *k =
		env_known_page(&w->cursor, unwind_known_slot(page) >>
						   (UNWIND_KNOWN_BITS - UNWIND_KNOWN_PAGE_BITS));

	if (!k || w->load_bias & 4095 || !unwind_one_owner(e, at & ~4095ull))
		return;
	k->when = ~0u;
	k->page = page;
	k->load_bias = w->load_bias;
	k->run = w->first_mapping;
	k->executable = w->executable;
	k->owner = (__u16)w->owner;
	k->tracks_rbx = (__u16)w->tracks_rbx;
	k->rows = w->rows;
	k->rows.first = (__u16)unwind_find(rows, &w->rows, at & ~4095ull);
	k->rows.last = (__u16)unwind_find(rows, &w->rows, at | 4095);
	k->when = w->known_at;
}

/* w->rows are those of elf_vaddr `at`. */
UNWIND_INLINE int unwind_by_rows(struct unwind_walk *w, __u64 at)
{
	struct unwind_cursor *c = &w->cursor;
	const struct unwind_page *page = &w->rows;
	const struct unwind_row *rows = env_block(c, page->block);
	const struct unwind_rule *rule;
	__u32 i, row_low, known;
	int result;

	if (!rows)
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	i = unwind_find(rows, page, at);
	row_low = rows[i].low;
	rule = env_rule(c, rows[i].rule);
	if (!rule)
		return unwind_stop(w, UNWIND_END_BAD_RULE);
	switch (rule->kind) {
	case UNWIND_CFA:
	case UNWIND_CFA_RUN:
	case UNWIND_CFA_DEREF:
	case UNWIND_CFA_RBX:
	case UNWIND_PLT:
		known = c->leaf_known;
		result = unwind_by_rule(w, rule, at & 0xffff, row_low);
		if (result == UNWIND_AGAIN && w->tracks_rbx)
			return unwind_track_rbx(c, rule, known);
		return result;
	case UNWIND_FP:
		unwind_remember(w, KNOWN_SURE_FP, 16, -16);
		return UNWIND_BY_SURE_FP;
	case UNWIND_FP_OTHER_STACK:
		return UNWIND_BY_FOREIGN_FP;
	case UNWIND_NONE:
		return UNWIND_BY_FP;
	case UNWIND_SIGNAL:
		return unwind_signal(w, c->sp + (__s64)rule->cfa_offset);
	case UNWIND_GO_MORESTACK:
	case UNWIND_GO_SYSTEMSTACK:
		return unwind_go_goroutine(w, rule);
	case UNWIND_STOP:
		unwind_remember(w, KNOWN_STOP, 0, 0);
		return unwind_stop(w, UNWIND_END_BOTTOM);
	default:
		return unwind_stop(w, UNWIND_END_BAD_RULE);
	}
}

/* By the table of the executable. */
UNWIND_INLINE int unwind_by_table(struct unwind_walk *w, const struct unwind_executable *e,
				  __u64 at)
{
	struct unwind_cursor *c = &w->cursor;
	const struct unwind_page *page;
	const struct unwind_row *rows;
	__u64 n = (at >> UNWIND_PAGE_SHIFT) - e->first_page;

	if (n >= e->page_count)
		return UNWIND_BY_FP;
	page = env_page(c, e->page_base + (__u32)n);
	if (!page)
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	w->rows = *page;
	if (w->rows.state == UNWIND_PAGE_ABSENT)
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	if (w->rows.state == UNWIND_PAGE_EMPTY)
		return UNWIND_BY_FP;
	rows = env_block(c, w->rows.block);
	if (!rows)
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	w->tracks_rbx = e->flags & EXECUTABLE_TRACKS_RBX;
	unwind_remember_page(w, e, rows, at);
	return UNWIND_BY_ROWS;
}

/* Whose code is at pc, which lies in w->mapping? */
UNWIND_INLINE __u32 unwind_owner(const struct unwind_walk *w, const struct unwind_executable *e,
				 __u64 pc)
{
	__u64 at = pc - w->mapping.load_bias;

	if (!e)
		return w->mapping.step;
	if (!e->interpreter_step)
		return UNWIND_STEP_NATIVE;
	if ((at >= e->interpreter[0] && at < e->interpreter[1]) ||
	    (at >= e->interpreter2[0] && at < e->interpreter2[1]))
		return e->interpreter_step;
	return UNWIND_STEP_NATIVE;
}

/* By what is remembered of the code around pc. */
UNWIND_INLINE int unwind_by_known_page(struct unwind_walk *w, __u64 pc)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 page = pc >> UNWIND_KNOWN_PAGE_SHIFT;
	const struct unwind_known_page *k = env_known_page(
		c, unwind_known_slot(page) >> (UNWIND_KNOWN_BITS - UNWIND_KNOWN_PAGE_BITS));

	if (!k || k->page != page || k->run != w->first_mapping || !k->executable ||
	    k->when != w->known_at || !w->mapping_count)
		return UNWIND_NOT_KNOWN;
	w->executable = k->executable;
	w->load_bias = k->load_bias;
	w->owner = k->owner;
	w->tracks_rbx = k->tracks_rbx;
	w->rows = k->rows;
	if (w->owner != UNWIND_STEP_NATIVE && c->pushed == UNWIND_FRAME_NEW) {
		c->step = w->owner;
		return UNWIND_AGAIN;
	}
	if (c->pushed != UNWIND_FRAME_PUSHED &&
	    !unwind_push(w, FRAME_TAG_NATIVE, w->executable, c->pc - w->load_bias))
		return unwind_stop(w, UNWIND_END_DEPTH);
	return UNWIND_BY_ROWS;
}

/* By mapping and table: pushes the frame of pc and goes to its caller, or says that its frame
 * pointer leads there. */
UNWIND_INLINE int unwind_by_mapping(struct unwind_walk *w, __u64 pc)
{
	struct unwind_cursor *c = &w->cursor;
	struct unwind_executable *e;
	bool mapped = unwind_map(w, pc);
	bool placed =
		mapped && w->mapping.executable && w->mapping.load_bias != UNWIND_BIAS_UNKNOWN;

	e = placed ? env_executable(c, w->mapping.executable) : NULL;
	w->owner = UNWIND_STEP_NATIVE;
	w->executable = placed ? w->mapping.executable : 0;
	w->load_bias = w->mapping.load_bias;
	if (mapped && env_steps(c)) {
		__u32 owner = unwind_owner(w, e, pc);

		if (owner < UNWIND_STEP_COUNT && env_steps(c) >> owner & 1)
			w->owner = owner;
		if (w->owner != UNWIND_STEP_NATIVE && c->pushed == UNWIND_FRAME_NEW) {
			c->step = w->owner;
			return UNWIND_AGAIN;
		}
	}
	if (c->pushed != UNWIND_FRAME_PUSHED &&
	    !(placed ? unwind_push(w, FRAME_TAG_NATIVE, w->executable, c->pc - w->load_bias)
		     : unwind_push(w, FRAME_TAG_PC, 0, c->pc)))
		return unwind_stop(w, UNWIND_END_DEPTH);
	if (!mapped)
		return unwind_stop(w, UNWIND_END_NO_MAPPING);
	if (!w->mapping.executable)
		return UNWIND_BY_FP;
	if (!placed)
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	if (!e || !(e->flags & EXECUTABLE_LOADED))
		return unwind_stop(w, UNWIND_END_NO_TABLE);
	e->used = w->now;
	return unwind_by_table(w, e, pc - w->load_bias);
}

/* One native frame, by what is remembered of its address. */
UNWIND_INLINE int unwind_native_known(struct unwind_walk *w)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 pc = c->pc - (c->return_address ? 1 : 0), cfa, ra = 0, fp = c->fp;
	const struct unwind_known *k = env_known(c, unwind_known_slot(pc));
	__u32 kind;

	if (!k || k->pc != pc || k->run != w->first_mapping || k->when != w->known_at ||
	    !w->mapping_count)
		return UNWIND_NOT_KNOWN;
	kind = KNOWN_KIND(k->what);
	if (kind == KNOWN_NOTHING)
		return UNWIND_NOT_KNOWN;
	w->executable = KNOWN_EXECUTABLE(k->what);
	if (KNOWN_OWNER(k->what) != UNWIND_STEP_NATIVE && c->pushed == UNWIND_FRAME_NEW) {
		w->load_bias = k->load_bias;
		c->step = KNOWN_OWNER(k->what);
		return UNWIND_AGAIN;
	}
	if (c->pushed != UNWIND_FRAME_PUSHED &&
	    !unwind_push(w, FRAME_TAG_NATIVE, w->executable, c->pc - k->load_bias))
		return unwind_stop(w, UNWIND_END_DEPTH);
	if (kind == KNOWN_STOP)
		return unwind_stop(w, UNWIND_END_BOTTOM);
	if (kind == KNOWN_SURE_FP) {
		if (!fp)
			return unwind_stop(w, UNWIND_END_BOTTOM);
		if (fp < c->sp)
			return unwind_stop(w, UNWIND_END_BAD_CFA);
	}
	cfa = (kind == KNOWN_BY_SP ? c->sp : fp) + (__s64)k->cfa_offset;
	if (!unwind_stack_word(w, cfa - 8, &ra) ||
	    (k->fp_offset && !unwind_stack_word(w, cfa + (__s64)k->fp_offset, &fp)))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	return unwind_to(w, ra, cfa, fp);
}

/* One native frame, by the tables. */
UNWIND_INLINE int unwind_native_looked_up(struct unwind_walk *w)
{
	__u64 pc = w->cursor.pc - (w->cursor.return_address ? 1 : 0);
	int result = unwind_by_known_page(w, pc);

	if (result == UNWIND_NOT_KNOWN)
		result = unwind_by_mapping(w, pc);
	if (result == UNWIND_BY_ROWS)
		result = unwind_by_rows(w, pc - w->load_bias);
	if (result == UNWIND_AGAIN || result == UNWIND_STOPPED)
		return result;
	return unwind_by_frame_pointer(w, result != UNWIND_BY_FP, result == UNWIND_BY_FOREIGN_FP);
}

/* One native frame. */
UNWIND_INLINE int unwind_native(struct unwind_walk *w)
{
	int result = unwind_native_known(w);

	return result == UNWIND_NOT_KNOWN ? unwind_native_looked_up(w) : result;
}

#include "step_cpython.h"
#include "step_hotspot.h"
#include "step_php.h"
#include "step_ruby.h"
#include "step_v8.h"
