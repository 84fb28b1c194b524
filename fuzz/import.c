/* Every reader of foreign formats: whatever comes is refused or becomes a message that can be asked
 * and written again. */
#include <stdlib.h>
#include "formats/formats.h"
#include "fuzz/fuzz.h"
#include "query/draw/drawn.h"
#include "query/profiles_source.h"
#include "query/query.h"

static void ask(const struct profiles *p)
{
	struct query_request request = { .source = profiles_source_new(p) };
	struct err err;
	struct query *q = query_begin(&request, &err);
	struct query_top top;

	if (q && query_top(q, &top, &err) && top.row_count && !top.frames.count)
		abort();
	query_end(q);
	source_free(request.source);
}

/* What we write as pprof or Firefox's we read again. */
static bool must_read_again(const struct format *f, const struct profiles *p, const struct err *err)
{
	if (f == &formats[FORMAT_PPROF])
		return p->profile_count; /* else there is no type to write */
	return f == &formats[FORMAT_FIREFOX] && err->kind != ERR_LIMIT;
}

static void write_as(const struct format *f, const struct profiles *p)
{
	struct profiles *again;
	struct blob *bytes;
	struct buf out;
	struct err err;

	buf_init(&out, 64 << 20);
	if (f->write(p, NULL, &out, &err) && f->read) {
		bytes = blob_copy(buf_view(&out));
		if (f->read(bytes, &again, &err))
			profiles_free(again);
		else if (must_read_again(f, p, &err))
			abort();
		blob_unref(bytes);
	}
	buf_release(&out);
}

static void write_all(const struct profiles *p)
{
	for (int i = 0; i < FORMATS; i++)
		if (formats[i].write)
			write_as(&formats[i], p);
	write_as(export_format_find(STR("dot")), p);
	write_as(export_format_find(STR("svg")), p);
}

static void read_with(format_read_fn *read, struct blob *bytes)
{
	struct profiles *p;
	struct err err;

	if (!read(bytes, &p, &err))
		return;
	ask(p);
	write_all(p);
	profiles_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob *bytes = blob_copy(str_from(data, size));

	read_with(format_read, bytes);
	for (int i = 0; i < FORMATS; i++)
		if (formats[i].read)
			read_with(formats[i].read, bytes);
	blob_unref(bytes);
	return 0;
}
