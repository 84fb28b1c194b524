/*
 * step_ruby.h - one Ruby frame of Ruby 2.7 to 3.3, in place of the native frame of the virtual
 * machine's loop (vm_exec_core). Compiled for BPF and as plain C, as unwind.h.
 *
 * The thread's execution context leads to its newest control frame; the caller's lies behind it, up
 * to the end of the VM's stack. Methods written in C have one as well. One run of the loop goes as
 * far as the frame that has FINISH. vm_exec() runs the loop, and unwinds exceptions without it: its
 * native frame stands for the run where no loop lies above.
 *
 * Which method a frame runs stands below its environment (ep), or below one that encloses it.
 *
 * Sources: Ruby's vm_core.h, vm_insnhelper.c; the offsets come from user space
 * (src/agent/runtimes/ruby/).
 */
#pragma once

#define RUBY_U64(w, offset) CPYTHON_U64(w, offset)

/* Back to the native walk. */
UNWIND_INLINE int ruby_leave(struct unwind_walk *w, const struct ruby_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 pc = c->pc - (c->return_address ? 1 : 0);

	c->step = UNWIND_STEP_NATIVE;
	c->pushed = w->ruby.pushed ? UNWIND_FRAME_PUSHED : UNWIND_FRAME_DECLINED;
	w->ruby.pushed = 0;
	w->ruby.left_loop = pc - r->loop_start < r->loop_bytes;
	return UNWIND_AGAIN;
}

UNWIND_INLINE int ruby_lose(struct unwind_walk *w, const struct ruby_runtime *r)
{
	w->ruby.state = RUBY_LOST;
	return ruby_leave(w, r);
}

/* The thread's execution context. */
UNWIND_INLINE bool ruby_context(struct unwind_walk *w, const struct ruby_runtime *r, __u64 *context)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 at = r->context;

	if (r->tls_module) { /* glibc's dtv: x86-64 psABI's thread control block */
		if (!env_read(c, &at, 8, c->tp + 8) ||
		    !env_read(c, &at, 8, at + 16 * (__u64)r->tls_module))
			return false;
		at += (__u64)(__s64)r->tls_offset;
	} else if (r->tls_offset) {
		at = c->tp + (__u64)(__s64)r->tls_offset;
	}
	return env_read(c, context, 8, at) && *context;
}

UNWIND_INLINE bool ruby_start(struct unwind_walk *w, const struct ruby_runtime *r)
{
	struct ruby_walk *p = &w->ruby;
	__u64 context, stack, words;

	p->state = RUBY_LOST;
	if (!ruby_context(w, r, &context) ||
	    !env_read(&w->cursor, w->cpython_room.block, CPYTHON_FRAME_BYTES, context))
		return false;
	stack = RUBY_U64(w, r->context_stack);
	words = RUBY_U64(w, r->context_stack_words);
	p->frame = RUBY_U64(w, r->context_frame);
	if (words > RUBY_STACK_WORDS_MOST)
		return false;
	p->end = stack + words * 8;
	if (p->frame < stack || p->frame > p->end || p->frame & 7)
		return false;
	p->state = RUBY_WALKING;
	return true;
}

/* The control frame into the block: they lie side by side, the caller behind the one it called. */
UNWIND_INLINE bool ruby_read(struct unwind_walk *w, __u64 frame)
{
	struct cpython_room *room = &w->cpython_room;
	struct cpython_walk *p = &w->cpython;
	__u64 offset = frame - p->window_start;

	if (offset > UNWIND_WINDOW_BYTES - RUBY_FRAME_BYTES || !p->window_bytes) {
		p->window_bytes = 0;
		p->window_start = frame;
		offset = 0;
		if (!env_read(&w->cursor, room->window, UNWIND_WINDOW_BYTES, frame))
			return env_read(&w->cursor, room->block, RUBY_FRAME_BYTES, frame);
		p->window_bytes = UNWIND_WINDOW_BYTES;
	}
	offset >>= 3;
	if (offset > (UNWIND_WINDOW_BYTES - RUBY_FRAME_BYTES) / 8)
		return false;
#pragma GCC unroll 5
	for (int i = 0; i < RUBY_FRAME_BYTES / 8; i++)
		room->block[i] = room->window[offset + i];
	return true;
}

/* The method entry that an object of the VM is or leads to; 0: it is none. Also reads its
 * definition: method[1]. */
UNWIND_INLINE void ruby_method(struct unwind_walk *w, __u64 object, bool local)
{
	struct ruby_walk *p = &w->ruby;
	__u64 words[3] = { 0, 0, 0 };
	__u32 kind;

	if (object == p->object)
		return;
	p->object = object;
	p->method = p->definition = 0;
	if (!object || object & 7 || !env_read(&w->cursor, words, sizeof(words), object))
		return;
	if (local && RUBY_KIND(words[0]) == RUBY_SPECIAL_VARIABLES) {
		object = words[1];
		if (object & 7 || !env_read(&w->cursor, words, sizeof(words), object))
			return;
	}
	kind = RUBY_KIND(words[0]);
	if (kind != RUBY_METHOD)
		return;
	p->method = object;
	p->definition = words[2];
}

