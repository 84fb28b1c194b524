/* export_view.h - a selection of files or a store in the format of another tool. */
#pragma once
#include "base/buf.h"
#include "selection.h"
#include "wire/losses.h"

/* The names of the formats, NULL-terminated: "pprof", "folded", ..., "svg". */
extern const char *const export_view_formats[];
bool export_view_is_format(const char *format);

struct export_view {
	const struct selection_flags *selection;
	const char *format;         /* one of those, or "otlp", "otlp-json" */
	const char *title;          /* may be NULL */
	bool inverted;              /* svg */
	enum wire_version version;  /* otlp */
	struct otlp_losses *losses; /* otlp, otlp-json: set to what they have no place for */
	char *const *files;
	unsigned file_count;
};
bool export_view_write(const struct export_view *v, struct buf *out, struct err *err) MUST_CHECK;
