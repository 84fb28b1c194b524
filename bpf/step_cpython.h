/*
 * step_cpython.h - one Python frame of CPython 3.6 to 3.15, in place of the native frame of the
 * evaluation loop that runs it. Compiled for BPF and as plain C, as unwind.h.
 *
 * The thread's state (PyThreadState) is found in thread-specific storage, and leads to the newest
 * Python frame; frames are linked from there. The native walk tells where each evaluation loop is;
 * how many Python frames one loop runs is the version's business (enum cpython_loop). Each step
 * pushes {code object, offset of the instruction << 32 | cookie of the code object}.
 *
 * Sources: CPython's Include/internal/pycore_frame.h, pycore_pystate.h and cpython/frameobject.h of
 * each version; the offsets come from user space (src/agent/runtimes/).
 */
#pragma once

#define CPYTHON_U64(w, offset) \
	(*(const __u64 *)(const void *)((const char *)(w)->cpython_room.block + ((offset)&120)))
#define CPYTHON_U32(w, offset) \
	(*(const __u32 *)(const void *)((const char *)(w)->cpython_room.block + ((offset)&124)))
#define CPYTHON_U8(w, offset) (((const __u8 *)(w)->cpython_room.block)[(offset)&127])

enum { CPYTHON_LOOP_WORDS = 96, CPYTHON_LOOP_WORDS_BELOW = 32 };

/* Back to the native walk; the loop's own frame is shown only if it runs no Python frame yet. */
UNWIND_INLINE int unwind_cpython_leave(struct unwind_walk *w)
{
	struct cpython_walk *p = &w->cpython;

	w->cursor.pushed = p->pushed ? UNWIND_FRAME_PUSHED : UNWIND_FRAME_DECLINED;
	if (p->pushed && !w->executable) {
		p->compiled = (__u16)(w->cursor.frame_count + 1);
		p->scanned = 1;
		p->saved_fp = 0;
	} else {
		w->cursor.step = UNWIND_STEP_NATIVE;
	}
	p->pushed = 0;
	return UNWIND_AGAIN;
}

/* Is the code at `pc` a loop's, or compiled by the interpreter? */
UNWIND_INLINE bool unwind_cpython_owns(struct unwind_walk *w, __u64 pc)
{
	const struct unwind_executable *e = NULL;

	if (!unwind_map(w, pc))
		return false;
	if (w->mapping.executable)
		e = env_executable(&w->cursor, w->mapping.executable);
	return (e || !w->mapping.executable) && unwind_owner(w, e, pc) == UNWIND_STEP_CPYTHON;
}

/*
 * Compiled code (3.14 and later) is anonymous and has no rules. The loop that entered it lies
 * below, behind a function that has saved its registers: one word of the stack a step is looked at.
 * FP is the loop's, or that function's (3.15), or one more register (3.14): then it was saved, too.
 */
UNWIND_INLINE int unwind_cpython_scan(struct unwind_walk *w)
{
	struct unwind_cursor *c = &w->cursor;
	struct cpython_walk *p = &w->cpython;
	__u64 at = c->sp + 8 * (__u64)(p->scanned - 1), word = 0, fp = c->fp;

	if (p->scanned++ == CPYTHON_SCAN_MOST || !unwind_stack_word(w, at, &word)) {
		p->scanned = 0;
		c->step = UNWIND_STEP_NATIVE;
		return UNWIND_AGAIN;
	}
	if (!unwind_cpython_owns(w, word - 1) || !w->mapping.executable) {
		if (p->saved_fp <= at && word > at && word - at < 1 << 20)
			p->saved_fp = word;
		p->word_before = word;
		return UNWIND_AGAIN;
	}
	if (fp + 8 == at)
		fp = p->word_before;
	else if (fp <= at || fp - at > 1 << 20)
		fp = p->saved_fp;
	p->scanned = 0;
	c->step = UNWIND_STEP_NATIVE;
	return unwind_to(w, word, at + 8, fp);
}

