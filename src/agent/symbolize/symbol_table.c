#include "agent/symbolize/symbol_table.h"
#include <stdlib.h>

enum {
	INDEX_BITS = 30,
	SYMBOLS_MOST = 1 << INDEX_BITS,
	ENCLOSING_LOOK_BACK =
		32, /* a symbol within a larger one: how far back the larger may lie */
	SMALL_SORT = 24,
};

struct symbol_table {
	uint64_t base; /* of the 32-bit addresses */
	uint64_t *entries;
	uint32_t count, cap;
	uint32_t source_count;
	struct elf_symtab sources[SYMBOL_SOURCES_MOST];
	uint64_t text_end;
};

static uint64_t entry_address(const struct symbol_table *t, uint32_t i)
{
	return t->base + (t->entries[i] >> 32);
}

static bool entry_symbol(const struct symbol_table *t, uint64_t entry, struct elf_symbol *out)
{
	uint32_t source = (uint32_t)entry >> INDEX_BITS;

	return elf_symtab_get(&t->sources[source], (uint32_t)entry & (SYMBOLS_MOST - 1), out);
}

/* ---- sorting: most significant byte first, in place ---- */

static void sort_small(uint64_t *a, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint64_t v = a[i];
		size_t k = i;

		for (; k > 0 && a[k - 1] > v; k--)
			a[k] = a[k - 1];
		a[k] = v;
	}
}

