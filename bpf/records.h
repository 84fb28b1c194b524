/*
 * records.h - what our BPF programs and user space say to each other: the maps' values, the records
 * in the ring, and why stacks end. Compiles in both worlds; all sizes are checked.
 *
 * Who writes what: user space (the worker) writes processes, mappings, executables, pages, rows,
 * rules, runtimes and a word of counters; BPF writes the other counters, records, and the `used`
 * clocks of executables.
 */
#pragma once
#ifndef __bpf__
#include <linux/types.h>
#endif
#include "hotspot_data.h"
#include "unwind_rows.h"

enum {
	UNWIND_FRAMES_MAX = 1024,
	/* A frame takes one step; to hand it to a runtime and back, two more. */
	UNWIND_STEPS_MAX = 3 * UNWIND_FRAMES_MAX,
	UNWIND_KERNEL_FRAMES_MAX = 127, /* kernel.perf_event_max_stack's default */
	UNWIND_FRAME_WORDS_MAX = 3,     /* interpreters: header, two words */
	/* A frame is pushed while at least UNWIND_FRAME_WORDS_MAX words are free. */
	UNWIND_WORDS_MAX =
		UNWIND_KERNEL_FRAMES_MAX + UNWIND_FRAME_WORDS_MAX * (UNWIND_FRAMES_MAX + 1),
	/* Bytes of stack that a sample may carry: with their header just what a per-CPU value
	   holds. */
	UNWIND_CAPTURE_MAX = 32768 - 512,
	UNWIND_GROUP_BLOCKS =
		4, /* row blocks of 256 KiB per inner map: inserting one waits for RCU */
	UNWIND_GROUPS_MAX = 128,
	UNWIND_PROCESS_RUNTIMES = 6, /* language runtimes in one process */
};

/*
 * Why a stack ends. The values are on the wire of our own metrics and in FRAME_END markers: append
 * only. UNWIND_END_BOTTOM is the good end, everything else cuts a stack.
 */
#define UNWIND_ENDS(X)                                                                       \
	X(BOTTOM, "bottom", "the outermost frame was reached")                               \
	X(KERNEL_ONLY, "kernel_only", "a kernel thread: it has no user stack")               \
	X(DEPTH, "depth", "more frames than 1,024")                                          \
	X(NO_MAPPING, "no_mapping", "an address in no executable mapping")                   \
	X(NO_TABLE, "no_table", "unwind rows of this code are not built yet, or refused")    \
	X(NO_RULE, "no_rule", "no unwind information, and the frame pointer is implausible") \
	X(UNREADABLE, "unreadable", "stack memory that is not present")                      \
	X(BAD_CFA, "bad_cfa", "the frame would lie below the one it called")                 \
	X(LEAF_REGISTER, "leaf_register", "a caller's frame needs a register that is lost")  \
	X(BAD_RULE, "bad_rule", "an unwind rule that makes no sense")                        \
	X(ZERO_PC, "zero_pc", "a return address of zero")                                    \
	X(COMPAT, "compat", "a 32-bit process")                                              \
	X(STALE, "stale", "the process called exec() since its mappings were read")          \
	X(UNKNOWN_PROCESS, "unknown_process", "a process of which nothing was known yet")    \
	X(CAPTURE, "capture", "the stack went on behind the bytes that were copied")         \
	X(RUNTIME, "runtime", "a language runtime's frames could not be read")

enum unwind_end {
#define X(name, text, help) UNWIND_END_##name,
	UNWIND_ENDS(X)
#undef X
		UNWIND_END_COUNT
};

/* Steps of the walk. What is not native belongs to a runtime. */
enum unwind_step_kind {
	UNWIND_STEP_NATIVE,
	UNWIND_STEP_CPYTHON,
	UNWIND_STEP_HOTSPOT,
	UNWIND_STEP_V8,
	UNWIND_STEP_GO, /* no frames of its own: labels (go_labels.h) */
	UNWIND_STEP_PHP,
	UNWIND_STEP_PCRE, /* regular expressions that PHP had compiled: no frames of its own */
	UNWIND_STEP_RUBY,
	UNWIND_STEP_COUNT,
};

/*
 * walkers: which program walks a process's stacks. Each is loaded when the first process needs it,
 * so a native sample carries no runtime's code, and runtimes that are not there cost nothing.
 */
enum unwind_walker {
	UNWIND_WALKER_NATIVE, /* native frames alone */
	/* enum unwind_step_kind: and that runtime's */
	UNWIND_WALKER_ALL = 31, /* every runtime's: a process has several */
	UNWIND_WALKERS,
};

