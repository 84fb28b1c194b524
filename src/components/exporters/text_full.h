/*
 * text_full.h - inside layout full: cells, words and attribute rows, shared by text_full.c and
 * text_full_frames.c.
 *
 * A line is made of cells that stand at least two spaces apart. A cell is a bare word or, where
 * that would be ambiguous (empty, control characters, bad UTF-8, two spaces in a row, a space at
 * an end, a leading '"' or '<', the word "-"), a JSON string.
 */
#pragma once
#include "components/exporters/text_layout.h"

/* The text as a cell. */
void text_full_word(struct buf *b, struct str s);
/* A string that a field names, as a cell; "-" when the field is not set. */
void text_full_name(struct text_renderer *t, struct buf *b, struct strindex s,
		    enum message_kind message, uint32_t index, const char *field);
/* Pads what was appended since `start` with spaces to `width` columns. */
void text_full_pad(struct buf *b, size_t start, size_t width);
void text_full_indent(struct buf *b, unsigned spaces);
/* An attribute's key, in its column. */
void text_full_key_cell(struct buf *b, struct str key);

/* "key  kind  value": a value with its kind; the unit and "ref" follow where there are any. */
void text_full_value(struct buf *b, const struct any_value *v);
/* The entries of a list of attribute_refs, one a line, but `skip` (NULL = none). */
bool text_full_attributes(struct text_renderer *t, struct render_out *out, unsigned indent,
			  struct range list, enum message_kind message, uint32_t index,
			  const struct any_value *skip, struct err *err);
/* Unknown fields inside an attribute, a line for each place. */
void text_full_unknown(struct buf *b, unsigned indent, const struct any_value *v);
/* The extras of a message, one a line: "extra  is_folded  true". The temporalities are printed
 * elsewhere. */
void text_full_extras(struct text_renderer *t, struct buf *b, unsigned indent,
		      enum message_kind message, uint32_t index);

/* The rows of a sample's stack. */
bool text_full_frames(struct text_renderer *t, struct render_out *out, uint32_t sample,
		      struct err *err);
/* The same of any stack, and of one location as its only frame. */
bool text_full_stack(struct text_renderer *t, struct render_out *out, uint32_t stack,
		     struct err *err);
bool text_full_location(struct text_renderer *t, struct render_out *out, uint32_t index,
			struct err *err);
/* One attribute's row, without what stands before its key; its extras are indented. */
bool text_full_attribute(struct text_renderer *t, struct render_out *out, unsigned indent,
			 uint32_t index, struct err *err);
/* Entries of tables that nothing refers to. */
bool text_full_unreferenced(struct text_renderer *t, struct render_out *out, struct err *err);
/* The mapping table. */
bool text_full_mappings(struct text_renderer *t, struct render_out *out, struct err *err);
