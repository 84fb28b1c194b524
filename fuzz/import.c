/* Every reader of foreign formats: whatever comes is refused or becomes a message that can be asked
 * and written again. */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "query/formats/formats.h"
#include "query/formats/import.h"
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

static void write_all(const struct profiles *p)
{
	struct buf out;
	struct err err;

	buf_init(&out, 64 << 20);
	if (pprof_write(p, NULL, &out, &err)) {
		struct blob *bytes = blob_copy(buf_view(&out));
		struct profiles *again;

		/* What we write as pprof we read, unless there is no type to write. */
		if (pprof_read(bytes, &again, &err))
			profiles_free(again);
		else if (p->profile_count)
			abort();
		blob_unref(bytes);
	}
	buf_reset(&out);
	if (!speedscope_write(p, NULL, &out, &err) || !folded_write(p, NULL, &out, &err))
		buf_reset(&out);
	buf_reset(&out);
	if (firefox_write(p, NULL, &out, &err)) {
		struct blob *bytes = blob_copy(buf_view(&out));
		struct profiles *again;

		/* What we write we read. */
		if (firefox_read(bytes, &again, &err))
			profiles_free(again);
		else if (err.kind != ERR_LIMIT)
			abort();
		blob_unref(bytes);
	}
	buf_reset(&out);
	if (!dot_write(p, NULL, &out, &err))
		buf_reset(&out);
	buf_reset(&out);
	if (!svg_write(p, NULL, &out, &err))
		buf_reset(&out);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool (*const readers[])(struct blob *, struct profiles **, struct err *) = {
		import_read,  pprof_read,  speedscope_read,  cpuprofile_read,
		firefox_read, folded_read, perf_script_read,
	};
	struct blob *bytes = blob_copy(str_from(data, size));

	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		struct profiles *p;
		struct err err;

		if (!readers[i](bytes, &p, &err))
			continue;
		ask(p);
		write_all(p);
		profiles_free(p);
	}
	blob_unref(bytes);
	return 0;
}
