/*
 * rings.h - reading the two kinds of rings that the kernel fills: the BPF ring buffer with samples,
 * and a perf event's ring with the side band. Worker side: only a descriptor is needed.
 *
 * Both are read in place: records stay where they are until ring_consume() gives their room back,
 * so a round can look at all of them, sort, and only then let go. Positions and lengths come from
 * the kernel but lie in shared memory, and are checked. Memory: the mappings. Threads: one reader
 * each.
 *
 * BPF ring (linux: kernel/bpf/ringbuf.c): a page with the consumer's position, a page with the
 * producer's, then the data mapped twice in a row; a record is {u32 length | flags, u32, bytes},
 * aligned to 8. Perf ring (perf_event.h): a control page, then the data; records may wrap.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct sample_ring {
	int fd; /* owned */
	uint64_t *consumer;
	const uint64_t *producer;
	const uint8_t *data;
	uint64_t position; /* of the next record to show */
	uint32_t bytes;    /* a power of two */
};

/* Takes over fd, also on failure. */
bool sample_ring_open(struct sample_ring *r, int fd, uint32_t bytes, struct err *err) MUST_CHECK;
void sample_ring_close(struct sample_ring *r);
/* The next record that is finished, not yet given back; false: none. */
bool sample_ring_next(struct sample_ring *r, struct str *record);
/* Gives back everything that was shown. */
void sample_ring_consume(struct sample_ring *r);

struct side_ring {
	int fd; /* owned */
	uint32_t cpu;
	struct perf_event_mmap_page *control;
	const uint8_t *data;
	uint64_t position, head;
	uint32_t bytes;
};

bool side_ring_open(struct side_ring *r, int fd, uint32_t cpu, uint32_t bytes,
		    struct err *err) MUST_CHECK;
void side_ring_close(struct side_ring *r);
/* The next record; one that wraps is copied behind `wrapped`, which must not be reset before the
 * record was used. False: none, or the ring is damaged (*bad is set, all is given back). */
bool side_ring_next(struct side_ring *r, struct arena *wrapped, struct str *record, bool *bad);
void side_ring_consume(struct side_ring *r);
