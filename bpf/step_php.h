/*
 * step_php.h - one PHP frame of PHP 7.4 to 8.5, in place of the native frame of the virtual machine
 * that runs it (execute_ex) or of its JIT code. Compiled for BPF and as plain C, as unwind.h.
 *
 * executor_globals leads to the newest frame (zend_execute_data); frames are linked from there,
 * those of internal functions among them. One run of execute_ex goes as far as the frame that has
 * ZEND_CALL_TOP. JIT code of the usual ("hybrid") machine runs in the stack frame of execute_ex, so
 * that unwinding goes on as from there.
 *
 * A generator that delegates (yield from) is not in the list: a frame without a function stands for
 * it, whose object is the outermost generator. Each leads to the one that it waits for.
 *
 * Sources: PHP's Zend/zend_compile.h, zend_execute.h, zend_generators.h; the offsets come from user
 * space (src/agent/runtimes/php/).
 */
#pragma once

#define PHP_U64(w, offset) CPYTHON_U64(w, offset)
#define PHP_U32(w, offset) CPYTHON_U32(w, offset)
#define PHP_U8(w, offset)  CPYTHON_U8(w, offset)

/* Back to the native walk. */
UNWIND_INLINE int php_leave(struct unwind_walk *w, const struct php_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;

	c->step = UNWIND_STEP_NATIVE;
	c->pushed = w->php.pushed ? UNWIND_FRAME_PUSHED : UNWIND_FRAME_DECLINED;
	w->php.pushed = 0;
	if (w->executable) /* else JIT code */
		return UNWIND_AGAIN;
	if (c->pushed != UNWIND_FRAME_PUSHED && !unwind_push(w, FRAME_TAG_PC, 0, c->pc))
		return unwind_stop(w, UNWIND_END_DEPTH);
	c->pc = r->body;
	c->return_address = 1;
	c->leaf_known = LEAF_UNKNOWN;
	return UNWIND_AGAIN;
}

UNWIND_INLINE int php_finish(struct unwind_walk *w, const struct php_runtime *r, __u32 state)
{
	w->php.state = state;
	return php_leave(w, r);
}

/*
 * The innermost frame. The machine keeps it in r14, and in the globals as well, but for some
 * instructions when a function is called or has returned: then r14's is the inner one of the two.
 */
UNWIND_INLINE bool php_start(struct unwind_walk *w, const struct php_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	struct php_walk *p = &w->php;
	__u64 own, globals = r->globals, previous = 0;

	p->state = PHP_LOST;
	if (r->tls_offset) {
		if (!env_read(c, &globals, 8, c->tp + (__s64)r->tls_offset))
			return false;
		globals += r->globals;
	}
	p->fiber = 0;
	if (!env_read(c, &p->frame, 8, globals) ||
	    (r->fiber && !env_read(c, &p->fiber, 8, globals + (__s64)r->fiber)))
		return false;
	p->state = PHP_WALKING;
	if (UNWIND_ARM64 || c->return_address || c->leaf_known != LEAF_ALL)
		return true;
	own = c->leaf[UNWIND_REG_R14 - UNWIND_REG_LEAF];
	p->instruction = c->leaf[UNWIND_REG_R15 - UNWIND_REG_LEAF];
	if (own != p->frame) {
		if (env_read(c, &previous, 8, own + r->frame_previous) && previous == p->frame)
			p->frame = own;
		else
			p->instruction = 0;
	}
	return true;
}

/* The instruction's offset in the code of the function in the block. */
UNWIND_INLINE __u64 php_at(struct unwind_walk *w, const struct php_runtime *r, __u64 instruction)
{
	__u64 at = instruction - PHP_U64(w, r->function_code);

	if (PHP_U8(w, r->function_type) == PHP_INTERNAL || at >= PHP_AT_UNKNOWN ||
	    at >= (__u64)PHP_U32(w, r->function_count) * r->instruction_bytes)
		return PHP_AT_UNKNOWN;
	return at;
}

