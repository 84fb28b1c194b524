/*
 * step_v8.h - one frame of V8's own code: builtins, the interpreter, compiled JavaScript, regular
 * expressions, WebAssembly. x86-64. Compiled for BPF and as plain C, as unwind.h.
 *
 * All of it is called by frame pointer. The word below FP is a context (a tagged pointer), or twice
 * the type of a frame that no JavaScript function has. Below a context lies the JSFunction:
 *
 *   FP - 8   context, or frame type << 1
 *   FP - 16  JSFunction
 *   FP - 24  number of arguments (from V8 9 on)
 *   then     BytecodeArray, and the offset of the byte code that runs: in frames of the interpreter
 *
 * Builtins lie in the runtime's file, or a second time near the compiled code: a mapping of that
 * file. They keep their native names. Compiled code is anonymous.
 *
 * Source: V8's src/execution/frame-constants, x64/frame-constants-x64.
 */
#pragma once

#define V8_IS_POINTER(word) (((word)&3) == 1)

/* The instance type of the object, whose map is *map. */
UNWIND_INLINE bool v8_type(struct unwind_walk *w, const struct v8_runtime *r, __u64 map,
			   __u16 *type)
{
	return V8_IS_POINTER(map) && env_read(&w->cursor, type, 2, map - 1 + r->map_type);
}

/* The SharedFunctionInfo of what should be a JSFunction. */
UNWIND_INLINE bool v8_shared(struct unwind_walk *w, const struct v8_runtime *r, __u64 function,
			     __u64 *shared)
{
	__u64 words[V8_FUNCTION_BYTES / 8] = { 0 };
	__u16 type = 0;

	if (!V8_IS_POINTER(function) || !env_read(&w->cursor, words, sizeof(words), function - 1))
		return false;
	/* The garbage collector that runs has moved it: in place of the map is where to. */
	if (!(words[0] & 1) && !env_read(&w->cursor, &words[0], 8, words[0]))
		return false;
	if (words[0] != w->v8.function_map) {
		if (!v8_type(w, r, words[0], &type) || type < r->first_function ||
		    type > r->last_function)
			return false;
		w->v8.function_map = words[0];
	}
	/* The last words of what was read: it may end where its page does. */
	*shared = r->function_shared == 32 ? words[4] : words[3];
	return V8_IS_POINTER(*shared);
}

UNWIND_INLINE bool v8_is_bytecode(struct unwind_walk *w, const struct v8_runtime *r, __u64 array)
{
	__u64 map = 0;
	__u16 type = 0;

	if (!V8_IS_POINTER(array) || !env_read(&w->cursor, &map, 8, array - 1))
		return false;
	if (map != w->v8.array_map) {
		if (!v8_type(w, r, map, &type) || type != r->bytecode_type)
			return false;
		w->v8.array_map = map;
	}
	return true;
}

UNWIND_INLINE int v8_to_caller(struct unwind_walk *w)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 fp = 0, ra = 0;

	if (!unwind_stack_word(w, c->fp, &fp) || !unwind_stack_word(w, c->fp + 8, &ra))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	c->step = UNWIND_STEP_NATIVE;
	return unwind_to(w, ra, c->fp + 16, fp);
}

UNWIND_INLINE bool v8_push(struct unwind_walk *w, const struct v8_runtime *r, __u64 first,
			   __u64 second)
{
	bool pushed = unwind_push_runtime(w, FRAME_TAG_V8, r->executable, first, second);

	w->cursor.pushed = UNWIND_FRAME_PUSHED;
	return pushed;
}

/* A frame without a JavaScript function: a builtin, WebAssembly, a regular expression. */
UNWIND_INLINE bool v8_push_marked(struct unwind_walk *w, const struct v8_runtime *r, __u64 marker)
{
	struct unwind_cursor *c = &w->cursor;

	if (w->executable)
		return unwind_push(w, FRAME_TAG_NATIVE, w->executable, c->pc - w->load_bias);
	return v8_push(w, r, V8_FIRST(V8_KIND_MARKED, marker >> 1), c->pc);
}

/* Is it a function of a script? */
UNWIND_INLINE bool v8_has_script(struct unwind_walk *w, const struct v8_runtime *r, __u64 shared)
{
	__u64 script = 0, map = 0;
	__u16 type = 0;

	return env_read(&w->cursor, &script, 8, shared - 1 + r->shared_script) &&
	       V8_IS_POINTER(script) && env_read(&w->cursor, &map, 8, script - 1) &&
	       v8_type(w, r, map, &type) && type == r->script_type;
}

