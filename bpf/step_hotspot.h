/*
 * step_hotspot.h - one Java frame: HotSpot's template interpreter, compiled methods, and the stubs
 * between them, found by look-up in the code heaps. x86-64. Included by unwind.h, in both worlds.
 *
 * Frames of HotSpot on x86-64 (HotSpot, cpu/x86/frame_x86.hpp):
 *   interpreted: by frame pointer. Words below it: -1 the caller's SP before the call (a compiled
 *     caller's may be lower than where its arguments were put), -3 Method *, -8 (JDK 8: -7) the
 *     byte code pointer, which is in r13 while the frame is the innermost
 *   compiled: by size. CFA = SP + frame size, the return address below it, the caller's FP below
 *     that, whether the code uses FP or not. In prologue and epilogue the code's bytes tell how
 *     much of the frame there is
 *   stubs: by size where they have one, else by frame pointer (call_stub: from Java back into the
 *     machine), or the return address is on top of the stack
 * Java code is only called by code that lies in the code heaps too, so each return address can be
 * checked.
 */
#pragma once
/* A further result inside of the step: there is one search for all who want it. */
enum { HOTSPOT_SEARCH = UNWIND_BY_FOREIGN_FP + 1 };

enum hotspot_blob_kind { HOTSPOT_BLOB_STUB, HOTSPOT_BLOB_NMETHOD, HOTSPOT_BLOB_NATIVE };

UNWIND_INLINE bool hotspot_is_code(const struct unwind_hotspot *h, __u64 pc)
{
	return pc - h->code_start < h->code_end - h->code_start;
}

UNWIND_INLINE __u64 hotspot_header(const struct hotspot_walk *s, __u32 offset, __u32 bytes)
{
	const __u8 *at = &s->header[offset & 511];
	__u64 value = 0;

	if (bytes == 8)
		__builtin_memcpy(&value, at, 8);
	else if (bytes == 4)
		__builtin_memcpy(&value, at, 4);
	else
		__builtin_memcpy(&value, at, 2);
	return value;
}

/* The blob that pc lies in, into s->blob. */
UNWIND_INLINE bool hotspot_find_blob(struct unwind_walk *w, const struct unwind_hotspot *h,
				     __u64 pc)
{
	__u64 start = 0, segments = 0, at;
	__u32 shift = 0;

	for (int i = 0; i < HOTSPOT_HEAPS_MOST; i++) {
		if (pc - h->heaps[i].start < h->heaps[i].end - h->heaps[i].start) {
			start = h->heaps[i].start;
			segments = h->heaps[i].segments;
			shift = h->heaps[i].shift & 31;
		}
	}
	if (!segments)
		return false;
	at = (pc - start) >> shift;
	for (int i = 0; i < HOTSPOT_HOPS_MOST; i++) {
		__u8 back = 0xff;

		if (!env_read(&w->cursor, &back, 1, segments + at) || back == 0xff || back > at)
			return false;
		if (!back) {
			w->hotspot.blob = start + (at << shift) + h->block_header;
			return true;
		}
		at -= back;
	}
	return false;
}

/* What kind of blob it is, by the first 8 letters of its name: no more than one look for most. */
UNWIND_INLINE __u32 hotspot_blob_kind(struct unwind_walk *w)
{
	struct hotspot_walk *s = &w->hotspot;
	__u64 text = 0;

	if (w->hotspot_named && s->name == s->named)
		return s->named_kind;
	if (!env_read(&w->cursor, &text, 8, s->name))
		return HOTSPOT_BLOB_STUB;
	s->named = s->name;
	w->hotspot_named = 1;
	s->named_kind = HOTSPOT_BLOB_STUB;
	if (text == 0x00646f6874656d6e) /* "nmethod" */
		s->named_kind = HOTSPOT_BLOB_NMETHOD;
	else if (text == 0x6e2065766974616e) /* "native n" */
		s->named_kind = HOTSPOT_BLOB_NATIVE;
	return s->named_kind;
}

