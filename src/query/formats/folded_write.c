/* folded_write.c - "root;child;leaf 42": the renderer of the sinks, into one buffer. */
#include "components/exporters/folded.h"
#include "query/formats/formats.h"

bool folded_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		  struct err *err)
{
	struct str type = o ? o->profile_type : (struct str){ 0 };
	struct folded_options options = { .process = o && o->process,
					  .thread = o && o->thread,
					  .merged = !(o && o->addresses),
					  .annotate = o && o->annotate };
	struct render_out render = { .buf = out };
	struct folded_renderer *f;
	struct arena arena;
	const char *name;
	bool ok;

	arena_init(&arena, 256, 0);
	if (type.len) {
		name = str_dup_cstr(&arena, type);
		options.sample_types = (struct config_strings){ &name, 1, true };
	}
	f = folded_renderer_new(&options);
	ok = folded_render(f, p, &render, err) && render_out_finish(&render, err);
	folded_renderer_free(f);
	arena_release(&arena);
	return ok;
}
