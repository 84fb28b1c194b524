/*
 * folded.h - one line a sample, as flame graph tools read it: "root;child;leaf 42\n".
 *
 * The value is what the sample counts for (sample_total()), the last word of the line. Equal
 * stacks of a message are one line with their sum, at the place of the first. ';' in names
 * becomes ':', control characters are escaped, bad UTF-8 is replaced. A frame without a name is
 * "mapping+0xaddress", "[type]+0xaddress" without a mapping.
 *
 * Memory: caches kept between requests; the stacks of the one at hand. Threads: one at a time per
 * renderer.
 */
#pragma once
#include "formats/render_out.h"
#include "model/profiles.h"
#include "pipeline/options.h"

struct folded_options {
	struct config_strings sample_types; /* borrowed; empty = all, one after another */
	bool process;  /* process.executable.name (of the sample, else its resource) as root */
	bool thread;   /* thread.name below it */
	bool merged;   /* code without a name is one frame a binary, "binary+?" */
	bool annotate; /* _[k] kernel, _[i] inlined, _[j] made at run time: as FlameGraph colours */
};

struct folded_renderer;

struct folded_renderer *folded_renderer_new(const struct folded_options *options);
void folded_renderer_free(struct folded_renderer *f); /* NULL is fine */
/* Appends the lines of a message; the caller calls render_out_finish(). Refused profiles are left
 * out. Fails as `out` does, and with ERR_LIMIT when the stacks take more than 512 MiB of text. */
bool folded_render(struct folded_renderer *f, const struct profiles *p, struct render_out *out,
		   struct err *err) MUST_CHECK;
