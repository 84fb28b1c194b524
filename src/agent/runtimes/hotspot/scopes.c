#include "agent/runtimes/hotspot/scopes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtimes/hotspot/unsigned5.h"

enum {
	KEPT_MOST = 128,
	HEADER_BYTES_MOST = 1024,
	TABLE_BYTES_MOST = 4 << 20, /* of one nmethod's; the largest seen have 300 KiB */
};

/* The tables of one nmethod, copied. */
struct kept {
	uint64_t nmethod;
	uint32_t compile_id;
	uint64_t used;
	uint64_t method;
	struct bytes pcs, scopes, metadata;
	uint8_t *bytes; /* all three */
	size_t byte_count;
};

struct scopes {
	const struct hotspot_layout *layout;
	size_t limit_bytes, bytes;
	uint64_t clock;
	uint32_t count;
	struct kept kept[KEPT_MOST];
};

/* [from, to) of the process. */
struct range {
	uint64_t from, to;
};

struct scopes *scopes_new(const struct hotspot_layout *layout, size_t limit_bytes)
{
	struct scopes *s = calloc(1, sizeof(*s));

	assert(s);
	s->layout = layout;
	s->limit_bytes = limit_bytes;
	return s;
}

void scopes_free(struct scopes *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->count; i++)
		free(s->kept[i].bytes);
	free(s);
}

size_t scopes_bytes(const struct scopes *s)
{
	return sizeof(*s) + s->bytes;
}

/* ---- where the tables are ---- */

struct places {
	struct range pcs, scopes, metadata;
};

static void places_in_blob(const struct hotspot_layout *l, uint64_t nmethod, const uint8_t *header,
			   size_t bytes, struct places *p)
{
	p->scopes.from = l->nmethod_scopes_begin.bytes
				 ? vm_slot_get(l->nmethod_scopes_begin, header, bytes)
				 : nmethod + vm_slot_get(l->nmethod_scopes_offset, header, bytes);
	p->pcs.from = nmethod + vm_slot_get(l->nmethod_pcs_offset, header, bytes);
	p->pcs.to = nmethod + vm_slot_get(l->nmethod_dependencies_offset, header, bytes);
	p->scopes.to = p->pcs.from;
	p->metadata.from = nmethod + vm_slot_get(l->nmethod_metadata_offset, header, bytes);
	p->metadata.to = p->scopes.from;
}

static void places_outside(const struct hotspot_layout *l, uint64_t nmethod, const uint8_t *header,
			   size_t bytes, struct places *p)
{
	uint64_t data = vm_slot_get(l->nmethod_immutable, header, bytes);
	uint64_t mutable_data = vm_slot_get(l->blob_mutable, header, bytes);

	p->pcs.from = data + vm_slot_get(l->nmethod_pcs_offset, header, bytes);
	p->pcs.to = data + vm_slot_get(l->nmethod_scopes_offset, header, bytes);
	p->scopes.from = p->pcs.to;
	p->scopes.to = data + vm_slot_get(l->nmethod_immutable_bytes, header, bytes);
	if (l->blob_mutable.bytes) {
		p->metadata.from =
			mutable_data + vm_slot_get(l->blob_relocation_bytes, header, bytes);
		p->metadata.to = mutable_data + vm_slot_get(l->blob_mutable_bytes, header, bytes);
	} else { /* behind the oops, at the blob's end */
		p->metadata.from = nmethod + vm_slot_get(l->blob_data_offset, header, bytes) +
				   vm_slot_get(l->nmethod_metadata_offset, header, bytes);
		p->metadata.to = nmethod + vm_slot_get(l->blob_size, header, bytes);
	}
}

/* ---- keeping ---- */

static void forget(struct scopes *s, struct kept *k)
{
	s->bytes -= k->byte_count;
	free(k->bytes);
	*k = s->kept[--s->count];
}

static void make_room(struct scopes *s, size_t bytes)
{
	while (s->count && (s->count == KEPT_MOST || s->bytes + bytes > s->limit_bytes)) {
		struct kept *oldest = &s->kept[0];

		for (uint32_t i = 1; i < s->count; i++)
			if (s->kept[i].used < oldest->used)
				oldest = &s->kept[i];
		forget(s, oldest);
	}
}

static bool copy_range(const struct hotspot_memory *memory, struct range r, uint8_t *to,
		       struct bytes *out)
{
	*out = (struct bytes){ to, r.to - r.from };
	return r.to == r.from || hotspot_read(memory, r.from, to, r.to - r.from);
}

static bool range_fine(struct range r)
{
	return r.from <= r.to && r.to - r.from <= TABLE_BYTES_MOST;
}

