/*
 * message_for_tests.h - messages of any version by hand, with these few lines and not with our
 * encoder; and a look at what was decoded. A failure ends the test.
 *
 * Included behind cmocka.h.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/otlp.h"

enum { MSG_MOST = 1024 };

struct msg {
	uint8_t b[MSG_MOST];
	size_t len;
};

static inline void raw(struct msg *m, uint64_t varint)
{
	do {
		assert_true(m->len < MSG_MOST);
		m->b[m->len++] = (uint8_t)(varint > 127 ? (varint & 127) | 128 : varint);
		varint >>= 7;
	} while (varint);
}

static inline void num(struct msg *m, unsigned field, uint64_t v)
{
	raw(m, field << 3);
	raw(m, v);
}

static inline void fixed(struct msg *m, unsigned field, uint64_t v)
{
	raw(m, field << 3 | 1);
	memcpy(m->b + m->len, &v, 8);
	m->len += 8;
}

static inline void bytes(struct msg *m, unsigned field, const void *data, size_t len)
{
	raw(m, field << 3 | 2);
	raw(m, len);
	assert_true(m->len + len < MSG_MOST);
	if (len)
		memcpy(m->b + m->len, data, len);
	m->len += len;
}

static inline void text(struct msg *m, unsigned field, const char *s)
{
	bytes(m, field, s, strlen(s));
}

static inline void sub(struct msg *m, unsigned field, const struct msg *inner)
{
	bytes(m, field, inner->b, inner->len);
}

/* A packed list, ended by LIST_END. */
#define LIST_END UINT64_C(0xdeadbeefdeadbeef)
static inline void list(struct msg *m, unsigned field, uint64_t first, ...)
{
	struct msg packed = { .len = 0 };
	va_list ap;

	va_start(ap, first);
	for (uint64_t v = first; v != LIST_END; v = va_arg(ap, uint64_t))
		raw(&packed, v);
	va_end(ap);
	sub(m, field, &packed);
}
#define L(...) __VA_ARGS__, LIST_END
#define N(v)   UINT64_C(v)

static inline void key_string(struct msg *m, unsigned field, const char *key, const char *value)
{
	struct msg any = { .len = 0 }, kv = { .len = 0 };

	text(&any, 1, value);
	text(&kv, 1, key);
	sub(&kv, 2, &any);
	sub(m, field, &kv);
}

/* Profile -> ScopeProfiles -> ResourceProfiles, as field 1 of the request. */
static inline void request_add_profile(struct msg *request, const struct msg *profile)
{
	struct msg scope = { .len = 0 }, resource = { .len = 0 };

	sub(&scope, 2, profile);
	sub(&resource, 2, &scope);
	sub(request, 1, &resource);
}

static inline struct profiles *decode_with(const struct msg *m, const struct otlp_decode_options *o,
					   struct otlp_decode_report *report)
{
	struct blob *blob = blob_copy(str_from(m->b, m->len));
	struct profiles *p = NULL;
	struct err err = { 0 };

	if (!otlp_decode(blob, o, &p, report, NULL, &err))
		fail_msg("%s", err.msg);
	blob_unref(blob);
	return p;
}

static inline struct profiles *decode(const struct msg *m, enum wire_version want)
{
	struct otlp_decode_report report;
	struct profiles *p = decode_with(m, NULL, &report);

	if (report.version != want)
		fail_msg("is %s, wanted %s: %s", wire_version_name(report.version),
			 wire_version_name(want), report.evidence);
	return p;
}

static inline void assert_string(const struct profiles *p, struct strindex i, const char *want)
{
	struct str got = profiles_string(p, i);

	if (!str_is(got, want))
		fail_msg("\"%.*s\", wanted \"%s\"", STR_ARG(got), want);
}

static inline const struct any_value *extra(const struct profiles *p, enum message_kind message,
					    uint32_t index, enum extra_key key)
{
	const struct extra *e = profiles_extra(p, message, index, key);

	if (!e)
		fail_msg("%s %u has no %s", message_kind_name(message), index, extra_key_name(key));
	return &e->value;
}

static inline void assert_extra_text(const struct profiles *p, enum message_kind message,
				     uint32_t index, enum extra_key key, const char *want)
{
	struct buf b;

	buf_init(&b, 0);
	any_value_append_text(&b, extra(p, message, index, key));
	buf_char(&b, '\0');
	assert_string_equal(b.ptr, want);
	buf_release(&b);
}
