/*
 * The compact tables of real binaries against a plain interpreter of the same CFI: at the begin of
 * every row, at its last byte and somewhere between, both must compute the same CFA, FP and RA on a
 * machine of made-up registers and memory. And the rows of libc against what readelf prints.
 */
#include "agent/unwind/tables.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/unwind/plain_cfi_test.h"
#include "base/cleanup.h"

/* ---- the tables, page by page ---- */

struct reader {
	struct unwind_tables *tables;
	struct unwind_rules rules;
	struct unwind_rule *array;
	struct unwind_row *rows; /* of one page */
	struct unwind_page page;
	uint64_t page_number;
};

static void reader_open(struct reader *r, const struct elf_file *f, uint32_t rule_cap)
{
	struct err err = { 0 };

	r->tables = unwind_tables_open(f, NULL, &err);
	if (!r->tables)
		fail_msg("%s", err.msg);
	r->array = calloc(rule_cap, sizeof(*r->array));
	unwind_rules_init(&r->rules, r->array, rule_cap);
	r->rows = calloc(UNWIND_BLOCK_ROWS, sizeof(*r->rows));
	r->page_number = UINT64_MAX;
}

static void reader_close(struct reader *r)
{
	unwind_tables_free(r->tables);
	unwind_rules_release(&r->rules);
	free(r->array);
	free(r->rows);
}

static struct unwind_rule look_up(struct reader *r, uint64_t at)
{
	struct unwind_rule plain = { .kind = UNWIND_NONE };
	uint32_t i, count = 0;

	if (at >> UNWIND_PAGE_SHIFT != r->page_number) {
		enum unwind_build built;

		r->page_number = at >> UNWIND_PAGE_SHIFT;
		built = unwind_tables_build_page(r->tables, r->page_number, &r->rules, r->rows,
						 UNWIND_BLOCK_ROWS, &count);
		assert_int_not_equal(built, UNWIND_BUILD_NO_ROOM);
		r->page.state = built == UNWIND_BUILD_ROWS ? UNWIND_PAGE_ROWS : UNWIND_PAGE_EMPTY;
		r->page.first = 0;
		r->page.last = (uint16_t)(count ? count - 1 : 0);
		if (count) {
			assert_int_equal(r->rows[0].low, 0);
			for (i = 1; i < count; i++)
				assert_true(r->rows[i - 1].low < r->rows[i].low);
		}
	}
	if (r->page.state == UNWIND_PAGE_EMPTY)
		return plain;
	i = unwind_find(r->rows, &r->page, at);
	unwind_rule_at(&r->array[r->rows[i].rule], at & 0xffff, r->rows[i].low, &plain);
	return plain;
}

/* ---- what a rule means on the made-up machine ---- */

struct registers {
	const uint8_t *dwarf; /* DWARF's number of each enum unwind_reg */
	uint8_t fp, sp;
};

static const uint8_t dwarf_x86_64[UNWIND_REG_COUNT] = {
	[UNWIND_REG_SP] = 7,   [UNWIND_REG_FP] = 6,   [UNWIND_REG_RAX] = 0,  [UNWIND_REG_RCX] = 2,
	[UNWIND_REG_RDX] = 1,  [UNWIND_REG_RBX] = 3,  [UNWIND_REG_RSI] = 4,  [UNWIND_REG_RDI] = 5,
	[UNWIND_REG_R8] = 8,   [UNWIND_REG_R9] = 9,   [UNWIND_REG_R10] = 10, [UNWIND_REG_R11] = 11,
	[UNWIND_REG_R12] = 12, [UNWIND_REG_R13] = 13, [UNWIND_REG_R14] = 14, [UNWIND_REG_R15] = 15,
};
static const uint8_t dwarf_arm64[UNWIND_REG_COUNT] = {
	[UNWIND_REG_SP] = 31, [UNWIND_REG_FP] = 29, [UNWIND_REG_LR] = 30
};
static const struct registers x86_64 = { dwarf_x86_64, 6, 7 }, arm64 = { dwarf_arm64, 29, 31 };

struct found {
	bool stop, none;
	uint64_t cfa, fp, ra;
	bool fp_lost;
};

