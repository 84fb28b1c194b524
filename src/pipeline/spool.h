/*
 * spool.h - a crash-safe queue of requests on disk, in front of one exporter.
 *
 * What was committed is there after a crash, once, until it is done: checksummed records in
 * append-only segments. A record that was sent but whose end was not yet recorded when the process
 * died is given out again: at least once, and the window is small, as the cursor is written after
 * each answer. Nothing stops a start: a torn end is cut off, a damaged record is set aside in
 * corrupt/ and counted, all others are kept.
 *
 * A request that was taken within the dedup window, by its hash, is not taken again (spool_seen.h):
 * its sender is answered, as one repeats it whose answer got lost, or never came because of a kill
 * between commit and answer.
 *
 *   <path>/LOCK                       flock()ed; holds the pid
 *   <path>/cursor                     what has been given out and is done; one sector, written
 * over, or replaced by rename when it is more <path>/<first sequence, 20 digits>.seg
 *   <path>/destination                hash of whom the requests are for: a change of it is said
 *   <path>/corrupt/...                what could not be read, for people
 *
 * Segment: records one after another. Record, little-endian, 72 bytes and then the stored body:
 *
 *    0 u32 magic "FTR1"      4 u32 stored length      8 u64 sequence          16 u64 received, unix
 * ns 24 u64 request hash lo  32 u64 request hash hi   40 u64 samples           48 u32 body length
 *   52 u8 encoding  53 u8 wire version  54 u8 compression (0 none, 1 zstd)    55 u8 flags (1:
 * decode strictly) 56 u64 XXH3 of the stored body                   64 u64 XXH3 of bytes 0 to 63
 *
 * Durability: with SPOOL_FSYNC_ALWAYS a committed record survives the loss of power; with the
 * others that of the process only. Threads: one.
 */
#pragma once
#include "base/blob.h"
#include "base/metrics.h"
#include "pipeline/batch.h"
#include "pipeline/config.h"

struct spool;

struct spool_options {
	const char *path; /* made with its parents when it is not there, mode 0700 */
	const char *id;   /* label of its metrics */
	int fsync;        /* enum spool_fsync */
	uint64_t fsync_interval_ns;
	uint64_t segment_bytes;   /* 0 = 16 MiB */
	uint64_t destination;     /* hash of whom the requests are for; 0 = not said */
	uint64_t dedup_window_ns; /* 0 = a repeated request is kept again */
	struct budget *budget;    /* bytes on disk; NULL = no limit */
	struct metrics *metrics;
};

struct spool_entry {
	uint64_t sequence;
	uint64_t received_unix_ns;
	uint64_t sample_count;
	struct hash128 request_hash;
	struct blob *body; /* decompressed; the caller's reference */
	enum batch_encoding encoding;
	uint8_t wire_version;
	bool strict;
};

/* err: who holds the directory, or what cannot be written. */
struct spool *spool_open(const struct spool_options *options, struct err *err) MUST_CHECK;
/* Syncs, records what is done, unlocks. NULL is fine. */
void spool_close(struct spool *s);

/* Is this request in the spool, or was it within the window, or is it staged? Counted. */
bool spool_has_taken(struct spool *s, struct batch *batch);
/* Are bodies compressed that are staged from now on? They are, unless this is said, as what will
 * not be read back has nothing from it; and while the spools are more than half full. */
void spool_set_packing(struct spool *s, bool packing);
/* Puts a batch's body (as it came, else encoded newest) into the next commit. ERR_BUSY: the spools
 * are full. */
bool spool_stage(struct spool *s, struct batch *batch, uint64_t *sequence,
		 struct err *err) MUST_CHECK;
/* Writes and syncs what was staged. On failure (ERR_IO: disk full and the like) none of it is
 * there, and all may be staged again. */
bool spool_commit(struct spool *s, struct err *err) MUST_CHECK;

/* The next record to be sent; false when there is none. Damaged ones are set aside on the way. */
bool spool_next(struct spool *s, struct spool_entry *out) MUST_CHECK;
/* The record given out last goes back: it is the next again. */
void spool_put_back(struct spool *s, uint64_t sequence);
/* Whose turn it is, when that is certain; else 0. */
uint64_t spool_next_sequence(const struct spool *s);
/* Takes the record as given out, when it is the very next: its batch is still in memory. */
bool spool_take_if_next(struct spool *s, uint64_t sequence) MUST_CHECK;
/* A record that was given out is sent, or will never be. */
void spool_done(struct spool *s, uint64_t sequence);
/* A record that was given out cannot be read as a message: keeps its body in corrupt/; it is done.
 */
void spool_set_aside(struct spool *s, const struct spool_entry *entry, const char *why);
/* Writes the cursor when something is done since the last time, deletes segments of which all is
 * done, syncs what SPOOL_FSYNC_INTERVAL owes: nothing, when all is done. */
void spool_settle(struct spool *s);
/* When spool_settle() is due at the latest (monotonic ns), 0 = when something happens. */
uint64_t spool_settle_due_ns(const struct spool *s);

uint64_t spool_pending(const struct spool *s); /* records not done */