static void sort_by_byte(uint64_t *a, size_t n, unsigned shift)
{
	size_t from[257] = { 0 }, next[256];

	if (n <= SMALL_SORT) {
		sort_small(a, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		from[((a[i] >> shift) & 255) + 1]++;
	for (unsigned b = 0; b < 256; b++)
		from[b + 1] += from[b];
	memcpy(next, from, sizeof(next));
	for (unsigned b = 0; b < 256; b++) {
		while (next[b] < from[b + 1]) {
			uint64_t v = a[next[b]];
			unsigned home = (v >> shift) & 255;

			if (home == b) {
				next[b]++;
				continue;
			}
			a[next[b]] = a[next[home]];
			a[next[home]++] = v;
		}
	}
	if (!shift)
		return;
	for (unsigned b = 0; b < 256; b++)
		sort_by_byte(a + from[b], from[b + 1] - from[b], shift - 8);
}

/* ---- building ---- */

static bool section_executable(const struct elf_file *f, uint16_t index)
{
	struct elf_section s;

	if (index >= SHN_LORESERVE)
		return false;
	return elf_file_section_count(f) == 0 ||
	       (elf_file_section(f, index, &s) && (s.flags & SHF_EXECINSTR));
}

/* arm64's $x and $d mark code and data; .L names are the compiler's own. */
static bool name_counts(struct str name)
{
	return name.len && name.ptr[0] != '$' && !str_has_prefix(name, STR(".L"));
}

static bool is_function(const struct elf_file *f, const struct elf_symbol *s)
{
	if (s->section == SHN_UNDEF || s->section == SHN_ABS)
		return false;
	if (s->type == STT_FUNC || s->type == STT_GNU_IFUNC)
		return name_counts(s->name);
	return s->type == STT_NOTYPE && name_counts(s->name) && section_executable(f, s->section);
}

static bool table_push(struct symbol_table *t, uint64_t entry, size_t limit_bytes, struct err *err)
{
	if (t->count == t->cap) {
		uint32_t cap = t->cap ? t->cap * 2 : 256;
		uint64_t *grown;

		if ((uint64_t)t->count * sizeof(*t->entries) >= limit_bytes)
			return err_set(err, ERR_LIMIT, "%u symbols and more, room for %zu bytes",
				       t->count, limit_bytes);
		grown = realloc(t->entries, cap * sizeof(*grown));
		if (!grown)
			abort();
		t->entries = grown;
		t->cap = cap;
	}
	t->entries[t->count++] = entry;
	return true;
}

static bool add_source(struct symbol_table *t, uint32_t source, const struct elf_file *f,
		       size_t limit_bytes, struct err *err)
{
	const struct elf_symtab *symbols = &t->sources[source];
	struct elf_symbol s;

	for (uint32_t i = 1; i < symbols->count && i < SYMBOLS_MOST; i++) {
		if (!elf_symtab_get(symbols, i, &s) || !is_function(f, &s))
			continue;
		if (s.value < t->base || s.value >= t->text_end || s.value - t->base > UINT32_MAX)
			continue;
		if (!table_push(t, (s.value - t->base) << 32 | source << INDEX_BITS | (uint64_t)i,
				limit_bytes, err))
			return false;
	}
	return true;
}

static int binding_rank(uint8_t binding)
{
	return binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 2 : binding == STB_WEAK;
}

static size_t underscores(struct str s)
{
	size_t n = 0;

	while (n < s.len && s.ptr[n] == '_')
		n++;
	return n;
}

/* Is b, which comes later, the better name? The order is perf's, so that both show the same. */
static bool better(const struct elf_symbol *a, const struct elf_symbol *b)
{
	struct str an = elf_symbol_base_name(a->name), bn = elf_symbol_base_name(b->name);

	if ((a->size != 0) != (b->size != 0))
		return b->size != 0;
	if (binding_rank(a->binding) != binding_rank(b->binding))
		return binding_rank(b->binding) > binding_rank(a->binding);
	if (underscores(an) != underscores(bn))
		return underscores(bn) < underscores(an);
	return bn.len > an.len;
}

static uint64_t best_of(const struct symbol_table *t, uint32_t from, uint32_t to)
{
	uint64_t best = t->entries[from];
	struct elf_symbol a, b;

	if (to - from == 1 || !entry_symbol(t, best, &a))
		return best;
	for (uint32_t i = from + 1; i < to; i++) {
		if (entry_symbol(t, t->entries[i], &b) && better(&a, &b)) {
			a = b;
			best = t->entries[i];
		}
	}
	return best;
}

static void keep_one_for_each_address(struct symbol_table *t)
{
	uint32_t out = 0, to;

	for (uint32_t from = 0; from < t->count; from = to) {
		for (to = from + 1; to < t->count; to++) {
			if (t->entries[to] >> 32 != t->entries[from] >> 32)
				break;
		}
		t->entries[out++] = best_of(t, from, to);
	}
	t->count = out;
}

struct symbol_table *symbol_table_new(const struct elf_symtab *sources,
				      const struct elf_file *const *files, uint32_t source_count,
				      size_t limit_bytes, struct err *err)
{
	struct symbol_table *t = calloc(1, sizeof(*t));
	uint64_t *fitting;

	if (!t)
		abort();
	if (!source_count || source_count > SYMBOL_SOURCES_MOST ||
	    !elf_file_text_span(files[0], &t->base, &t->text_end)) {
		err_set(err, ERR_NOT_FOUND, "no executable segment");
		goto fail;
	}
	t->source_count = source_count;
	memcpy(t->sources, sources, source_count * sizeof(*sources));
	for (uint32_t i = 0; i < source_count; i++) {
		if (!add_source(t, i, files[i], limit_bytes, err))
			goto fail;
	}
	if (!t->count) {
		err_set(err, ERR_NOT_FOUND, "no function symbols");
		goto fail;
	}
	sort_by_byte(t->entries, t->count, 56);
	keep_one_for_each_address(t);
	fitting = realloc(t->entries, t->count * sizeof(*fitting));
	if (fitting)
		t->entries = fitting;
	t->cap = t->count;
	return t;
fail:
	symbol_table_free(t);
	return NULL;
}

void symbol_table_free(struct symbol_table *t)
{
	if (!t)
		return;
	free(t->entries);
	free(t);
}

uint32_t symbol_table_count(const struct symbol_table *t)
{
	return t->count;
}

size_t symbol_table_bytes(const struct symbol_table *t)
{
	return sizeof(*t) + (size_t)t->cap * sizeof(*t->entries);
}

/* ---- finding ---- */

bool symbol_table_at(const struct symbol_table *t, uint32_t i, struct symbol_hit *out)
{
	struct elf_symbol s;

	if (i >= t->count || !entry_symbol(t, t->entries[i], &s))
		return false;
	*out = (struct symbol_hit){ elf_symbol_base_name(s.name), entry_address(t, i), s.size };
	return out->name.len > 0;
}

/* Number of entries at or below the address. */
static uint32_t upper_bound(const struct symbol_table *t, uint64_t elf_vaddr)
{
	uint32_t low = 0, high = t->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (entry_address(t, mid) <= elf_vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool symbol_table_find(const struct symbol_table *t, uint64_t elf_vaddr, struct symbol_hit *out)
{
	uint32_t after = upper_bound(t, elf_vaddr);
	struct symbol_hit hit;

	if (elf_vaddr >= t->text_end)
		return false;
	for (uint32_t back = 1; back <= after && back <= ENCLOSING_LOOK_BACK; back++) {
		if (!symbol_table_at(t, after - back, &hit))
			continue;
		/* Without a size it ends at the next symbol: only the nearest one can be meant. */
		if (hit.size ? elf_vaddr - hit.start < hit.size : back == 1) {
			*out = hit;
			return true;
		}
	}
	return false;
}