/* What the function in the block is, and what its frame says of it. */
UNWIND_INLINE __u32 php_kind(struct unwind_walk *w, const struct php_runtime *r, __u32 info)
{
	__u32 flags = PHP_U32(w, r->function_flags), type = PHP_U8(w, r->function_type);

	if (type == PHP_EVAL)
		return PHP_KIND_EVAL;
	if (type == PHP_INTERNAL)
		return PHP_KIND_FUNCTION;
	if (info & r->frame_code)
		return info & r->frame_top ? PHP_KIND_MAIN : PHP_KIND_INCLUDE;
	return flags & r->flag_passing && !(flags & r->flag_copy) ? PHP_KIND_CLOSURE
								  : PHP_KIND_FUNCTION;
}

/* Pushes the frame of the function in the block, which may be gone soon: its file and line. */
UNWIND_INLINE bool php_push_code(struct unwind_walk *w, const struct php_runtime *r, __u64 function,
				 __u64 at, __u32 kind)
{
	__u64 file = 0, name = PHP_U64(w, r->function_name), code = PHP_U64(w, r->function_code);
	__u32 line = 0;

	env_read(&w->cursor, &file, 8, function + r->function_file);
	if (at != PHP_AT_UNKNOWN)
		env_read(&w->cursor, &line, 4, code + at + r->instruction_line);
	line &= PHP_LINE_MOST;
	if (kind == PHP_KIND_CLOSURE)
		return unwind_push_runtime(w, FRAME_TAG_PHP, r->executable,
					   PHP_FIRST(kind, name, 0), PHP_CLOSURE(file, line));
	return unwind_push_runtime(w, FRAME_TAG_PHP, r->executable, PHP_FIRST(kind, file, 0), line);
}

UNWIND_INLINE bool php_push_function(struct unwind_walk *w, const struct php_runtime *r,
				     __u64 function, __u64 at)
{
	__u64 cookie = php_cookie(PHP_U64(w, r->function_name), PHP_U64(w, r->function_class),
				  PHP_U64(w, r->function_code));

	return unwind_push_runtime(w, FRAME_TAG_PHP, r->executable,
				   PHP_FIRST(PHP_KIND_FUNCTION, function, cookie),
				   PHP_SECOND(cookie, at));
}

/* Pushes the frame of `function`, which is at `instruction`. */
UNWIND_INLINE int php_push(struct unwind_walk *w, const struct php_runtime *r, __u64 function,
			   __u64 instruction, __u32 info)
{
	struct php_walk *p = &w->php;
	__u32 kind;
	__u64 at;
	bool ok;

	if (!env_read(&w->cursor, w->cpython_room.block, PHP_FUNCTION_BYTES, function))
		return php_finish(w, r, PHP_LOST);
	at = php_at(w, r, p->instruction ? p->instruction : instruction);
	p->instruction = 0;
	p->last_type = PHP_U8(w, r->function_type);
	if (p->last_type != PHP_INTERNAL && p->last_type != PHP_USER && p->last_type != PHP_EVAL)
		return UNWIND_AGAIN; /* freed just now: the frame is about to go */
	kind = php_kind(w, r, info);
	if (kind == PHP_KIND_FUNCTION)
		ok = php_push_function(w, r, function, at);
	else
		ok = php_push_code(w, r, function, at, kind);
	if (!ok)
		return unwind_stop(w, UNWIND_END_DEPTH);
	p->pushed = 1;
	return UNWIND_AGAIN;
}

/* The generator that `hops` others wait for, from the outermost on; 0: there is none. */
UNWIND_INLINE __u64 php_generator(struct unwind_walk *w, const struct php_runtime *r, __u32 hops)
{
	__u64 at = w->php.generator;

	for (__u32 i = 0; i < PHP_GENERATORS_MOST; i++) {
		if (i >= hops)
			return at;
		if (!env_read(&w->cursor, &at, 8, at + r->generator_parent))
			return 0;
	}
	return 0;
}

