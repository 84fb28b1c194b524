/* frames.c - what a location is called: frames, told apart as the query says, and their filters. */
#include <stdlib.h>

#include "query/sum/frames.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/regex.h"
#include "base/text.h"

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

/*
 * ---- interning ----
 *
 * A new entry goes into its table last. If something fails before, the table has no number without
 * an entry: the set is used again, with fewer stacks.
 */

/* A text that is the query's already. */
static bool keep_text(struct frame_set *s, struct str text, uint64_t key, struct err *err)
{
	uint32_t at = s->text_count;

	if (!QUERY_ROOM(s->q, s->texts, s->text_cap, s->text_count + 1u, err) ||
	    !number_enter(s->q, &s->text_keys, key, &at, err))
		return false;
	if (at == s->text_count)
		s->texts[s->text_count++] = text;
	return true;
}

static bool intern_text(struct frame_set *s, struct str text, struct str *out, struct err *err)
{
	uint64_t key;
	uint32_t at;
	struct str copy;

	*out = (struct str){ 0 };
	if (!text.len)
		return true;
	key = hash64(text);
	at = number_find(&s->text_keys, key);
	if (at != UINT32_MAX) {
		*out = s->texts[at];
		return true;
	}
	if (!query_str_dup(s->q, text, &copy, err) || !keep_text(s, copy, key, err))
		return false;
	*out = copy;
	return true;
}

/* Of a frame that has only what identifies it. */
static uint64_t identity_key(const struct query_frame *f)
{
	uint64_t parts[] = { hash64(f->type),   hash64(f->binary), hash64(f->function),
			     hash64(f->file),   (uint64_t)f->line, f->address,
			     f->inlined ? 1 : 0 };

	return hash64(str_from(parts, sizeof(parts)));
}

/* ---- filters ---- */

/* Filters look at the frame as it is, whatever `by` merges it with. */
static struct query_frame whole_frame(const struct source_location *l,
				      const struct source_line *line, bool inlined)
{
	struct query_frame f = { .type = l->frame_type,
				 .binary = base_name(l->mapping),
				 .address = l->address,
				 .inlined = inlined };

	if (line) {
		f.function = line->function.len ? line->function : line->system_name;
		f.file = line->file;
		f.line = line->line;
	}
	return f;
}

static struct str field_of(const struct query_frame *f, enum query_filter_field field,
			   struct buf *scratch)
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
	if (f->function.len)
		return f->function;
	buf_reset(scratch);
	query_frame_append_name(scratch, f, QUERY_BY_FUNCTION);
	return buf_view(scratch);
}

/* ^...$, as the page makes it of a name that it shows: "main main.c:17" by line. */
static bool may_be_shown_name(const struct query_filter *filter, enum query_by by)
{
	struct str p = filter->pattern;

	return filter->field == FIELD_FUNCTION && by != QUERY_BY_FUNCTION && p.len > 2 &&
	       p.ptr[0] == '^' && p.ptr[p.len - 1] == '$';
}

/* Does filter i find the frame? */
static bool filter_finds(const struct frame_set *s, uint32_t i, const struct query_frame *f,
			 bool *out, struct err *err)
{
	const struct query_filter *filter = &s->q->request.filters[i];
	struct buf scratch = { 0 };
	bool ok = regex_match(s->filter_regexes[i], field_of(f, filter->field, &scratch), out, err);

	if (ok && !*out && may_be_shown_name(filter, s->q->filter_by)) {
		buf_reset(&scratch);
		query_frame_append_name(&scratch, f, s->q->filter_by);
		ok = regex_match(s->filter_regexes[i], buf_view(&scratch), out, err);
	}
	buf_release(&scratch);
	return ok;
}

static bool mark_frame(struct frame_set *s, const struct query_frame *f, struct marked_frame *out,
		       struct err *err)
{
	for (uint32_t i = 0; i < s->q->request.filter_count; i++) {
		bool matches;

		if (!filter_finds(s, i, f, &matches, err))
			return false;
		out->marks |= (uint32_t)matches << i;
	}
	return true;
}

