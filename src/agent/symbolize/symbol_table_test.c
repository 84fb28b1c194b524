/* Names of addresses in real files against what nm says; PLT entries against objdump. */
#include "agent/symbolize/symbol_table.h"
#include <fcntl.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "base/cleanup.h"

static struct elf_file *open_path(const char *path)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };

	return fd < 0 ? NULL : elf_file_open(fd, &err);
}

static struct symbol_table *table_of(const struct elf_file *f, struct err *err)
{
	struct elf_symtab sources[2];
	const struct elf_file *files[2] = { f, f };
	uint32_t n = 0;

	n += elf_file_symtab(f, &sources[n]);
	n += elf_file_dynsym(f, &sources[n]);
	return symbol_table_new(sources, files, n, 16 << 20, err);
}

struct nm_line {
	unsigned long value, size;
	char kind, name[400];
};

static bool nm_parse(const char *line, struct nm_line *out)
{
	memset(out, 0, sizeof(*out));
	if (sscanf(line, "%lx %lx %c %399s", &out->value, &out->size, &out->kind, out->name) != 4) {
		out->size = 0;
		if (sscanf(line, "%lx %c %399s", &out->value, &out->kind, out->name) != 3)
			return false;
	}
	out->name[strcspn(out->name, "@")] = 0;
	return strchr("tTwWi", out->kind) != NULL;
}

/*
 * At the first, a middle and the last byte of each function nm lists, the name found is one that nm
 * gives to the same address range.
 */
static void check_against_nm(const char *path, uint32_t least)
{
	char command[600], line[700];
	struct elf_file *f = open_path(path);
	struct err err = { 0 };
	struct symbol_table *t;
	uint32_t seen = 0, same = 0, missed = 0;
	FILE *nm;

	if (!f) {
		print_message("%s is not here: skipped\n", path);
		return;
	}
	t = table_of(f, &err);
	if (!t)
		fail_msg("%s: %s", path, err.msg);
	snprintf(command, sizeof(command),
		 "(nm -S --defined-only %s; nm -D -S --defined-only %s) 2> /dev/null", path, path);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (fgets(line, sizeof(line), nm)) {
		struct nm_line want;
		struct symbol_hit hit;

		if (!nm_parse(line, &want) || !want.size)
			continue;
		/* OpenSSL's assembler keeps constants in .text: nm calls them text, too. */
		if (!symbol_table_find(t, want.value, &hit) || hit.start != want.value) {
			if (++missed > least / 500)
				fail_msg("%s: %s at %lx is not found", path, want.name, want.value);
			continue;
		}
		if (!symbol_table_find(t, want.value + want.size - 1, &hit) ||
		    hit.start < want.value)
			fail_msg("%s: the end of %s is not found", path, want.name);
		seen++;
		symbol_table_find(t, want.value + want.size / 2, &hit);
		same += str_is(hit.name, want.name);
	}
	pclose(nm);
	if (seen < least)
		fail_msg("%s: nm lists %u functions, expected %u", path, seen, least);
	/* The rest are aliases: another name of the same address. */
	if (same * 10 < seen * 6)
		fail_msg("%s: only %u of %u have nm's name", path, same, seen);
	symbol_table_free(t);
	elf_file_free(f);
}

