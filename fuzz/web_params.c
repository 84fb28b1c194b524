/* The query of a URL: whatever is read keeps to its limits, and reads the same once it is written
 * with every byte escaped. */
#include "fuzz/fuzz.h"

#include "base/arena.h"
#include "base/buf.h"
#include "web/params.h"

static void put_escaped(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		buf_printf(out, "%%%02x", (unsigned char)text.ptr[i]);
}

static void check_again(struct arena *arena, const struct params *p)
{
	struct buf text = { 0 };
	struct params again;
	struct err err;

	for (uint32_t i = 0; i < p->count; i++) {
		put_escaped(&text, p->ptr[i].name);
		buf_char(&text, '=');
		put_escaped(&text, p->ptr[i].value);
		buf_char(&text, '&');
	}
	if (text.len <= PARAMS_BYTES_MOST) {
		if (!params_parse(arena, buf_view(&text), &again, &err) || again.count != p->count)
			__builtin_trap();
		for (uint32_t i = 0; i < p->count; i++)
			if (!str_equal(again.ptr[i].name, p->ptr[i].name) ||
			    !str_equal(again.ptr[i].value, p->ptr[i].value))
				__builtin_trap();
	}
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct params p;
	struct err err = { 0 };
	uint32_t n;

	arena_init(&arena, 4096, 0);
	if (params_parse(&arena, str_from(data, size), &p, &err)) {
		if (p.count > PARAMS_MOST)
			__builtin_trap();
		if (params_u32(&p, "n", 2, 9, 7, &n, &err) && (n < 2 || n > 9))
			__builtin_trap();
		check_again(&arena, &p);
	} else if (err.kind != ERR_INVALID && err.kind != ERR_LIMIT) {
		__builtin_trap();
	}
	arena_release(&arena);
	return 0;
}