static uint64_t value_from(const struct plain_machine *m, const struct registers *regs,
			   uint8_t from, int32_t offset, uint64_t cfa, uint64_t same)
{
	switch (from) {
	case UNWIND_FROM_SAME:
		return same;
	case UNWIND_FROM_CFA:
		return plain_memory(m, cfa + (uint64_t)(int64_t)offset);
	case UNWIND_FROM_FP:
		return plain_memory(m, m->reg[regs->fp] + (uint64_t)(int64_t)offset);
	case UNWIND_FROM_SP:
		return plain_memory(m, m->reg[regs->sp] + (uint64_t)(int64_t)offset);
	case UNWIND_FROM_LOST:
		return 0;
	default:
		return m->reg[regs->dwarf[from - UNWIND_FROM_REG]];
	}
}

static struct found apply(const struct unwind_rule *r, const struct plain_machine *m,
			  const struct registers *regs, uint64_t pc)
{
	struct found f = { .fp = m->reg[regs->fp] };
	uint64_t sp = m->reg[regs->sp], base = 0;

	switch (r->kind) {
	case UNWIND_NONE:
		f.none = true;
		return f;
	case UNWIND_STOP:
		f.stop = true;
		return f;
	case UNWIND_PLT:
		f.cfa = sp + 8 + ((pc & 15) >= (uint64_t)r->cfa_offset ? 8 : 0);
		f.ra = plain_memory(m, f.cfa - 8);
		return f;
	case UNWIND_SIGNAL: /* x86-64: rbp, rsp and rip in the sigcontext */
		base = sp + (uint64_t)r->cfa_offset;
		f.fp = plain_memory(m, base + 80);
		f.cfa = plain_memory(m, base + 120);
		f.ra = plain_memory(m, base + 128);
		return f;
	case UNWIND_CFA_DEREF:
		base = m->reg[regs->dwarf[r->cfa_base]] + (uint64_t)(int64_t)r->cfa_offset;
		if (r->index != UNWIND_REG_NONE)
			base += m->reg[regs->dwarf[r->index]] * 8;
		f.cfa = plain_memory(m, base) + (uint64_t)(int64_t)r->post;
		f.ra = plain_memory(m, f.cfa - 8);
		break;
	case UNWIND_CFA_RBX:
		f.cfa = m->reg[regs->dwarf[r->cfa_base]] + (uint64_t)(int64_t)r->cfa_offset;
		f.ra = plain_memory(m, f.cfa - 8);
		break;
	case UNWIND_CFA:
		f.cfa = m->reg[regs->dwarf[r->cfa_base]] + (uint64_t)(int64_t)r->cfa_offset;
		f.ra = value_from(m, regs, r->ra_from, r->ra_offset, f.cfa,
				  m->reg[regs->dwarf[UNWIND_REG_LR]]);
		break;
	default:
		fail_msg("a rule of kind %u", r->kind);
	}
	f.fp_lost = r->fp_from == UNWIND_FROM_LOST;
	f.fp = value_from(m, regs, r->fp_from, r->fp_offset, f.cfa, f.fp);
	return f;
}

/* ---- one file ---- */

struct check {
	const char *path;
	struct reader reader;
	const struct registers *regs;
	uint64_t rows, points, popped, refused, random;
	uint32_t refused_allowed; /* rows that need what the format leaves out */
	const struct plain_fde *fde;
};

static bool ra_above_frame(const struct plain_state *s, uint64_t ra)
{
	return s->rule[ra].how == 'o' && s->rule[ra].n >= 0 && !s->cfa_is_expression &&
	       (s->cfa_register == 6 || s->cfa_register == 7);
}

enum { RBX = 3 };

static void check_rbx(const struct check *c, const struct plain_run *run,
		      const struct unwind_rule *rule, const struct plain_machine *m, uint64_t cfa,
		      uint64_t at)
{
	uint64_t want = plain_value(m, &run->now.rule[RBX], RBX, cfa), got = m->reg[RBX];

	if (rule->kind == UNWIND_CFA_RBX)
		got = plain_memory(m, cfa + (uint64_t)(int64_t)rule->rbx_offset);
	if (got != want && rule->ra_from == UNWIND_FROM_CFA) /* longjmp's RA is in a register */
		fail_msg("%s: at %lx: rbx is lost (kind %u)", c->path, at, rule->kind);
}

