#include "agent/unwind/tables.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/unwind/layers.h"

enum { DEBUG_FRAME_BYTES_MOST = 512 << 20, ENTRY_CODE = 64, INIT_CODE = 32 };

/* ---- opening ---- */

static bool find_pages(struct unwind_tables *t)
{
	uint64_t lowest, end;

	if (!elf_file_text_span(t->file, &lowest, &end) || end <= lowest || end > UINT64_C(1) << 56)
		return false;
	t->first_page = lowest >> UNWIND_PAGE_SHIFT;
	t->page_count = ((end - 1) >> UNWIND_PAGE_SHIFT) - t->first_page + 1;
	return true;
}

static struct layer *layer_add(struct unwind_tables *t, enum layer_kind kind)
{
	struct layer *l = &t->layers[t->layer_count++];

	assert(t->layer_count <= LAYERS_MOST);
	l->kind = kind;
	l->cie.offset = CFI_NO_CIE;
	l->initial_of = CFI_NO_CIE;
	return l;
}

/* A layer without an FDE is none. */
static void layer_drop(struct unwind_tables *t)
{
	struct layer *l = &t->layers[--t->layer_count];

	cfi_index_release(&l->index);
	elf_data_release(&l->data);
	memset(l, 0, sizeof(*l));
}

/* .eh_frame_hdr, by its segment: that is what the system's own unwinder goes by. */
static struct bytes eh_frame_header(const struct elf_file *file, uint64_t *vaddr)
{
	struct elf_segment s;
	struct bytes b = { 0 };

	for (uint32_t i = 0; i < elf_file_segment_count(file); i++) {
		if (!elf_file_segment(file, i, &s) || s.type != PT_GNU_EH_FRAME)
			continue;
		*vaddr = s.vaddr;
		b = elf_file_at_vaddr(file, s.vaddr);
		if (b.len > s.memory_bytes)
			b.len = (size_t)s.memory_bytes;
		break;
	}
	return b;
}

/* What DW_EH_PE_textrel and _datarel count from on x86-64 and arm64: .text and the GOT. */
static void set_bases(const struct elf_file *file, struct cfi_section *s)
{
	struct elf_section section;

	if (elf_file_section_named(file, ".text", &section))
		s->text_vaddr = section.vaddr;
	if (!elf_file_dynamic(file, DT_PLTGOT, &s->data_vaddr))
		s->data_vaddr = 0;
}

static void add_eh_frame(struct unwind_tables *t)
{
	uint64_t header_vaddr = 0;
	struct bytes header = eh_frame_header(t->file, &header_vaddr);
	struct layer *l = layer_add(t, LAYER_CFI);
	struct elf_section section;
	struct err ignored;

	set_bases(t->file, &l->section);
	if (elf_file_section_named(t->file, ".eh_frame", &section) &&
	    elf_file_section_data(t->file, &section, DEBUG_FRAME_BYTES_MOST, &l->data, &ignored)) {
		l->section.bytes = l->data.bytes;
		l->section.vaddr = section.vaddr;
	} else if (cfi_header_eh_frame(header, header_vaddr, &l->section.vaddr)) {
		l->section.bytes = elf_file_at_vaddr(t->file, l->section.vaddr);
	}
	if (!cfi_index_init(&l->index, &l->section, header, header_vaddr, &t->counts))
		layer_drop(t);
}

static void add_debug_frame(struct unwind_tables *t, const struct elf_file *file)
{
	struct elf_section section;
	struct err ignored;
	struct layer *l;

	if (!file || (!elf_file_section_named(file, ".debug_frame", &section) &&
		      !elf_file_section_named(file, ".zdebug_frame", &section)))
		return;
	l = layer_add(t, LAYER_CFI);
	l->section.debug_frame = true;
	if (elf_file_section_data(file, &section, DEBUG_FRAME_BYTES_MOST, &l->data, &ignored))
		l->section.bytes = l->data.bytes;
	if (!cfi_index_init(&l->index, &l->section, (struct bytes){ 0 }, 0, &t->counts))
		layer_drop(t);
}

/* Sorted by begin; what overlaps one that is there is left out. */
static void add_special(struct unwind_tables *t, uint64_t begin, uint64_t len, int kind)
{
	uint64_t end;
	uint32_t at = 0;

	if (t->special_count == SPECIALS_MOST || !len || __builtin_add_overflow(begin, len, &end))
		return;
	while (at < t->special_count && t->specials[at].begin < begin)
		at++;
	if ((at && t->specials[at - 1].end > begin) ||
	    (at < t->special_count && t->specials[at].begin < end))
		return;
	memmove(&t->specials[at + 1], &t->specials[at],
		(t->special_count - at) * sizeof(t->specials[0]));
	t->specials[at].begin = begin;
	t->specials[at].end = end;
	t->specials[at].kind = kind;
	t->special_count++;
}

