/* export_view.h - a selection of files or a store in the format of another tool. */
#pragma once
#include "query/draw/drawn.h"
#include "selection.h"
#include "wire/losses.h"

/* As the store has it: what gives all of a store back request by request. */
static inline bool export_view_is_otlp(const struct format *f)
{
	return f == &formats[FORMAT_OTLP] || f == &formats[FORMAT_OTLP_JSON];
}

struct export_view {
	const struct selection_flags *selection;
	const struct format *format;
	const char *title;          /* may be NULL */
	bool inverted;              /* svg */
	enum wire_version version;  /* otlp */
	struct otlp_losses *losses; /* otlp, otlp-json: set to what they have no place for */
	char *const *files;
	unsigned file_count;
};
bool export_view_write(const struct export_view *v, struct buf *out, struct err *err) MUST_CHECK;