static void check_at(struct check *c, const struct plain_run *run, uint64_t at)
{
	struct unwind_rule rule = look_up(&c->reader, at);
	struct plain_machine m;
	struct plain_caller want;
	struct found got;

	plain_machine_make(&m, c->points++);
	m.reg[16] = at; /* rip, which the expression of linkage tables reads */
	want = plain_unwind(&m, run, c->regs->fp, c->regs->sp);
	got = apply(&rule, &m, c->regs, at);
	if (want.ra_undefined || (c->regs == &x86_64 && ra_above_frame(&run->now, run->cie.ra))) {
		if (!got.stop)
			fail_msg("%s: at %lx: the end of the stack is rule kind %u", c->path, at,
				 rule.kind);
		return;
	}
	if (got.none && c->refused_allowed) { /* and counted by the tables: check_losses() */
		c->refused++;
		return;
	}
	if (!want.known || got.stop || got.none)
		fail_msg("%s: at %lx: rule kind %u, the CFI has %s CFA", c->path, at, rule.kind,
			 want.known ? "a" : "no");
	if (got.cfa != want.cfa || got.ra != want.ra)
		fail_msg("%s: at %lx: CFA %lx RA %lx, should be %lx and %lx (kind %u)", c->path, at,
			 got.cfa, got.ra, want.cfa, want.ra, rule.kind);
	if (unwind_tables_tracks_rbx(c->reader.tables))
		check_rbx(c, run, &rule, &m, want.cfa, at);
	if (want.fp_undefined ? got.fp_lost : got.fp == want.fp)
		return;
	/* Off the stack, and so in its register again. */
	if (!want.fp_popped || got.fp != m.reg[c->regs->fp])
		fail_msg("%s: at %lx: FP %lx, should be %lx (from %u, %d)", c->path, at, got.fp,
			 want.fp, rule.fp_from, rule.fp_offset);
	c->popped++;
}

static void check_stretch(void *ctx, const struct plain_run *run, uint64_t begin, uint64_t end)
{
	struct check *c = ctx;

	c->rows++;
	check_at(c, run, begin);
	if (end - begin < 2)
		return;
	c->random = plain_mix(c->random);
	check_at(c, run, begin + c->random % (end - begin));
	check_at(c, run, end - 1);
}

static bool any_at(const struct plain_section *s, uint64_t vaddr)
{
	return vaddr >= s->vaddr && vaddr - s->vaddr < s->len;
}

/* Between functions, where there is more than padding, nothing may be claimed. */
static void check_gap(struct check *c, uint64_t begin, uint64_t end)
{
	uint64_t first, pages;

	unwind_tables_pages(c->reader.tables, &first, &pages);
	if (end - begin < 64 || begin >> UNWIND_PAGE_SHIFT < first)
		return;
	c->random = plain_mix(c->random);
	for (int i = 0; i < 2; i++) {
		uint64_t at = i ? end - 1 : begin + c->random % (end - begin);
		uint8_t kind = look_up(&c->reader, at).kind;

		if (kind != UNWIND_NONE && kind != UNWIND_PLT && kind != UNWIND_STOP)
			fail_msg("%s: at %lx: kind %u where no CFI is", c->path, at, kind);
	}
}

static struct elf_file *open_elf(const char *path)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };
	struct elf_file *f = fd < 0 ? NULL : elf_file_open(fd, &err);

	if (fd >= 0 && !f)
		fail_msg("%s: %s", path, err.msg);
	return f;
}

/* arm64's own libc and linker, where a register is refused, also keep one RA in a register. */
static uint64_t allowed_loss(const struct check *c, int loss)
{
#ifdef __aarch64__
	return loss == UNWIND_LOSS_RA && c->refused ? 1 : 0;
#else
	(void)c;
	(void)loss;
	return 0;
#endif
}

static void check_losses(const struct check *c)
{
	const struct unwind_counts *n = unwind_tables_counts(c->reader.tables);

	/* Three points a row. */
	assert_true(c->refused <= 3 * c->refused_allowed);
	assert_true(!c->refused == !n->lost[UNWIND_LOSS_REGISTER]);
	for (int i = 0; i < UNWIND_LOSS_COUNT; i++)
		if (n->lost[i] > allowed_loss(c, i) && i != UNWIND_LOSS_REGISTER)
			fail_msg("%s: %lu times %s", c->path, n->lost[i], unwind_loss_name(i));
}