/* How many generators wait for the one that runs, from the outermost on; 0: it makes no sense. */
UNWIND_INLINE __u32 php_count_generators(struct unwind_walk *w, const struct php_runtime *r)
{
	__u64 at = w->php.generator;

	for (__u32 i = 0; i < PHP_GENERATORS_MOST; i++) {
		if (!env_read(&w->cursor, &at, 8, at + r->generator_parent))
			return 0;
		if (!at)
			return i;
	}
	return 0;
}

/* One of the generators that wait, the innermost first. */
UNWIND_INLINE int php_waiting(struct unwind_walk *w, const struct php_runtime *r)
{
	__u64 at, frame = 0;

	w->php.waiting--;
	at = php_generator(w, r, w->php.waiting);
	if (!at || !env_read(&w->cursor, &frame, 8, at + r->generator_frame) ||
	    !unwind_cpython_read(w, frame))
		return php_finish(w, r, PHP_LOST);
	return php_push(w, r, PHP_U64(w, r->frame_function), PHP_U64(w, r->frame_instruction), 0);
}

/*
 * The outermost frame of a fiber was pushed: on to the stack that runs it, as it was left
 * (zend_fiber_switch_context()). The C frames that start a fiber are passed over.
 */
UNWIND_INLINE int php_leave_fiber(struct unwind_walk *w, const struct php_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	struct php_walk *p = &w->php;
	__u64 previous = 0, context = 0, stack = 0, pc, fp;

	if (UNWIND_ARM64 || !env_read(c, &previous, 8, p->frame + r->frame_previous) ||
	    !env_read(c, &context, 8, p->fiber + r->fiber_caller) ||
	    !env_read(c, &stack, 8, context + r->context_stack) ||
	    !env_read(c, p->saved, sizeof(p->saved), stack))
		return php_leave(w, r);
	pc = p->saved[PHP_SAVED_WORDS - 1];
	fp = p->saved[PHP_SAVED_WORDS - 2];
	stack += PHP_SAVED_WORDS * 8;
	if (!unwind_returns(w, pc)) {
		fp = pc;
		pc = p->saved[PHP_SAVED_WORDS];
		stack += 8;
	}
	if (!unwind_map(w, pc - 1))
		return php_leave(w, r);
	p->frame = previous;
	p->fiber = context - r->fiber_context;
	p->pushed = 0;
	c->step = UNWIND_STEP_NATIVE;
	c->sp = 0;
	return unwind_to(w, pc, stack, fp);
}

/* C called the frame that was pushed. */
UNWIND_INLINE int php_end_run(struct unwind_walk *w, const struct php_runtime *r)
{
	__u64 bottom = 0;

	if (w->php.fiber && w->php.frame &&
	    env_read(&w->cursor, &bottom, 8, w->php.fiber + r->fiber_bottom) &&
	    bottom == w->php.frame)
		return php_leave_fiber(w, r);
	return php_leave(w, r);
}

UNWIND_INLINE int php_frame(struct unwind_walk *w, const struct php_runtime *r)
{
	struct php_walk *p = &w->php;
	__u64 function, instruction, frame = p->frame;
	__u32 info;
	int result;

	if (!frame) /* code of the machine, before or behind all functions */
		return php_leave(w, r);
	if (!unwind_cpython_read(w, frame))
		return php_finish(w, r, PHP_LOST);
	info = PHP_U32(w, r->frame_info);
	function = PHP_U64(w, r->frame_function);
	instruction = PHP_U64(w, r->frame_instruction);
	p->frame = PHP_U64(w, r->frame_previous);
	if (!function) { /* it stands for something else */
		p->generator = PHP_U64(w, r->frame_object);
		if (frame != p->generator + r->generator_stand_in)
			return UNWIND_AGAIN;
		p->waiting = php_count_generators(w, r);
		return p->waiting ? UNWIND_AGAIN : php_finish(w, r, PHP_LOST);
	}
	/* Just about to be linked to who resumes it, or not linked any more. */
	if (info & r->frame_generator && !p->frame)
		return php_finish(w, r, PHP_LOST);
	result = php_push(w, r, function, instruction, info);
	if (result != UNWIND_AGAIN || w->cursor.step == UNWIND_STEP_NATIVE)
		return result;
	return info & r->frame_top && p->last_type != PHP_INTERNAL ? php_end_run(w, r)
								   : UNWIND_AGAIN;
}

