#include "agent/sample/rings.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

bool sample_ring_open(struct sample_ring *r, int fd, uint32_t bytes, struct err *err)
{
	size_t page = page_bytes();
	void *consumer, *producer;

	*r = (struct sample_ring){ .fd = fd, .bytes = bytes };
	consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (consumer == MAP_FAILED) {
		err_set_errno(err, "mapping the ring of samples");
		goto refused;
	}
	r->consumer = consumer;
	producer = mmap(NULL, page + 2 * (size_t)bytes, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (producer == MAP_FAILED) {
		err_set_errno(err, "mapping %u bytes of the ring of samples", bytes);
		goto refused;
	}
	r->producer = producer;
	r->data = (const uint8_t *)producer + page;
	r->position = __atomic_load_n(r->consumer, __ATOMIC_ACQUIRE);
	return true;
refused:
	sample_ring_close(r);
	return false;
}

void sample_ring_close(struct sample_ring *r)
{
	size_t page = page_bytes();

	if (r->consumer)
		munmap(r->consumer, page);
	if (r->producer)
		munmap((void *)(uintptr_t)r->producer, page + 2 * (size_t)r->bytes);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct sample_ring){ .fd = -1 };
}

bool sample_ring_next(struct sample_ring *r, struct str *record)
{
	for (;;) {
		uint64_t end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
		const uint8_t *at = r->data + (r->position & (r->bytes - 1));
		uint32_t header, length;

		if (r->position >= end)
			return false;
		header = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
		if (header & BPF_RINGBUF_BUSY_BIT)
			return false;
		length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		if (length > r->bytes - BPF_RINGBUF_HDR_SZ)
			return false;
		r->position += (length + BPF_RINGBUF_HDR_SZ + 7) & ~7u;
		if (header & BPF_RINGBUF_DISCARD_BIT)
			continue;
		*record = str_from(at + BPF_RINGBUF_HDR_SZ, length);
		return true;
	}
}

void sample_ring_consume(struct sample_ring *r)
{
	__atomic_store_n(r->consumer, r->position, __ATOMIC_RELEASE);
}

bool side_ring_open(struct side_ring *r, int fd, uint32_t cpu, uint32_t bytes, struct err *err)
{
	size_t page = page_bytes();
	void *at = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	*r = (struct side_ring){ .fd = fd, .cpu = cpu, .bytes = bytes };
	if (at == MAP_FAILED) {
		err_set_errno(err, "mapping the side band of CPU %u", cpu);
		close(fd);
		r->fd = -1;
		return false;
	}
	r->control = at;
	r->data = (const uint8_t *)at + page;
	return true;
}

void side_ring_close(struct side_ring *r)
{
	if (r->control)
		munmap(r->control, page_bytes() + r->bytes);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct side_ring){ .fd = -1 };
}

static void copy_out(const struct side_ring *r, uint64_t position, void *to, size_t bytes)
{
	size_t at = position & (r->bytes - 1), first = r->bytes - at;

	if (first > bytes)
		first = bytes;
	memcpy(to, r->data + at, first);
	memcpy((uint8_t *)to + first, r->data, bytes - first);
}

bool side_ring_next(struct side_ring *r, struct arena *wrapped, struct str *record, bool *bad)
{
	struct perf_event_header header;
	size_t at = r->position & (r->bytes - 1);
	void *copy;

	if (r->position == r->head) {
		r->head = __atomic_load_n(&r->control->data_head, __ATOMIC_ACQUIRE);
		if (r->position == r->head)
			return false;
	}
	copy_out(r, r->position, &header, sizeof(header));
	if (header.size < sizeof(header) || header.size > r->head - r->position) {
		r->position = r->head;
		*bad = true;
		return false;
	}
	*record = str_from(r->data + at, header.size);
	if (at + header.size > r->bytes) {
		copy = arena_alloc(wrapped, header.size);
		if (!copy) {
			r->position = r->head;
			*bad = true;
			return false;
		}
		copy_out(r, r->position, copy, header.size);
		record->ptr = copy;
	}
	r->position += header.size;
	return true;
}

void side_ring_consume(struct side_ring *r)
{
	__atomic_store_n(&r->control->data_tail, r->position, __ATOMIC_RELEASE);
}