/* Every `every`th FDE of the file. */
static void check_file(const char *path, uint32_t every, uint32_t rule_cap,
		       uint32_t refused_allowed)
{
	struct elf_file *f = open_elf(path);
	struct check c = { .path = path, .refused_allowed = refused_allowed };
	struct plain_run *run;
	struct plain_section s;
	struct elf_section section;
	struct elf_data data;
	struct plain_fde *fdes;
	struct err err = { 0 };
	size_t count;
	const char *whole = getenv("FLAMETAP_LONG");

	if (!f) {
		print_message("SKIPPED: %s is not here\n", path);
		return;
	}
	if (whole && *whole)
		every = 1;
	c.regs = elf_file_machine(f) == EM_AARCH64 ? &arm64 : &x86_64;
	reader_open(&c.reader, f, rule_cap);
	assert_true(elf_file_section_named(f, ".eh_frame", &section));
	assert_true(elf_file_section_data(f, &section, SIZE_MAX, &data, &err));
	s = (struct plain_section){ data.bytes.ptr, data.bytes.len, section.vaddr };
	assert_false(any_at(&s, 0));
	fdes = plain_fdes(&s, &count);
	run = calloc(1, sizeof(*run));
	run->section = &s;
	run->stretch = check_stretch;
	run->ctx = &c;
	for (size_t i = 0; i < count; i += every) {
		c.fde = &fdes[i];
		plain_run_fde(run, &fdes[i]);
		if (i + 1 < count && fdes[i + 1].begin > fdes[i].end)
			check_gap(&c, fdes[i].end, fdes[i + 1].begin);
	}
	print_message("%s: %zu functions, every %u: %lu rows, %lu points, %lu with FP popped, "
		      "%lu refused, %u rules\n",
		      path, count, every, c.rows, c.points, c.popped, c.refused,
		      c.reader.rules.count);
	check_losses(&c);
	assert_true(c.rows > 0);
	free(run);
	free(fdes);
	elf_data_release(&data);
	reader_close(&c.reader);
	elf_file_free(f);
}

#define LIB "/usr/lib/" TRIPLET "/"
#ifdef __aarch64__
#define TRIPLET "aarch64-linux-gnu"
#define LINKER  LIB "ld-linux-aarch64.so.1"
#define REFUSED 6 /* CFA in x0 (longjmp), RA in x15 (the profiling hook) */
#else
#define TRIPLET "x86_64-linux-gnu"
#define LINKER  LIB "ld-linux-x86-64.so.2"
#define REFUSED 0
#endif

static void test_libc(void **state)
{
	(void)state;
	check_file(LIB "libc.so.6", 1, 16384, REFUSED);
}

static void test_linker(void **state)
{
	(void)state;
	check_file(LINKER, 1, 16384, REFUSED);
}

static void test_libstdcxx(void **state)
{
	(void)state;
	check_file(LIB "libstdc++.so.6", 1, 16384, 0);
}

/* No room for runs: the same answers out of plain rows. */
static void test_few_rules(void **state)
{
	(void)state;
	check_file(LIB "libstdc++.so.6", 3, 600, 0);
}

static void test_crypto(void **state)
{
	(void)state;
	check_file(LIB "libcrypto.so.3", 4, 16384, 0);
}

static void test_python(void **state)
{
	(void)state;
	check_file("/usr/bin/python3", 1, 16384, 0);
}

static void test_node(void **state)
{
	(void)state;
	check_file("/usr/bin/node", 2, 16384, 0);
}

static void test_llvm(void **state)
{
	(void)state;
	check_file(LIB "libLLVM-14.so.1", 10, 16384, 0);
}

static void test_other_machine(void **state)
{
	(void)state;
	/* CFA in x0 (longjmp), RA in x15 (the profiling hook) */
	check_file("/usr/aarch64-linux-gnu/lib/libc.so.6", 1, 16384, 6);
}

/* ---- readelf as a third opinion ---- */