/* The number among s->marked of frame `at` with what `f` is beyond it. */
static bool marked_frame_of(struct frame_set *s, uint32_t at, const struct query_frame *f,
			    uint32_t *out, struct err *err)
{
	uint64_t parts[] = { s->frames[at].key, hash64(f->type), hash64(f->binary),
			     hash64(f->function), hash64(f->file) };
	uint64_t key = hash64(str_from(parts, sizeof(parts)));
	struct marked_frame m = { .frame = at };

	*out = number_find(&s->marked_keys, key);
	if (*out != UINT32_MAX)
		return true;
	if (!QUERY_ROOM(s->q, s->marked, s->marked_cap, s->marked_count + 1u, err) ||
	    !mark_frame(s, f, &m, err) ||
	    !query_alive_now(s->q, err) || /* each may take a second */
	    !number_put(s->q, &s->marked_keys, key, s->marked_count, err))
		return false;
	*out = s->marked_count;
	s->marked[s->marked_count++] = m;
	return true;
}

/* ---- frames of locations ---- */

/* A frame that is new, with the texts of others. */
static bool add_frame(struct frame_set *s, struct query_frame f, struct err *err)
{
	if (!QUERY_ROOM(s->q, s->frames, s->frame_cap, s->frame_count + 1u, err) ||
	    !intern_text(s, f.type, &f.type, err) || !intern_text(s, f.binary, &f.binary, err) ||
	    !intern_text(s, f.function, &f.function, err) ||
	    !intern_text(s, f.file, &f.file, err) ||
	    !number_put(s->q, &s->frame_keys, f.key, s->frame_count, err))
		return false;
	s->frames[s->frame_count++] = f;
	return true;
}

/* Only what identifies the frame in this question. */
static struct query_frame identify(const struct query_frame *f, enum query_by by)
{
	struct query_frame id = { .type = f->type, .binary = f->binary };

	if (by == QUERY_BY_BINARY)
		return id;
	if (by == QUERY_BY_FILE && f->file.len)
		return (struct query_frame){ .type = f->type, .file = f->file };
	id.function = f->function;
	id.inlined = f->inlined;
	if (by == QUERY_BY_LINE) {
		id.file = f->file;
		id.line = f->line;
	}
	if (by == QUERY_BY_ADDRESS)
		id.address = f->address;
	return id;
}

/* The number of the frame that `f`, which is whole, is one of. */
static bool frame_of(struct frame_set *s, const struct query_frame *f, uint32_t *out,
		     struct err *err)
{
	enum query_by by = s->q->request.by;
	struct query_frame id = identify(f, by);
	uint32_t at;

	id.key = identity_key(&id);
	at = number_find(&s->frame_keys, id.key);
	if (at == UINT32_MAX) {
		at = s->frame_count;
		/* Where it is, as far as all that it stands for are there: a function's frames may
		 * have other lines, but are told by the first; a file or binary has none. */
		id.file = by != QUERY_BY_BINARY ? f->file : (struct str){ 0 };
		id.line = by != QUERY_BY_BINARY && by != QUERY_BY_FILE ? f->line : 0;
		if (!add_frame(s, id, err))
			return false;
	}
	*out = at;
	return !s->q->request.filter_count || marked_frame_of(s, at, f, out, err);
}

bool frame_set_group(struct frame_set *s, struct str value, uint32_t *out, struct err *err)
{
	const struct query_frame id = { .type = STR("group"), .function = value };
	struct query_frame f = { .function = value, .group = true };

	/* No frame of code has all of: this type's hash, no binary, an address of ones. */
	f.key = ~identity_key(&id);
	*out = number_find(&s->frame_keys, f.key);
	if (*out != UINT32_MAX)
		return true;
	*out = s->frame_count;
	return add_frame(s, f, err);
}

bool frame_set_location(struct frame_set *s, const struct source_location *l, uint32_t *out,
			struct err *err)
{
	struct query_frame f;