UNWIND_INLINE bool hotspot_read_blob(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct hotspot_walk *s = &w->hotspot;
	if (!env_read(&w->cursor, s->header, HOTSPOT_BLOB_BYTES, s->blob) &&
	    !env_read(&w->cursor, s->header, HOTSPOT_BLOB_LEAST, s->blob))
		return false;
	s->name = hotspot_header(s, h->blob_name, 8);
	s->frame_bytes = (__u32)hotspot_header(s, h->blob_frame_size, 4) * 8;
	if (h->flags & HOTSPOT_OFFSETS) {
		s->code = s->blob + (__u32)hotspot_header(s, h->blob_code, 4);
	} else {
		s->code = hotspot_header(s, h->blob_code, 8);
	}
	s->frame_complete = (__s32)hotspot_header(s, h->blob_frame_complete, 4);
	if (h->flags & HOTSPOT_SHORT_COMPLETE)
		s->frame_complete = (__s16)s->frame_complete;
	return s->frame_bytes <= HOTSPOT_FRAME_MOST || s->frame_bytes == HOTSPOT_NO_FRAME;
}

/* ---- compiled methods ---- */

/* How much of a compiled frame there is. */
enum hotspot_state {
	HOTSPOT_WHOLE,  /* SP is at its end */
	HOTSPOT_PUSHED, /* the caller's FP is on top, the return address above it */
	HOTSPOT_BARE,   /* the return address is on top; FP is the caller's */
};

/* sub rsp, n is 48 83 ec n, or 48 81 ec and 4 bytes: the last one that begins up to pc. Without a
 * branch in the loop: the verifier would follow each way through it on its own. */
UNWIND_INLINE void hotspot_find_sub(struct hotspot_walk *s)
{
	__u64 found = 0;

	for (__u64 i = 4; i <= HOTSPOT_CODE_BEFORE; i++) {
		const __u8 *c = &s->bytes[i];
		__u64 differ = (c[0] ^ 0x48) | ((c[1] & 0xfd) ^ 0x81) | (c[2] ^ 0xec);

		differ = (__u64)((__s64)(differ - 1) >> 63); /* all ones: it is one */
		UNWIND_OPAQUE(differ);
		found = (found & ~differ) | (i & differ);
	}
	s->sub_at = (__u32)found;
}

/*
 * Entry: [touch the stack's end], push rbp, [mov rbp, rsp], sub rsp, n - or sub rsp, n + 8 and then
 * mov [rsp + n], rbp -, [entry barrier]. Where is pc in that?
 */
UNWIND_INLINE void hotspot_prologue(struct hotspot_walk *s)
{
	const __u8 *c;
	__u32 n, at;

	/* Just behind push rbp? */
	s->state = s->bytes[HOTSPOT_CODE_BEFORE - 1] == 0x55 ? HOTSPOT_PUSHED : HOTSPOT_BARE;
	hotspot_find_sub(s);
	at = s->sub_at;
	if (!at || at > HOTSPOT_CODE_BEFORE)
		return;
	UNWIND_OPAQUE(at); /* the mask stays: 6.1's verifier does not understand the test above */
	c = &s->bytes[at & 63];
	n = c[1] == 0x83 ? c[3] : c[3] | c[4] << 8 | c[5] << 16 | (__u32)c[6] << 24;
	n = s->frame_bytes - n; /* pushed before: return address and FP */
	if (n != 16 && n != 8)
		return;
	if (s->sub_at != HOTSPOT_CODE_BEFORE)
		s->state = HOTSPOT_WHOLE;
	else
		s->state = n == 16 ? HOTSPOT_PUSHED : HOTSPOT_BARE;
}

/* End: add rsp, n; pop rbp; [a look whether a safepoint is wanted]; ret. */
UNWIND_INLINE bool hotspot_ends_bare(const __u8 *c)
{
	switch (c[0]) {
	case 0xc3: /* ret */
	case 0xc2:
		return true;
	case 0x49: /* cmp rsp, [r15 + n]: from JDK 16 on */
		return c[1] == 0x3b && (c[2] == 0xa7 || c[2] == 0x67);
	case 0x0f: /* ja; ret */
		return c[1] == 0x87 && c[6] == 0xc3;
	case 0x77:
		return c[2] == 0xc3;
	case 0x4d: /* mov r10, [r15 + n]; test [r10], eax; ret: until JDK 15 */
		return c[1] == 0x8b && c[2] == 0x97 && c[7] == 0x41 && c[8] == 0x85 &&
		       c[9] == 0x02 && c[10] == 0xc3;
	case 0x41:
		return c[1] == 0x85 && c[2] == 0x02 && c[3] == 0xc3;
	case 0x85: /* test [page], eax; ret */
		return c[1] == 0x05 && c[6] == 0xc3;
	default:
		return false;
	}
}

