/*
 * Names, lines and inlined frames of programs that real compilers made, at every address of their
 * text, against what llvm-symbolizer says.
 */
#include "agent/symbolize/dwarf.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/symbolize/demangle.h"
#include "base/buf.h"
#include "base/cleanup.h"

static char work[64];

static struct elf_file *open_path(const char *path)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };

	return fd < 0 ? NULL : elf_file_open(fd, &err);
}

struct counts {
	uint32_t addresses, named, inlined, unnamed_by_us, unnamed_by_oracle, differ;
};

/* "name\nfile:line:column" of each frame, as llvm-symbolizer prints them. */
struct oracle_frame {
	char name[6000], file[6000];
	uint32_t line;
};

static bool last_part_is(struct str path, const char *file)
{
	const char *slash = strrchr(file, '/');
	struct str name = str_cstr(slash ? slash + 1 : file);

	return str_has_suffix(path, name);
}

static struct str shown_name(const struct dwarf_frame *f)
{
	return f->linkage_name.len ? f->linkage_name : f->name;
}

/*
 * The last part of a qualified name, before parameters and template arguments: what DWARF has for
 * functions without a linkage name.
 */
static struct str core_name(struct str name)
{
	size_t end = 0, start;

	while (end < name.len && !strchr("(<[.", name.ptr[end]))
		end++;
	while (end > 0 && strchr(" '{}:", name.ptr[end - 1]))
		end--;
	start = end;
	while (start > 0 && !strchr(" ':{", name.ptr[start - 1]))
		start--;
	return str_from(name.ptr + start, end - start);
}

static void plain_name(struct str name, struct buf *out)
{
	if (!demangle(name, out))
		buf_str(out, name);
}

/* Theirs are linkage names, where there are any; the outermost is the symbol table's: it may have
 * ".cold" behind, or be an alias (C1 and C2 constructors). */
static bool same_name(const struct dwarf_frame *f, const char *theirs)
{
	struct str want = str_cstr(theirs);
	struct buf a, b;
	bool same;

	if (f->linkage_name.len && str_has_prefix(want, f->linkage_name))
		return want.len == f->linkage_name.len || want.ptr[f->linkage_name.len] == '.';
	buf_init(&a, 0);
	buf_init(&b, 0);
	plain_name(shown_name(f), &a);
	plain_name(want, &b);
	same = str_equal(core_name(buf_view(&a)), core_name(buf_view(&b)));
	buf_release(&a);
	buf_release(&b);
	return same;
}

static bool frame_same(const struct dwarf_frame *f, const struct oracle_frame *want)
{
	return (want->name[0] == '?' || same_name(f, want->name)) &&
	       (want->file[0] == '?' || !want->line ||
		(f->line == want->line && last_part_is(f->path.file, want->file)));
}

static void compare(const char *what, uint64_t at, const struct dwarf_frame *got, uint32_t count,
		    const struct oracle_frame *want, uint32_t want_count, struct counts *c)
{
	bool same;

	c->addresses++;
	/* Start-up code has a symbol, and nothing else. */
	if (!want_count || want[0].name[0] == '?' || !want[want_count - 1].line) {
		c->unnamed_by_oracle++;
		return;
	}
	if (!count || (!got[0].linkage_name.len && !got[0].name.len)) {
		if (++c->unnamed_by_us <= 2)
			print_message("%s at %lx: no name, theirs is %s %s:%u\n", what,
				      (unsigned long)at, want[0].name, want[0].file, want[0].line);
		return;
	}
	c->named++;
	c->inlined += want_count > 1;
	same = count == want_count;
	for (uint32_t i = 0; same && i < count; i++)
		same = frame_same(&got[i], &want[i]);
	if (!same && ++c->differ <= 3) {
		print_message("%s at %lx\n", what, (unsigned long)at);
		for (uint32_t i = 0; i < count; i++) {
			struct str name = shown_name(&got[i]);

			print_message("  ours   %.*s %.*s:%u\n", STR_ARG(name),
				      STR_ARG(got[i].path.file), got[i].line);
		}
		for (uint32_t i = 0; i < want_count; i++)
			print_message("  theirs %s %s:%u\n", want[i].name, want[i].file,
				      want[i].line);
	}
}

/* "file:line:column" */
static void parse_place(char *place, struct oracle_frame *f)
{
	char *column = strrchr(place, ':'), *line;

	f->line = 0;
	if (column)
		*column = 0;
	line = column ? strrchr(place, ':') : NULL;
	if (line) {
		f->line = (uint32_t)atoi(line + 1);
		*line = 0;
	}
	snprintf(f->file, sizeof(f->file), "%s", place);
}

