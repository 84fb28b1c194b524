/*
 * hotspot_data.h - what the HotSpot step knows of one Java virtual machine (hotspot.h), written by
 * user space (src/agent/runtimes/hotspot/), and the frames it sends. Compiles in both worlds.
 *
 * A virtual machine describes its own structs (vmStructs in libjvm.so), so that all offsets here
 * are its own words: nothing depends on a version but what layout.c says of it.
 */
#pragma once
#ifndef __bpf__
#include <linux/types.h>
#endif

enum {
	HOTSPOT_HEAPS_MOST = 4,
	HOTSPOT_HOPS_MOST = 32,   /* through a segment map */
	HOTSPOT_BLOB_BYTES = 384, /* of a blob's header that are read */
	HOTSPOT_BLOB_LEAST = 96,  /* where memory ends behind it */
	HOTSPOT_CODE_BEFORE = 32, /* bytes of code around a leaf's pc */
	HOTSPOT_CODE_BEHIND = 16,
	HOTSPOT_FRAME_MOST = 1 << 20,
	HOTSPOT_ENTRY_BYTES = 2048,   /* of the interpreter's entry point that sets up a frame */
	HOTSPOT_FIXED_BYTES = 10 * 8, /* that every interpreted frame has below its FP */
	HOTSPOT_SEARCH_WORDS = 8,
};
/* -1 words: of stubs that push what they like (fpu2long_stub of JDK 8). */
#define HOTSPOT_NO_FRAME ((__u32)-8)

/* A code heap: blobs of code in segments of 1 << shift bytes. The segment map has a byte for each:
 * 0xff free, 0 the first of a blob, else how many segments (at most) further back it began. */
struct unwind_code_heap {
	__u64 start, end; /* reserved, not all of it in use */
	__u64 segments;   /* the map */
	__u32 shift;
	__u32 padding;
};

/* Byte offsets; those behind `blob` from the blob's start. */
struct unwind_hotspot {
	__u64 code_start, code_end;               /* all heaps lie in it */
	__u64 interpreter_start, interpreter_end; /* the template interpreter, in one of them */
	struct unwind_code_heap heaps[HOTSPOT_HEAPS_MOST]; /* unused ones are empty */
	__u16 block_header;    /* bytes of a heap block before the blob */
	__u16 blob_name;       /* const char * */
	__u16 blob_frame_size; /* int, words */
	__u16 blob_frame_complete;
	__u16 blob_code; /* where the code begins: address, or int from the blob on */
	__u16 nmethod_compile_id;
	__u16 nmethod_orig_pc; /* int: where in the frame the pc is that deoptimization replaced */
	__u16 nmethod_deopt;   /* its handler: address, or int from the blob on */
	__u16 nmethod_deopt_mh;
	__u16 method_const;
	__u16 method_i2i_entry;
	__u16 const_code_size; /* u16 */
	__u16 const_bytes;     /* sizeof(ConstMethod): the byte codes follow */
	__u8 flags;            /* HOTSPOT_* */
	__u8 padding;
	__u32 executable; /* libjvm.so: frames name it */
};
_Static_assert(sizeof(struct unwind_hotspot) == 192, "unwind_hotspot is 192 bytes");
#define HOTSPOT_OFFSETS        1u /* blob_code, nmethod_deopt: int */
#define HOTSPOT_HAS_DEOPT_MH   2u
#define HOTSPOT_SHORT_COMPLETE 4u /* blob_frame_complete: short */
#define HOTSPOT_SEVENTH_BCP    8u /* JDK 8: frames have a word less above the byte code pointer */

/*
 * A frame has two words:
 *   interpreted  Method *,  HOTSPOT_FRAME(HOTSPOT_INTERPRETED, byte code index, ConstMethod * >> 3)
 *   compiled     nmethod *, HOTSPOT_FRAME(HOTSPOT_COMPILED, pc - begin of its code, compile id)
 *   stub         blob *,    HOTSPOT_FRAME(HOTSPOT_STUB, pc - begin of its code, its name's address)
 * The cookie is what tells, when the name is looked up, that the memory is used for another one
 * now.
 */
enum hotspot_frame_kind { HOTSPOT_NONE, HOTSPOT_INTERPRETED, HOTSPOT_COMPILED, HOTSPOT_STUB };
#define HOTSPOT_FRAME(kind, at, cookie) \
	((__u64)(__u32)(cookie) << 32 | (__u64)(kind) << 28 | ((__u64)(at)&0xfffffff))
#define HOTSPOT_FRAME_KIND(word)   ((__u32)((word) >> 28 & 15))
#define HOTSPOT_FRAME_AT(word)     ((__u32)((word)&0xfffffff))
#define HOTSPOT_FRAME_COOKIE(word) ((__u32)((word) >> 32))

/* What a walk keeps between steps, and room that is not on a stack of 512 bytes: part of struct
 * unwind_walk. */
struct hotspot_walk {
	__u64 named; /* the name that named_kind is of: most frames have the same */
	__u32 named_kind;
	__u32 frame_bytes;
	__u64 blob, code, name;
	__s32 frame_complete;
	__u32 state;     /* enum hotspot_state */
	__u64 search_at; /* where to search for a return address */
	__u32 sub_at;    /* in bytes[]: sub rsp, n; 0: not there */
	__u32 padding;
	__u64 words[HOTSPOT_SEARCH_WORDS + 2];
	__u8 bytes[HOTSPOT_CODE_BEFORE + HOTSPOT_CODE_BEHIND +
		   24];       /* the rest lets any index of 6 bits be used */
	__u8 header[512 + 8]; /* HOTSPOT_BLOB_BYTES of it; the rest lets any offset be masked */
};
