#include "agent/symbolize/dwarf.h"
#include <stdlib.h>
#include "agent/symbolize/dwarf_internal.h"
#include "base/buf.h"

enum {
	ORIGINS_MOST = 16, /* along abstract origins and specifications */
	ENCLOSING_LOOK_BACK = 4096,
	TREE_STEPS_MOST = 1 << 22, /* entries of one function that are looked at */
};

/* ---- opening ---- */

static const char *const section_names[DWARF_SECTION_COUNT] = {
	[DWARF_INFO] = "info",
	[DWARF_ABBREV] = "abbrev",
	[DWARF_LINE] = "line",
	[DWARF_STR] = "str",
	[DWARF_LINE_STR] = "line_str",
	[DWARF_RANGES] = "ranges",
	[DWARF_RNGLISTS] = "rnglists",
	[DWARF_ADDR] = "addr",
	[DWARF_STR_OFFSETS] = "str_offsets",
	[DWARF_ARANGES] = "aranges",
};

static bool find_section(const struct elf_file *f, const char *name, struct elf_section *out)
{
	char full[32];

	snprintf(full, sizeof(full), ".debug_%s", name);
	if (elf_file_section_named(f, full, out))
		return true;
	snprintf(full, sizeof(full), ".zdebug_%s", name);
	return elf_file_section_named(f, full, out);
}

static bool load_section(struct dwarf *d, enum dwarf_section id, int spill_folder, struct err *err)
{
	struct elf_section s;
	struct err spill_err;
	uint64_t grown;

	if (!find_section(d->file, section_names[id], &s) || s.type == SHT_NOBITS)
		return true;
	if (spill_folder >= 0 && elf_section_compressed(d->file, &s, &grown) &&
	    grown >= DWARF_SPILL_FROM &&
	    elf_file_section_spill(d->file, &s, spill_folder, DWARF_SPILL_MOST, &d->data[id],
				   &spill_err))
		return true;
	if (!elf_file_section_data(d->file, &s, d->limit_bytes - d->used_bytes, &d->data[id], err))
		return false;
	if (d->data[id].owned)
		d->used_bytes += d->data[id].bytes.len;
	return true;
}

struct dwarf *dwarf_open(const struct elf_file *f, struct dwarf *alt, int spill_folder,
			 size_t limit_bytes, struct err *err)
{
	struct dwarf *d = calloc(1, sizeof(*d));

	if (!d)
		abort();
	d->file = f;
	d->alt = alt;
	d->limit_bytes = limit_bytes;
	d->used_bytes = sizeof(*d);
	if (d->used_bytes > limit_bytes) {
		err_set(err, ERR_LIMIT, "debug information needs %zu bytes at least, room is %zu",
			sizeof(*d), limit_bytes);
		goto fail;
	}
	for (int id = 0; id < DWARF_SECTION_COUNT; id++) {
		if (!load_section(d, (enum dwarf_section)id, spill_folder, err))
			goto fail;
	}
	if (!section_of(d, DWARF_INFO).len || !section_of(d, DWARF_ABBREV).len) {
		err_set(err, ERR_NOT_FOUND, "no debug information");
		goto fail;
	}
	/* dwz's common file has no code. */
	if (!elf_file_text_span(f, &d->text_low, &d->text_end))
		d->text_low = d->text_end = 0;
	if (d->text_end - d->text_low > UINT32_MAX)
		d->text_end = d->text_low + UINT32_MAX;
	return d;
fail:
	dwarf_free(d);
	return NULL;
}

void dwarf_free(struct dwarf *d)
{
	if (!d)
		return;
	for (int i = 0; i < DWARF_SECTION_COUNT; i++)
		elf_data_release(&d->data[i]);
	for (int i = 0; i < ABBREV_TABLES_KEPT; i++)
		free(d->abbrevs[i].list);
	for (int i = 0; i < FUNCTIONS_KEPT; i++) {
		free(d->functions[i].list);
		free(d->functions[i].checkpoints);
	}
	free(d->unit_offsets);
	free(d->ranges);
	free(d);
}

