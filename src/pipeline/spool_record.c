#include "pipeline/spool_record.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "wire/otlp.h"

/* Level -1: a body of 111,523 bytes is 46,484 then, and 46,233 at level 1 in half as much time
 * again. */
enum { COMPRESSION_LEVEL = -1, COMPRESS_LEAST = 256, SEARCH_BYTES = 1 << 16 };

bool spool_read_at(int fd, void *to, size_t len, uint64_t offset)
{
	char *p = to;

	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

static uint64_t header_hash(const struct spool_record *r)
{
	return hash64(str_from(r, offsetof(struct spool_record, header_hash)));
}

bool spool_record_valid(const struct spool_record *r, uint64_t left)
{
	return r->magic == SPOOL_MAGIC && left >= sizeof(*r) &&
	       r->stored_len <= left - sizeof(*r) && r->body_len <= SPOOL_BODY_BYTES_MOST &&
	       header_hash(r) == r->header_hash;
}

/* Compressed where that is asked for and saves something, else as it is. */
static bool append_stored(struct buf *out, struct str body, bool pack, uint8_t *compression,
			  struct err *err)
{
	size_t bound = pack ? ZSTD_compressBound(body.len) : body.len, n;
	char *room = buf_reserve(out, bound > body.len ? bound : body.len);

	if (!room)
		return err_set(err, ERR_LIMIT, "no room for a body of %zu bytes", body.len);
	n = !pack || body.len < COMPRESS_LEAST
		    ? body.len
		    : ZSTD_compress(room, bound, body.ptr, body.len, COMPRESSION_LEVEL);
	*compression = SPOOL_ZSTD;
	if (ZSTD_isError(n) || n >= body.len) {
		*compression = SPOOL_PLAIN;
		n = body.len;
		if (n)
			memcpy(room, body.ptr, n);
	}
	buf_advance(out, n);
	return true;
}

static bool append_record(struct buf *out, struct batch *batch, struct str body, bool pack,
			  struct spool_record *r, struct err *err)
{
	size_t at = out->len;
	struct str stored;

	if (body.len > SPOOL_BODY_BYTES_MOST)
		return err_set(err, ERR_LIMIT, "a body of %zu bytes, the spool takes at most %d",
			       body.len, SPOOL_BODY_BYTES_MOST);
	buf_append(out, r, sizeof(*r));
	if (!append_stored(out, body, pack, &r->compression, err)) {
		out->len = at;
		return false;
	}
	stored = str_skip(buf_view(out), at + sizeof(*r));
	r->stored_len = (uint32_t)stored.len;
	r->body_len = (uint32_t)body.len;
	r->hash_lo = batch_request_hash(batch).lo;
	r->hash_hi = batch_request_hash(batch).hi;
	r->stored_hash = hash64(stored);
	r->header_hash = header_hash(r);
	memcpy(out->ptr + at, r, sizeof(*r));
	return true;
}

bool spool_record_append(struct buf *out, struct batch *batch, uint64_t sequence, bool pack,
			 struct err *err)
{
	struct spool_record r = {
		.magic = SPOOL_MAGIC,
		.sequence = sequence,
		.received_unix_ns = batch->received_unix_ns,
		.sample_count = batch_sample_count(batch),
		.encoding = batch->encoding,
		.wire_version = batch->wire_version,
		.flags = batch->profiles->refused_profile_count ? SPOOL_FLAG_STRICT : 0,
	};
	struct buf encoded;
	bool ok;

	if (batch->body && batch->encoding != BATCH_BODY_NONE)
		return append_record(out, batch, blob_view(batch->body), pack, &r, err);
	buf_init(&encoded, SPOOL_BODY_BYTES_MOST);
	r.encoding = BATCH_BODY_PROTOBUF;
	r.wire_version = WIRE_NEWEST;
	r.flags = 0;
	ok = otlp_encode(batch->profiles, WIRE_NEWEST, &encoded, err);
	if (ok && encoded.failed)
		ok = err_set(err, ERR_LIMIT, "the message is larger than %d bytes",
			     SPOOL_BODY_BYTES_MOST);
	ok = ok && append_record(out, batch, buf_view(&encoded), pack, &r, err);
	buf_release(&encoded);
	return ok;
}

bool spool_record_body(const struct spool_record *r, struct str stored, struct blob **body)
{
	struct blob *b;
	size_t n;

	if (stored.len != r->stored_len || hash64(stored) != r->stored_hash)
		return false;
	if (r->compression == SPOOL_PLAIN && r->body_len == r->stored_len) {
		*body = blob_copy(stored);
		return true;
	}
	if (r->compression != SPOOL_ZSTD)
		return false;
	b = blob_new(r->body_len ? r->body_len : 1);
	n = ZSTD_decompress(b->ptr, r->body_len, stored.ptr, stored.len);
	if (ZSTD_isError(n) || n != r->body_len) {
		blob_unref(b);
		return false;
	}
	b->len = n;
	*body = b;
	return true;
}

static bool header_at(int fd, uint64_t offset, uint64_t end)
{
	struct spool_record r;

	return end - offset >= sizeof(r) && spool_read_at(fd, &r, sizeof(r), offset) &&
	       spool_record_valid(&r, end - offset);
}

uint64_t spool_record_search(int fd, uint64_t from, uint64_t end)
{
	static const char magic[4] = { 'F', 'T', 'R', '1' };
	char *block = malloc(SEARCH_BYTES);
	uint64_t found = end;

	assert(block);
	while (found == end && from < end && end - from >= SPOOL_RECORD_HEADER_BYTES) {
		size_t len = end - from < SEARCH_BYTES ? (size_t)(end - from) : SEARCH_BYTES;
		const char *p = block;

		if (!spool_read_at(fd, block, len, from))
			break;
		while ((p = memmem(p, len - (size_t)(p - block), magic, sizeof(magic)))) {
			if (header_at(fd, from + (uint64_t)(p - block), end)) {
				found = from + (uint64_t)(p - block);
				break;
			}
			p++;
		}
		from += len - (len > 3 ? 3 : 0); /* a magic may straddle two blocks */
		if (len < SEARCH_BYTES)
			break;
	}
	free(block);
	return found;
}