UNWIND_INLINE bool v8_is_interpreted(struct unwind_walk *w, const struct v8_runtime *r,
				     __u64 *second)
{
	__u64 array = 0, offset = 0, at = w->cursor.fp - r->frame_array;

	if (!unwind_stack_word(w, at, &array) || !unwind_stack_word(w, at - 8, &offset) ||
	    offset & 0xffffffff || !v8_is_bytecode(w, r, array))
		return false;
	*second = V8_SECOND(array - 1, offset >> 32);
	return true;
}

/*
 * A builtin that JavaScript calls has a JSFunction of its own. Where the one that was interrupted
 * makes no frame, the frame is that of the compiled function that called it.
 */
UNWIND_INLINE int v8_builtin(struct unwind_walk *w, const struct v8_runtime *r, __u64 shared)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 ra = 0;

	if (!unwind_push(w, FRAME_TAG_NATIVE, w->executable, c->pc - w->load_bias))
		return unwind_stop(w, UNWIND_END_DEPTH);
	if (c->return_address || !v8_has_script(w, r, shared))
		return v8_to_caller(w);
	c->step = UNWIND_STEP_NATIVE;
	if (unwind_stack_word(w, c->sp, &ra) && unwind_returns(w, ra))
		return unwind_to(w, ra, c->sp + 8, c->fp);
	if (!v8_push(w, r, V8_FIRST(V8_KIND_COMPILED, shared - 1), 0))
		return unwind_stop(w, UNWIND_END_DEPTH);
	return v8_to_caller(w);
}

/* The frame of a JavaScript function. */
UNWIND_INLINE int v8_function(struct unwind_walk *w, const struct v8_runtime *r, __u64 shared)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 first = V8_FIRST(V8_KIND_COMPILED, shared - 1);
	__u64 second = c->pc - (c->return_address ? 1 : 0);

	if (v8_is_interpreted(w, r, &second))
		first = V8_FIRST(V8_KIND_INTERPRETED, shared - 1);
	else if (w->executable)
		return v8_builtin(w, r, shared);
	return v8_push(w, r, first, second) ? v8_to_caller(w) : unwind_stop(w, UNWIND_END_DEPTH);
}

/* What was interrupted has not made its frame yet, or has given it back: FP is its caller's. In
 * compiled code, its function is where a call puts it. */
UNWIND_INLINE int v8_frameless(struct unwind_walk *w, const struct v8_runtime *r)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 shared = 0;

	if (!w->executable && c->leaf_known == LEAF_ALL &&
	    v8_shared(w, r, c->leaf[UNWIND_REG_RDI - UNWIND_REG_LEAF], &shared)) {
		if (!v8_push(w, r, V8_FIRST(V8_KIND_COMPILED, shared - 1), c->pc))
			return unwind_stop(w, UNWIND_END_DEPTH);
		c->step = UNWIND_STEP_NATIVE;
		return UNWIND_AGAIN;
	}
	return unwind_decline(w);
}

UNWIND_INLINE int unwind_v8(struct unwind_walk *w)
{
	const struct unwind_runtime *data = unwind_runtime_of(w, UNWIND_STEP_V8);
	struct unwind_cursor *c = &w->cursor;
	__u64 context = 0, function = 0, shared = 0;
	const struct v8_runtime *r;

	if (!data)
		return unwind_decline(w);
	r = &data->v8;
#if !UNWIND_ARM64
	if (!c->return_address && (c->fp < c->sp + 16 || unwind_frameless(w)))
		return v8_frameless(w, r);
#endif
	if (c->fp & 7 || c->fp < c->sp || !unwind_stack_word(w, c->fp - 8, &context) ||
	    !unwind_stack_word(w, c->fp - 16, &function))
		return unwind_decline(w);
	if (context & 1)
		return v8_shared(w, r, function, &shared) ? v8_function(w, r, shared)
							  : unwind_decline(w);
	if (!context || context >> 1 > V8_MARKER_MOST)
		return unwind_decline(w);
	return v8_push_marked(w, r, context) ? v8_to_caller(w) : unwind_stop(w, UNWIND_END_DEPTH);
}
