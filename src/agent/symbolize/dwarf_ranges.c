/*
 * dwarf_ranges.c - the addresses an entry covers.
 *
 *   .debug_ranges    (2 to 4) pairs of addresses relative to a base; (0, 0) ends, (-1, x): base x
 *   .debug_rnglists  (5) u8 kind, operands: 0 end, 1 base by index, 2 start and end by index,
 *                    3 start by index and length, 4 pair from the base, 5 base, 6 start and end,
 *                    7 start and length
 */
#include "agent/symbolize/dwarf_internal.h"

enum { FORM_ADDR = 0x01, FORM_RNGLISTX = 0x23, RANGES_MOST = 1 << 20 };

static bool address_by_index(const struct unit *u, uint64_t index, uint64_t *out)
{
	struct byte_reader r;
	uint64_t at;

	if (__builtin_mul_overflow(index, u->address_bytes, &at) ||
	    __builtin_add_overflow(at, u->addr_base, &at))
		return false;
	r = byte_reader_at(section_of(u->dwarf, DWARF_ADDR), at);
	*out = read_uint(&r, u->address_bytes);
	return !r.failed;
}

/* A dead range (the linker dropped its code) begins at 0 or at the tombstone -1, -2. */
static bool give(const struct unit *u, range_fn fn, void *ctx, uint64_t low, uint64_t high)
{
	if (low >= high || (low == 0 && u->dwarf->text_low) || low >= UINT64_MAX - 1)
		return true;
	return fn(ctx, low, high);
}

static bool each_old(const struct unit *u, uint64_t at, range_fn fn, void *ctx)
{
	struct byte_reader r = byte_reader_at(section_of(u->dwarf, DWARF_RANGES), at);
	uint64_t base = u->low_pc, most = u->address_bytes == 8 ? UINT64_MAX : UINT32_MAX;

	for (uint32_t i = 0; i < RANGES_MOST; i++) {
		uint64_t low = read_uint(&r, u->address_bytes);
		uint64_t high = read_uint(&r, u->address_bytes);

		if (r.failed || (!low && !high))
			return true;
		if (low == most) {
			base = high;
			continue;
		}
		/* The tombstone of linkers that must not write the end mark (0, 0). */
		if (low == 1 && high == 1)
			continue;
		if (!give(u, fn, ctx, base + low, base + high))
			return false;
	}
	return true;
}

static bool each_new(const struct unit *u, uint64_t at, range_fn fn, void *ctx)
{
	struct byte_reader r = byte_reader_at(section_of(u->dwarf, DWARF_RNGLISTS), at);
	uint64_t base = u->low_pc, low = 0, high = 0;

	for (uint32_t i = 0; i < RANGES_MOST; i++) {
		bool known = true, range = true;

		switch (read_u8(&r)) {
		case 1:
			known = address_by_index(u, read_uleb128(&r), &base);
			range = false;
			break;
		case 2:
			known = address_by_index(u, read_uleb128(&r), &low);
			known &= address_by_index(u, read_uleb128(&r), &high);
			break;
		case 3:
			known = address_by_index(u, read_uleb128(&r), &low);
			high = low + read_uleb128(&r);
			break;
		case 4:
			low = base + read_uleb128(&r);
			high = base + read_uleb128(&r);
			break;
		case 5:
			base = read_uint(&r, u->address_bytes);
			range = false;
			break;
		case 6:
			low = read_uint(&r, u->address_bytes);
			high = read_uint(&r, u->address_bytes);
			break;
		case 7:
			low = read_uint(&r, u->address_bytes);
			high = low + read_uleb128(&r);
			break;
		default:
			return true; /* 0: the end; more: not known, so is its length */
		}
		if (r.failed)
			return true;
		if (known && range && base < UINT64_MAX - 1 && !give(u, fn, ctx, low, high))
			return false;
	}
	return true;
}

static bool rnglist_offset(const struct unit *u, uint64_t index, uint64_t *out)
{
	struct byte_reader r;
	uint64_t at;

	if (__builtin_mul_overflow(index, u->offset_bytes, &at) ||
	    __builtin_add_overflow(at, u->rnglists_base, &at))
		return false;
	r = byte_reader_at(section_of(u->dwarf, DWARF_RNGLISTS), at);
	at = read_uint(&r, u->offset_bytes);
	return !r.failed && !__builtin_add_overflow(at, u->rnglists_base, out);
}

bool die_has_ranges(const struct die *die)
{
	return die_has(die, ATTR_RANGES) ||
	       (die_has(die, ATTR_LOW_PC) && die_has(die, ATTR_HIGH_PC));
}

bool die_each_range(const struct unit *u, const struct die *die, range_fn fn, void *ctx)
{
	uint64_t low, high, at;

	if (die_has(die, ATTR_RANGES)) {
		at = die->attr[ATTR_RANGES].value;
		if (u->version < 5)
			return each_old(u, at, fn, ctx);
		if (die->attr[ATTR_RANGES].form == FORM_RNGLISTX && !rnglist_offset(u, at, &at))
			return true;
		return each_new(u, at, fn, ctx);
	}
	if (!die_has(die, ATTR_HIGH_PC) || !die_address(u, die, ATTR_LOW_PC, &low))
		return true;
	/* An address, or a length from the low one. */
	if (!die_address(u, die, ATTR_HIGH_PC, &high) &&
	    __builtin_add_overflow(low, die->attr[ATTR_HIGH_PC].value, &high))
		return true;
	return give(u, fn, ctx, low, high);
}

static bool stop_if_inside(void *ctx, uint64_t low, uint64_t high)
{
	uint64_t address = *(uint64_t *)ctx;

	return address < low || address >= high;
}

bool die_contains(const struct unit *u, const struct die *die, uint64_t elf_vaddr)
{
	return !die_each_range(u, die, stop_if_inside, &elf_vaddr);
}
