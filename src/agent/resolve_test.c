/*
 * From records to traces: which frames a sample gets when BPF knew little of its process - new, in
 * the middle of exec(), walked by mappings that are gone. Over a seam that opens this very program
 * for whatever file is mapped; records are made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/process/process_info.h"
#include "agent/resolve.h"

enum {
	PID = 7,
	CODE = 0x10000000, /* where the program is mapped */
	CODE_BYTES = 1 << 24,
	NOWHERE = 0x20000000,
	SP = 0x7000000,
	EXEC_NS = 1000,
};

struct rig {
	struct seam seam; /* first */
	struct unwind_store store;
	struct mapping_sets sets;
	struct modules modules;
	struct process_table table;
	struct filter *filter;
	struct resolver resolver;
	uint64_t memory_reads;
};

static bool no_proc(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
		    struct err *err)
{
	(void)s;
	(void)pid;
	(void)file;
	(void)fd;
	return err_set(err, ERR_NOT_FOUND, "it has ended");
}

static bool no_path(struct seam *s, uint32_t pid, char *path, size_t cap, struct err *err)
{
	(void)s;
	(void)pid;
	(void)path;
	(void)cap;
	return err_set(err, ERR_NOT_FOUND, "it has ended");
}

static bool open_self(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
		      struct err *err)
{
	(void)s;
	(void)pid;
	(void)file;
	*fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "/proc/self/exe");
}

static bool count_reads(struct seam *s, uint32_t pid, uint64_t address, void *to, size_t bytes,
			size_t *got, struct err *err)
{
	(void)pid;
	(void)address;
	(void)to;
	(void)bytes;
	(void)got;
	((struct rig *)(void *)s)->memory_reads++;
	return err_set(err, ERR_NOT_FOUND, "it has ended");
}

static const struct seam_ops ops = { .open_proc = no_proc,
				     .exe_path = no_path,
				     .open_mapped = open_self,
				     .read_memory = count_reads };

/* The process 7, which has called exec() at EXEC_NS and mapped the program. */
static void set_up(struct rig *r)
{
	struct side_record exec = { .kind = SIDE_EXEC,
				    .pid = PID,
				    .tid = PID,
				    .time_ns = EXEC_NS,
				    .name = STR("program") };
	struct side_record map = { .kind = SIDE_MMAP,
				   .pid = PID,
				   .tid = PID,
				   .start = CODE,
				   .length = CODE_BYTES,
				   .inode = 1,
				   .device = 1,
				   .executable = true,
				   .name = STR("/bin/program") };
	struct err err;

	memset(r, 0, sizeof(*r));
	r->seam.ops = &ops;
	assert_true(unwind_store_open_local(&r->store, 1 << 20, &err));
	r->sets = (struct mapping_sets){ .run_free = unwind_store_retire_run, .ctx = &r->store };
	modules_init(&r->modules, &r->store, &r->seam, &r->sets);
	r->filter = filter_new(&(struct agent_filter){ 0 }, &err);
	assert_non_null(r->filter);
	r->table = (struct process_table){ .seam = &r->seam,
					   .store = &r->store,
					   .modules = &r->modules,
					   .sets = &r->sets,
					   .filter = r->filter };
	process_table_init(&r->table);
	resolver_init(&r->resolver, &r->table, &r->modules, &r->store);
	process_table_apply(&r->table, &exec);
	process_table_apply(&r->table, &map);
}

static void tear_down(struct rig *r)
{
	resolver_release(&r->resolver);
	process_table_release(&r->table);
	modules_release(&r->modules);
	filter_free(r->filter);
	unwind_store_close(&r->store);
}

/* What BPF sends: kernel frames, then user ones, each {header, address}. */
struct sent {
	uint32_t kernel, user_pc; /* user_pc: a FRAME_TAG_PC frame, or 0 */
	uint16_t flags;
	uint16_t end;
	bool other_image;    /* walked by the mappings of an image before */
	uint32_t native;     /* an address of executable 1, by those; or 0 */
	uint32_t capture_pc; /* a copied stack, of 64 zero bytes, whose walk stopped there; or 0 */
	uint64_t time_ns;    /* 0: EXEC_NS + 500 */
};

