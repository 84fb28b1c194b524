/*
 * uploads.h - files that a person dropped onto the page to look at. They are no part of the store:
 * each is asked for by its id, as the label upload.id, and is in no other answer.
 *
 * An id is the hash of the bytes: the same file twice is one upload, and its link stays good. With
 * a folder they lie there as they came, FOLDER/ID_NAME (0600, in a folder of 0700), and outlive the
 * program; without one, in memory. Kept as long and as much as the options say, the oldest go
 * first; at least the newest is kept.
 *
 * Decoded ones are cached, so that a page's questions decode once. Threads: any.
 */
#pragma once
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"

struct source;
struct uploads;

enum {
	UPLOADS_MOST = 64,
	UPLOAD_ID_LEN = 32,     /* hex digits of 128 bits */
	UPLOAD_ID_LEN_OLD = 16, /* what earlier versions named files by: still found */
	UPLOAD_NAME_MOST = 100
};

struct uploads_options {
	const char *folder;    /* NULL: memory */
	uint64_t retention_ns; /* 0: 30 days */
	uint64_t most_bytes;   /* of all together, as they came; 0: 256 MiB */
	size_t decoded_most;   /* of one, decompressed; 0: 256 MiB */
};

struct upload {
	char id[UPLOAD_ID_LEN + 1], name[UPLOAD_NAME_MOST + 1];
	uint64_t bytes, time_ns; /* when it came, since 1970 */
};

/* The folder is made when the first one comes. */
struct uploads *uploads_new(const struct uploads_options *options);
void uploads_free(struct uploads *u); /* after the sources; NULL is fine */
/* Reads the file, in any form that the readers read, and keeps it. `name` is what the person's
 * machine calls it: shown, cut to what file names may hold. */
bool uploads_add(struct uploads *u, struct blob *bytes, struct str name, uint64_t now_ns,
		 struct upload *out, struct err *err) MUST_CHECK;
/* ERR_NOT_FOUND: there is none of that id (any more). */
bool uploads_open(struct uploads *u, struct str id, struct source **out,
		  struct err *err) MUST_CHECK;
/* The newest first; returns how many. */
uint32_t uploads_list(struct uploads *u, uint64_t now_ns, struct upload out[UPLOADS_MOST]);