/* The loop below compiled code has no frames of its own: they were pushed in that one's place. */
UNWIND_INLINE bool unwind_cpython_is_behind(struct unwind_walk *w)
{
	if (!w->executable || w->cpython.compiled != w->cursor.frame_count + 1)
		return false;
	w->cpython.compiled = 0;
	w->cpython.pushed = 1;
	return true;
}

/* No more Python frames in this walk; if they were lost, the stack's end will say so. */
UNWIND_INLINE int unwind_cpython_finish(struct unwind_walk *w, __u32 state)
{
	w->cpython.state = state;
	return unwind_cpython_leave(w);
}

/* The newest frame of a thread's state. False: it cannot be read. */
UNWIND_INLINE bool unwind_cpython_newest(struct unwind_walk *w, const struct cpython_runtime *r,
					 __u64 thread)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 frame = 0;

	if (!env_read(c, &frame, 8, thread + r->thread_frame))
		return false;
	if (r->cframe >= 0 && !env_read(c, &frame, 8, frame + (__s64)r->cframe))
		return false;
	w->cpython.frame = frame;
	w->cpython.thread = thread;
	return true;
}

/* In the threads of `interpreter` from `other` on, then in those of older interpreters. */
UNWIND_INLINE void unwind_cpython_seek(struct unwind_walk *w, __u64 interpreter, __u64 other)
{
	w->cpython.state = CPYTHON_SEEKING;
	w->cpython.interpreter = interpreter;
	w->cpython.other = other;
}

/* A script that another thread than its maker's runs in an interpreter may do so with the maker's
 * state, the first one there. */
UNWIND_INLINE bool unwind_cpython_is_first(struct unwind_walk *w, const struct cpython_runtime *r,
					   __u64 thread)
{
	__u64 word = 0;

	return thread && env_read(&w->cursor, &word, 8, thread + r->thread_interpreter) &&
	       env_read(&w->cursor, &word, 8, word + r->interpreter_threads) && word == thread;
}

/* The newest frame of a state, 0: none, or it cannot be read. */
UNWIND_INLINE __u64 unwind_cpython_frame_of(struct unwind_walk *w, const struct cpython_runtime *r,
					    __u64 thread)
{
	__u64 frame = 0;

	if (!thread || !env_read(&w->cursor, &frame, 8, thread + r->thread_frame) ||
	    (r->cframe >= 0 && !env_read(&w->cursor, &frame, 8, frame + (__s64)r->cframe)))
		return 0;
	return frame;
}

/* Whose newest frame does the innermost loop run, which the cursor is at: that of `one` (bit 0) or
 * of `other` (bit 1)? It keeps the frame's address in its own frame on the stack, or what it calls
 * has saved it in its. */
UNWIND_INLINE __u32 unwind_cpython_who_runs(struct unwind_walk *w, const struct cpython_runtime *r,
					    __u64 one, __u64 other)
{
	struct cpython_room *room = &w->cpython_room;
	__u64 not_one = ~(__u64)0, not_other = ~(__u64)0, differs;

	one = unwind_cpython_frame_of(w, r, one);
	other = unwind_cpython_frame_of(w, r, other);
	w->cpython.window_bytes = 0; /* it is no window of frames now */
	if (!env_read(&w->cursor, room->window, CPYTHON_LOOP_WORDS * 8,
		      w->cursor.sp - CPYTHON_LOOP_WORDS_BELOW * 8))
		return 0;
	/* Without branches, of which the verifier would follow each: the top bit of n | -n says
	 * that n is not zero. */
	for (__u32 i = 0; i < CPYTHON_LOOP_WORDS; i++) {
		differs = room->window[i] ^ one;
		UNWIND_OPAQUE(differs);
		not_one &= differs | -differs;
		differs = room->window[i] ^ other;
		UNWIND_OPAQUE(differs);
		not_other &= differs | -differs;
	}
	return (one && !(not_one >> 63) ? 1 : 0) | (other && !(not_other >> 63) ? 2 : 0);
}