static void find_specials(struct unwind_tables *t)
{
	static const char *const tables[] = { ".plt", ".plt.sec", ".plt.got", ".iplt" };
	static const char *const init[] = { ".init", ".fini" };
	static const int64_t init_tags[] = { DT_INIT, DT_FINI };
	struct elf_section section;
	uint64_t vaddr;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (elf_file_section_named(t->file, tables[i], &section))
			add_special(t, section.vaddr, section.size, SPECIAL_PLT);
	for (size_t i = 0; i < sizeof(init) / sizeof(init[0]); i++) {
		if (elf_file_section_named(t->file, init[i], &section))
			add_special(t, section.vaddr, section.size, SPECIAL_INIT);
		else if (elf_file_dynamic(t->file, init_tags[i], &vaddr))
			add_special(t, vaddr, INIT_CODE, SPECIAL_INIT);
	}
	if (elf_file_entry(t->file))
		add_special(t, elf_file_entry(t->file), ENTRY_CODE, SPECIAL_ENTRY);
}

struct unwind_tables *unwind_tables_open(const struct elf_file *file, const struct elf_file *debug,
					 struct err *err)
{
	struct unwind_tables *t = calloc(1, sizeof(*t));

	assert(t);
	t->file = file;
	t->machine = elf_file_machine(file);
	if (!cfi_machine_of(t->machine, &t->registers)) {
		err_set(err, ERR_UNSUPPORTED, "ELF machine %u has no unwinder", t->machine);
		goto fail;
	}
	if (!find_pages(t)) {
		err_set(err, ERR_NOT_FOUND, "no executable segment");
		goto fail;
	}
	if (unwind_tables_tracks_rbx(t))
		t->registers.extra = CFI_X86_64_RBX;
	if (pclntab_open(file, &t->go))
		layer_add(t, LAYER_GO);
	add_eh_frame(t);
	add_debug_frame(t, file);
	add_debug_frame(t, debug);
	layer_add(t, LAYER_GAPS);
	find_specials(t);
	return t;
fail:
	unwind_tables_free(t);
	return NULL;
}

void unwind_tables_free(struct unwind_tables *t)
{
	if (!t)
		return;
	while (t->layer_count)
		layer_drop(t);
	free(t);
}

void unwind_tables_pages(const struct unwind_tables *t, uint64_t *first, uint64_t *count)
{
	*first = t->first_page;
	*count = t->page_count;
}

const struct unwind_counts *unwind_tables_counts(const struct unwind_tables *t)
{
	return &t->counts;
}

bool unwind_tables_tracks_rbx(const struct unwind_tables *t)
{
	return t->machine == EM_X86_64 && str_has_prefix(elf_file_soname(t->file), STR("ld-linux"));
}

bool unwind_tables_is_go(const struct unwind_tables *t)
{
	return t->go.function_count > 0;
}

/* ---- building ---- */

void layer_fill(struct unwind_tables *t, uint32_t layer, struct row_out *o, uint64_t from,
		uint64_t to)
{
	switch (t->layers[layer].kind) {
	case LAYER_GO:
		layer_fill_go(t, layer, o, from, to);
		break;
	case LAYER_CFI:
		layer_fill_cfi(t, layer, o, from, to);
		break;
	case LAYER_GAPS:
		layer_fill_gaps(t, o, from, to);
		break;
	}
}

enum unwind_build unwind_tables_build_page(struct unwind_tables *t, uint64_t page,
					   struct unwind_rules *rules, struct unwind_row *rows,
					   uint32_t cap, uint32_t *count)
{
	const struct unwind_counts before = t->counts;
	uint64_t from = page << UNWIND_PAGE_SHIFT;
	struct row_out o;

	if (page < t->first_page || page - t->first_page >= t->page_count)
		return UNWIND_BUILD_EMPTY;
	t->work_left = PAGE_WORK_MOST;
	row_out_init(&o, rules, from, from + (UINT64_C(1) << UNWIND_PAGE_SHIFT), rows, cap);
	o.runs = t->machine == EM_X86_64;
	layer_fill(t, 0, &o, o.from, o.to);
	row_out_finish(&o);
	if (o.full) {
		t->counts = before;
		return UNWIND_BUILD_NO_ROOM;
	}
	t->counts.pages++;
	t->counts.rows += o.count;
	t->counts.plain_rows += o.plain_rows;
	t->counts.lost[UNWIND_LOSS_RULES_FULL] += o.unruled_rows;
	if (o.count == 1 && rows[0].rule == 0)
		return UNWIND_BUILD_EMPTY;
	*count = o.count;
	return UNWIND_BUILD_ROWS;
}