/* ---- maps --------------------------------------------------------------------------------- */

enum process_verdict {
	PROCESS_UNKNOWN, /* as one that is not in the map */
	PROCESS_SAMPLE,
	PROCESS_DROP, /* filtered: nothing of it leaves the kernel */
};

/* processes: pid -> this. */
struct unwind_process {
	__u32 first_mapping, mapping_count; /* in mappings, sorted by start */
	__u32 image;   /* which image of which process: unique for an hour or more */
	__u32 exec_id; /* low half of task_struct.self_exec_id; valid with PROCESS_EXEC_ID */
	__u8 verdict;  /* enum process_verdict */
	__u8 flags;    /* PROCESS_* */
	__u8 walker;   /* enum unwind_walker */
	__u8 padding;
	__u16 runtimes[UNWIND_PROCESS_RUNTIMES]; /* in runtimes; 0: none */
};
_Static_assert(sizeof(struct unwind_process) == 32, "unwind_process is 32 bytes");
#define PROCESS_EXEC_ID 1u
#define PROCESS_LABELS  2u /* one of its runtimes keeps labels of threads or goroutines */

/* cgroups: a control group whose tasks are sampled, with those of the groups below it -> 1. */
struct unwind_cgroup {
	__u64 id;        /* inode of its folder */
	__u32 hierarchy; /* number in /proc/PID/cgroup; version 2: 0 */
	__u32 padding;
};
_Static_assert(sizeof(struct unwind_cgroup) == 16, "unwind_cgroup is 16 bytes");

/* One executable mapping. load_bias is ~0 until the file was looked at. */
struct unwind_mapping {
	__u64 start, end; /* [start, end) */
	__u64 load_bias;  /* elf_vaddr = pc - load_bias */
	__u32 executable; /* index in executables; 0: anonymous code, walked by frame pointers */
	__u32 step;       /* enum unwind_step_kind: whose code it is */
};
_Static_assert(sizeof(struct unwind_mapping) == 32, "unwind_mapping is 32 bytes");
#define UNWIND_BIAS_UNKNOWN (~(__u64)0)

/* executables: id -> this. Zero: not looked at yet. */
struct unwind_executable {
	__u32 page_base;       /* its first page in pages */
	__u32 page_count;      /* 0: no table at all: frame pointers, if EXECUTABLE_LOADED */
	__u64 first_page;      /* elf_vaddr >> UNWIND_PAGE_SHIFT of page_base */
	__u64 interpreter[2];  /* elf_vaddr [from, to) of a runtime's main loop, 0 = none */
	__u64 interpreter2[2]; /* its cold part */
	__u32 interpreter_step;
	__u32 flags; /* EXECUTABLE_* */
	__u32 used;  /* BPF: when last walked through, in units of 2^30 ns; user space evicts by it
		      */
	__u32 padding;
};
_Static_assert(sizeof(struct unwind_executable) == 64, "unwind_executable is 64 bytes");
/* What the step reads of a frame and, from code_base on, of a code object of CPython: all that it
 * needs must lie there. */
enum { CPYTHON_FRAME_BYTES = 80, CPYTHON_FRAME_OBJECT_BYTES = 128, CPYTHON_CODE_BYTES = 88 };

/* How many Python frames an evaluation loop of CPython runs. */
enum cpython_loop {
	CPYTHON_LOOP_OF_ONE,   /* up to 3.10 */
	CPYTHON_LOOP_TO_ENTRY, /* 3.11: up to the one that says that it entered the loop */
	CPYTHON_LOOP_TO_SHIM,  /* from 3.12 on: up to a frame of the loop's own, not Python's */
};