static bool resolve(struct rig *r, const struct sent *s, struct trace *trace)
{
	struct {
		struct sample_record head;
		uint64_t words[8];
	} record = { .head = { .kind = RECORD_SAMPLE,
			       .flags = s->flags,
			       .time_ns = s->time_ns ? s->time_ns : EXEC_NS + 500,
			       .pid = PID,
			       .tid = PID,
			       .end = s->end,
			       .image = s->other_image ? 9999 : 0 } };
	struct {
		struct stack_record head;
		uint8_t bytes[64];
	} stack = { .head = {
			    .kind = RECORD_STACK,
			    .bytes = 64,
			    .cursor = { .pc = s->capture_pc, .sp = SP, .leaf_known = LEAF_ALL } } };
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->kernel; i++)
		record.words[n++] = 0xffffffff81000000 + i;
	record.head.kernel_count = (uint16_t)n;
	if (s->user_pc) {
		record.words[n++] = FRAME_HEADER(FRAME_TAG_PC, 0, 1, 0);
		record.words[n++] = s->user_pc;
	}
	if (s->native) {
		record.words[n++] = FRAME_HEADER(FRAME_TAG_NATIVE, 0, 1, 1);
		record.words[n++] = s->native;
	}
	record.head.word_count = (uint16_t)(n - record.head.kernel_count);
	record.head.frame_count = record.head.word_count / 2;
	stack.head.cursor.frame_count = record.head.frame_count;
	stack.head.cursor.pushed = record.head.frame_count ? UNWIND_FRAME_PUSHED : UNWIND_FRAME_NEW;
	if (s->capture_pc)
		record.head.flags |= SAMPLE_STACK;
	return resolve_sample(
		&r->resolver, str_from((const char *)&record, sizeof(record.head) + n * 8),
		s->capture_pc ? str_from((const char *)&stack, sizeof(stack)) : STR(""), STR(""),
		trace);
}

static void test_new_processes(void **state)
{
	static const struct {
		const char *what;
		struct sent sent;
		uint32_t want_frames;
		enum frame_kind want_last;
		enum unwind_end want_end;
	} cases[] = {
		{ "no stack was copied: its place is known all the same",
		  { 0, CODE + 64, SAMPLE_USER_MODE, UNWIND_END_UNKNOWN_PROCESS, false, 0, 0, 0 },
		  1,
		  FRAME_NATIVE,
		  UNWIND_END_UNKNOWN_PROCESS },
		{ "a stack was copied, and the zero on it ends it",
		  { 0, 0, SAMPLE_USER_MODE, UNWIND_END_UNKNOWN_PROCESS, false, 0, CODE + 64, 0 },
		  1,
		  FRAME_NATIVE,
		  UNWIND_END_COUNT },
		{ "inside exec(): the registers are of the program before",
		  { 2, 0, 0, UNWIND_END_UNKNOWN_PROCESS, false, 0, NOWHERE, 0 },
		  2,
		  FRAME_KERNEL,
		  UNWIND_END_KERNEL_ONLY },
		{ "inside exec(), without a stack",
		  { 2, NOWHERE, 0, UNWIND_END_UNKNOWN_PROCESS, false, 0, 0, 0 },
		  2,
		  FRAME_KERNEL,
		  UNWIND_END_KERNEL_ONLY },
		{ "code that is mapped nowhere does run",
		  { 0, NOWHERE, SAMPLE_USER_MODE, UNWIND_END_NO_MAPPING, false, 0, 0, 0 },
		  1,
		  FRAME_UNKNOWN,
		  UNWIND_END_NO_MAPPING },
		{ "in the kernel for the program itself",
		  { 2, CODE + 64, 0, UNWIND_END_UNKNOWN_PROCESS, false, 0, 0, 0 },
		  3,
		  FRAME_NATIVE,
		  UNWIND_END_UNKNOWN_PROCESS },
		{ "walked by the mappings of the program before",
		  { 1, 0, SAMPLE_USER_MODE, UNWIND_END_BOTTOM, true, 100, 0, 0 },
		  1,
		  FRAME_KERNEL,
		  UNWIND_END_STALE },
		{ "the same, but nothing was found in those",
		  { 0, CODE + 64, SAMPLE_USER_MODE, UNWIND_END_NO_MAPPING, true, 0, 0, 0 },
		  1,
		  FRAME_NATIVE,
		  UNWIND_END_NO_MAPPING },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trace trace;
		struct rig r;

		set_up(&r);
		if (!resolve(&r, &cases[i].sent, &trace))
			fail_msg("%s: refused", cases[i].what);
		if (trace.frame_count != cases[i].want_frames ||
		    trace.frames[trace.frame_count - 1].kind != cases[i].want_last)
			fail_msg("%s: %u frames, the last of kind %d", cases[i].what,
				 trace.frame_count, (int)trace.frames[trace.frame_count - 1].kind);
		if (cases[i].want_end < UNWIND_END_COUNT &&
		    r.resolver.ended[cases[i].want_end] != 1)
			fail_msg("%s: its end is not %d", cases[i].what, (int)cases[i].want_end);
		assert_string_equal(trace.process->executable_path.ptr, "/bin/program");
		assert_int_equal(r.memory_reads, 0); /* nobody asked for frames of Java */
		tear_down(&r);
	}
}

