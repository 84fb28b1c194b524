/* Giving out records, oldest first; what is damaged is set aside on the way. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/vec.h"
#include "pipeline/spool_internal.h"

bool spool_wanted(const struct spool *s, uint64_t sequence)
{
	if (sequence >= s->repeat_below)
		return true;
	for (uint32_t i = 0; i < s->repeat_count; i++)
		if (s->repeat[i] == sequence)
			return true;
	return false;
}

bool spool_repeat_take(struct spool *s, uint64_t sequence)
{
	for (uint32_t i = 0; i < s->repeat_count; i++) {
		if (s->repeat[i] != sequence)
			continue;
		s->repeat[i] = s->repeat[--s->repeat_count];
		return true;
	}
	return false;
}

bool spool_reader_open(struct spool *s)
{
	char name[32];

	if (s->read_fd >= 0)
		return true;
	spool_segment_name(s->segments[s->read_segment].first_sequence, name);
	s->read_fd = openat(s->dir_fd, name, O_RDONLY | O_CLOEXEC);
	return s->read_fd >= 0;
}

static void reader_next_segment(struct spool *s)
{
	fd_close(&s->read_fd);
	s->read_fd = -1;
	s->read_segment++;
	s->read_offset = 0;
}

/* The file is gone or the disk does not give it: all its records are lost, the others are not. */
static void lose_segment(struct spool *s)
{
	struct spool_segment *seg = &s->segments[s->read_segment];
	uint64_t lost = 0;

	for (uint64_t q = seg->first_sequence; q < seg->end_sequence; q++) {
		if (q < s->next_given && !spool_repeat_take(s, q))
			continue;
		lost += spool_wanted(s, q);
	}
	lost = lost < s->pending ? lost : s->pending;
	s->pending -= lost;
	metric_add(s->metrics.set_aside, (int64_t)lost);
	LOG(LOG_ERROR, "A segment of the spool cannot be read: its requests are lost",
	    LOG_S("spool", s->path), LOG_U("segment", seg->first_sequence),
	    LOG_U("requests", lost));
	s->next_given = seg->end_sequence > s->next_given ? seg->end_sequence : s->next_given;
	s->cursor_dirty = true;
	if (s->read_segment + 1 < s->segment_count)
		reader_next_segment(s);
	else
		s->read_offset = seg->bytes;
}

/* No header where one should be: on with the next one that is whole. */
static void skip_damage(struct spool *s)
{
	struct spool_segment *seg = &s->segments[s->read_segment];
	uint64_t at = spool_record_search(s->read_fd, s->read_offset + 1, seg->bytes);

	metric_add(s->metrics.set_aside, 1);
	spool_save_bytes(s, s->read_segment, s->read_offset, at - s->read_offset,
			 "no whole record header");
	s->read_offset = at;
	s->cursor_dirty = true;
}

static void given_out(struct spool *s, uint64_t sequence)
{
	VEC_ROOM(s->unfinished, s->unfinished_count, s->unfinished_cap);
	s->unfinished[s->unfinished_count++] = sequence;
	if (spool_repeat_take(s, sequence))
		metric_add(s->metrics.repeated, 1);
	if (sequence >= s->next_given)
		s->next_given = sequence + 1;
}

static bool read_body(struct spool *s, const struct spool_record *r, struct blob **body)
{
	AUTO(ptr_free) char *stored = malloc(r->stored_len + 1);

	assert(stored);
	return spool_read_at(s->read_fd, stored, r->stored_len, s->read_offset + sizeof(*r)) &&
	       spool_record_body(r, str_from(stored, r->stored_len), body);
}

static void entry_fill(struct spool_entry *e, const struct spool_record *r, struct blob *body)
{
	*e = (struct spool_entry){
		.sequence = r->sequence,
		.received_unix_ns = r->received_unix_ns,
		.sample_count = r->sample_count,
		.request_hash = { r->hash_lo, r->hash_hi },
		.body = body,
		.encoding = r->encoding,
		.wire_version = r->wire_version,
		.strict = r->flags & SPOOL_FLAG_STRICT,
	};
}

/* One record at the reader's place; false: it was none to give out. The reader is behind it either
 * way. */
