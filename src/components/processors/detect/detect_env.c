/* env: OTEL_RESOURCE_ATTRIBUTES, "key=value,key=value", both percent-encoded. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/hex.h"
#include "components/processors/detect/detect.h"

static struct str decoded(struct arena *arena, struct str s)
{
	struct str out;
	struct buf b;

	buf_init(&b, 0);
	for (size_t i = 0; i < s.len; i++) {
		int high = i + 2 < s.len ? hex_value(s.ptr[i + 1]) : -1;
		int low = i + 2 < s.len ? hex_value(s.ptr[i + 2]) : -1;

		if (s.ptr[i] == '%' && high >= 0 && low >= 0) {
			buf_char(&b, (char)(high << 4 | low));
			i += 2;
		} else {
			buf_char(&b, s.ptr[i]);
		}
	}
	out = str_dup(arena, buf_view(&b));
	buf_release(&b);
	return out;
}

static bool detect_env(const struct detect_options *o, struct detected *out, struct err *err)
{
	const char *text = getenv("OTEL_RESOURCE_ATTRIBUTES");
	struct str rest = str_trim(str_cstr(text ? text : "")), pair;

	(void)o;
	while (str_split(&rest, ',', &pair)) {
		ptrdiff_t at = str_find(pair, '=');
		struct str key;

		if (str_trim(pair).len == 0)
			continue;
		if (at <= 0)
			return err_set(err, ERR_INVALID,
				       "OTEL_RESOURCE_ATTRIBUTES: \"%.*s\" is not key=value",
				       STR_ARG(pair));
		key = decoded(out->arena, str_trim(str_head(pair, (size_t)at)));
		detected_add(out, str_dup_cstr(out->arena, key),
			     decoded(out->arena, str_trim(str_skip(pair, (size_t)at + 1))));
	}
	return true;
}

const struct detector detector_env = { .name = "env", .detect = detect_env };