/* Into s->state, and not a result: the verifier would follow each value of it on its own. */
UNWIND_INLINE void hotspot_find_state(struct unwind_walk *w)
{
	struct hotspot_walk *s = &w->hotspot;
	struct unwind_cursor *c = &w->cursor;

	s->state = HOTSPOT_WHOLE;
	if (c->return_address || !env_read(c, s->bytes, HOTSPOT_CODE_BEFORE + HOTSPOT_CODE_BEHIND,
					   c->pc - HOTSPOT_CODE_BEFORE))
		return;
	if ((__s64)(c->pc - s->code) < s->frame_complete)
		hotspot_prologue(s);
	else if (s->bytes[HOTSPOT_CODE_BEFORE] == 0x5d) /* pop rbp */
		s->state = HOTSPOT_PUSHED;
	else if (hotspot_ends_bare(&s->bytes[HOTSPOT_CODE_BEFORE]))
		s->state = HOTSPOT_BARE;
}

/* The first word from search_at on that is an address of code: the frame is not as it should be,
 * but its caller must be there. */
UNWIND_INLINE int hotspot_search(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct hotspot_walk *s = &w->hotspot;
	__u64 pc = 0, sp = s->search_at;

	if (!env_read(&w->cursor, s->words, HOTSPOT_SEARCH_WORDS * 8, sp))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	for (int i = 0; i < HOTSPOT_SEARCH_WORDS; i++) {
		pc = s->words[i];
		sp += 8;
		if (hotspot_is_code(h, pc))
			break;
	}
	if (!hotspot_is_code(h, pc))
		return unwind_stop(w, UNWIND_END_RUNTIME);
	return unwind_to(w, pc, sp, w->cursor.fp);
}

UNWIND_INLINE int hotspot_search_from(struct unwind_walk *w, __u64 at)
{
	w->hotspot.search_at = at;
	return HOTSPOT_SEARCH;
}

/* On to the caller of a frame of s->frame_bytes, as far as it is there. */
UNWIND_INLINE int hotspot_by_size(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct hotspot_walk *s = &w->hotspot;
	struct unwind_cursor *c = &w->cursor;
	__u64 cfa = c->sp + s->frame_bytes, fp;

	hotspot_find_state(w);
	if (s->state == HOTSPOT_PUSHED)
		cfa = c->sp + 16;
	else if (s->state == HOTSPOT_BARE)
		cfa = c->sp + 8;
	if (!env_read(c, s->words, 16, cfa - 16))
		return unwind_stop(w, UNWIND_END_UNREADABLE);
	fp = s->state == HOTSPOT_BARE ? c->fp : s->words[0];
	if (!hotspot_is_code(h, s->words[1]))
		return hotspot_search_from(w, c->return_address ? cfa : c->sp);
	return unwind_to(w, s->words[1], cfa, fp);
}

/* Does the frame pointer lead to a frame that lies not above `most` bytes from SP? */
UNWIND_INLINE bool hotspot_near(const struct unwind_cursor *c, __u64 most)
{
	return !(c->fp & 7) && c->fp >= c->sp && c->fp - c->sp <= most;
}

/* And is there one of Java's code? The pair is in s->words. */
UNWIND_INLINE bool hotspot_by_fp(struct unwind_walk *w, const struct unwind_hotspot *h, __u64 most)
{
	return hotspot_near(&w->cursor, most) &&
	       env_read(&w->cursor, w->hotspot.words, 16, w->cursor.fp) &&
	       hotspot_is_code(h, w->hotspot.words[1]);
}

UNWIND_INLINE int hotspot_compiled(struct unwind_walk *w, const struct unwind_hotspot *h, bool java)
{
	struct hotspot_walk *s = &w->hotspot;
	struct unwind_cursor *c = &w->cursor;
	bool offsets = h->flags & HOTSPOT_OFFSETS;
	__u64 pc = c->pc, deopt, deopt_mh, original;

	if (java && c->return_address) {
		if (offsets) {
			deopt = s->blob + (__u32)hotspot_header(s, h->nmethod_deopt, 4);
			deopt_mh = s->blob + (__u32)hotspot_header(s, h->nmethod_deopt_mh, 4);
		} else {
			deopt = hotspot_header(s, h->nmethod_deopt, 8);
			deopt_mh = hotspot_header(s, h->nmethod_deopt_mh, 8);
		}
		/* Told to go on in the interpreter: its place is kept in the frame. */
		if ((pc == deopt || (h->flags & HOTSPOT_HAS_DEOPT_MH && pc == deopt_mh)) &&
		    env_read(c, &original, 8,
			     c->sp + (__u32)hotspot_header(s, h->nmethod_orig_pc, 4)))
			pc = original;
	}
	unwind_push_runtime(w, FRAME_TAG_HOTSPOT, h->executable, s->blob,
			    HOTSPOT_FRAME(HOTSPOT_COMPILED, pc - s->code,
					  hotspot_header(s, h->nmethod_compile_id, 4)));
	/* Wrappers of native methods move SP as they like, but have a frame pointer. */
	if (!java && hotspot_by_fp(w, h, s->frame_bytes))
		return unwind_to(w, s->words[1], c->fp + 16, s->words[0]);
	return hotspot_by_size(w, h);
}