void dwarf_let_go(const struct dwarf *d)
{
	for (int i = 0; d && i < DWARF_SECTION_COUNT; i++)
		elf_data_let_go(&d->data[i]);
}

size_t dwarf_bytes(const struct dwarf *d)
{
	return d->used_bytes;
}

/* ---- the functions of a unit ---- */

struct adding_function {
	struct dwarf *d;
	struct unit_functions *f;
	uint32_t die;
	bool full;
};

static bool add_function(void *ctx, uint64_t low, uint64_t high)
{
	struct adding_function *a = ctx;
	struct dwarf *d = a->d;

	if (low < d->text_low || high > d->text_end)
		return true;
	if (a->f->count == a->f->cap &&
	    !dwarf_grow(d, (void **)&a->f->list, &a->f->cap, sizeof(*a->f->list))) {
		a->full = true;
		return false;
	}
	a->f->list[a->f->count++] =
		(struct function_range){ (uint32_t)(low - d->text_low),
					 (uint32_t)(high - d->text_low), a->die };
	return true;
}

static int by_low_then_wide(const void *a, const void *b)
{
	const struct function_range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->high > y->high ? -1 : x->high < y->high;
}

/* Goes on where it stopped; false: the budget is spent. */
static bool scan_functions(const struct unit *u, struct unit_functions *f,
			   struct work_budget *budget)
{
	const struct abbrev_table *abbrevs = abbrevs_of(u);
	struct die die;

	while (f->scan_at < u->end && die_read_if(u, abbrevs, f->scan_at, TAG_SUBPROGRAM, &die)) {
		struct adding_function a = { .d = u->dwarf, .f = f };

		if (die.tag == TAG_SUBPROGRAM && die_has_ranges(&die)) {
			a.die = (uint32_t)(die.offset - u->offset);
			die_each_range(u, &die, add_function, &a);
			if (a.full)
				f->refused = true;
		}
		f->scan_at = die.next;
		if (f->refused)
			break;
		if (work_budget_step(budget))
			return false;
	}
	if (f->count)
		qsort(f->list, f->count, sizeof(*f->list), by_low_then_wide);
	f->whole = true;
	return true;
}

static void functions_drop(struct dwarf *d, struct unit_functions *f)
{
	dwarf_drop(d, (void **)&f->list, &f->cap, sizeof(*f->list));
	dwarf_drop(d, (void **)&f->checkpoints, &f->checkpoint_cap, sizeof(*f->checkpoints));
	*f = (struct unit_functions){ 0 };
}

static struct unit_functions *functions_oldest(struct dwarf *d, const struct unit_functions *but)
{
	struct unit_functions *oldest = NULL;

	for (int i = 0; i < FUNCTIONS_KEPT; i++) {
		struct unit_functions *f = &d->functions[i];

		if (f != but && f->used && (!oldest || f->used < oldest->used))
			oldest = f;
	}
	return oldest;
}

static struct unit_functions *functions_slot(struct dwarf *d, uint32_t unit, const struct unit *u)
{
	struct unit_functions *free_slot = NULL;

	for (int i = 0; i < FUNCTIONS_KEPT; i++) {
		struct unit_functions *f = &d->functions[i];

		if (f->used && f->unit == unit) {
			f->used = ++d->stamp;
			return f;
		}
		if (!f->used && !free_slot)
			free_slot = f;
	}
	if (!free_slot) {
		free_slot = functions_oldest(d, NULL);
		functions_drop(d, free_slot);
	}
	*free_slot = (struct unit_functions){ .unit = unit,
					      .scan_at = u->first_die,
					      .used = ++d->stamp };
	return free_slot;
}

/* Room for half of the limit at least: the lists of other units go first. */
static void functions_make_room(struct dwarf *d, const struct unit_functions *but)
{
	struct unit_functions *oldest;

	while (d->used_bytes > d->limit_bytes / 2 && (oldest = functions_oldest(d, but)) != NULL)
		functions_drop(d, oldest);
}

static enum dwarf_answer functions_of(struct dwarf *d, uint32_t unit, const struct unit *u,
				      struct work_budget *budget, struct unit_functions **out)
{
	struct unit_functions *f = functions_slot(d, unit, u);

