/* frames.c - what a location is called: frames, told apart as the query says, and their filters. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "query/engine.h"
#include "query/regex.h"

/* ---- names ---- */

static struct str base_name(struct str path)
{
	for (size_t i = path.len; i > 0; i--)
		if (path.ptr[i - 1] == '/')
			return i < path.len ? str_skip(path, i) : path;
	return path;
}

static void append_unnamed(struct buf *b, const struct query_frame *f, enum query_by by)
{
	if (f->binary.len) {
		buf_str(b, f->binary);
	} else {
		buf_char(b, '[');
		buf_str(b, f->type.len ? f->type : STR("unknown"));
		buf_char(b, ']');
	}
	if (by == QUERY_BY_ADDRESS)
		buf_printf(b, "+0x%llx", (unsigned long long)f->address);
	else if (by != QUERY_BY_BINARY)
		buf_lit(b, "+?");
}

void query_frame_append_name(struct buf *b, const struct query_frame *f, enum query_by by)
{
	if (f->group) {
		buf_str(b, f->function.len ? f->function : STR("(none)"));
		return;
	}
	if (by == QUERY_BY_FILE && f->file.len) {
		buf_str(b, f->file);
		return;
	}
	if (by == QUERY_BY_BINARY || !f->function.len) {
		append_unnamed(b, f, by);
		return;
	}
	buf_str(b, f->function);
	if (by == QUERY_BY_LINE && f->line > 0) {
		buf_char(b, ' ');
		buf_str(b, base_name(f->file));
		buf_char(b, ':');
		buf_i64(b, f->line);
	} else if (by == QUERY_BY_ADDRESS) {
		buf_printf(b, " 0x%llx", (unsigned long long)f->address);
	}
}

/* ---- interning ---- */

static bool intern_text(struct frame_set *s, struct str text, struct str *out, struct err *err)
{
	uint32_t at;
	bool added;

	*out = (struct str){ 0 };
	if (!text.len)
		return true;
	if (!number_enter(s->q, &s->text_keys, hash64(text), s->text_count, &at, &added, err))
		return false;
	if (added) {
		if (!query_grow(s->q, &s->texts, &s->text_cap, s->text_count + 1u,
				sizeof(*s->texts), err) ||
		    !query_str_dup(s->q, text, &s->texts[s->text_count], err))
			return false;
		s->text_count++;
	}
	*out = s->texts[at];
	return true;
}

struct identity {
	struct str type, binary, function, file;
	int64_t line;
	uint64_t address;
	bool inlined;
};

static uint64_t identity_key(const struct identity *i)
{
	uint64_t parts[] = { hash64(i->type),   hash64(i->binary), hash64(i->function),
			     hash64(i->file),   (uint64_t)i->line, i->address,
			     i->inlined ? 1 : 0 };

	return hash64(str_from(parts, sizeof(parts)));
}

/* ---- filters ---- */

static struct str field_of(const struct query_frame *f, enum query_filter_field field,
			   enum query_by by, struct buf *scratch)
{
	switch (field) {
	case FIELD_FILE:
		return f->file;
	case FIELD_BINARY:
		return f->binary;
	case FIELD_TYPE:
		return f->type;
	case FIELD_FUNCTION:
		break;
	}
	if (by == QUERY_BY_FUNCTION && f->function.len)
		return f->function;
	buf_reset(scratch);
	query_frame_append_name(scratch, f, by);
	return buf_view(scratch);
}

static bool mark_frame(struct frame_set *s, uint32_t frame, struct err *err)
{
	const struct query_request *r = &s->q->request;
	struct buf scratch;
	bool ok = true;

	buf_init(&scratch, 0);
	s->marks[frame] = 0;
	s->own_marks[frame] = 0;
	for (uint32_t i = 0; i < r->filter_count && ok; i++) {
		bool matches = false;

		ok = regex_match(
			s->filter_regexes[i],
			field_of(&s->frames[frame], r->filters[i].field, s->q->filter_by, &scratch),
			&matches, err);
		if (!matches)
			continue;
		if (r->filters[i].kind == FILTER_FOCUS || r->filters[i].kind == FILTER_COLLAPSE)
			s->own_marks[frame] |= 1u << i;
		else
			s->marks[frame] |= (uint8_t)(1u << r->filters[i].kind);
	}
	buf_release(&scratch);
	return ok;
}

/* ---- frames of locations ---- */

static bool add_frame(struct frame_set *s, const struct identity *id, uint64_t key, struct str file,
		      int64_t line, struct err *err)
{
	struct query_frame f = {
		.key = key, .line = line, .address = id->address, .inlined = id->inlined
	};

	if (!query_grow(s->q, &s->frames, &s->frame_cap, s->frame_count + 1u, sizeof(*s->frames),
			err) ||
	    !query_grow(s->q, &s->marks, &s->mark_cap, s->frame_count + 1u, 1, err) ||
	    !query_grow(s->q, &s->own_marks, &s->own_cap, s->frame_count + 1u, sizeof(uint32_t),
			err))
		return false;
	if (!intern_text(s, id->type, &f.type, err) ||
	    !intern_text(s, id->binary, &f.binary, err) ||
	    !intern_text(s, id->function, &f.function, err) || !intern_text(s, file, &f.file, err))
		return false;
	s->frames[s->frame_count] = f;
	if (!mark_frame(s, s->frame_count, err))
		return false;
	s->frame_count++;
	return true;
}