/* CPython: where things lie, in bytes (bpf/step_cpython.h). */
struct cpython_runtime {
	/* elf_vaddr of words in the file of the evaluation loop; 0: this version has none */
	__u64 interpreters; /* the newest interpreter, which leads to the older ones; behind it the
			     * main one */
	__u64 current;      /* the state of the thread that holds the lock: up to 3.11 */
	__s32 tls_offset; /* from the thread pointer to the word that holds the thread's state... */
	__s32 tls_inner;  /* ...or to one that leads to it at this offset; -1: the former */
	/* in the thread's state */
	__u16 thread_id;
	__u16 thread_frame; /* the newest frame, or the cframe */
	__s16 cframe;       /* the newest frame in the cframe; -1: there is none */
	/* in a frame */
	__u16 frame_previous, frame_code, frame_instruction, frame_owner;
	__u8 loop;              /* enum cpython_loop */
	__u8 owner_shim;        /* LOOP_TO_SHIM: owners from this one on are no Python frames */
	__u8 instruction_bytes; /* LOOP_OF_ONE: what frame_instruction counts */
	__u8 guessed;           /* tls_*: as others have it; threads without a state are lost */
	/* in a code object */
	__u16 code_base; /* what is read of it begins here (a multiple of 8); the next two count
			  * from here */
	__u16 code_file; /* file name, name, and one more object that only this function has */
	__u16 code_line; /* first line */
	__u16 code_instructions;
	/* in the thread's state and in an interpreter's */
	__u16 thread_interpreter, thread_next, interpreter_next, interpreter_threads;
	/* Free-threaded: each thread may run a copy of a function's code. Which one, in a frame;
	 * the list of copies, in a code object; 0: not such a build. */
	__u16 frame_tlbc, code_tlbc;
	__u32 executable; /* the file of the loop, of which compiled code knows nothing */
	__u32 padding;
};
_Static_assert(sizeof(struct cpython_runtime) == 72, "cpython_runtime is 72 bytes");

/* How a goroutine keeps its labels (Go's src/runtime/pprof/label.go). */
enum go_labels_form {
	GO_LABELS_MAP,  /* up to 1.23: a map[string]string, of the kind with buckets */
	GO_LABELS_LIST, /* from 1.24 on: a slice of {key, value} */
};

/* Go: where a goroutine's labels are, in bytes (bpf/go_labels.h). */
struct go_runtime {
	__s32 tls_offset; /* from the thread pointer to the word that holds the thread's g */
	__u16 g_m;        /* in a g: its thread */
	__u16 g_labels;
	__u16 m_curg; /* in a thread's m: the goroutine that it runs, also on a stack of its own */
	__u8 form;    /* enum go_labels_form */
	__u8 padding;
};
_Static_assert(sizeof(struct go_runtime) == 12, "go_runtime is 12 bytes");

/* What the step reads of a function of PHP (zend_function). */
enum { PHP_FUNCTION_BYTES = 112 };

/* PHP: where things lie, in bytes (bpf/step_php.h). */
struct php_runtime {
	__u64 globals; /* pc-space address of the word that leads to the newest frame; with
			* tls_offset: from the thread's resources on */
	__u64 pcre_start, pcre_end; /* the library of regular expressions */
	__u64 body;       /* behind execute_ex: a return address that unwinds as its body */
	__s32 tls_offset; /* from the thread pointer to the word that leads to its resources; 0: the
			   * globals are the process's */
	__u32 executable; /* that of execute_ex: frames name it */
	/* in a frame */
	__u16 frame_instruction, frame_function, frame_object, frame_info, frame_previous;
	/* in a function */
	__u16 function_type, function_flags, function_name, function_class, function_code,
		function_count;
	__u16 function_file;
	__u16 instruction_bytes, instruction_line;
	/* in a generator: its frame, the one that it waits for, and the frame that stands for those
	 * that wait */
	__u16 generator_frame, generator_parent, generator_stand_in;
	/* in a fiber: its context, that of the fiber that runs it, its outermost frame; and in a
	 * context its stack */
	__u16 fiber_context, fiber_caller, fiber_bottom, context_stack;
	__u16 padding;
	__s32 fiber; /* from the word that leads to the newest frame to that of the running fiber;
		      * 0: this version has none */
	__u32 frame_top, frame_code, frame_generator; /* bits of frame_info */
	/* bits of function_flags: a closure, or what stands in for a method that is not there; and
	 * that it is a copy of a function that stays */
	__u32 flag_passing, flag_copy;
};
_Static_assert(sizeof(struct php_runtime) == 112, "php_runtime is 112 bytes");

/* Ruby: where things lie, in bytes (bpf/step_ruby.h). */
struct ruby_runtime {
	__u64 context; /* pc-space address of the word that leads to the execution context; 0: it is
			* a variable of the thread */
	__u64 loop_start, loop_bytes; /* pc-space: vm_exec_core */
	__u32 tls_module;             /* of the dynamic thread vector; 0: static storage */
	__s32 tls_offset;             /* from the module's block, or from the thread pointer */
	__u32 executable;             /* that of the loop: frames name it */
	__u16 context_stack, context_stack_words, context_frame;
	__u16 frame_bytes, frame_pc, frame_iseq, frame_ep;
	__u16 iseq_body, body_code;
	__u16 padding;
};
_Static_assert(sizeof(struct ruby_runtime) == 56, "ruby_runtime is 56 bytes");