/* Reads one answer: frames up to an empty line (llvm-symbolizer) or the next address (addr2line).
 */
static uint32_t read_answer(FILE *p, struct oracle_frame *frames, uint32_t cap)
{
	char line[6000];
	uint32_t n = 0;

	while (fgets(line, sizeof(line), p)) {
		line[strcspn(line, "\n")] = 0;
		if (!line[0])
			return n;
		if (n < cap)
			snprintf(frames[n].name, sizeof(frames[n].name), "%s", line);
		if (!fgets(line, sizeof(line), p))
			return n;
		line[strcspn(line, "\n")] = 0;
		if (n < cap)
			parse_place(line, &frames[n++]);
	}
	return n;
}

static void check_file(const char *what, const char *path, uint64_t step, struct counts *c)
{
	static struct oracle_frame want[DWARF_FRAMES_MOST];
	struct dwarf_frame got[DWARF_FRAMES_MOST];
	struct elf_file *f = open_path(path);
	struct work_budget no_limit = { 0 };
	char command[800], list[100];
	struct elf_section text;
	struct err err = { 0 };
	struct dwarf *d;
	FILE *out, *p;

	memset(c, 0, sizeof(*c));
	assert_non_null(f);
	d = dwarf_open(f, NULL, -1, 64 << 20, &err);
	if (!d)
		fail_msg("%s: %s", what, err.msg);
	assert_true(elf_file_section_named(f, ".text", &text));
	snprintf(list, sizeof(list), "%s/addresses", work);
	out = fopen(list, "w");
	assert_non_null(out);
	for (uint64_t at = text.vaddr; at < text.vaddr + text.size; at += step)
		fprintf(out, "0x%lx\n", (unsigned long)at);
	fclose(out);
	snprintf(command, sizeof(command), "llvm-symbolizer-14 --no-demangle -e %s < %s", path,
		 list);
	p = popen(command, "r");
	assert_non_null(p);
	for (uint64_t at = text.vaddr; at < text.vaddr + text.size; at += step) {
		uint32_t want_count = read_answer(p, want, DWARF_FRAMES_MOST), count = 0;

		dwarf_find(d, at, &no_limit, got, DWARF_FRAMES_MOST, &count);
		compare(what, at, got, count, want, want_count, c);
	}
	assert_int_equal(pclose(p), 0);
	print_message(
		"%s: %u addresses, %u named, %u inlined, %u differ; %u unnamed by us, %u by the "
		"oracle; %zu bytes\n",
		what, c->addresses, c->named, c->inlined, c->differ, c->unnamed_by_us,
		c->unnamed_by_oracle, dwarf_bytes(d));
	dwarf_free(d);
	elf_file_free(f);
}

static bool have(const char *tool)
{
	char command[200];

	snprintf(command, sizeof(command), "command -v %s > /dev/null 2>&1", tool);
	return system(command) == 0;
}

static const struct {
	const char *what, *tool, *command;
	uint32_t least_inlined, step, long_step;
} programs[] = {
	{ "gcc -O2, DWARF 5", "gcc", "gcc -O2 -gdwarf-5 -o p %s/inline.c", 20, 1, 1 },
	{ "gcc -O2, DWARF 4", "gcc", "gcc -O2 -gdwarf-4 -o p %s/inline.c", 20, 1, 1 },
	{ "gcc -O2, DWARF 3", "gcc", "gcc -O2 -gdwarf-3 -gstrict-dwarf -o p %s/inline.c", 20, 1,
	  1 },
	{ "gcc -O2, DWARF 2", "gcc", "gcc -O2 -gdwarf-2 -o p %s/inline.c", 20, 1, 1 },
	{ "gcc -O0", "gcc", "gcc -O0 -g -o p %s/inline.c", 0, 1, 1 },
	{ "gcc -O3, LTO", "gcc", "gcc -O3 -flto -g -o p %s/inline.c", 20, 1, 1 },
	{ "gcc, packed", "gcc", "gcc -O2 -g -gz -o p %s/inline.c", 20, 1, 1 },
	{ "gcc, 64-bit DWARF", "gcc", "gcc -O2 -gdwarf64 -gdwarf-5 -o p %s/inline.c", 20, 1, 1 },
	{ "gcc, functions in sections", "gcc",
	  "gcc -O2 -g -ffunction-sections -Wl,--gc-sections -o p %s/inline.c", 20, 1, 1 },
	{ "clang -O2, DWARF 5", "clang-14", "clang-14 -O2 -gdwarf-5 -o p %s/inline.c", 20, 1, 1 },
	{ "clang -O2, DWARF 4", "clang-14", "clang-14 -O2 -gdwarf-4 -o p %s/inline.c", 20, 1, 1 },
	{ "g++ -O2", "g++", "g++ -O2 -g -o p %s/inline.cc", 100, 7, 1 },
	{ "clang++ -O2", "clang++-14", "clang++-14 -O2 -g -o p %s/inline.cc", 100, 7, 1 },
	{ "rustc -O", "rustc",
	  "rustc -O -g -C panic=abort -C symbol-mangling-version=v0 -o p %s/inline.rs", 100, 61,
	  3 },
};