/* Once the program has run, what is mapped nowhere is its own. */
static void test_after_the_first_instruction(void **state)
{
	static const struct sent ran = {
		0, CODE + 64, SAMPLE_USER_MODE, UNWIND_END_UNKNOWN_PROCESS, false, 0, 0, 0
	};
	static const struct sent nowhere = { 2, NOWHERE, 0, UNWIND_END_NO_MAPPING, false, 0, 0, 0 };
	struct trace trace;
	struct rig r;

	(void)state;
	set_up(&r);
	assert_true(resolve(&r, &ran, &trace));
	assert_true(resolve(&r, &nowhere, &trace));
	assert_int_equal(trace.frame_count, 3);
	assert_int_equal(r.resolver.ended[UNWIND_END_NO_MAPPING], 1);
	tear_down(&r);
}

/* Other code is mapped where the program was; BPF walks by what it knows until it is told. */
static void test_code_mapped_over(void **state)
{
	enum { MAPPED_NS = EXEC_NS + 1000 };
	static const struct {
		const char *what;
		uint64_t time_ns;
		bool told; /* BPF was, in between */
		enum frame_kind want;
		enum unwind_end want_end;
	} cases[] = {
		{ "before", MAPPED_NS - 1, false, FRAME_NATIVE, UNWIND_END_BOTTOM },
		{ "when it was mapped", MAPPED_NS, false, FRAME_UNKNOWN, UNWIND_END_STALE },
		{ "after", MAPPED_NS + 1, false, FRAME_UNKNOWN, UNWIND_END_STALE },
		{ "between that and the telling", MAPPED_NS + 1, true, FRAME_UNKNOWN,
		  UNWIND_END_STALE },
		{ "once BPF knew", UINT64_MAX - 1, true, FRAME_NATIVE, UNWIND_END_BOTTOM },
	};
	const struct side_record over = { .kind = SIDE_MMAP,
					  .pid = PID,
					  .tid = PID,
					  .time_ns = MAPPED_NS,
					  .start = CODE,
					  .length = CODE_BYTES,
					  .executable = true,
					  .name = STR("//anon") };
	const struct sent first = { .user_pc = CODE + 64,
				    .flags = SAMPLE_USER_MODE,
				    .end = UNWIND_END_UNKNOWN_PROCESS };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sent sent = { .flags = SAMPLE_USER_MODE,
				     .end = UNWIND_END_BOTTOM,
				     .time_ns = cases[i].time_ns };
		struct trace trace;
		struct rig r;

		set_up(&r);
		assert_true(resolve(&r, &first, &trace)); /* opens the file */
		assert_ptr_equal(modules_by_id(&r.modules, 1)->facts, trace.frames[0].executable);
		sent.native = (uint32_t)trace.frames[0].address;
		process_table_publish(&r.table);
		process_table_apply(&r.table, &over);
		if (cases[i].told)
			process_table_publish(&r.table);
		assert_true(resolve(&r, &sent, &trace));
		if (trace.frame_count != 1 || trace.frames[0].kind != cases[i].want ||
		    r.resolver.ended[cases[i].want_end] != 1)
			fail_msg("%s: %u frames, the first of kind %d", cases[i].what,
				 trace.frame_count, (int)trace.frames[0].kind);
		/* Its address tells what really ran. */
		assert_int_equal(trace.frames[0].address,
				 cases[i].want == FRAME_NATIVE ? sent.native : CODE + 64);
		tear_down(&r);
	}
}

