#include "listing.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "components/exporters/fd_out.h"

const char *const listing_sorts[] = { "self", "total", NULL };

bool listing_rows(const struct listing_flags *f, uint32_t *rows, struct err *err)
{
	uint64_t n = 0;

	if (!str_to_u64(str_cstr(f->rows), &n) || n > UINT32_MAX)
		return err_set(err, ERR_INVALID, "-n %s: at most %u", f->rows, UINT32_MAX);
	*rows = (uint32_t)n;
	return true;
}

bool listing_sorts_by_total(const struct listing_flags *f)
{
	return strcmp(f->sort, "total") == 0;
}

void listing_put_cost(struct buf *b, const struct query_facts *f, int64_t total)
{
	AUTO(buf_release) struct buf words = { 0 };

	unit_append_alone(&words, f->type.unit, total);
	buf_char(&words, ' ');
	buf_str(&words, f->type.type);
	text_append_printable(b, buf_view(&words));
}

void listing_put_events(struct buf *b, const struct query_facts *f, bool filtered)
{
	buf_str(b, filtered ? STR(" after the filters, of ") : STR(" in "));
	unit_append_alone(b, (struct str){ 0 }, (int64_t)f->events);
	buf_str(b, f->events == 1 ? STR(" event") : STR(" events"));
}

void listing_put_covered(struct buf *b, uint64_t covered_ns)
{
	if (!covered_ns)
		return;
	buf_lit(b, " in ");
	unit_append_alone(b, STR("nanoseconds"), (int64_t)covered_ns);
}

void listing_put_name(struct buf *b, const struct query_frame *f, enum query_by by)
{
	query_frame_append_name(b, f, by);
	if (f->inlined)
		buf_lit(b, " (inlined)");
}

bool listing_write(const struct buf *text, struct err *err)
{
	struct fd_out fd;
	bool ok;

	fd_out_init(&fd, STDOUT_FILENO);
	ok = fd_out_write(&fd, buf_view(text), err) || err->kind == ERR_CANCELLED;
	fd_out_release(&fd);
	return ok;
}