	if (!f->whole) {
		functions_make_room(d, f);
		if (!scan_functions(u, f, budget))
			return DWARF_LATER;
	}
	*out = f;
	return f->count ? DWARF_FOUND : DWARF_NONE;
}

/* The innermost function that holds the address. */
static const struct function_range *function_at(const struct unit_functions *f, uint32_t at)
{
	uint32_t low = 0, high = f->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (f->list[mid].low <= at)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t back = 1; back <= low && back <= ENCLOSING_LOOK_BACK; back++) {
		if (at < f->list[low - back].high)
			return &f->list[low - back];
	}
	return NULL;
}

/* ---- names ---- */

/* Follows specifications and abstract origins until a linkage name turns up. */
static void name_of(const struct unit *u, const struct die *die, struct dwarf_frame *out)
{
	const struct unit *unit = u;
	struct die at = *die, next;

	for (int i = 0; i < ORIGINS_MOST; i++) {
		struct dwarf *target;
		uint64_t offset;

		if (!out->linkage_name.len)
			out->linkage_name = die_string(unit, &at, ATTR_LINKAGE_NAME);
		if (!out->name.len)
			out->name = die_string(unit, &at, ATTR_NAME);
		if (!out->start_line)
			out->start_line = die_u32(&at, ATTR_DECL_LINE);
		if (out->linkage_name.len && out->name.len && out->start_line)
			return;
		if (!die_reference(unit, &at, ATTR_ORIGIN, &target, &offset) &&
		    !die_reference(unit, &at, ATTR_SPECIFICATION, &target, &offset))
			return;
		if (target != unit->dwarf || offset < unit->offset || offset >= unit->end)
			unit = unit_holding(target, offset);
		if (!unit || !unit->code || !die_read(unit, abbrevs_of(unit), offset, &next))
			return;
		at = next;
	}
}

/* ---- inlined functions ---- */

struct call_chain {
	uint32_t count;
	struct {
		struct dwarf_frame frame;
		uint32_t call_file, call_line, call_column;
	} call[DWARF_FRAMES_MOST];
};

static void chain_push(const struct unit *u, const struct die *die, struct call_chain *chain)
{
	if (chain->count == DWARF_FRAMES_MOST)
		return;
	memset(&chain->call[chain->count], 0, sizeof(chain->call[0]));
	name_of(u, die, &chain->call[chain->count].frame);
	chain->call[chain->count].call_file = die_u32(die, ATTR_CALL_FILE);
	chain->call[chain->count].call_line = die_u32(die, ATTR_CALL_LINE);
	chain->call[chain->count].call_column = die_u32(die, ATTR_CALL_COLUMN);
	chain->count++;
}

/* Past an entry and all that is below it. */
static bool skip_tree(const struct unit *u, const struct abbrev_table *abbrevs,
		      const struct die *die, uint64_t *next)
{
	struct dwarf *target;
	uint64_t at = die->next;
	uint32_t depth = 1;
	struct die below;

	*next = at;
	if (!die->children)
		return true;
	if (die_reference(u, die, ATTR_SIBLING, &target, next) && target == u->dwarf &&
	    *next > die->next && *next <= u->end)
		return true;
	for (uint32_t step = 0; depth && step < TREE_STEPS_MOST; step++) {
		if (!die_read_if(u, abbrevs, at, 0, &below))
			return false;
		at = below.next;
		if (!below.tag)
			depth--;
		else if (below.children)
			depth++;
	}
	*next = at;
	return depth == 0;
}

static bool is_block(uint16_t tag)
{
	return tag == TAG_LEXICAL_BLOCK || tag == TAG_TRY_BLOCK || tag == TAG_CATCH_BLOCK;
}

/* Down from the function through blocks and inlined calls that hold the address. */
static void inlined_calls(const struct unit *u, const struct die *function, uint64_t elf_vaddr,
			  struct call_chain *chain)
{
	const struct abbrev_table *abbrevs = abbrevs_of(u);
	uint64_t at = function->next;
	uint32_t depth = 1, found_depth = 0;
	struct die die;