/* V8: where things lie, in bytes, and types of objects (bpf/step_v8.h). */
enum { V8_FUNCTION_BYTES = 40, V8_MARKER_MOST = 64 }; /* of a JSFunction that are read */
struct v8_runtime {
	__u32 executable; /* that of the builtins: frames name it */
	__u16 map_type, function_shared;
	__u16 first_function, last_function, bytecode_type, script_type; /* instance types */
	__u16 shared_script;
	__u16 frame_array; /* below FP: the byte code */
};
_Static_assert(sizeof(struct v8_runtime) == 20, "v8_runtime is 20 bytes");

/*
 * Slot 0 of runtimes: those that processes of this machine use; 0: none. A process of which nothing
 * is known yet will need one of them, and each thread of CPython shows whether it is its own.
 */
enum { UNWIND_USUAL_RUNTIMES = 8 };
struct unwind_usual_runtimes {
	__u32 slots[UNWIND_USUAL_RUNTIMES];
};

/*
 * runtimes: what a runtime's step needs to know of a process. User space finds it out
 * (src/agent/runtimes/); processes that need the same share one. Slot 0 is no runtime's.
 */
struct unwind_runtime {
	__u32 step; /* enum unwind_step_kind */
	__u32 padding;
	union {
		struct cpython_runtime cpython;
		struct unwind_hotspot hotspot;
		struct go_runtime go;
		struct php_runtime php;
		struct ruby_runtime ruby;
		struct v8_runtime v8;
		struct unwind_usual_runtimes usual;
		__u64 words[31];
	};
};
_Static_assert(sizeof(struct unwind_runtime) == 256, "unwind_runtime is 256 bytes");

#define EXECUTABLE_LOADED     1u
#define EXECUTABLE_TRACKS_RBX 2u /* its rules tell where rbx is (UNWIND_CFA_RBX) */

enum { PROCESSES_VERSIONS = 8 };

/* counters: one per CPU, in an mmap-able array. */
struct sample_counters {
	/* what every sample counts: one cache line */
	__u64 fired;   /* the program ran */
	__u64 sampled; /* a record was sent */
	__u64 frames;  /* user frames pushed */
	__u64 time_ns; /* spent in the program, as it sees itself */
	/* Not a count: user space adds one behind each change of `processes`, so that BPF may
	 * remember what it found there. */
	__u32 processes_version[PROCESSES_VERSIONS]; /* by pid % PROCESSES_VERSIONS */
	__u32 tables_version; /* as well, where executables change that had been walked through */
	__u32 by_cgroup;      /* user space: only tasks in one of `cgroups` are sampled */
	__u32 unknown_walker; /* user space: of processes that it has not described yet */
	__u32 padding2;
	__u64 ended[UNWIND_END_COUNT];
	/* the rest */
	__u64 idle;          /* the idle task: skipped */
	__u64 filtered;      /* a process that the filter excludes */
	__u64 dropped_ring;  /* the ring was full */
	__u64 dropped_ns;    /* a process outside our pid namespace */
	__u64 captured;      /* stacks copied for user space */
	__u64 capture_limit; /* not copied: rate limit */
	__u64 capture_ring;  /* not copied: the ring was full */
	__u64 no_walker;     /* the walker of the process was not loaded: its stack was copied */
	__u64 padding[48 - 18 - UNWIND_END_COUNT];
};
_Static_assert(sizeof(struct sample_counters) == 384, "sample_counters is 384 bytes");

/* ---- the walk ----------------------------------------------------------------------------- */

/*
 * What is remembered of an address: the usual rules in one half of a cache line. It holds for one
 * run of mappings (which are written once, and rest for longer than this lives before they are
 * written again), until the clock has gone on (what was walked through is looked up anew, and
 * marked as used, every few seconds), and as long as tables_version stays.
 */
enum {
	UNWIND_KNOWN_BITS = 10,
	UNWIND_KNOWN_SLOTS = 1 << UNWIND_KNOWN_BITS, /* of each CPU: 32 KiB */
	UNWIND_KNOWN_SHIFT = 1
}; /* lives 2^(30 + that) ns */
#define UNWIND_KNOWN_AT(now, version) \
	((__u32)((now) >> UNWIND_KNOWN_SHIFT & 0xffff) | (version) << 16)
#define UNWIND_KNOWN_NS (UINT64_C(1) << (30 + UNWIND_KNOWN_SHIFT))