/*
 * Is it, among several interpreters, the state in thread-specific storage that runs? From 3.12 on
 * that is the last one that the thread has used, up to 3.11 the first one that it got. Then the
 * state that holds the lock is known, too, but not which thread runs it: a script that another
 * thread than its maker's runs in an interpreter may do so with the maker's state. False: to be
 * sought.
 */
UNWIND_INLINE bool unwind_cpython_choose(struct unwind_walk *w, const struct cpython_runtime *r,
					 __u64 *thread, bool *own)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 current = 0, id = 0, newest = 0;
	__u32 runs;

	if (!r->current) {
		if (!*own)
			*own = unwind_cpython_is_first(w, r, *thread);
		return true;
	}
	if (!env_read(c, &current, 8, w->load_bias + r->current) || current == *thread)
		return true;
	if (current && !env_read(c, &id, 8, current + r->thread_id))
		current = 0;
	runs = unwind_cpython_who_runs(w, r, current, *own ? *thread : 0);
	/* Who is in the loop itself has the lock. */
	if (!c->return_address && current &&
	    (id == c->tp || unwind_cpython_is_first(w, r, current)))
		runs = 1;
	if (!runs && current && id == c->tp)
		runs = 1;
	if (runs & 1) {
		*thread = current;
		*own = true;
	}
	if (runs || !*own || !r->interpreters ||
	    !env_read(c, &newest, 8, w->load_bias + r->interpreters) ||
	    !env_read(c, &current, 8, newest + r->interpreter_threads))
		return true;
	unwind_cpython_seek(w, newest, current);
	return false;
}

/* The newest frame of this thread, or where to seek it. False: there is none to be found. */
UNWIND_INLINE bool unwind_cpython_start(struct unwind_walk *w, const struct cpython_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 thread = 0, id = 0, list[2] = { 0, 0 };
	bool own;

	/* A thread without Python state is nothing amiss. */
	w->cpython.state = r->guessed ? CPYTHON_LOST : CPYTHON_DONE;
	w->cpython.seek_left = CPYTHON_SEEK_MOST;
	if (!env_read(c, &thread, 8, c->tp + (__s64)r->tls_offset))
		return false;
	if (r->tls_inner >= 0 &&
	    (!thread || !env_read(c, &thread, 8, thread + (__s64)r->tls_inner)))
		return false;
	/* What lies there is another key's value before the interpreter has made its own. */
	own = thread && env_read(c, &id, 8, thread + r->thread_id) && id == c->tp;
	w->cpython.several =
		!r->interpreters ||
		(env_read(c, list, 16, w->load_bias + r->interpreters) && list[0] != list[1]);
	if (w->cpython.several && !unwind_cpython_choose(w, r, &thread, &own))
		return true;
	if (!own)
		return false;
	w->cpython.state = CPYTHON_LOST;
	if (!unwind_cpython_newest(w, r, thread))
		return false;
	w->cpython.state = CPYTHON_WALKING;
	return true;
}

/* The frames of one interpreter have ended, and there is another loop: a thread that went from one
 * interpreter into another has a state in each. They are looked through from the newest on. */
UNWIND_INLINE int unwind_cpython_older(struct unwind_walk *w, const struct cpython_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 thread = 0;

	w->cpython.state = CPYTHON_DONE;
	if (!w->cpython.several)
		return unwind_cpython_leave(w);
	if (r->interpreters) {
		if (!env_read(c, &thread, 8, w->cpython.thread + r->thread_interpreter))
			return unwind_cpython_finish(w, CPYTHON_LOST);
		unwind_cpython_seek(w, thread, 0);
		return UNWIND_AGAIN;
	}
	/* 3.6 does not say where its interpreters are: the thread's first state it is. */
	if (!env_read(c, &thread, 8, c->tp + (__s64)r->tls_offset) ||
	    (r->tls_inner >= 0 && !env_read(c, &thread, 8, thread + (__s64)r->tls_inner)) ||
	    thread == w->cpython.thread || !unwind_cpython_newest(w, r, thread))
		return unwind_cpython_leave(w);
	w->cpython.several = 0;
	w->cpython.state = CPYTHON_WALKING;
	return UNWIND_AGAIN;
}

