/*
 * step_cpython.h - one Python frame of CPython 3.6 to 3.13, in place of the native frame of the
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

/* Back to the native walk; the loop's own frame is shown only if it runs no Python frame yet. */
UNWIND_INLINE int unwind_cpython_leave(struct unwind_walk *w)
{
	w->cursor.pushed = w->cpython.pushed ? UNWIND_FRAME_PUSHED : UNWIND_FRAME_DECLINED;
	w->cursor.step = UNWIND_STEP_NATIVE;
	w->cpython.pushed = 0;
	return UNWIND_AGAIN;
}

/* No more Python frames in this walk; if they were lost, the stack's end will say so. */
UNWIND_INLINE int unwind_cpython_finish(struct unwind_walk *w, __u32 state)
{
	w->cpython.state = state;
	return unwind_cpython_leave(w);
}

/* The newest frame of this thread. False: there is none to be found. */
UNWIND_INLINE bool unwind_cpython_start(struct unwind_walk *w, const struct cpython_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 thread = 0, id = 0, frame = 0;

	w->cpython.state = CPYTHON_DONE; /* a thread without Python state is nothing amiss */
	if (!env_read(c, &thread, 8, c->tp + (__s64)r->tls_offset))
		return false;
	if (r->tls_inner >= 0 &&
	    (!thread || !env_read(c, &thread, 8, thread + (__s64)r->tls_inner)))
		return false;
	/* What lies there is another key's value before the interpreter has made its own. */
	if (!thread || !env_read(c, &id, 8, thread + r->thread_id) || id != c->tp)
		return false;
	w->cpython.state = CPYTHON_LOST;
	if (!env_read(c, &frame, 8, thread + r->thread_frame))
		return false;
	if (r->cframe >= 0 && !env_read(c, &frame, 8, frame + (__s64)r->cframe))
		return false;
	w->cpython.frame = frame;
	w->cpython.state = CPYTHON_WALKING;
	return true;
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

UNWIND_INLINE int unwind_cpython_frame(struct unwind_walk *w, const struct cpython_runtime *r)
{
	__u64 code, cookie, frame = w->cpython.frame;
	__u32 at;
	bool last;

	if (r->loop == CPYTHON_LOOP_OF_ONE ? !env_read(&w->cursor, w->cpython_room.block,
						       CPYTHON_FRAME_OBJECT_BYTES, frame)
					   : !unwind_cpython_read(w, frame))
		return unwind_cpython_finish(w, CPYTHON_LOST);
	w->cpython.frame = CPYTHON_U64(w, r->frame_previous);
	code = CPYTHON_U64(w, r->frame_code);
	last = r->loop == CPYTHON_LOOP_OF_ONE;
	if (r->loop == CPYTHON_LOOP_OF_ONE) {
		at = CPYTHON_U32(w, r->frame_instruction) * r->instruction_bytes;
	} else {
		at = (__u32)(CPYTHON_U64(w, r->frame_instruction) - code - r->code_instructions);
		if (r->loop == CPYTHON_LOOP_TO_ENTRY)
			last = CPYTHON_U8(w, r->frame_owner);
		else if (CPYTHON_U8(w, r->frame_owner) >= r->owner_shim)
			return unwind_cpython_leave(w);
	}
	cookie = unwind_cpython_cookie(w, r, code);
	if (cookie != ~(__u64)0) {
		if (!unwind_push_runtime(w, FRAME_TAG_CPYTHON, w->executable, code,
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
	if (w->cpython.state == CPYTHON_NEW && !unwind_cpython_start(w, &r->cpython))
		return unwind_cpython_leave(w);
	if (w->cpython.state == CPYTHON_WALKING && !w->cpython.frame)
		w->cpython.state = CPYTHON_DONE;
	if (w->cpython.state != CPYTHON_WALKING)
		return unwind_cpython_leave(w);
	return unwind_cpython_frame(w, &r->cpython);
}
