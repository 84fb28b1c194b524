#include "components/exporters/text_style.h"

#include "base/cleanup.h"

/* The 16 colours that every terminal theme chose to be legible on its ground. */
static const struct {
	const char *type, *sgr;
} hues[] = {
	{ "native", "\x1b[94m" },
	{ "kernel", "\x1b[33m" },
	{ "go", "\x1b[36m" },
	{ "jvm", "\x1b[35m" },
	{ "cpython", "\x1b[32m" },
	{ "v8js", "\x1b[93m" },
	{ "php", "\x1b[95m" },
	{ "ruby", "\x1b[91m" },
	{ "perl", "\x1b[92m" },
	{ "dotnet", "\x1b[96m" },
	{ "beam", "\x1b[31m" },
	{ "luajit", "\x1b[34m" },
	{ "abort-marker", "\x1b[1;31m" },
	{ "rust", "\x1b[91m" },
};

struct text_style text_style_make(bool colour)
{
	if (!colour)
		return (struct text_style){ 0 };
	return (struct text_style){ true, STR("\x1b[2m"), STR("\x1b[1m"), STR("\x1b[0m") };
}

struct str text_style_frame_type(const struct text_style *s, struct str type)
{
	if (!s->on)
		return STR("");
	for (size_t i = 0; i < ARRAY_LEN(hues); i++) {
		if (str_is(type, hues[i].type))
			return str_cstr(hues[i].sgr);
	}
	return s->dim;
}