/* One thread, or one interpreter, further. */
UNWIND_INLINE int unwind_cpython_seek_on(struct unwind_walk *w, const struct cpython_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	struct cpython_walk *p = &w->cpython;
	__u64 thread = p->other, id = 0;

	if (!p->seek_left--)
		return unwind_cpython_finish(w, CPYTHON_LOST);
	if (!thread) {
		if (!env_read(c, &p->interpreter, 8, p->interpreter + r->interpreter_next))
			return unwind_cpython_finish(w, CPYTHON_LOST);
		if (!p->interpreter)
			return unwind_cpython_finish(w, CPYTHON_DONE);
		if (!env_read(c, &p->other, 8, p->interpreter + r->interpreter_threads))
			return unwind_cpython_finish(w, CPYTHON_LOST);
		return UNWIND_AGAIN;
	}
	if (!env_read(c, &id, 8, thread + r->thread_id) ||
	    !env_read(c, &p->other, 8, thread + r->thread_next))
		return unwind_cpython_finish(w, CPYTHON_LOST);
	if (id != c->tp)
		return UNWIND_AGAIN;
	if (!unwind_cpython_newest(w, r, thread))
		return unwind_cpython_finish(w, CPYTHON_LOST);
	if (p->frame)
		p->state = CPYTHON_WALKING;
	return UNWIND_AGAIN;
}

/* What tells this code object from the next one at its address; 0: it could not be read. ~0: not a
 * function of anybody's, but the interpreter's own (it calls __init__ for a class), where file and
 * name are the same object. */
UNWIND_INLINE __u64 unwind_cpython_cookie(struct unwind_walk *w, const struct cpython_runtime *r,
					  __u64 code)
{
	__u64 file, name, more, cookie;

	if (code == w->cpython.code) /* it calls itself */
		return w->cpython.cookie;
	w->cpython.code = 0;
	if (!env_read(&w->cursor, w->cpython_room.block, CPYTHON_CODE_BYTES, code + r->code_base))
		return 0;
	w->cpython.code = code;
	file = CPYTHON_U64(w, r->code_file);
	name = CPYTHON_U64(w, r->code_file + 8);
	more = CPYTHON_U64(w, r->code_file + 16);
	cookie = file == name ? ~(__u64)0
			      : cpython_cookie(file, name, more, CPYTHON_U32(w, r->code_line));
	w->cpython.cookie = cookie;
	return cookie;
}

/*
 * A frame into the block. From 3.11 on most frames of a thread lie side by side, the caller below
 * the one it called: where that is so, they are read many at a time.
 */
UNWIND_INLINE bool unwind_cpython_read(struct unwind_walk *w, __u64 frame)
{
	struct cpython_room *room = &w->cpython_room;
	struct cpython_walk *p = &w->cpython;
	__u64 offset = frame - p->window_start, near = p->near - frame;

	p->near = frame;
	if (offset > UNWIND_WINDOW_BYTES - CPYTHON_FRAME_BYTES || !p->window_bytes) {
		p->window_bytes = 0;
		if (near > UNWIND_WINDOW_BYTES / 2)
			return env_read(&w->cursor, room->block, CPYTHON_FRAME_BYTES, frame);
		/* Downwards, but not into another page, which may not be there. */
		offset = frame & 4095;
		if (offset > UNWIND_WINDOW_BYTES - CPYTHON_FRAME_BYTES)
			offset = UNWIND_WINDOW_BYTES - CPYTHON_FRAME_BYTES;
		p->window_start = frame - offset;
		if (!env_read(&w->cursor, room->window, UNWIND_WINDOW_BYTES, p->window_start))
			return env_read(&w->cursor, room->block, CPYTHON_FRAME_BYTES, frame);
		p->window_bytes = UNWIND_WINDOW_BYTES;
	}
	offset >>= 3;
	if (frame & 7 || offset > (UNWIND_WINDOW_BYTES - CPYTHON_FRAME_BYTES) / 8)
		return env_read(&w->cursor, room->block, CPYTHON_FRAME_BYTES, frame);
#pragma GCC unroll 10
	for (int i = 0; i < CPYTHON_FRAME_BYTES / 8; i++)
		room->block[i] = room->window[offset + i];
	return true;
}

