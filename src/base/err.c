#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Marks a message that did not fit; a character of UTF-8 is not cut in two. */
static void err_mark_cut(struct err *err)
{
	size_t at = sizeof(err->msg) - 4;

	while (at > 0 && ((unsigned char)err->msg[at] & 0xc0) == 0x80)
		at--;
	memcpy(err->msg + at, "...", 4);
}

__attribute__((format(printf, 2, 0))) static void err_format(struct err *err, const char *format,
							     va_list ap)
{
	/* The arguments may point into err->msg itself, when a caller wraps a message. */
	char text[sizeof(err->msg)];
	int len = vsnprintf(text, sizeof(text), format, ap);

	memcpy(err->msg, text, sizeof(text));
	if (len >= (int)sizeof(text))
		err_mark_cut(err);
}

static void err_append(struct err *err, const char *text)
{
	size_t len = strlen(err->msg);
	int more = snprintf(err->msg + len, sizeof(err->msg) - len, "%s", text);

	if (more >= (int)(sizeof(err->msg) - len))
		err_mark_cut(err);
}

bool err_set(struct err *err, enum err_kind kind, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	err_format(err, format, ap);
	va_end(ap);
	err->kind = kind;
	err->number = 0;
	return false;
}

static enum err_kind kind_of_errno(int number)
{
	switch (number) {
	case ENOENT:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
		return ERR_PERMISSION;
	default:
		return ERR_IO;
	}
}

bool err_set_errno(struct err *err, const char *format, ...)
{
	int number = errno;
	char reason[80];
	va_list ap;

	va_start(ap, format);
	err_format(err, format, ap);
	va_end(ap);
	err_append(err, ": ");
	err_append(err, strerror_r(number, reason, sizeof(reason)));
	err->kind = kind_of_errno(number);
	err->number = number;
	errno = number;
	return false;
}

bool err_prefix(struct err *err, const char *format, ...)
{
	struct err context = { .kind = err->kind, .number = err->number };
	va_list ap;

	va_start(ap, format);
	err_format(&context, format, ap);
	va_end(ap);
	err_append(&context, ": ");
	err_append(&context, err->msg);
	*err = context;
	return false;
}

bool err_retryable(enum err_kind kind)
{
	switch (kind) {
	case ERR_BUSY:
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
	case ERR_CANCELLED:
	case ERR_IO:
		return true;
	default:
		return false;
	}
}

const char *err_kind_name(enum err_kind kind)
{
	static const char *const names[] = {
		[ERR_NONE] = "none",
		[ERR_INVALID] = "invalid",
		[ERR_LIMIT] = "limit",
		[ERR_UNSUPPORTED] = "unsupported",
		[ERR_NOT_FOUND] = "not_found",
		[ERR_PERMISSION] = "permission",
		[ERR_UNAUTHENTICATED] = "unauthenticated",
		[ERR_BUSY] = "busy",
		[ERR_UNAVAILABLE] = "unavailable",
		[ERR_TIMEOUT] = "timeout",
		[ERR_CANCELLED] = "cancelled",
		[ERR_IO] = "io",
		[ERR_INTERNAL] = "internal",
	};

	if ((size_t)kind >= sizeof(names) / sizeof(names[0]))
		return "unknown";
	return names[kind];
}
