#include "agent/symbolize/demangle.h"
#include <libiberty/demangle.h>
#include <setjmp.h>

enum { SHORT_NAME = 1000 }; /* above, libiberty's own recursion limit refuses good names */

struct sink {
	struct buf *out;
	size_t start, limit;
	jmp_buf full; /* a short name may expand without end: leave libiberty, which holds no heap
		       */
};

static void put(const char *text, size_t len, void *ctx)
{
	struct sink *sink = ctx;

	if (len > sink->limit - (sink->out->len - sink->start))
		longjmp(sink->full, 1);
	buf_append(sink->out, text, len);
}

static bool run(const char *name, size_t len, bool rust, struct buf *out)
{
	struct sink sink = { .out = out, .start = out->len, .limit = DEMANGLE_OUT_MOST };
	int options = DMGL_PARAMS | DMGL_ANSI | (len > SHORT_NAME ? DMGL_NO_RECURSE_LIMIT : 0);
	int ok;

	if (setjmp(sink.full)) {
		out->len = sink.start;
		return false;
	}
	ok = rust ? rust_demangle_callback(name, options, put, &sink)
		  : cplus_demangle_v3_callback(name, options, put, &sink);
	if (!ok || out->len == sink.start) {
		out->len = sink.start;
		return false;
	}
	return true;
}

/* Rust's legacy names are C++ names that end in 17h, 16 hex digits, E. Its v0 names begin with _R.
 */
static bool may_be_rust(struct str name)
{
	return str_has_prefix(name, STR("_R")) || str_search(name, STR("17h")) > 0;
}

bool demangle(struct str name, struct buf *out)
{
	char text[DEMANGLE_IN_MOST + 1];

	if (name.len < 3 || name.len > DEMANGLE_IN_MOST || name.ptr[0] != '_' ||
	    memchr(name.ptr, 0, name.len))
		return false;
	if (!str_has_prefix(name, STR("_Z")) && !str_has_prefix(name, STR("_R")) &&
	    !str_has_prefix(name, STR("__Z")))
		return false;
	memcpy(text, name.ptr, name.len);
	text[name.len] = 0;
	if (may_be_rust(name) && run(text, name.len, true, out))
		return true;
	return name.ptr[1] != 'R' && run(text, name.len, false, out);
}