/* Where the instructions of the code object begin that the frame in the block runs. */
UNWIND_INLINE __u64 unwind_cpython_code_base(struct unwind_walk *w, const struct cpython_runtime *r,
					     __u64 code)
{
	__u64 base = code + r->code_instructions, copies = 0;
	__u32 copy;

	if (!r->frame_tlbc)
		return base;
	copy = CPYTHON_U32(w, r->frame_tlbc) & 0xffff;
	/* struct _PyCodeArray: how many, then where they are; the first is the code object's. */
	if (copy && env_read(&w->cursor, &copies, 8, code + r->code_tlbc))
		env_read(&w->cursor, &base, 8, copies + 8 + 8 * (__u64)copy);
	return base;
}

UNWIND_INLINE int unwind_cpython_frame(struct unwind_walk *w, const struct cpython_runtime *r)
{
	__u64 code, cookie, frame = w->cpython.frame;
	__u32 at, executable = w->executable ? w->executable : r->executable;
	bool last;

	if (r->loop == CPYTHON_LOOP_OF_ONE ? !env_read(&w->cursor, w->cpython_room.block,
						       CPYTHON_FRAME_OBJECT_BYTES, frame)
					   : !unwind_cpython_read(w, frame))
		return unwind_cpython_finish(w, CPYTHON_LOST);
	w->cpython.frame = CPYTHON_U64(w, r->frame_previous);
	code = CPYTHON_U64(w, r->frame_code) & ~7ull; /* from 3.14 on with a tag */
	last = r->loop == CPYTHON_LOOP_OF_ONE;
	if (r->loop == CPYTHON_LOOP_OF_ONE) {
		at = CPYTHON_U32(w, r->frame_instruction) * r->instruction_bytes;
	} else {
		at = (__u32)(CPYTHON_U64(w, r->frame_instruction) -
			     unwind_cpython_code_base(w, r, code));
		if (r->loop == CPYTHON_LOOP_TO_ENTRY)
			last = CPYTHON_U8(w, r->frame_owner);
		else if (CPYTHON_U8(w, r->frame_owner) >= r->owner_shim)
			return unwind_cpython_leave(w);
	}
	cookie = unwind_cpython_cookie(w, r, code);
	if (cookie != ~(__u64)0) {
		if (!unwind_push_runtime(w, FRAME_TAG_CPYTHON, executable, code,
					 (__u64)at << 32 | (cookie & 0xffffffff)))
			return unwind_stop(w, UNWIND_END_DEPTH);
		w->cpython.pushed = 1;
	}
	return last ? unwind_cpython_leave(w) : UNWIND_AGAIN;
}

/* One Python frame of the loop that pc is in. */
UNWIND_INLINE int unwind_cpython(struct unwind_walk *w)
{
	const struct unwind_runtime *r = unwind_runtime_of(w, UNWIND_STEP_CPYTHON);

	if (!r) { /* its frames run, and nothing is known of them yet */
		w->cpython.state = CPYTHON_LOST;
		return unwind_decline(w);
	}
	if (w->cpython.scanned)
		return unwind_cpython_scan(w);
	if (unwind_cpython_is_behind(w))
		return unwind_cpython_leave(w);
	if (w->cpython.state == CPYTHON_NEW && !unwind_cpython_start(w, &r->cpython))
		return unwind_cpython_leave(w);
	if (w->cpython.state == CPYTHON_SEEKING)
		return unwind_cpython_seek_on(w, &r->cpython);
	if (w->cpython.state == CPYTHON_WALKING && !w->cpython.frame)
		return unwind_cpython_older(w, &r->cpython);
	if (w->cpython.state != CPYTHON_WALKING)
		return unwind_cpython_leave(w);
	return unwind_cpython_frame(w, &r->cpython);
}
