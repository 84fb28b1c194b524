/*
 * text_layout.h - inside the text layouts: the renderer's parts that text.c, text_classic.c and
 * text_full.c share.
 */
#pragma once
#include "base/clock.h"
#include "components/exporters/text.h"
#include "components/exporters/text_style.h"
#include "formats/line_cache.h"
#include "formats/names.h"

struct stamp;

struct text_renderer {
	struct text_options options;
	struct text_style style;
	struct clock_zone_cache local_zone, utc_zone;
	struct line_cache frames;     /* by location */
	struct line_cache attributes; /* by entry of the attribute table */
	struct names names;           /* of the message at hand */
	struct stamp *stamps;         /* layout full: a sample's timestamps, sorted */
	uint32_t stamp_cap;
	bool hid_references;
};

bool text_classic_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
			 struct err *err);
bool text_full_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
		      struct err *err);