enum unwind_known_kind {
	KNOWN_NOTHING,
	KNOWN_BY_SP, /* CFA = SP + cfa_offset, RA at CFA - 8, FP at CFA + fp_offset */
	KNOWN_BY_FP, /* CFA = FP + cfa_offset */
	KNOWN_SURE_FP,
	KNOWN_STOP,
};
struct unwind_known {
	__u64 pc; /* as it is looked up: behind a call one less */
	__u64 load_bias;
	__u32 run;                   /* first_mapping */
	__u32 when;                  /* unwind_walk.known_at */
	__s16 cfa_offset, fp_offset; /* fp_offset 0: FP stays */
	__u32 what;                  /* KNOWN() */
};
_Static_assert(sizeof(struct unwind_known) == 32, "unwind_known is 32 bytes");
#define KNOWN(kind, owner, executable) ((__u32)(kind) << 28 | (__u32)(owner) << 22 | (executable))
#define KNOWN_KIND(what)               ((what) >> 28)
#define KNOWN_OWNER(what)              ((what) >> 22 & 63) /* enum unwind_step_kind */
#define KNOWN_EXECUTABLE(what)         ((what)&0x3fffff)

/*
 * And of 4 KiB of code, for addresses that were not seen yet: whose they are and which rows are
 * theirs. Only where all of it is one mapping's, one owner's and one unwind_page's. As short-lived.
 */
enum {
	UNWIND_KNOWN_PAGE_BITS = 8,
	UNWIND_KNOWN_PAGES = 1 << UNWIND_KNOWN_PAGE_BITS, /* of each CPU: 10 KiB */
	UNWIND_KNOWN_PAGE_SHIFT = 12
};
struct unwind_known_page {
	__u64 page; /* pc >> UNWIND_KNOWN_PAGE_SHIFT */
	__u64 load_bias;
	__u32 run, when; /* as in unwind_known */
	__u32 executable;
	__u16 owner; /* enum unwind_step_kind */
	__u16 tracks_rbx;
	struct unwind_page rows; /* only those that hold here */
};
_Static_assert(sizeof(struct unwind_known_page) == 40, "unwind_known_page is 40 bytes");

/* Memory of the target that was read in one piece. */
enum { UNWIND_WINDOW_BYTES = 2048 };
struct unwind_window {
	__u64 start;   /* a multiple of 8 */
	__u32 bytes;   /* that are there; 0: nothing was read yet */
	__u32 careful; /* a read of the whole was refused: the stack ends near */
	__u64 word;    /* that was asked for and not there */
	__u64 words[UNWIND_WINDOW_BYTES / 8];
};

/* What a walk has found out about CPython: part of struct unwind_walk, zero at its start. */
enum { CPYTHON_SEEK_MOST = 512, CPYTHON_SCAN_MOST = 32 };
enum cpython_walk_state {
	CPYTHON_NEW,
	CPYTHON_WALKING,
	CPYTHON_SEEKING, /* for the state that this thread has in an older interpreter */
	CPYTHON_DONE,    /* no more frames */
	CPYTHON_LOST,    /* there are more, and they cannot be read */
};
struct cpython_walk {
	__u64 frame;    /* the next one */
	__u32 state;    /* enum cpython_walk_state */
	__u16 pushed;   /* a frame of the present loop */
	__u16 compiled; /* frames in the walk behind compiled code, + 1; 0: there was none */
	__u32 scanned;  /* looking for the loop below compiled code: words of the stack, + 1 */
	__u32 padding;
	__u64 saved_fp, word_before; /* seen on the way */
	__u64 code;                  /* the last code object, and its cookie */
	__u64 cookie;
	__u64 thread;      /* whose frames these are */
	__u64 interpreter; /* SEEKING: the last one looked at, and the next of its threads */
	__u64 other;
	__u32 several;      /* interpreters are in this process */
	__u32 seek_left;    /* threads that may be looked at */
	__u32 ahead;        /* reading ahead: the runtime's slot; 0: not found yet */
	__u32 ahead_tried;  /* so many of those that it may be */
	__u64 near;         /* the last frame that was read */
	__u64 window_start; /* frames lie side by side: [window_start, + window_bytes) */
	__u64 window_bytes;
};
struct cpython_room {
	__u64 block[16];
	__u64 window[UNWIND_WINDOW_BYTES / 8];
};

/* Of a code object's file name, name, third object and first line. Never 0. */
static inline __u64 cpython_cookie(__u64 file, __u64 name, __u64 more, __u32 line)
{
	__u64 h = file * 0x9e3779b97f4a7c15u ^ name * 0xc2b2ae3d27d4eb4fu ^
		  (more + line) * 0x165667b19e3779f9u;

	return (h >> 32) | 1;
}