/*
 * A stack of CPython that was copied, because nothing was known of its process: which functions ran
 * BPF has read ahead. The walk begins in the evaluation loop.
 */
struct ahead_case {
	const char *what;
	uint64_t items[12];
	uint32_t count;
	int32_t tls_offset; /* of the runtime that BPF tried; the process's own is 8 */
	uint32_t want_frames;
	enum frame_kind want_first;
	bool want_lost; /* its end says that frames of the runtime are missing */
};

#define AHEAD_FRAME(code) FRAME_HEADER(FRAME_TAG_CPYTHON, 0, 2, 0), (code), 99
#define AHEAD_LOOP        FRAME_HEADER(FRAME_TAG_AHEAD_LOOP, 0, 1, 0), 0
#define AHEAD_END         FRAME_HEADER(FRAME_TAG_AHEAD_END, 0, 1, 0), 0

static bool resolve_ahead(struct rig *r, const struct ahead_case *c, struct trace *trace)
{
	struct unwind_runtime tried = { .step = UNWIND_STEP_CPYTHON };
	struct {
		struct sample_record head;
		uint64_t words[16];
	} record = { .head = { .kind = RECORD_SAMPLE,
			       .flags = SAMPLE_USER_MODE | SAMPLE_UNKNOWN | SAMPLE_STACK,
			       .time_ns = EXEC_NS + 500,
			       .pid = PID,
			       .tid = PID,
			       .word_count = (uint16_t)(2 + c->count),
			       .end = UNWIND_END_UNKNOWN_PROCESS } };
	struct {
		struct stack_record head;
		uint8_t bytes[64];
	} stack = { .head = { .kind = RECORD_STACK,
			      .bytes = 64,
			      .cursor = { .pc = CODE + 64,
					  .sp = SP,
					  .fp = SP + 16, /* the zeros there are the bottom */
					  .leaf_known = LEAF_ALL } } };

	tried.cpython.tls_offset = c->tls_offset;
	record.words[0] = FRAME_HEADER(FRAME_TAG_AHEAD, 0, 1, 0);
	record.words[1] = unwind_store_take_runtime(&r->store, &tried);
	memcpy(record.words + 2, c->items, c->count * 8);
	return resolve_sample(
		&r->resolver,
		str_from((const char *)&record, sizeof(record.head) + record.head.word_count * 8u),
		str_from((const char *)&stack, sizeof(stack)), STR(""), trace);
}

