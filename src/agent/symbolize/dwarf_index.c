/*
 * dwarf_index.c - which unit an address belongs to: the ranges of all units, collected once.
 *
 * Taken from the units' own entries; .debug_aranges, which clang leaves out, is only asked for
 * units that name no range, and for those of DWARF 2, which can name only one.
 */
#include <stdlib.h>
#include "agent/symbolize/dwarf_internal.h"

enum { UNITS_MOST = 1 << 20, OVERLAPS_LOOK_BACK = 256, ARANGES_MISSES_MOST = 64 };

struct adding {
	struct dwarf *d;
	uint32_t unit;
	bool full, any;
};

static bool add_range(void *ctx, uint64_t low, uint64_t high)
{
	struct adding *a = ctx;
	struct dwarf *d = a->d;

	a->any = true;
	if (low < d->text_low || low >= d->text_end)
		return true;
	if (high > d->text_end)
		high = d->text_end;
	if (d->range_count == d->range_cap &&
	    !dwarf_grow(d, (void **)&d->ranges, &d->range_cap, sizeof(*d->ranges))) {
		a->full = true;
		return false;
	}
	d->ranges[d->range_count++] =
		(struct unit_range){ (uint32_t)(low - d->text_low), (uint32_t)(high - d->text_low),
				     a->unit };
	return true;
}

/* The pairs of one set, where it is this unit's. */
static bool aranges_add(struct adding *a, struct byte_reader *r, uint64_t unit_offset)
{
	uint64_t unit;
	uint8_t address_bytes;

	read_u16(r);
	unit = read_u32(r);
	address_bytes = read_u8(r);
	read_u8(r);
	if (r->failed || unit != unit_offset || (address_bytes != 8 && address_bytes != 4))
		return false;
	read_skip(r, (0 - 12ULL) % (2ULL * address_bytes));
	while (!r->failed && byte_reader_left(r) >= 2ULL * address_bytes) {
		uint64_t low = read_uint(r, address_bytes);
		uint64_t bytes = read_uint(r, address_bytes), high;

		if (low && bytes && !__builtin_add_overflow(low, bytes, &high) &&
		    !add_range(a, low, high))
			break;
	}
	return true;
}

/*
 * set: u32 length, u16 version, u32 unit, u8 address bytes, u8 segment bytes, padding to twice the
 * address size, pairs { address, length } up to (0, 0). Sets lie in the order of the units: the
 * search goes on where the last one was found.
 */
static void aranges_of(struct adding *a, uint64_t unit_offset)
{
	struct dwarf *d = a->d;
	struct bytes section = section_of(d, DWARF_ARANGES);
	uint64_t at = d->aranges_at;
	bool wrapped = at == 0;

	while (d->aranges_missed < ARANGES_MISSES_MOST) {
		struct byte_reader r = byte_reader_at(section, at);
		uint64_t length = read_u32(&r);

		if (r.failed || length >= 0xfffffff0 || length > byte_reader_left(&r)) {
			if (wrapped)
				break;
			wrapped = true;
			at = 0;
			continue;
		}
		r.end = r.ptr + length;
		at += 4 + length;
		if (aranges_add(a, &r, unit_offset)) {
			d->aranges_at = at;
			return;
		}
	}
	d->aranges_missed++;
}

static bool index_unit(struct dwarf *d, uint64_t offset)
{
	struct adding adding = { .d = d, .unit = d->unit_count };
	struct unit u;

	if (d->unit_count == UNITS_MOST)
		return false;
	if (d->unit_count == d->unit_cap &&
	    !dwarf_grow(d, (void **)&d->unit_offsets, &d->unit_cap, sizeof(*d->unit_offsets)))
		return false;
	d->unit_offsets[d->unit_count++] = offset;
	if (!unit_parse(d, offset, &u) || !u.code || u.root.tag == TAG_PARTIAL_UNIT)
		return true;
	die_each_range(&u, &u.root, add_range, &adding);
	if (!adding.any || u.version == 2)
		aranges_of(&adding, offset);
	return !adding.full;
}

static int by_low(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->high < y->high ? -1 : x->high > y->high;
}

static bool index_build(struct dwarf *d, struct work_budget *budget)
{
	uint64_t end;

	while (unit_extent(d, d->scan_at, &end)) {
		if (work_budget_step(budget) ||
		    ((d->unit_count & 63) == 63 && work_budget_spent(budget)))
			return false;
		if (!index_unit(d, d->scan_at)) {
			d->index_refused = true;
			break;
		}
		d->scan_at = end;
	}
	if (d->range_count)
		qsort(d->ranges, d->range_count, sizeof(*d->ranges), by_low);
	d->indexed = true;
	return true;
}

enum dwarf_answer index_find(struct dwarf *d, uint64_t elf_vaddr, struct work_budget *budget,
			     uint32_t *unit)
{
	uint32_t low = 0, high, at;

	if (!d->indexed && !index_build(d, budget))
		return DWARF_LATER;
	if (elf_vaddr < d->text_low || elf_vaddr >= d->text_end)
		return DWARF_NONE;
	at = (uint32_t)(elf_vaddr - d->text_low);
	high = d->range_count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (d->ranges[mid].low <= at)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t back = 1; back <= low && back <= OVERLAPS_LOOK_BACK; back++) {
		if (at < d->ranges[low - back].high) {
			*unit = d->ranges[low - back].unit;
			return DWARF_FOUND;
		}
	}
	return DWARF_NONE;
}