/* ---- stubs ---- */

UNWIND_INLINE int hotspot_stub(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct hotspot_walk *s = &w->hotspot;
	struct unwind_cursor *c = &w->cursor;
	__u64 top = 0, cfa;

	unwind_push_runtime(w, FRAME_TAG_HOTSPOT, h->executable, s->blob,
			    HOTSPOT_FRAME(HOTSPOT_STUB, c->pc - s->code, s->name));
	/* A leaf that has pushed nothing? */
	if (!c->return_address && env_read(c, &top, 8, c->sp) && hotspot_is_code(h, top))
		return unwind_to(w, top, c->sp + 8, c->fp);
	if (s->frame_bytes == HOTSPOT_NO_FRAME)
		return hotspot_search_from(w, c->sp);
	cfa = c->sp + s->frame_bytes;
	if (!c->return_address || !s->frame_bytes)
		cfa = hotspot_near(c, HOTSPOT_FRAME_MOST) ? c->fp + 16 : 16;
	if (!env_read(c, s->words, 16, cfa - 16))
		return hotspot_search_from(w, c->sp);
	/* Stubs lead back into the machine's own code, too. */
	if (unwind_map(w, s->words[1] - 1))
		return unwind_to(w, s->words[1], cfa, s->words[0]);
	/* A word may lie between (the entry barrier's, for the SP to go on with). */
	c->fp = s->words[0];
	return hotspot_search_from(w, cfa);
}

/* ---- the interpreter ---- */

/* The method's ConstMethod, if it is a method at all. */
UNWIND_INLINE __u64 hotspot_const_method(struct unwind_walk *w, const struct unwind_hotspot *h,
					 __u64 method)
{
	__u64 at = 0;

	if (!method || method & 7 || !env_read(&w->cursor, &at, 8, method + h->method_const))
		return 0;
	return at & 7 ? 0 : at;
}

UNWIND_INLINE bool hotspot_push_interpreted(struct unwind_walk *w, const struct unwind_hotspot *h,
					    __u64 method, __u64 bcp, __u64 slot)
{
	__u64 at = hotspot_const_method(w, h, method), codes = at + h->const_bytes;
	__u16 count = 0;

	if (!at || !env_read(&w->cursor, &count, 2, at + h->const_code_size))
		return false;
	if (bcp - codes >= count)
		bcp = slot;
	if (bcp - codes >= count)
		bcp = codes;
	unwind_push_runtime(w, FRAME_TAG_HOTSPOT, h->executable, method,
			    HOTSPOT_FRAME(HOTSPOT_INTERPRETED, bcp - codes, at >> 3));
	return true;
}

/* The innermost frame, in the entry point of a method: rbx is the method, r13 the caller's SP, and
 * the return address on top of the stack, in rax, or already in a frame. */
UNWIND_INLINE int hotspot_entry(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct unwind_cursor *c = &w->cursor;
	struct hotspot_walk *s = &w->hotspot;
	__u64 method = c->leaf[UNWIND_REG_RBX - UNWIND_REG_LEAF], entry = 0, ra = 0, fp = c->fp;
	__u64 sp = c->leaf[UNWIND_REG_R13 - UNWIND_REG_LEAF];

	if (c->leaf_known != LEAF_ALL || !hotspot_const_method(w, h, method) ||
	    !env_read(c, &entry, 8, method + h->method_i2i_entry) ||
	    c->pc - entry >= HOTSPOT_ENTRY_BYTES)
		return UNWIND_BY_FP;
	if (!env_read(c, &ra, 8, c->sp))
		return UNWIND_BY_FP;
	if (!hotspot_is_code(h, ra)) {
		ra = c->leaf[UNWIND_REG_RAX - UNWIND_REG_LEAF];
		if (hotspot_by_fp(w, h, HOTSPOT_FIXED_BYTES)) { /* begun, or just complete */
			ra = s->words[1];
			fp = s->words[0];
			if (c->sp != c->fp && !env_read(c, &sp, 8, c->fp - 8))
				return UNWIND_BY_FP;
		}
	}
	if (!hotspot_is_code(h, ra) || sp < c->sp || sp - c->sp > HOTSPOT_FRAME_MOST ||
	    !hotspot_push_interpreted(w, h, method, 0, 0))
		return UNWIND_BY_FP;
	c->sp = sp - 8; /* it may be the caller's already */
	return unwind_to(w, ra, sp, fp);
}