	if (!function->children)
		return;
	for (uint32_t step = 0; depth > found_depth && step < TREE_STEPS_MOST; step++) {
		bool descend = false;

		if (!die_read_scope(u, abbrevs, at, &die))
			return;
		if (!die.tag) {
			depth--;
			at = die.next;
			continue;
		}
		if (die.tag == TAG_INLINED_SUBROUTINE && die_contains(u, &die, elf_vaddr)) {
			chain_push(u, &die, chain);
			/* Names may come from units with other abbreviations. */
			abbrevs = abbrevs_of(u);
			found_depth = depth;
			descend = true;
		} else if (is_block(die.tag)) {
			descend = !die_has_ranges(&die) || die_contains(u, &die, elf_vaddr);
		}
		if (descend) {
			if (!die.children && found_depth == depth)
				return;
			at = die.next;
			depth += die.children;
		} else if (!skip_tree(u, abbrevs, &die, &at)) {
			return;
		}
	}
}

static uint32_t chain_to_frames(const struct unit *u, struct unit_functions *f,
				const struct call_chain *chain, uint64_t elf_vaddr,
				struct dwarf_frame *out, uint32_t cap)
{
	struct line_row row = { 0 };
	struct dwarf_path path = { 0 };
	uint32_t n = 0;

	if (line_find(u, f, elf_vaddr, &row))
		line_path(u, row.file, &path);
	for (uint32_t i = chain->count; i-- > 0 && n < cap; n++) {
		out[n] = chain->call[i].frame;
		out[n].path = path;
		out[n].line = row.line;
		out[n].column = row.column;
		row.line = chain->call[i].call_line;
		row.column = chain->call[i].call_column;
		path = (struct dwarf_path){ 0 };
		if (i)
			line_path(u, chain->call[i].call_file, &path);
	}
	if (!chain->count && row.line && cap) {
		out[0] = (struct dwarf_frame){ .path = path,
					       .line = row.line,
					       .column = row.column };
		n = 1;
	}
	return n;
}

enum dwarf_answer dwarf_find(struct dwarf *d, uint64_t elf_vaddr, struct work_budget *budget,
			     struct dwarf_frame *out, uint32_t cap, uint32_t *count)
{
	const struct function_range *range;
	struct unit_functions *functions;
	struct call_chain chain = { .count = 0 };
	enum dwarf_answer answer;
	struct die function;
	struct unit u;
	uint32_t unit;

	/* Origins are found by unit: the common file's units must be known, too. */
	if (d->alt && !d->alt->indexed && index_find(d->alt, 0, budget, &unit) == DWARF_LATER)
		return DWARF_LATER;
	answer = index_find(d, elf_vaddr, budget, &unit);
	if (answer != DWARF_FOUND)
		return answer;
	if (!unit_parse(d, d->unit_offsets[unit], &u))
		return DWARF_NONE;
	answer = functions_of(d, unit, &u, budget, &functions);
	if (answer == DWARF_LATER)
		return answer;
	if (answer == DWARF_FOUND) {
		range = function_at(functions, (uint32_t)(elf_vaddr - d->text_low));
		if (range && die_read(&u, abbrevs_of(&u), u.offset + range->die, &function)) {
			chain_push(&u, &function, &chain);
			inlined_calls(&u, &function, elf_vaddr, &chain);
		}
	}
	*count = chain_to_frames(&u, functions, &chain, elf_vaddr, out, cap);
	return *count ? DWARF_FOUND : DWARF_NONE;
}

void dwarf_path_append(struct buf *out, const struct dwarf_path *path)
{
	const struct str parts[] = { path->unit_directory, path->directory, path->file };
	int from = 2;

	if (!path->file.len)
		return;
	while (from > 0 && !str_has_prefix(parts[from], STR("/")))
		from--;
	for (int i = from; i < 3; i++) {
		if (!parts[i].len)
			continue;
		buf_str(out, parts[i]);
		if (i < 2 && parts[i].ptr[parts[i].len - 1] != '/')
			buf_char(out, '/');
	}
}
