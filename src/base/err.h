/*
 * err.h - the one error type: a kind for code, a message for people.
 *
 * What can fail returns bool and fills `err` (never NULL). The kind decides about retry, HTTP
 * status and gRPC status; nobody parses the message. err_set() returns false so that `return
 * err_set(...)` reads well.
 */
#pragma once
#include <stdbool.h>

enum err_kind {
	ERR_NONE,
	ERR_INVALID,     /* the input is wrong and stays wrong */
	ERR_LIMIT,       /* the input is larger than a limit of ours; not retryable as it is */
	ERR_UNSUPPORTED, /* understood but not offered here */
	ERR_NOT_FOUND,
	ERR_PERMISSION,
	ERR_UNAUTHENTICATED,
	ERR_BUSY,        /* no room now: retry later */
	ERR_UNAVAILABLE, /* peer or resource away: retry later */
	ERR_TIMEOUT,
	ERR_CANCELLED,
	ERR_IO, /* the system refused; errno is in the message; retryable (disk full and the like)
		 */
	ERR_INTERNAL,
};

struct err {
	enum err_kind kind;
	char msg[240]; /* cut with "..." when longer */
	int number;    /* the system's errno behind it, else 0: then the message may name files of
			* this machine and is for its own log, not for peers */
};

#define MUST_CHECK __attribute__((warn_unused_result))

bool err_set(struct err *err, enum err_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* As err_set() with ": " and strerror(errno) behind; kind from errno (ENOENT -> NOT_FOUND, EACCES
 * -> PERMISSION, else IO). */
bool err_set_errno(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the message; kind and number stay. */
bool err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool err_retryable(enum err_kind kind);
const char *err_kind_name(enum err_kind kind);