#if !UNWIND_ARM64
/* The first of the words in the window, from `from` on, that lies in the library; PCRE_FRAME_WORDS:
 * there is none. Without branches, of which the verifier would follow each. */
UNWIND_INLINE __u32 pcre_find(struct unwind_walk *w, const struct php_runtime *r, __u32 from)
{
	__u64 bytes = r->pcre_end - r->pcre_start, found = PCRE_FRAME_WORDS;

	for (__s64 i = PCRE_FRAME_WORDS - 1; i >= 0; i--) {
		__u64 at = w->cpython_room.window[i] - r->pcre_start, hit;

		hit = (at - bytes) & ~at & ~((__u64)i - from);
		hit = (__u64)((__s64)hit >> 63);
		UNWIND_OPAQUE(hit);
		found = (found & ~hit) | ((__u64)i & hit);
	}
	return (__u32)found;
}

/*
 * Code that PCRE2 compiled (sljit) has no frame pointer: its return address is the first word on
 * the stack that leads behind `call *register` in the library. Below it lie the registers that it
 * saved: rbx, r15, r14, r13, rbp. Each step looks at one word.
 */
UNWIND_INLINE int unwind_pcre(struct unwind_walk *w)
{
	const struct unwind_runtime *r = unwind_runtime_of(w, UNWIND_STEP_PHP);
	struct unwind_cursor *c = &w->cursor;
	__u32 at, from = w->php.pcre_from;
	__u64 code = 0, saved, ra, fp;

	w->php.pcre_from = 0;
	w->cpython.window_bytes = 0; /* no frames of CPython or PHP are in it now */
	if (!r || !env_read(c, w->cpython_room.window, PCRE_FRAME_WORDS * 8, c->sp))
		return unwind_decline(w);
	at = pcre_find(w, &r->php, from);
	if (at < PCRE_SAVED_WORDS || at >= PCRE_FRAME_WORDS)
		return unwind_decline(w);
	/* Older verifiers do not see that they are in range; the compiler does, and would drop the
	 * masks. */
	saved = at - PCRE_SAVED_WORDS;
	UNWIND_OPAQUE(saved);
	ra = w->cpython_room.window[(saved + PCRE_SAVED_WORDS) & 255];
	fp = w->cpython_room.window[saved & 255];
	if (!env_read(c, &code, 8, ra - 8) || (code >> 48 & 0xf8ff) != 0xd0ff) {
		w->php.pcre_from = at + 1;
		return UNWIND_AGAIN;
	}
	if (!unwind_push(w, FRAME_TAG_PC, 0, c->pc))
		return unwind_stop(w, UNWIND_END_DEPTH);
	c->step = UNWIND_STEP_NATIVE;
	return unwind_to(w, ra, c->sp + at * 8 + 8, fp);
}
#else
UNWIND_INLINE int unwind_pcre(struct unwind_walk *w)
{
	return unwind_decline(w);
}
#endif

/* One PHP frame of the run of the machine that pc is in. */
UNWIND_INLINE int unwind_php(struct unwind_walk *w)
{
	const struct unwind_runtime *r = unwind_runtime_of(w, UNWIND_STEP_PHP);

	if (!r) { /* its frames run, and nothing is known of them yet */
		w->php.state = PHP_LOST;
		return unwind_decline(w);
	}
	if (w->php.state == PHP_NEW && !php_start(w, &r->php))
		return php_leave(w, &r->php);
	if (w->php.state != PHP_WALKING)
		return php_leave(w, &r->php);
	return w->php.waiting ? php_waiting(w, &r->php) : php_frame(w, &r->php);
}