/* What a walk has found out about PHP. */
enum {
	PHP_GENERATORS_MOST = 32, /* that wait for each other */
	PHP_INTERNAL = 1,         /* a function's type: ZEND_INTERNAL_FUNCTION */
	PCRE_FRAME_WORDS = 160,   /* of the stack, where compiled expressions return to */
	PCRE_SAVED_WORDS = 5,     /* registers that they save */
	PHP_USER = 2,             /* ZEND_USER_FUNCTION */
	PHP_EVAL = 4,             /* ZEND_EVAL_CODE */
};
/* What a fiber leaves on its stack when it runs another: so many words of registers (x86-64), or
 * one more where stacks are protected; the last two are FP and the return address. */
enum { PHP_SAVED_WORDS = 8 };
enum php_walk_state {
	PHP_NEW,
	PHP_WALKING,
	PHP_LOST, /* there are more frames, and they cannot be read */
};
struct php_walk {
	__u64 frame;                      /* the next one */
	__u64 instruction;                /* of the innermost frame; 0: the frame says it */
	__u64 generator;                  /* the outermost of those that wait */
	__u64 fiber;                      /* that runs; 0: none */
	__u64 saved[PHP_SAVED_WORDS + 1]; /* registers of a fiber that runs another */
	__u32 waiting;                    /* generators still to be shown */
	__u32 state;                      /* enum php_walk_state */
	__u32 pushed;                     /* a frame of the present run of the machine */
	__u32 last_type;                  /* of the function that was pushed last */
	__u32 pcre_from; /* word of the stack to look at, in a compiled expression */
	__u32 padding;
};

/*
 * A frame has two words: the first is an address, and above its 48 bits PHP_KIND_* (3 bits) and the
 * upper 13 bits of the cookie.
 *   function  zend_function *; lower 36 bits of the cookie << 28 | the instruction's offset in
 * bytes closure   zend_string * of its name; that of its file >> 3 << 19 | line others zend_string
 * * of the file; line A closure may be gone when it has run, as what was included and what eval()
 * compiled is: their names stay. The cookie is of the function's name, class and code: it tells
 * whether a function is still the one that ran.
 */
enum php_frame_kind {
	PHP_KIND_FUNCTION,
	PHP_KIND_CLOSURE,
	PHP_KIND_MAIN,
	PHP_KIND_INCLUDE,
	PHP_KIND_EVAL,
};
#define PHP_AT_UNKNOWN 0x0fffffffu
#define PHP_LINE_MOST  0x7ffffu
#define PHP_FIRST(kind, address, cookie) \
	((__u64)(kind) << 61 | ((__u64)(cookie) >> 36 & 0x1fff) << 48 | ((address)&0xffffffffffff))
#define PHP_FRAME_KIND(first)    ((__u32)((first) >> 61))
#define PHP_FRAME_ADDRESS(first) ((first)&0xffffffffffff)
#define PHP_SECOND(cookie, at)   ((cookie) << 28 | (at))
#define PHP_CLOSURE(file, line)  ((file) >> 3 << 19 | (line))

static inline __u64 php_cookie(__u64 name, __u64 class_entry, __u64 code)
{
	__u64 h = name * 0x9e3779b97f4a7c15u ^ class_entry * 0xc2b2ae3d27d4eb4fu ^
		  code * 0x165667b19e3779f9u;

	return h ^ h >> 32;
}

/* What a walk has found out about Ruby. */
enum {
	RUBY_FRAME_BYTES = 40, /* of a control frame that are read */
	RUBY_FRAME_MOST = 64,  /* as large as one may be */
	RUBY_SCOPES_MOST = 10, /* blocks in blocks: methods further out are not looked for */
	RUBY_STACK_WORDS_MOST = 1 << 27,
	/* vm_core.h: VM_FRAME_MAGIC_*, VM_FRAME_FLAG_*, VM_ENV_FLAG_* */
	RUBY_FRAME_MASK = 0x7fff0001,
	RUBY_FRAME_C = 0x55550001,
	RUBY_FRAME_BLOCK_IN_C = 0x66660001,
	RUBY_FRAME_DUMMY = 0x79990001,
	RUBY_FLAG_FINISH = 0x20,
	RUBY_FLAG_LOCAL = 2,
	/* internal/imemo.h: kinds of the VM's own objects (T_IMEMO) */
	RUBY_SPECIAL_VARIABLES = 2,
	RUBY_METHOD = 6,
	RUBY_ISEQ = 7,
	RUBY_NO_KIND = 16,
};
#define RUBY_KIND(flags) (((flags)&0x1f) == 0x1a ? (__u32)((flags) >> 12 & 15) : RUBY_NO_KIND)