	if (!l->line_count) {
		f = whole_frame(l, NULL, false);
		return frame_of(s, &f, out, err);
	}
	for (uint32_t i = 0; i < l->line_count; i++) { /* the last one is the one that is real */
		f = whole_frame(l, &l->lines[i], i + 1 < l->line_count);
		if (!frame_of(s, &f, &out[i], err))
			return false;
	}
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
	QUERY_DROP(q, s->frames, s->frame_cap);
	QUERY_DROP(q, s->marked, s->marked_cap);
	QUERY_DROP(q, s->last_at, s->last_cap);
	QUERY_DROP(q, s->texts, s->text_cap);
	QUERY_DROP(q, s->pool, s->pool_cap);
	QUERY_DROP(q, s->runs, s->run_cap);
	number_release(q, &s->frame_keys);
	number_release(q, &s->marked_keys);
	number_release(q, &s->text_keys);
	*s = (struct frame_set){ .q = q };
}

bool frame_set_forget(struct frame_set *s, uint32_t frame_count, uint32_t text_count,
		      struct err *err)
{
	bool ok = true;

	number_reset(s->q, &s->frame_keys, frame_count);
	number_release(s->q, &s->marked_keys); /* runs that there are hold frames */
	number_reset(s->q, &s->text_keys, text_count);
	s->marked_count = 0;
	for (uint32_t i = 0; ok && i < frame_count; i++)
		ok = number_put(s->q, &s->frame_keys, s->frames[i].key, i, err);
	for (uint32_t i = 0; ok && i < text_count; i++)
		ok = number_put(s->q, &s->text_keys, hash64(s->texts[i]), i, err);
	s->frame_count = frame_count;
	s->text_count = text_count;
	return ok;
}

/* ---- frames that no run uses ---- */

static void mark_used(const struct frame_set *s, uint32_t *number)
{
	for (uint32_t i = 0; i < s->pool_count; i++)
		if (s->pool[i] != RUN_CUT)
			number[s->pool[i]] = 1;
}

static bool enter_frame(struct frame_set *s, const struct query_frame *f, uint32_t number,
			struct err *err)
{
	const struct str texts[] = { f->type, f->binary, f->function, f->file };

	if (!number_put(s->q, &s->frame_keys, f->key, number, err))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].len && !keep_text(s, texts[i], hash64(texts[i]), err))
			return false;
	return true;
}

/* number[i] != 0: frame i stays, and that becomes its new number. */
static bool renumber(struct frame_set *s, uint32_t *number, struct err *err)
{
	uint32_t count = s->frame_count, kept = 0, earlier = s->kept_frames, stay = 0;

	for (uint32_t i = 0; i < count; i++)
		stay += number[i] != 0;
	number_reset(s->q, &s->frame_keys, stay);
	number_reset(s->q, &s->text_keys, s->text_count);
	number_release(s->q, &s->marked_keys);
	s->marked_count = s->text_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (i == earlier) {
			s->kept_frames = kept;
			s->kept_texts = s->text_count;
		}
		if (!number[i])
			continue;
		s->frames[kept] = s->frames[i];
		if (!enter_frame(s, &s->frames[kept], kept, err))
			return false;
		number[i] = kept++;
	}
	s->frame_count = kept;
	for (uint32_t i = 0; i < s->pool_count; i++)
		if (s->pool[i] != RUN_CUT)
			s->pool[i] = number[s->pool[i]];
	QUERY_FIT(s->q, s->frames, s->frame_cap, s->frame_count);
	QUERY_FIT(s->q, s->texts, s->text_cap, s->text_count);
	QUERY_FIT(s->q, s->marked, s->marked_cap, 1);
	return true;
}

bool frame_set_drop_unused(struct frame_set *s, struct err *err)
{
	uint32_t *number, count = s->frame_count;
	bool ok;

	if (!count)
		return true;
	number = query_take(s->q, count * sizeof(*number), err);
	if (!number)
		return false;
	mark_used(s, number);
	ok = renumber(s, number, err);
	query_give_back(s->q, number, count * sizeof(*number));
	return ok;
}

bool frame_set_give(struct frame_set *s, struct query_frames *out, struct err *err)
{
	uint32_t count = s->frame_count;

	QUERY_FIT(s->q, s->frames, s->frame_cap, count);
	*out = (struct query_frames){ s->frames, count };
	if (!query_give(s->q, &s->frames, &s->frame_cap, err))
		return false;
	s->frame_count = 0;
	return true;
}