static bool read_record(struct spool *s, struct spool_entry *out)
{
	struct spool_segment *seg = &s->segments[s->read_segment];
	uint64_t left = seg->bytes - s->read_offset, len;
	struct spool_record r;
	struct blob *body;

	if (left < sizeof(r) || !spool_read_at(s->read_fd, &r, sizeof(r), s->read_offset) ||
	    !spool_record_valid(&r, left)) {
		skip_damage(s);
		return false;
	}
	len = sizeof(r) + r.stored_len;
	if (!spool_wanted(s, r.sequence)) {
		s->read_offset += len;
		return false;
	}
	if (!read_body(s, &r, &body)) {
		metric_add(s->metrics.set_aside, 1);
		spool_save_bytes(s, s->read_segment, s->read_offset, len, "checksum mismatch");
		spool_repeat_take(s, r.sequence);
		s->pending -= s->pending > 0;
		s->next_given = r.sequence >= s->next_given ? r.sequence + 1 : s->next_given;
		s->cursor_dirty = true;
		s->read_offset += len;
		return false;
	}
	entry_fill(out, &r, body);
	given_out(s, r.sequence);
	s->put_back_offset = s->read_offset;
	s->read_offset += len;
	return true;
}

bool spool_next(struct spool *s, struct spool_entry *out)
{
	while (s->read_segment < s->segment_count) {
		if (s->read_offset >= s->segments[s->read_segment].bytes) {
			if (s->read_segment + 1 == s->segment_count)
				return false;
			reader_next_segment(s);
			continue;
		}
		if (!spool_reader_open(s))
			lose_segment(s);
		else if (read_record(s, out))
			return true;
	}
	return false;
}

static bool unfinished_remove(struct spool *s, uint64_t sequence)
{
	for (uint32_t i = 0; i < s->unfinished_count; i++) {
		if (s->unfinished[i] != sequence)
			continue;
		s->unfinished[i] = s->unfinished[--s->unfinished_count];
		return true;
	}
	return false;
}

void spool_put_back(struct spool *s, uint64_t sequence)
{
	bool given = unfinished_remove(s, sequence);

	assert(given);
	s->read_offset = s->put_back_offset;
	if (sequence >= s->repeat_below) {
		s->next_given = sequence;
		return;
	}
	s->repeat = realloc(s->repeat, (s->repeat_count + 1) * sizeof(*s->repeat));
	assert(s->repeat);
	s->repeat[s->repeat_count++] = sequence;
}

uint64_t spool_next_sequence(const struct spool *s)
{
	return s->repeat_count ? 0 : s->next_given;
}

bool spool_take_if_next(struct spool *s, uint64_t sequence)
{
	uint64_t len;
	struct spool_record r;

	if (sequence != s->next_given || s->repeat_count || s->segment_count == 0)
		return false;
	while (s->read_segment + 1 < s->segment_count &&
	       s->read_offset >= s->segments[s->read_segment].bytes)
		reader_next_segment(s);
	if (!spool_reader_open(s) || !spool_read_at(s->read_fd, &r, sizeof(r), s->read_offset) ||
	    r.sequence != sequence)
		return false;
	len = sizeof(r) + r.stored_len;
	given_out(s, sequence);
	s->put_back_offset = s->read_offset;
	s->read_offset += len;
	return true;
}

void spool_done(struct spool *s, uint64_t sequence)
{
	bool given = unfinished_remove(s, sequence);

	assert(given);
	s->pending -= s->pending > 0;
	s->cursor_dirty = true;
	metric_add(s->metrics.done, 1);
}

void spool_set_aside(struct spool *s, const struct spool_entry *entry, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%020llu.%s", (unsigned long long)entry->sequence,
		 entry->encoding == BATCH_BODY_JSON ? "json" : "pb");
	spool_corrupt_save(s->dir_fd, name, -1, 0, 0, blob_view(entry->body));
	metric_add(s->metrics.set_aside, 1);
	LOG(LOG_ERROR, "A request in the spool cannot be read and is set aside",
	    LOG_S("spool", s->path), LOG_S("file", name), LOG_U("samples", entry->sample_count),
	    LOG_S("error", why));
	spool_done(s, entry->sequence);
}