enum ruby_walk_state {
	RUBY_NEW,
	RUBY_WALKING,
	RUBY_LOST, /* there are more frames, and they cannot be read */
};
struct ruby_walk {
	__u64 frame, end;         /* the next one; where they end */
	__u64 object;             /* the last one that a method was looked for in, */
	__u64 method, definition; /* and what was found */
	__u32 state;              /* enum ruby_walk_state */
	__u16 pushed;             /* a frame of the present run of the machine */
	__u16 left_loop;          /* the last native frame of the machine was that of its loop */
	__u32 started;            /* the innermost frame was looked at */
	__u32 padding;
};

/*
 * A frame has two words. Of addresses their 47 bits without the low 3:
 *   Ruby  iseq << 20 | low 20 bits of pc;             method entry << 20 | the next 20 bits of pc
 *   C     method entry << 20 | low 20 bits of its definition's;              RUBY_SECOND_C
 * A pc is in the instructions of its iseq, or else that is no longer the one that ran.
 */
#define RUBY_PART(address)        ((address) >> 3 & 0xfffffffffff)
#define RUBY_FIRST(address, more) (RUBY_PART(address) << 20 | ((more) >> 3 & 0xfffff))
#define RUBY_SECOND(method, pc)   (RUBY_PART(method) << 20 | ((pc) >> 23 & 0xfffff))
#define RUBY_SECOND_C             (0xfffffffffffull << 20)
#define RUBY_FRAME_ADDRESS(word)  ((word) >> 20 << 3)
#define RUBY_FRAME_LOW(word)      ((word)&0xfffff)
#define RUBY_PC_BITS              43 /* of pc that a frame has */

/* What a walk has found out about V8: maps whose objects were looked at. */
struct v8_walk {
	__u64 function_map, array_map;
};

/*
 * A frame has two words: its kind << 61, and then
 *   interpreted  SharedFunctionInfo;  its BytecodeArray << 20 | the offset in that
 *   compiled     SharedFunctionInfo;  pc
 *   marked       the frame's type;    pc
 * Addresses are those of objects, without their tag.
 */
enum v8_frame_kind { V8_KIND_INTERPRETED, V8_KIND_COMPILED, V8_KIND_MARKED };
#define V8_OFFSET_MOST       0xfffffu
#define V8_FIRST(kind, word) ((__u64)(kind) << 61 | ((word)&0x7fffffffffff))
#define V8_FRAME_KIND(first) ((__u32)((first) >> 61))
#define V8_FRAME_WORD(first) ((first)&0x7fffffffffff)
#define V8_SECOND(array, offset) \
	((array) >> 3 << 20 | ((offset) < V8_OFFSET_MOST ? (offset) : V8_OFFSET_MOST))
#define V8_FRAME_ARRAY(second)  ((second) >> 20 << 3)
#define V8_FRAME_OFFSET(second) ((second)&V8_OFFSET_MOST)

enum { UNWIND_LEAF_REGS = 14 }; /* UNWIND_REG_COUNT - UNWIND_REG_LEAF */

enum leaf_known {
	LEAF_UNKNOWN,
	LEAF_ALL, /* leaf[] is valid: nothing was popped since a full register set */
	LEAF_RBX, /* only rbx, through frames of executables that track it */
};

/* What has become of the frame of pc. */
enum unwind_frame_state {
	UNWIND_FRAME_NEW,
	UNWIND_FRAME_PUSHED,   /* it is in the words */
	UNWIND_FRAME_DECLINED, /* its runtime had nothing to say: it is shown as native */
};

/* Where a walk stands: enough to go on elsewhere. */
struct unwind_cursor {
	__u64 pc, sp, fp;
	__u64 tp;                     /* thread pointer (fs_base) */
	__u64 leaf[UNWIND_LEAF_REGS]; /* by enum unwind_reg - UNWIND_REG_LEAF */
	__u32 frame_count;
	__u8 return_address; /* pc is one */
	__u8 leaf_known;     /* enum leaf_known */
	__u8 pushed;         /* enum unwind_frame_state */
	__u8 step;           /* enum unwind_step_kind */
};
_Static_assert(sizeof(struct unwind_cursor) == 152, "unwind_cursor is 152 bytes");

/*
 * A frame is a header word and its payload:
 *   header  bits 0..7 enum frame_tag, 8..15 FRAME_FLAG_*, 16..23 payload words, 32..63 executable
 *   then    1 word: elf_vaddr, or pc where the executable is 0 or its bias unknown
 *           2 words for runtimes: what trace_frame.address and .extra will be. The address alone
 *           says which function it is only as long as nothing else comes to lie there: the other
 *           word holds a cookie of it, by which user space tells when it looks.
 */