static void test_real_files(void **state)
{
	char self[200];

	(void)state;
	if (system("nm --version > /dev/null 2>&1") != 0) {
		print_message("no nm here: skipped\n");
		skip();
	}
	check_against_nm("/lib/x86_64-linux-gnu/libc.so.6", 2000);
	check_against_nm("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 4000);
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	check_against_nm(self, 20);
	if (getenv("FLAMETAP_LONG"))
		check_against_nm("/usr/bin/node", 50000);
}

#ifdef __aarch64__
#define OBJDUMP "$(command -v aarch64-linux-gnu-objdump || echo objdump)"
#else
#define OBJDUMP "objdump"
#endif

static void test_plt(void **state)
{
	struct elf_file *f = open_path("/proc/self/exe");
	char line[400], name[300], self[300] = "", command[500];
	uint32_t seen = 0;
	unsigned long at;
	FILE *dump;

	(void)state;
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	snprintf(command, sizeof(command),
		 OBJDUMP " -d --section=.plt --section=.plt.sec --section=.plt.got %s 2> /dev/null",
		 self);
	dump = popen(command, "r");
	assert_non_null(dump);
	assert_non_null(f);
	while (fgets(line, sizeof(line), dump)) {
		struct str got;

		if (sscanf(line, "%lx <%299[^>]>:", &at, name) != 2 || !strstr(name, "@plt") ||
		    strchr(name, '*') || strstr(name, "-0x"))
			continue;
		*strchr(name, '@') = 0;
		if (!elf_file_plt_target(f, at + 4, &got))
			fail_msg("%s@plt at %lx is not found", name, at);
		if (!str_is(got, name))
			fail_msg("%lx is %s@plt, not %.*s", at, name, STR_ARG(got));
		seen++;
	}
	pclose(dump);
	elf_file_free(f);
	if (!seen) {
		print_message("no objdump, or no PLT here: skipped\n");
		skip();
	}
}

/* A table of symbols by hand. */
static const struct {
	const char *name;
	uint64_t value, size;
	uint8_t type, binding;
} symbols[] = {
	{ "__alias", 0x1000, 0x40, STT_FUNC, STB_GLOBAL },
	{ "plain", 0x1000, 0x40, STT_FUNC, STB_GLOBAL },
	{ "local_plain", 0x1000, 0x40, STT_FUNC, STB_LOCAL },
	{ "versioned@@V_1", 0x1080, 0x10, STT_GNU_IFUNC, STB_WEAK },
	{ "outer", 0x1100, 0x100, STT_FUNC, STB_LOCAL },
	{ "inner", 0x1140, 0x10, STT_FUNC, STB_LOCAL },
	{ "open_end", 0x1200, 0, STT_FUNC, STB_LOCAL },
	{ "data", 0x1010, 8, STT_OBJECT, STB_GLOBAL },
	{ "far_away", 0x9000, 8, STT_FUNC, STB_GLOBAL },
	{ "last", 0x1300, 8, STT_FUNC, STB_GLOBAL },
};

static const struct {
	uint64_t at;
	const char *want; /* NULL: no name */
} asked[] = {
	{ 0x0fff, NULL },    { 0x1000, "plain" },     { 0x103f, "plain" },
	{ 0x1040, NULL },    { 0x1080, "versioned" }, { 0x1090, NULL },
	{ 0x1100, "outer" }, { 0x1145, "inner" },     { 0x1150, "outer" },
	{ 0x11ff, "outer" }, { 0x1200, "open_end" },  { 0x12ff, "open_end" },
	{ 0x1300, "last" },  { 0x1308, NULL },        { 0x9000, NULL },
	{ 0x40, NULL },
};

static void test_rules(void **state)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p;
	} image = {
		.h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		       .e_type = ET_DYN,
		       .e_machine = EM_X86_64,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1 },
		.p = { .p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = 0x1000, .p_memsz = 0x1000 }
	};
	Elf64_Sym table[ARRAY_LEN(symbols) + 1] = { 0 };
	struct elf_symtab source = { .count = ARRAY_LEN(table) };
	const struct elf_file *file;
	struct elf_file *f;
	struct symbol_table *t;
	struct err err = { 0 };
	char names[256];
	size_t at = 1;

	(void)state;
	names[0] = 0;
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		table[i + 1] =
			(Elf64_Sym){ .st_name = (Elf64_Word)at,
				     .st_info = ELF64_ST_INFO(symbols[i].binding, symbols[i].type),
				     .st_shndx = 1,
				     .st_value = symbols[i].value,
				     .st_size = symbols[i].size };
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s", symbols[i].name) + 1;
	}
	source.symbols = (struct bytes){ (const uint8_t *)table, sizeof(table) };
	source.strings = (struct bytes){ (const uint8_t *)names, at };
	f = elf_file_from_memory(&image, sizeof(image), false, &err);
	assert_non_null(f);
	file = f;
	t = symbol_table_new(&source, &file, 1, 1 << 20, &err);
	assert_non_null(t);
	assert_int_equal(symbol_table_count(t), 6);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct symbol_hit hit = { 0 };
		bool found = symbol_table_find(t, asked[i].at, &hit);

		if (found != (asked[i].want != NULL) || (found && !str_is(hit.name, asked[i].want)))
			fail_msg("%lx: found %d \"%.*s\", expected %s", (unsigned long)asked[i].at,
				 found, STR_ARG(hit.name),
				 asked[i].want ? asked[i].want : "nothing");
	}
	symbol_table_free(t);
	assert_null(symbol_table_new(&source, &file, 1, 0, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	elf_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_real_files),
		cmocka_unit_test(test_plt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
