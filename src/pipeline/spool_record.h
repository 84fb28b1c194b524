/* spool_record.h - the record format of spool.h, and finding the next whole one in damaged bytes.
 */
#pragma once
#include "base/buf.h"
#include "pipeline/spool.h"

#define SPOOL_MAGIC UINT32_C(0x31525446) /* "FTR1" */
enum { SPOOL_RECORD_HEADER_BYTES = 72, SPOOL_BODY_BYTES_MOST = 1 << 30 };
enum { SPOOL_PLAIN, SPOOL_ZSTD };
enum { SPOOL_FLAG_STRICT = 1 };

struct spool_record {
	uint32_t magic, stored_len;
	uint64_t sequence, received_unix_ns;
	uint64_t hash_lo, hash_hi;
	uint64_t sample_count;
	uint32_t body_len;
	uint8_t encoding, wire_version, compression, flags;
	uint64_t stored_hash;
	uint64_t header_hash;
};
_Static_assert(sizeof(struct spool_record) == SPOOL_RECORD_HEADER_BYTES,
	       "the format is the struct");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

/* Appends the record of a batch, its body compressed when `pack` says so and that saves something.
 * ERR_LIMIT, or what encoding says; out is then as it was. */
bool spool_record_append(struct buf *out, struct batch *batch, uint64_t sequence, bool pack,
			 struct err *err) MUST_CHECK;
/* Is this a header, and does its record fit into the `left` bytes from its start? */
bool spool_record_valid(const struct spool_record *r, uint64_t left);
/* The body of a record with the stored bytes; false when they are damaged. */
bool spool_record_body(const struct spool_record *r, struct str stored, struct blob **body);
/* The offset of the next valid header in fd from `from`, or `end`. */
uint64_t spool_record_search(int fd, uint64_t from, uint64_t end);
/* pread() of all bytes. */
bool spool_read_at(int fd, void *to, size_t len, uint64_t offset);
