/*
 * text_style.h - the few colours of text layouts; all strings are empty when colours are off.
 *
 * Headings step back (dim), function names stand out (bold), and a frame's type has the hue of its
 * runtime.
 */
#pragma once
#include "base/str.h"

struct text_style {
	bool on;
	struct str dim, bold, off; /* SGR sequences */
};

struct text_style text_style_make(bool colour);
/* The sequence that starts a frame type's colour. */
struct str text_style_frame_type(const struct text_style *s, struct str type);
