/*
 * ahead_cpython.h - the frames of CPython of a walk that had to stop, for user space to go on with.
 *
 * A walk that stops for want of mappings or tables is gone on with in user space, over the copied
 * stack, when the Python frames are others already: so they are read now, up to the outermost one,
 * and sent behind the words of the walk (FRAME_TAG_AHEAD). Included behind unwind.h.
 */
#pragma once

UNWIND_INLINE int unwind_ahead_word(struct unwind_walk *w, __u32 tag, __u64 word)
{
	__u32 n = w->word_count;

	if (n > UNWIND_WORDS_MAX - UNWIND_FRAME_WORDS_MAX)
		return UNWIND_STOPPED;
	w->words[n] = FRAME_HEADER(tag, 0, 1, 0);
	w->words[n + 1] = word;
	w->word_count = n + 2;
	return UNWIND_AGAIN;
}

/* The newest frame of this thread, if it is one of the main interpreter: which of several runs
 * cannot be told here. False: it is not this runtime's thread. */
UNWIND_INLINE bool unwind_ahead_start(struct unwind_walk *w, const struct cpython_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 thread = 0, word = 0;

	if (!env_read(c, &thread, 8, c->tp + (__s64)r->tls_offset) || !thread ||
	    (r->tls_inner >= 0 && !env_read(c, &thread, 8, thread + (__s64)r->tls_inner)) ||
	    !env_read(c, &word, 8, thread + r->thread_id) || word != c->tp)
		return false;
	w->cpython.several = 0;
	w->cpython.state = CPYTHON_LOST;
	if (env_read(c, &word, 8, thread + r->thread_interpreter) &&
	    env_read(c, &word, 8, word + r->interpreter_next) && !word &&
	    unwind_cpython_newest(w, r, thread))
		w->cpython.state = CPYTHON_WALKING;
	return true;
}

/* Which runtime is it? The process's own, if it is known, else one of the usual ones. */
UNWIND_INLINE int unwind_ahead_find(struct unwind_walk *w)
{
	const struct unwind_runtime *r = env_runtime(&w->cursor, 0);
	__u32 tried = w->cpython.ahead_tried++, slot;

	if (!r || tried >= UNWIND_PROCESS_RUNTIMES + UNWIND_USUAL_RUNTIMES)
		return UNWIND_STOPPED;
	if (tried < UNWIND_PROCESS_RUNTIMES)
		slot = w->runtimes[tried];
	else
		slot = r->usual.slots[(tried - UNWIND_PROCESS_RUNTIMES) &
				      (UNWIND_USUAL_RUNTIMES - 1)];
	r = slot ? env_runtime(&w->cursor, slot) : NULL;
	if (!r || r->step != UNWIND_STEP_CPYTHON)
		return UNWIND_AGAIN;
	if (w->cpython.state == CPYTHON_NEW && !unwind_ahead_start(w, &r->cpython))
		return UNWIND_AGAIN;
	w->cpython.ahead = slot;
	return unwind_ahead_word(w, FRAME_TAG_AHEAD, slot);
}

/* One Python frame. */
UNWIND_INLINE int unwind_cpython_ahead(struct unwind_walk *w)
{
	const struct unwind_runtime *r;
	__u32 state;

	if (!w->cpython.ahead)
		return unwind_ahead_find(w);
	r = env_runtime(&w->cursor, w->cpython.ahead);
	state = w->cpython.state;
	if (state == CPYTHON_DONE ||
	    (state == CPYTHON_WALKING && !w->cpython.frame && !w->cpython.several)) {
		unwind_ahead_word(w, FRAME_TAG_AHEAD_END, 0);
		return UNWIND_STOPPED;
	}
	if (!r || state != CPYTHON_WALKING || w->cpython.several)
		return UNWIND_STOPPED;
	w->cursor.step = UNWIND_STEP_CPYTHON;
	if (unwind_cpython_frame(w, &r->cpython) == UNWIND_STOPPED)
		return UNWIND_STOPPED;
	if (w->cursor.step != UNWIND_STEP_CPYTHON && w->cpython.state == CPYTHON_WALKING)
		return unwind_ahead_word(w, FRAME_TAG_AHEAD_LOOP, 0);
	return UNWIND_AGAIN;
}