enum frame_tag {
	FRAME_TAG_PC,     /* pc; the mapping was not known */
	FRAME_TAG_NATIVE, /* elf_vaddr in executable */
	FRAME_TAG_CPYTHON,
	FRAME_TAG_HOTSPOT,
	FRAME_TAG_V8,
	FRAME_TAG_PHP,
	FRAME_TAG_RUBY,
	/* What follows are no frames of the walk, but those of CPython that lie before it, read
	 * while they could be (ahead_cpython.h). 1 word: the slot in runtimes by which. */
	FRAME_TAG_AHEAD,
	FRAME_TAG_AHEAD_LOOP, /* among them: their evaluation loop ends here. 1 word, 0 */
	FRAME_TAG_AHEAD_END,  /* there are no more; missing: those were not read. 1 word, 0 */
	FRAME_TAG_COUNT,
};
#define FRAME_FLAG_RETURN_ADDRESS 1u
#define FRAME_HEADER(tag, flags, words, executable) \
	((__u64)(tag) | (__u64)(flags) << 8 | (__u64)(words) << 16 | (__u64)(executable) << 32)

/* ---- records in the ring -------------------------------------------------------------------- */

enum record_kind { RECORD_SAMPLE = 1, RECORD_STACK, RECORD_LABELS };

#define SAMPLE_USER_MODE         (1u << 0) /* interrupted in user mode */
#define SAMPLE_UNKNOWN           (1u << 1) /* the process was not in the map */
#define SAMPLE_STACK             (1u << 2) /* the RECORD_STACK before it on this CPU belongs to it */
#define SAMPLE_KTHREAD           (1u << 3)
#define SAMPLE_IDLE              (1u << 4)
#define SAMPLE_LABELS            (1u << 5) /* the RECORD_LABELS before it on this CPU belongs to it */
#define SAMPLE_LABELS_UNREADABLE (1u << 6) /* there may be labels: memory was not present */
#define SAMPLE_LABELS_RING       (1u << 7) /* there were labels, and the ring was full */

#define SAMPLE_TOOK_NS 16

/* A sample: this header, kernel_count pcs, then word_count words of user frames. */
struct sample_record {
	__u16 kind;  /* RECORD_SAMPLE */
	__u16 flags; /* SAMPLE_* */
	__u16 cpu;
	__u16 took_before; /* by the record before it on this CPU, in SAMPLE_TOOK_NS; 0: unknown */
	__u64 time_ns;     /* CLOCK_MONOTONIC */
	__u32 pid, tid;
	__u64 start_boottime_ns; /* of the process: tells reused pids apart */
	__u32 image;             /* of the mappings that were used; 0 with SAMPLE_UNKNOWN */
	__u32 exec_id;
	__u16 kernel_count; /* words */
	__u16 word_count;   /* words of user frames */
	__u16 frame_count;
	__u16 end; /* enum unwind_end */
	char comm[16];
};
_Static_assert(sizeof(struct sample_record) == 64, "sample_record is 64 bytes");

/* Where the walk of the sample that follows stopped; then `bytes` of stack, from cursor.sp upwards.
 */
struct stack_record {
	__u16 kind; /* RECORD_STACK */
	__u16 padding;
	__u32 cpu;
	__u32 bytes; /* of stack that could be read */
	__u32 padding2;
	struct unwind_cursor cursor;
};
_Static_assert(sizeof(struct stack_record) == 168, "stack_record is 168 bytes");

/* Labels of the sample that follows: `bytes` of {struct label_head, key, value}, each begun at a
 * multiple of 8. */
enum {
	LABELS_MOST = 32,
	LABEL_KEY_MOST = 64,    /* bytes: more is cut off */
	LABEL_VALUE_MOST = 256, /* as well */
	LABELS_BYTES_MOST = 4096,
	LABELS_ROOM = LABELS_BYTES_MOST + 1024, /* the last one may begin below that */
};
struct labels_record {
	__u16 kind; /* RECORD_LABELS */
	__u16 cpu;
	__u32 bytes;
	__u32 there;      /* labels that there were; more than `taken`: too many, or as below */
	__u16 taken;      /* that are here */
	__u16 unreadable; /* that could not be read */
};
_Static_assert(sizeof(struct labels_record) == 16, "labels_record is 16 bytes");
struct label_head {
	__u16 key_bytes, value_bytes; /* as they stand here */
	__u16 cut;                    /* one of them was longer */
	__u16 padding;
};
_Static_assert(sizeof(struct label_head) == 8, "label_head is 8 bytes");