static void test_compilers(void **state)
{
	(void)state;
	if (!have("llvm-symbolizer-14")) {
		print_message("no llvm-symbolizer-14 here: skipped\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		char command[600], folder[256], path[100];
		struct counts c;

		if (!have(programs[i].tool)) {
			print_message("%s: skipped, no %s here\n", programs[i].what,
				      programs[i].tool);
			continue;
		}
		assert_non_null(getcwd(folder, sizeof(folder) - 40));
		strncat(folder, "/tests/symbolize", 40);
		snprintf(command, sizeof(command), "cd %s && ", work);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(command + strlen(command), sizeof(command) - strlen(command),
			 programs[i].command, folder);
#pragma GCC diagnostic pop
		if (system(command) != 0) {
			print_message("%s: skipped, this compiler cannot\n", programs[i].what);
			continue;
		}
		snprintf(path, sizeof(path), "%s/p", work);
		check_file(programs[i].what, path,
			   getenv("FLAMETAP_LONG") ? programs[i].long_step : programs[i].step, &c);
		if (c.inlined < programs[i].least_inlined)
			fail_msg("%s: only %u addresses with inlined frames", programs[i].what,
				 c.inlined);
		if (c.differ * 200 > c.named)
			fail_msg("%s: %u of %u addresses differ", programs[i].what, c.differ,
				 c.named);
		if (c.unnamed_by_us * 200 > c.named)
			fail_msg("%s: %u of %u addresses have no name", programs[i].what,
				 c.unnamed_by_us, c.named);
	}
}

/* With little CPU time at once the work goes on where it stopped, and the answer is the same. */
static void test_later(void **state)
{
	struct dwarf_frame once[DWARF_FRAMES_MOST], parts[DWARF_FRAMES_MOST];
	char command[600], folder[256], path[100];
	uint32_t once_count = 0, parts_count = 0, later = 0;
	struct work_budget no_limit = { 0 };
	struct err err = { 0 };
	struct elf_section text;
	enum dwarf_answer answer;
	struct dwarf *a, *b;
	struct elf_file *f;
	uint64_t at;

	(void)state;
	assert_non_null(getcwd(folder, sizeof(folder)));
	snprintf(command, sizeof(command), "g++ -O2 -g -o %s/q %s/tests/symbolize/inline.cc", work,
		 folder);
	if (!have("g++") || system(command) != 0) {
		print_message("no g++ here: skipped\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/q", work);
	f = open_path(path);
	assert_non_null(f);
	assert_true(elf_file_section_named(f, ".text", &text));
	at = text.vaddr + text.size / 2;
	a = dwarf_open(f, NULL, -1, 8 << 20, &err);
	b = dwarf_open(f, NULL, -1, 8 << 20, &err);
	assert_int_equal(dwarf_find(a, at, &no_limit, once, DWARF_FRAMES_MOST, &once_count),
			 DWARF_FOUND);
	do {
		struct work_budget nothing = { .until_ns = 1 };

		answer = dwarf_find(b, at, &nothing, parts, DWARF_FRAMES_MOST, &parts_count);
		later += answer == DWARF_LATER;
	} while (answer == DWARF_LATER && later < 100000);
	assert_int_equal(answer, DWARF_FOUND);
	assert_true(later > 0);
	assert_int_equal(once_count, parts_count);
	assert_int_equal(once[0].line, parts[0].line);
	dwarf_free(a);
	dwarf_free(b);
	assert_null(dwarf_open(f, NULL, -1, 1000, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	elf_file_free(f);
}

static int setup(void **state)
{
	(void)state;
	snprintf(work, sizeof(work), "/tmp/dwarf_test.XXXXXX");
	return mkdtemp(work) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", work);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compilers),
		cmocka_unit_test(test_later),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