/* "rsp+16", "rbp+16", "r10+0" against a rule; expressions are the interpreter's matter. */
static void check_printed(struct reader *r, uint64_t at, const char *cfa, const char *fp,
			  const char *ra)
{
	static const struct {
		const char *name;
		uint8_t reg;
	} names[] = { { "rsp+", UNWIND_REG_SP },
		      { "rbp+", UNWIND_REG_FP },
		      { "r10+", UNWIND_REG_R10 },
		      { "rdi+", UNWIND_REG_RDI } };
	struct unwind_rule rule = look_up(r, at);
	long n;

	if (!strcmp(cfa, "exp"))
		return;
	if (!strcmp(ra, "u")) {
		assert_int_equal(rule.kind, UNWIND_STOP);
		return;
	}
	if (rule.kind != UNWIND_CFA)
		fail_msg("at %lx: kind %u for %s %s %s", at, rule.kind, cfa, fp, ra);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strncmp(cfa, names[i].name, 4) != 0)
			continue;
		assert_int_equal(rule.cfa_base, names[i].reg);
		assert_int_equal(rule.cfa_offset, strtol(cfa + 4, NULL, 10));
	}
	if (!strcmp(fp, "u") || !strcmp(fp, "s")) {
		assert_int_equal(rule.fp_from, UNWIND_FROM_SAME);
	} else if (fp[0] == 'c') {
		n = strtol(fp + 1, NULL, 10);
		if (rule.fp_from == UNWIND_FROM_SAME) {
			assert_true(rule.cfa_base == UNWIND_REG_SP && n < -rule.cfa_offset);
		} else {
			assert_int_equal(rule.fp_from, UNWIND_FROM_CFA);
			assert_int_equal(rule.fp_offset, n);
		}
	}
	if (ra[0] == 'c') {
		assert_int_equal(rule.ra_from, UNWIND_FROM_CFA);
		assert_int_equal(rule.ra_offset, strtol(ra + 1, NULL, 10));
	}
}

enum { COLUMNS = 24 };

static int split_columns(char *line, char **columns)
{
	int n = 0;

	for (char *save = NULL, *word = strtok_r(line, " \n", &save); word && n < COLUMNS;
	     word = strtok_r(NULL, " \n", &save))
		if (word[0] != '(') /* "r1 (rdx)": one column */
			columns[n++] = word;
	return n;
}

static int column_named(char **columns, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(columns[i], name))
			return i;
	return -1;
}

static void test_readelf(void **state)
{
	const char *path = LIB "libc.so.6";
	struct elf_file *f = open_elf(path);
	FILE *p = popen("readelf --debug-dump=frames-interp " LIB "libc.so.6 2>/dev/null", "r");
	char line[512], *columns[COLUMNS];
	int fp = -1, ra = -1;
	uint64_t begin = 0, end = 0, rows = 0;
	struct reader r;

	(void)state;
	assert_non_null(p);
	assert_non_null(f);
	if (elf_file_machine(f) != EM_X86_64) {
		print_message("SKIPPED: written for x86-64's names of registers\n");
		pclose(p);
		elf_file_free(f);
		return;
	}
	reader_open(&r, f, 16384);
	while (fgets(line, sizeof(line), p)) {
		const char *pc = strstr(line, " pc=");
		int count;
		uint64_t at;

		if (strstr(line, " CIE "))
			end = 0;
		if (pc && sscanf(pc, " pc=%lx..%lx", &begin, &end) == 2)
			continue;
		count = split_columns(line, columns);
		if (count >= 3 && !strcmp(columns[0], "LOC")) {
			fp = column_named(columns, count, "rbp");
			ra = column_named(columns, count, "ra");
			continue;
		}
		if (count < 3 || strlen(columns[0]) != 16)
			continue;
		at = strtoull(columns[0], NULL, 16);
		if (at < begin || at >= end)
			continue;
		check_printed(&r, at, columns[1], fp >= 0 && fp < count ? columns[fp] : "u",
			      ra >= 0 && ra < count ? columns[ra] : "u");
		rows++;
	}
	pclose(p);
	print_message("%s: %lu rows as readelf prints them\n", path, rows);
	if (!rows)
		print_message("SKIPPED: no readelf here\n");
	reader_close(&r);
	elf_file_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),          cmocka_unit_test(test_linker),
		cmocka_unit_test(test_libstdcxx),     cmocka_unit_test(test_crypto),
		cmocka_unit_test(test_few_rules),     cmocka_unit_test(test_python),
		cmocka_unit_test(test_node),          cmocka_unit_test(test_llvm),
		cmocka_unit_test(test_other_machine), cmocka_unit_test(test_readelf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
