#include "agent/runtimes/hotspot/code_cache.h"

#include <string.h>

enum { SHIFT_LEAST = 3, SHIFT_MOST = 16 };
#define HEAP_BYTES_MOST (UINT64_C(1) << 32) /* a code cache is at most 2 GiB */

static bool not_yet(struct err *err, const char *what)
{
	return err_set(err, ERR_UNAVAILABLE, "the JVM's %s is not there yet", what);
}

static bool read_word(const struct hotspot_memory *m, uint64_t at, uint64_t *out)
{
	return hotspot_read(m, at, out, sizeof(*out));
}

static bool read_heap(const struct hotspot_layout *l, const struct hotspot_memory *m, uint64_t at,
		      struct unwind_code_heap *heap, struct err *err)
{
	uint64_t memory = at + l->heap_memory.offset, segmap = at + l->heap_segmap.offset;
	uint64_t start, end, segments, shift;

	if (!vm_slot_read(l->space_low_boundary, m, memory, &start) ||
	    !vm_slot_read(l->space_high_boundary, m, memory, &end) ||
	    !vm_slot_read(l->space_low, m, segmap, &segments) ||
	    !vm_slot_read(l->heap_shift, m, at, &shift) || !start || !segments)
		return not_yet(err, "code heap");
	if (end <= start || end - start > HEAP_BYTES_MOST || shift < SHIFT_LEAST ||
	    shift > SHIFT_MOST)
		return err_set(err, ERR_INVALID, "a code heap of %llu bytes in segments of 2^%llu",
			       (unsigned long long)(end - start), (unsigned long long)shift);
	*heap = (struct unwind_code_heap){
		.start = start, .end = end, .segments = segments, .shift = (uint32_t)shift
	};
	return true;
}

static void cover(struct unwind_hotspot *out, const struct unwind_code_heap *heap)
{
	if (heap->start < out->code_start)
		out->code_start = heap->start;
	if (heap->end > out->code_end)
		out->code_end = heap->end;
}

/* JDK 8 has one. */
static bool read_the_heap(const struct hotspot_layout *l, uint64_t load_bias,
			  const struct hotspot_memory *m, struct unwind_hotspot *out,
			  struct err *err)
{
	uint64_t heap;

	if (!read_word(m, l->code_heap + load_bias, &heap) || !heap)
		return not_yet(err, "code heap");
	return read_heap(l, m, heap, &out->heaps[0], err);
}

static bool read_heaps(const struct hotspot_layout *l, uint64_t load_bias,
		       const struct hotspot_memory *m, struct unwind_hotspot *out, struct err *err)
{
	uint64_t array, count, data, heap;

	if (!read_word(m, l->code_heaps + load_bias, &array) || !array ||
	    !vm_slot_read(l->array_len, m, array, &count) || !count ||
	    !vm_slot_read(l->array_data, m, array, &data) || !data)
		return not_yet(err, "code cache");
	if (count > HOTSPOT_HEAPS_MOST)
		return err_set(err, ERR_INVALID, "%llu code heaps, at most %d",
			       (unsigned long long)count, HOTSPOT_HEAPS_MOST);
	for (uint64_t i = 0; i < count; i++) {
		if (!read_word(m, data + i * 8, &heap) || !heap)
			return not_yet(err, "code heap");
		if (!read_heap(l, m, heap, &out->heaps[i], err))
			return false;
	}
	return true;
}

static bool read_interpreter(const struct hotspot_layout *l, uint64_t load_bias,
			     const struct hotspot_memory *m, struct unwind_hotspot *out,
			     struct err *err)
{
	uint64_t queue, start, bytes;

	if (!read_word(m, l->interpreter + load_bias, &queue) || !queue ||
	    !vm_slot_read(l->queue_buffer, m, queue, &start) ||
	    !vm_slot_read(l->queue_limit, m, queue, &bytes) || !start || !bytes)
		return not_yet(err, "interpreter");
	if (start < out->code_start || start >= out->code_end || bytes > out->code_end - start)
		return err_set(err, ERR_INVALID, "an interpreter of %llu bytes at %llx",
			       (unsigned long long)bytes, (unsigned long long)start);
	out->interpreter_start = start;
	out->interpreter_end = start + bytes;
	return true;
}

bool hotspot_code_cache_read(const struct hotspot_layout *l, uint64_t load_bias,
			     const struct hotspot_memory *memory, struct unwind_hotspot *out,
			     struct err *err)
{
	struct unwind_hotspot made = { 0 };

	hotspot_layout_for_bpf(l, &made);
	if (!(l->code_heaps ? read_heaps(l, load_bias, memory, &made, err)
			    : read_the_heap(l, load_bias, memory, &made, err)))
		return false;
	made.code_start = UINT64_MAX;
	for (int i = 0; i < HOTSPOT_HEAPS_MOST && made.heaps[i].segments; i++)
		cover(&made, &made.heaps[i]);
	if (!read_interpreter(l, load_bias, memory, &made, err))
		return false;
	*out = made;
	return true;
}