static void identify(struct frame_set *s, const struct query_location *l,
		     const struct query_line *line, bool inlined, struct identity *id)
{
	*id = (struct identity){ .type = l->frame_type, .binary = base_name(l->mapping) };
	switch (s->q->request.by) {
	case QUERY_BY_BINARY:
		return;
	case QUERY_BY_FILE:
		if (line && line->file.len) {
			id->file = line->file;
			id->binary = (struct str){ 0 };
			return;
		}
		break;
	case QUERY_BY_LINE:
		id->line = line ? line->line : 0;
		id->file = line ? line->file : (struct str){ 0 };
		break;
	case QUERY_BY_ADDRESS:
		id->address = l->address;
		break;
	case QUERY_BY_FUNCTION:
		break;
	}
	id->inlined = inlined;
	if (line)
		id->function = line->function.len ? line->function : line->system_name;
}

static bool frame_of(struct frame_set *s, const struct query_location *l,
		     const struct query_line *line, bool inlined, uint32_t *out, struct err *err)
{
	struct identity id;
	uint64_t key;
	bool added;

	identify(s, l, line, inlined, &id);
	key = identity_key(&id);
	if (!number_enter(s->q, &s->frame_keys, key, s->frame_count, out, &added, err))
		return false;
	return !added || add_frame(s, &id, key, line ? line->file : (struct str){ 0 },
				   line ? line->line : 0, err);
}

bool frame_set_group(struct frame_set *s, struct str value, uint32_t *out, struct err *err)
{
	const struct identity id = { .type = STR("group"), .function = value };
	bool added;

	/* No frame of code has all of: this type's hash, no binary, an address of ones. */
	if (!number_enter(s->q, &s->frame_keys, ~identity_key(&id), s->frame_count, out, &added,
			  err))
		return false;
	if (!added)
		return true;
	if (!add_frame(s, &id, ~identity_key(&id), (struct str){ 0 }, 0, err))
		return false;
	s->frames[*out].type = (struct str){ 0 };
	s->frames[*out].group = true;
	s->marks[*out] = 0;
	s->own_marks[*out] = 0;
	return true;
}

bool frame_set_location(struct frame_set *s, const struct query_location *l, uint32_t *out,
			uint32_t cap, uint32_t *count, struct err *err)
{
	*count = l->line_count ? l->line_count : 1;
	if (*count > cap)
		return err_set(err, ERR_LIMIT, "a location of %u inlined functions; at most %u",
			       *count, cap);
	if (!l->line_count)
		return frame_of(s, l, NULL, false, out, err);
	for (uint32_t i = 0; i < l->line_count; i++) /* the last one is the one that is real */
		if (!frame_of(s, l, &l->lines[i], i + 1 < l->line_count, &out[i], err))
			return false;
	return true;
}

/* ---- the set ---- */

bool frame_set_init(struct frame_set *s, struct query *q, struct err *err)
{
	*s = (struct frame_set){ .q = q };
	for (uint32_t i = 0; i < q->request.filter_count; i++) {
		s->filter_regexes[i] = regex_new(q->request.filters[i].pattern, REGEX_WITHIN, err);
		if (!s->filter_regexes[i]) {
			frame_set_release(s);
			return false;
		}
	}
	return true;
}

void frame_set_release(struct frame_set *s)
{
	struct query *q = s->q;

	for (size_t i = 0; i < ARRAY_LEN(s->filter_regexes); i++)
		regex_free(s->filter_regexes[i]);
	query_drop(q, &s->frames, &s->frame_cap, sizeof(*s->frames));
	query_drop(q, &s->marks, &s->mark_cap, 1);
	query_drop(q, &s->own_marks, &s->own_cap, sizeof(uint32_t));
	query_drop(q, &s->last_at, &s->last_cap, sizeof(uint32_t));
	query_drop(q, &s->texts, &s->text_cap, sizeof(*s->texts));
	query_drop(q, &s->pool, &s->pool_cap, sizeof(*s->pool));
	query_drop(q, &s->runs, &s->run_cap, sizeof(*s->runs));
	number_release(q, &s->frame_keys);
	number_release(q, &s->text_keys);
	*s = (struct frame_set){ .q = q };
}

bool frame_set_forget(struct frame_set *s, uint32_t frame_count, uint32_t text_count,
		      struct err *err)
{
	uint32_t at;
	bool added, ok = true;

	number_release(s->q, &s->frame_keys);
	number_release(s->q, &s->text_keys);
	for (uint32_t i = 0; ok && i < frame_count; i++)
		ok = number_enter(s->q, &s->frame_keys, s->frames[i].key, i, &at, &added, err);
	for (uint32_t i = 0; ok && i < text_count; i++)
		ok = number_enter(s->q, &s->text_keys, hash64(s->texts[i]), i, &at, &added, err);
	s->frame_count = frame_count;
	s->text_count = text_count;
	return ok;
}

bool frame_set_give(struct frame_set *s, struct query_frames *out, struct err *err)
{
	struct query *q = s->q;

	if (!query_grow(q, &q->given, &q->given_cap, q->given_count + 1u, sizeof(*q->given), err))
		return false;
	query_fit(q, &s->frames, &s->frame_cap, s->frame_count, sizeof(*s->frames));
	q->given[q->given_count++] = s->frames;
	*out = (struct query_frames){ s->frames, s->frame_count };
	s->frames = NULL;
	s->frame_count = s->frame_cap = 0;
	return true;
}
