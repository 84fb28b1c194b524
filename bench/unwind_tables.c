/*
 * unwind_tables - time and size of compact unwind tables.
 *
 *   unwind_tables FILE...
 *
 * Builds every page of each file, three times, with one array of rules for all; prints the best
 * time.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include "agent/unwind/tables.h"
#include "base/clock.h"
#include "base/cleanup.h"

static struct unwind_row rows[UNWIND_BLOCK_ROWS];
static struct unwind_rule rule_array[UNWIND_RULES_MOST];

struct result {
	uint64_t open_ns, build_ns, slowest_page_ns, text_bytes;
	struct unwind_counts counts;
	bool go;
};

static uint64_t text_bytes(const struct elf_file *f)
{
	struct elf_segment s;
	uint64_t n = 0;

	for (uint32_t i = 0; i < elf_file_segment_count(f); i++)
		if (elf_file_segment(f, i, &s) && s.type == PT_LOAD && (s.flags & PF_X))
			n += s.memory_bytes;
	return n;
}

static bool build(const struct elf_file *f, struct unwind_rules *rules, struct result *out,
		  struct err *err)
{
	uint64_t start = clock_monotonic_ns(), first, pages;
	struct unwind_tables *t = unwind_tables_open(f, NULL, err);
	struct result r = { .text_bytes = text_bytes(f) };
	uint32_t count;

	if (!t)
		return false;
	r.open_ns = clock_monotonic_ns() - start;
	unwind_tables_pages(t, &first, &pages);
	for (uint64_t i = 0; i < pages; i++) {
		uint64_t page_start = clock_monotonic_ns(), ns;

		(void)unwind_tables_build_page(t, first + i, rules, rows, UNWIND_BLOCK_ROWS,
					       &count);
		ns = clock_monotonic_ns() - page_start;
		r.build_ns += ns;
		if (ns > r.slowest_page_ns)
			r.slowest_page_ns = ns;
	}
	r.counts = *unwind_tables_counts(t);
	r.go = unwind_tables_is_go(t);
	unwind_tables_free(t);
	*out = r;
	return true;
}

static void print(const char *path, const struct result *r, uint32_t rules)
{
	double ms = (double)r->build_ns / 1e6;

	printf("%-52s %8.3f %9.2f %8.0f %9llu %9llu %6.1f %6.2f %6.4f %6u%s", path,
	       (double)r->open_ns / 1e6, ms, (double)r->slowest_page_ns / 1e3,
	       (unsigned long long)r->counts.plain_rows, (unsigned long long)r->counts.rows,
	       (double)r->counts.plain_rows / ms / 1e3, (double)r->counts.rows * 4 / 1e6,
	       (double)r->counts.rows * 4 / (double)r->text_bytes, rules, r->go ? " go" : "");
	for (int i = 0; i < UNWIND_LOSS_COUNT; i++)
		if (r->counts.lost[i])
			printf(" %s=%llu", unwind_loss_name(i),
			       (unsigned long long)r->counts.lost[i]);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct unwind_rules rules;

	unwind_rules_init(&rules, rule_array, UNWIND_RULES_MOST);
	printf("%-52s %8s %9s %8s %9s %9s %6s %6s %6s %6s lost\n", "file", "open ms", "build ms",
	       "page us", "plain", "rows", "Mrow/s", "MB", "B/text", "rules");
	for (int i = 1; i < argc; i++) {
		AUTO(fd_close) int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
		struct result best = { .build_ns = UINT64_MAX }, r;
		struct err err;
		struct elf_file *f = fd < 0 ? NULL : elf_file_open(fd, &err);

		for (int k = 0; f && k < 3; k++)
			if (build(f, &rules, &r, &err) && r.build_ns < best.build_ns)
				best = r;
		if (best.build_ns != UINT64_MAX)
			print(argv[i], &best, rules.count);
		else
			printf("%-52s %s\n", argv[i], fd < 0 ? "cannot be opened" : err.msg);
		elf_file_free(f);
	}
	unwind_rules_release(&rules);
	return 0;
}
