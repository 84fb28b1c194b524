#include "query/formats/drawn.h"

#include "query/profiles_source.h"

#define DRAWN_LIMIT_BYTES (256u << 20)

bool drawn_write(const struct profiles *p, const struct export_options *o, const char *format,
		 drawn_fn *draw, struct buf *out, struct err *err)
{
	struct query_request request = { .source = profiles_source_new(p),
					 .profile_type = o ? o->profile_type : (struct str){ 0 },
					 .limit_bytes = DRAWN_LIMIT_BYTES };
	struct query *q = query_begin(&request, err);
	bool ok = q && draw(q, o, out, err);

	query_end(q);
	source_free(request.source);
	if (ok && out->failed)
		return err_set(err, ERR_LIMIT, "%s: more than %zu bytes", format, out->limit_bytes);
	return ok;
}