static struct kept *read_tables(struct scopes *s, const struct hotspot_memory *memory,
				const struct kept *head, const struct places *p)
{
	size_t pcs = p->pcs.to - p->pcs.from, scopes = p->scopes.to - p->scopes.from,
	       metadata = p->metadata.to - p->metadata.from;
	struct kept made = *head;

	made.byte_count = pcs + scopes + metadata;
	make_room(s, made.byte_count);
	made.bytes = malloc(made.byte_count + 1);
	assert(made.bytes);
	if (!copy_range(memory, p->pcs, made.bytes, &made.pcs) ||
	    !copy_range(memory, p->scopes, made.bytes + pcs, &made.scopes) ||
	    !copy_range(memory, p->metadata, made.bytes + pcs + scopes, &made.metadata)) {
		free(made.bytes);
		return NULL;
	}
	s->kept[s->count] = made;
	s->bytes += made.byte_count;
	return &s->kept[s->count++];
}

static bool read_header(const struct scopes *s, const struct hotspot_memory *memory,
			uint64_t nmethod, uint8_t header[HEADER_BYTES_MOST], size_t *bytes)
{
	*bytes = s->layout->nmethod_bytes < HEADER_BYTES_MOST ? s->layout->nmethod_bytes
							      : HEADER_BYTES_MOST;
	return hotspot_read(memory, nmethod, header, *bytes);
}

static struct kept *get(struct scopes *s, const struct hotspot_memory *memory, uint64_t nmethod,
			uint32_t compile_id)
{
	const struct hotspot_layout *l = s->layout;
	uint8_t header[HEADER_BYTES_MOST];
	struct places p = { 0 };
	struct kept head = { .nmethod = nmethod, .compile_id = compile_id };
	size_t bytes;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->kept[i].nmethod == nmethod && s->kept[i].compile_id == compile_id)
			return &s->kept[i];
	if (!read_header(s, memory, nmethod, header, &bytes) ||
	    (uint32_t)vm_slot_get(l->nmethod_compile_id, header, bytes) != compile_id)
		return NULL;
	head.method = vm_slot_get(l->nmethod_method, header, bytes);
	if (l->nmethod_immutable.bytes)
		places_outside(l, nmethod, header, bytes, &p);
	else
		places_in_blob(l, nmethod, header, bytes, &p);
	if (!range_fine(p.pcs) || !range_fine(p.scopes) || !range_fine(p.metadata))
		return NULL;
	return read_tables(s, memory, &head, &p);
}

/* ---- looking up ---- */

static int32_t pc_desc(const struct scopes *s, const struct kept *k, size_t i, struct vm_slot slot)
{
	size_t bytes = s->layout->pc_desc_bytes;

	return (int32_t)vm_slot_get(slot, k->pcs.ptr + i * bytes, bytes);
}

/* The scope of the first PcDesc at or behind pc_offset; behind the last, that of the last. */
static uint32_t scope_offset(const struct scopes *s, const struct kept *k, uint32_t pc_offset)
{
	const struct hotspot_layout *l = s->layout;
	size_t lo = 0, hi = k->pcs.len / l->pc_desc_bytes, count = hi;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (pc_desc(s, k, mid, l->pc_desc_pc) < (int64_t)pc_offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* The first and the last are sentinels without a scope. */
	if (lo == 0 && count > 1)
		lo = 1;
	if (lo + 1 >= count)
		lo = count > 1 ? count - 2 : 0;
	return lo < count ? (uint32_t)pc_desc(s, k, lo, l->pc_desc_scope) : 0;
}

static uint32_t decode_scopes(const struct scopes *s, const struct kept *k, uint32_t offset,
			      struct java_scope *out)
{
	uint32_t count = 0;

	while (offset && count < SCOPES_MOST) {
		struct unsigned5 r = { .bytes = k->scopes,
				       .at = offset,
				       .least = s->layout->major >= 20 };
		uint32_t next = unsigned5_next(&r), method = unsigned5_next(&r);
		int64_t bci = (int64_t)unsigned5_next(&r) - 1;
		struct java_scope *scope = &out[count];

		if (r.failed || !method || method > k->metadata.len / 8)
			break;
		memcpy(&scope->method, k->metadata.ptr + (size_t)(method - 1) * 8, 8);
		scope->bci = bci < 0 || bci > UINT16_MAX ? 0 : (uint32_t)bci;
		count++;
		if (next >= offset) /* callers are written before those they called */
			break;
		offset = next;
	}
	return count;
}

uint32_t scopes_get(struct scopes *s, const struct hotspot_memory *memory, uint64_t nmethod,
		    uint32_t compile_id, uint32_t pc_offset, struct java_scope out[SCOPES_MOST])
{
	struct kept *k = get(s, memory, nmethod, compile_id);
	uint32_t count;

	if (!k)
		return 0;
	k->used = ++s->clock;
	count = decode_scopes(s, k, scope_offset(s, k, pc_offset), out);
	if (count || !k->method)
		return count;
	out[0] = (struct java_scope){ .method = k->method };
	return 1;
}