UNWIND_INLINE int hotspot_interpreted(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct unwind_cursor *c = &w->cursor;
	struct hotspot_walk *s = &w->hotspot;
	__u64 bcp = 0, sp, top = 0;
	int result;

	if (!c->return_address) {
		result = hotspot_entry(w, h);
		if (result != UNWIND_BY_FP)
			return result;
		if (c->leaf_known == LEAF_ALL)
			bcp = c->leaf[UNWIND_REG_R13 - UNWIND_REG_LEAF];
	}
	/* 8 words below FP, and 2 from it on. */
	if (hotspot_near(c, HOTSPOT_FRAME_MOST) &&
	    env_read(c, s->words, sizeof(s->words), c->fp - 64) &&
	    hotspot_is_code(h, s->words[9]) &&
	    hotspot_push_interpreted(w, h, s->words[5], bcp,
				     h->flags & HOTSPOT_SEVENTH_BCP ? s->words[1] : s->words[0])) {
		sp = s->words[7];
		if (sp < c->fp + 16 || sp - c->fp > HOTSPOT_FRAME_MOST)
			sp = c->fp + 16;
		return unwind_to(w, s->words[9], sp, s->words[8]);
	}
	/* Its frame is gone already, or no method's (stubs of the interpreter). */
	unwind_push_runtime(w, FRAME_TAG_HOTSPOT, h->executable, h->interpreter_start,
			    HOTSPOT_FRAME(HOTSPOT_STUB, c->pc - h->interpreter_start, 0));
	if (!c->return_address && env_read(c, &top, 8, c->sp) && hotspot_is_code(h, top))
		return unwind_to(w, top, c->sp + 8, c->fp);
	if (c->leaf_known == LEAF_ALL && hotspot_is_code(h, bcp)) /* popped into r13 */
		return unwind_to(w, bcp, c->sp + 8, c->fp);
	return hotspot_search_from(w, c->sp);
}

/* One frame, or UNWIND_BY_FP: this is no code of the machine's. */
UNWIND_INLINE int hotspot_frame(struct unwind_walk *w, const struct unwind_hotspot *h)
{
	struct unwind_cursor *c = &w->cursor;
	__u64 pc = c->pc - (c->return_address ? 1 : 0);
	__u32 kind;

	if (!hotspot_is_code(h, pc))
		return UNWIND_BY_FP;
	/* There is room for the words of so many frames; that the push looks at it by itself is
	 * what older verifiers need. */
	if (c->frame_count >= UNWIND_FRAMES_MAX)
		return unwind_stop(w, UNWIND_END_DEPTH);
	if (pc - h->interpreter_start < h->interpreter_end - h->interpreter_start)
		return hotspot_interpreted(w, h);
	if (!hotspot_find_blob(w, h, pc) || !hotspot_read_blob(w, h))
		return UNWIND_BY_FP;
	kind = hotspot_blob_kind(w);
	if (kind == HOTSPOT_BLOB_STUB)
		return hotspot_stub(w, h);
	return hotspot_compiled(w, h, kind == HOTSPOT_BLOB_NMETHOD);
}

UNWIND_INLINE int unwind_hotspot(struct unwind_walk *w)
{
	const struct unwind_runtime *r = unwind_runtime_of(w, UNWIND_STEP_HOTSPOT);
	int result;

	if (!r)
		return unwind_decline(w);
	result = hotspot_frame(w, &r->hotspot);
	if (result == HOTSPOT_SEARCH)
		result = hotspot_search(w, &r->hotspot);
	if (result == UNWIND_BY_FP)
		return unwind_decline(w);
	/* Java calls Java: no need to ask whose code the caller's is. */
	if (!hotspot_is_code(&r->hotspot, w->cursor.pc - 1))
		w->cursor.step = UNWIND_STEP_NATIVE;
	return result;
}
