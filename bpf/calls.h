/*
 * calls.h - what the code before a return address tells: that a call is there, and where it went.
 * For code without rows, where nothing else says whether a word of the stack is a return address,
 * or whether an interrupted function has made its frame yet (or ever will). Included by unwind.h.
 *
 * Source: Intel SDM volume 2, CALL (E8 rel32, FF /2) and PUSH (55), ENDBR64; Arm ARM, BL and BLR.
 */
#pragma once

/* A function's code lies above its first instruction, and no farther than this. */
#define UNWIND_FUNCTION_BYTES (1u << 16)

/* Do these 8 bytes of code, those before a return address, end in a call? */
UNWIND_INLINE bool unwind_ends_in_call(__u64 code)
{
#if UNWIND_ARM64
	__u32 last = (__u32)(code >> 32);

	return (last & 0xfc000000) == 0x94000000 || (last & 0xfffffc1f) == 0xd63f0000;
#else
	if ((code >> 24 & 0xff) == 0xe8)
		return true;
	/* FF /2 is 2 to 7 bytes long; 5 of them there are not. */
	return (code >> 48 & 0x38ff) == 0x10ff || (code >> 40 & 0x38ff) == 0x10ff ||
	       (code >> 32 & 0x38ff) == 0x10ff || (code >> 16 & 0x38ff) == 0x10ff ||
	       (code >> 8 & 0x38ff) == 0x10ff;
#endif
}

/* Is a call before this address? False also where the code cannot be read. */
UNWIND_INLINE bool unwind_returns(struct unwind_walk *w, __u64 address)
{
	__u64 code = 0;

	return address > 4096 && env_read(&w->cursor, &code, 8, address - 8) &&
	       unwind_ends_in_call(code);
}

#if !UNWIND_ARM64
/* How far pc lies above the begin of the function whose direct call returns to `address`;
 * UNWIND_FUNCTION_BYTES or more: there is no such call, or it went elsewhere. */
UNWIND_INLINE __u64 unwind_into_callee(struct unwind_walk *w, __u64 address)
{
	__u64 code = 0;

	if (address <= 4096 || !env_read(&w->cursor, &code, 8, address - 8) ||
	    (code >> 24 & 0xff) != 0xe8)
		return ~0ull;
	return w->cursor.pc - (address + (__u64)(__s64)(__s32)(code >> 32));
}

/* How far into a function its `push %rbp` lies; UNWIND_FUNCTION_BYTES: it does not begin so. */
UNWIND_INLINE __u32 unwind_push_at(struct unwind_walk *w, __u64 start)
{
	__u64 code = 0;
	__u32 at = 0;

	if (!env_read(&w->cursor, &code, 8, start))
		return UNWIND_FUNCTION_BYTES;
	if ((__u32)code == 0xfa1e0ff3) { /* endbr64 */
		code >>= 32;
		at = 4;
	}
	return (code & 0xff) == 0x55 ? at : UNWIND_FUNCTION_BYTES;
}

/* Is the instruction at pc a return? */
UNWIND_INLINE bool unwind_at_return(struct unwind_walk *w)
{
	__u8 code[2] = { 0, 0 };

	return env_read(&w->cursor, code, 2, w->cursor.pc) &&
	       (code[0] == 0xc3 || (code[0] == 0xf3 && code[1] == 0xc3));
}

/* Does the kernel's signal frame return here: mov $15, %rax (then syscall)? */
UNWIND_INLINE bool unwind_is_restorer(struct unwind_walk *w, __u64 address)
{
	__u64 code = 0;

	return env_read(&w->cursor, &code, 8, address) && code << 8 >> 8 == 0x0fc0c748;
}

/*
 * The interrupted function has no frame: it never makes one, has not yet, or has given it back.
 * Then FP is its caller's, and the word at SP (behind `push %rbp`: the one above) returns to that
 * one. Told by
 *   - FP itself lying at SP: it was pushed, and is not yet set;
 *   - a return at pc, or the place that a signal handler returns to at SP;
 *   - a return address at SP where FP leads to none;
 *   - the call before that word, which goes to a function that begins nearer to pc than the one to
 *     which the call went that FP leads to; where that one is unknown (it was called by pointer),
 * or the same, what lies at SP may be of a call that is over: then only if the function does not
 *     begin by making a frame, or has just begun.
 * The place of that word; 0: FP is this function's own, as far as one can tell. A function that was
 * called by one that was called by pointer is not told between its `pop %rbp` and its return.
 */
UNWIND_INLINE __u64 unwind_frameless(struct unwind_walk *w)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 at_sp = 0, above = 0, by_fp = 0, near, own;
	__u32 push;

	if (c->sp & 7 || !unwind_stack_word(w, c->sp, &at_sp))
		return 0;
	if (c->fp & 7 || c->fp < c->sp || c->fp - c->sp > 1 << 20 ||
	    !unwind_stack_word(w, c->fp + 8, &by_fp))
		by_fp = 0;
	own = unwind_into_callee(w, by_fp);
	if (at_sp == c->fp) {
		if (!unwind_stack_word(w, c->sp + 8, &above))
			return 0;
		near = unwind_into_callee(w, above);
		return (near < UNWIND_FUNCTION_BYTES ? near <= own : unwind_returns(w, above)) ||
				       unwind_is_restorer(w, above)
			       ? c->sp + 8
			       : 0;
	}
	near = unwind_into_callee(w, at_sp);
	if (near >= UNWIND_FUNCTION_BYTES)
		return (unwind_returns(w, at_sp) &&
			(unwind_at_return(w) || !unwind_returns(w, by_fp))) ||
				       unwind_is_restorer(w, at_sp)
			       ? c->sp
			       : 0;
	if (near > own)
		return 0;
	if ((near < own && own < UNWIND_FUNCTION_BYTES) || unwind_at_return(w))
		return c->sp;
	push = unwind_push_at(w, c->pc - near);
	return push == UNWIND_FUNCTION_BYTES || near <= push ? c->sp : 0;
}
#endif