/* The method in which the frame's code stands: ep[-2], of its environment or an outer one. */
UNWIND_INLINE bool ruby_enclosing(struct unwind_walk *w, __u64 ep, __u64 *flags)
{
	__u64 words[3] = { 0, 0, 0 };

	*flags = 0;
	for (int i = 0; i < RUBY_SCOPES_MOST; i++) {
		if (ep & 7 || !env_read(&w->cursor, words, sizeof(words), ep - 16))
			return false;
		if (!i)
			*flags = words[2];
		ruby_method(w, words[0], words[2] & RUBY_FLAG_LOCAL);
		if (w->ruby.method || words[2] & RUBY_FLAG_LOCAL)
			return true;
		ep = words[1] & ~3ull;
	}
	return true;
}

UNWIND_INLINE bool ruby_push(struct unwind_walk *w, const struct ruby_runtime *r, __u64 type)
{
	const struct ruby_walk *p = &w->ruby;
	__u64 pc = RUBY_U64(w, r->frame_pc), iseq = RUBY_U64(w, r->frame_iseq);

	if (type == RUBY_FRAME_C)
		return unwind_push_runtime(w, FRAME_TAG_RUBY, r->executable,
					   RUBY_FIRST(p->method, p->definition), RUBY_SECOND_C);
	return unwind_push_runtime(w, FRAME_TAG_RUBY, r->executable, RUBY_FIRST(iseq, pc),
				   RUBY_SECOND(p->method, pc));
}

/* The innermost frame, which C code runs, is still to be run: it was made, and its vm_exec() does
 * not lie on the stack. */
UNWIND_INLINE bool ruby_is_waiting(struct unwind_walk *w, const struct ruby_runtime *r)
{
	__u64 body = 0, code = 0;

	if (w->ruby.started)
		return false;
	w->ruby.started = 1;
	return w->cursor.frame_count && RUBY_U64(w, r->frame_iseq) &&
	       env_read(&w->cursor, &body, 8, RUBY_U64(w, r->frame_iseq) + r->iseq_body) &&
	       env_read(&w->cursor, &code, 8, body + r->body_code) &&
	       code == RUBY_U64(w, r->frame_pc);
}

UNWIND_INLINE int ruby_frame(struct unwind_walk *w, const struct ruby_runtime *r)
{
	struct ruby_walk *p = &w->ruby;
	__u64 flags, type;

	if (p->frame + r->frame_bytes >
	    p->end) /* code of the machine, before or behind all frames */
		return ruby_leave(w, r);
	if (!ruby_read(w, p->frame) || !ruby_enclosing(w, RUBY_U64(w, r->frame_ep), &flags))
		return ruby_lose(w, r);
	p->frame += r->frame_bytes;
	type = flags & RUBY_FRAME_MASK;
	if (!(flags & 1) || !type)
		return ruby_lose(w, r);
	if (ruby_is_waiting(w, r))
		flags &= ~(__u64)RUBY_FLAG_FINISH;
	/* What has neither is no function of Ruby's: the C function is there as a native frame. */
	if (type == RUBY_FRAME_C ? p->method != 0
				 : type != RUBY_FRAME_DUMMY && type != RUBY_FRAME_BLOCK_IN_C &&
					   RUBY_U64(w, r->frame_iseq) && RUBY_U64(w, r->frame_pc)) {
		if (!ruby_push(w, r, type))
			return unwind_stop(w, UNWIND_END_DEPTH);
		p->pushed = 1;
	}
	return flags & RUBY_FLAG_FINISH ? ruby_leave(w, r) : UNWIND_AGAIN;
}

/* One Ruby frame of the run of the machine that pc is in. */
UNWIND_INLINE int unwind_ruby(struct unwind_walk *w)
{
	const struct unwind_runtime *r = unwind_runtime_of(w, UNWIND_STEP_RUBY);
	struct unwind_cursor *c = &w->cursor;
	__u64 pc = c->pc - (c->return_address ? 1 : 0);

	if (!r) { /* its frames run, and nothing is known of them yet */
		w->ruby.state = RUBY_LOST;
		return unwind_decline(w);
	}
	if (w->ruby.left_loop && pc - r->ruby.loop_start >= r->ruby.loop_bytes) {
		w->ruby.left_loop = 0; /* vm_exec() of the loop that was just left */
		return unwind_decline(w);
	}
	if (w->ruby.state == RUBY_NEW && !ruby_start(w, &r->ruby))
		return ruby_leave(w, &r->ruby);
	if (w->ruby.state != RUBY_WALKING)
		return ruby_leave(w, &r->ruby);
	return ruby_frame(w, &r->ruby);
}
