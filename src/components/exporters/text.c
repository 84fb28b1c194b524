#include "components/exporters/text.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"
#include "components/exporters/text_layout.h"

const char *const text_layout_names[] = { "2026", "seed-000", "seed-001", "typed", "full", NULL };

enum { CACHE_TEXT_BYTES = 2 << 20, STAMPS_KEPT = 1 << 14 };

struct text_options text_options_default(enum text_layout layout)
{
	return (struct text_options){
		.layout = layout,
		.resource_attributes = true,
		.profile_attributes = true,
		.sample_attributes = true,
		.stack_frames = true,
	};
}

struct text_renderer *text_renderer_new(const struct text_options *options)
{
	struct text_renderer *t = calloc(1, sizeof(*t));

	assert(t);
	t->options = *options;
	t->options.printable |= options->layout == TEXT_FULL;
	t->style = text_style_make(options->colour);
	line_cache_init(&t->frames, CACHE_TEXT_BYTES);
	line_cache_init(&t->attributes, CACHE_TEXT_BYTES);
	return t;
}

void text_renderer_free(struct text_renderer *t)
{
	if (!t)
		return;
	line_cache_release(&t->frames);
	line_cache_release(&t->attributes);
	free(t->stamps);
	free(t);
}

static void drop_many_stamps(struct text_renderer *t)
{
	if (t->stamp_cap <= STAMPS_KEPT)
		return;
	free(t->stamps);
	t->stamps = NULL;
	t->stamp_cap = 0;
}

bool text_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
		 struct err *err)
{
	t->names = (struct names){
		.profiles = p,
		.put = t->options.printable ? text_append_printable : names_put_raw,
	};
	drop_many_stamps(t);
	line_cache_begin(&t->frames, p->dict.location_count);
	line_cache_begin(&t->attributes, p->dict.attribute_count);
	if (t->options.layout == TEXT_FULL)
		return text_full_render(t, p, out, err);
	return text_classic_render(t, p, out, err);
}

bool text_renderer_hid_references(const struct text_renderer *t)
{
	return t->hid_references;
}