static void test_read_ahead(void **state)
{
	static const struct ahead_case cases[] = {
		{ "two functions in one loop",
		  { AHEAD_FRAME(0x1000), AHEAD_FRAME(0x2000), AHEAD_LOOP, AHEAD_END },
		  10,
		  8,
		  2,
		  FRAME_CPYTHON,
		  false },
		{ "the loop has only begun", { AHEAD_END }, 2, 8, 1, FRAME_NATIVE, false },
		{ "some could not be read", { AHEAD_FRAME(0x1000) }, 3, 8, 1, FRAME_CPYTHON, true },
		{ "none could be read", { 0 }, 0, 8, 1, FRAME_NATIVE, true },
		{ "read as another build of CPython has them",
		  { AHEAD_FRAME(0x1000), AHEAD_LOOP, AHEAD_END },
		  7,
		  16,
		  1,
		  FRAME_NATIVE,
		  true },
		{ "an item that says more than there is",
		  { FRAME_HEADER(FRAME_TAG_CPYTHON, 0, 2, 0), 0x1000 },
		  2,
		  8,
		  1,
		  FRAME_NATIVE,
		  true },
		{ "an item that is none",
		  { FRAME_HEADER(FRAME_TAG_NATIVE, 0, 1, 0), 0x1000 },
		  2,
		  8,
		  1,
		  FRAME_NATIVE,
		  true },
	};
	static const uint64_t everywhere[2] = { 0, UINT64_MAX }, nowhere[2] = { 0, 0 };
	struct unwind_runtime own = { .step = UNWIND_STEP_CPYTHON };

	(void)state;
	own.cpython.tls_offset = 8;
	own.cpython.guessed = 1; /* which is no difference */
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static const struct sent first = {
			0, CODE + 64, SAMPLE_USER_MODE, UNWIND_END_UNKNOWN_PROCESS, false, 0, 0, 0
		};
		uint64_t lost;
		struct trace trace;
		struct rig r;

		set_up(&r);
		assert_true(resolve(&r, &first, &trace)); /* opens the file */
		assert_int_equal(trace.frames[0].kind, FRAME_NATIVE);
		unwind_store_set_interpreter(&r.store,
					     executable_bpf_id(trace.frames[0].executable),
					     UNWIND_STEP_CPYTHON, everywhere, nowhere);
		r.modules.steps = 1u << UNWIND_STEP_CPYTHON;
		process_guess_runtime(&r.table, process_table_find(&r.table, PID), &own);
		assert_true(resolve_ahead(&r, &cases[i], &trace));
		lost = r.resolver.ended[UNWIND_END_RUNTIME];
		if (trace.frame_count != cases[i].want_frames ||
		    trace.frames[0].kind != cases[i].want_first || lost != cases[i].want_lost)
			fail_msg("%s: %u frames, the first of kind %d; %llu lost", cases[i].what,
				 trace.frame_count, (int)trace.frames[0].kind,
				 (unsigned long long)lost);
		tear_down(&r);
	}
}

/* Counts that do not fit their record. */
static void test_senseless_records(void **state)
{
	struct sample_record head = { .kind = RECORD_SAMPLE, .pid = PID, .tid = PID };
	const struct {
		uint16_t kernel_count, word_count, end;
		size_t bytes;
	} cases[] = {
		{ 0, 0, 0, sizeof(head) - 1 },
		{ 1, 0, 0, sizeof(head) },
		{ 0, 1, 0, sizeof(head) },
		{ UINT16_MAX, UINT16_MAX, 0, sizeof(head) },
		{ 0, 0, UNWIND_END_COUNT, sizeof(head) },
	};
	struct trace trace;
	struct rig r;

	(void)state;
	set_up(&r);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		head.kernel_count = cases[i].kernel_count;
		head.word_count = cases[i].word_count;
		head.end = cases[i].end;
		assert_false(resolve_sample(&r.resolver,
					    str_from((const char *)&head, cases[i].bytes), STR(""),
					    STR(""), &trace));
		assert_int_equal(r.resolver.bad_records, i + 1);
	}
	tear_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_processes),
		cmocka_unit_test(test_after_the_first_instruction),
		cmocka_unit_test(test_code_mapped_over),
		cmocka_unit_test(test_read_ahead),
		cmocka_unit_test(test_senseless_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
