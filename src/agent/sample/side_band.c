#include "agent/sample/side_band.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

struct trailer { /* sample_id_all with TID | TIME */
	uint32_t pid, tid;
	uint64_t time;
};

/* A reader that yields zeros past the end and remembers it. */
struct reader {
	struct str rest;
	bool failed;
};

static void take(struct reader *r, void *to, size_t bytes)
{
	if (bytes > r->rest.len) {
		r->failed = true;
		memset(to, 0, bytes);
		return;
	}
	memcpy(to, r->rest.ptr, bytes);
	r->rest = str_skip(r->rest, bytes);
}

static uint32_t take_u32(struct reader *r)
{
	uint32_t v;

	take(r, &v, sizeof(v));
	return v;
}

static uint64_t take_u64(struct reader *r)
{
	uint64_t v;

	take(r, &v, sizeof(v));
	return v;
}

/* The NUL-terminated text that is left. */
static struct str take_name(struct reader *r)
{
	const char *nul = r->rest.len ? memchr(r->rest.ptr, 0, r->rest.len) : NULL;

	if (!nul) {
		r->failed = true;
		return STR("");
	}
	return str_head(r->rest, (size_t)(nul - r->rest.ptr));
}

static void parse_mmap(struct reader *r, uint16_t misc, struct side_record *out)
{
	uint8_t identity[24];
	uint32_t numbers[2], prot;

	out->kind = SIDE_MMAP;
	out->pid = take_u32(r);
	out->tid = take_u32(r);
	out->start = take_u64(r);
	out->length = take_u64(r);
	out->file_offset = take_u64(r);
	take(r, identity, sizeof(identity));
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		out->build_id_bytes = identity[0];
		if (identity[0] > SIDE_BUILD_ID_MOST)
			r->failed = true;
		else
			memcpy(out->build_id, identity + 4, identity[0]);
	} else {
		memcpy(numbers, identity, sizeof(numbers));
		memcpy(&out->inode, identity + 8, sizeof(out->inode));
		out->device = makedev(numbers[0], numbers[1]);
	}
	prot = take_u32(r);
	(void)take_u32(r); /* flags */
	out->executable = prot & PROT_EXEC;
	out->name = take_name(r);
	if (out->length > UINT64_MAX - out->start)
		r->failed = true;
}

static void parse_task(struct reader *r, enum side_kind kind, struct side_record *out)
{
	out->kind = kind;
	out->pid = take_u32(r);
	out->ppid = take_u32(r);
	out->tid = take_u32(r);
}

static void parse_comm(struct reader *r, uint16_t misc, struct side_record *out)
{
	out->kind = misc & PERF_RECORD_MISC_COMM_EXEC ? SIDE_EXEC : SIDE_COMM;
	out->pid = take_u32(r);
	out->tid = take_u32(r);
	out->name = take_name(r);
}

static void parse_ksymbol(struct reader *r, struct side_record *out)
{
	uint32_t type_and_flags;

	out->kind = SIDE_KSYMBOL;
	out->start = take_u64(r);
	out->length = take_u32(r);
	type_and_flags = take_u32(r);
	out->unregistered = type_and_flags >> 16 & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	out->name = take_name(r);
}

bool side_record_parse(struct str record, struct side_record *out)
{
	struct perf_event_header header;
	struct trailer trailer;
	struct reader r;

	if (record.len < sizeof(header) + sizeof(trailer))
		return false;
	memcpy(&header, record.ptr, sizeof(header));
	memcpy(&trailer, record.ptr + record.len - sizeof(trailer), sizeof(trailer));
	*out = (struct side_record){ .kind = SIDE_OTHER, .time_ns = trailer.time };
	r = (struct reader){ .rest = str_skip(str_head(record, record.len - sizeof(trailer)),
					      sizeof(header)) };
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		parse_mmap(&r, header.misc, out);
		break;
	case PERF_RECORD_COMM:
		parse_comm(&r, header.misc, out);
		break;
	case PERF_RECORD_FORK:
		parse_task(&r, SIDE_FORK, out);
		break;
	case PERF_RECORD_EXIT:
		parse_task(&r, SIDE_EXIT, out);
		break;
	case PERF_RECORD_KSYMBOL:
		parse_ksymbol(&r, out);
		break;
	case PERF_RECORD_LOST:
		out->kind = SIDE_LOST;
		(void)take_u64(&r);
		out->lost = take_u64(&r);
		break;
	default: /* bpf_event and whatever newer kernels send */
		break;
	}
	return !r.failed;
}
