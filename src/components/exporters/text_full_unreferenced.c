/*
 * text_full_unreferenced.c - layout full, its end: entries of tables that nothing refers to. Each
 * shows what hangs on it, which therefore is referred to. Mappings have a table of their own.
 */
#include "components/exporters/text_full.h"

#include <assert.h>
#include <stdlib.h>

#include "base/vec.h"

/* What is referred to, an array for each table; strings by where their bytes lie, since old
 * versions' texts are entered twice, and extras have texts without indices. */
struct marks {
	const struct profiles *p;
	bool *links, *stacks, *locations, *functions, *attributes, *strings;
	const char **texts;
	size_t text_count, text_cap;
};

static bool *marks_new(uint32_t count)
{
	bool *m = calloc((size_t)count + 1, sizeof(*m));

	assert(m);
	if (count)
		m[0] = true; /* the zero entry */
	return m;
}

static void mark_text(struct marks *m, struct str s)
{
	VEC_ROOM(m->texts, m->text_count, m->text_cap);
	m->texts[m->text_count++] = s.ptr;
}

static void mark_string(struct marks *m, struct strindex i)
{
	if (m->strings[i.v])
		return;
	m->strings[i.v] = true;
	mark_text(m, m->p->dict.strings[i.v]);
}

static void mark_value(struct marks *m, const struct any_value *v)
{
	if (v->kind == ANY_STRING)
		mark_string(m, v->strindex);
	for (uint32_t i = 0; i < (v->kind == ANY_ARRAY ? v->array.count : 0); i++)
		mark_value(m, &v->array.values[i]);
	for (uint32_t i = 0; i < (v->kind == ANY_KVLIST ? v->kvlist.count : 0); i++) {
		mark_string(m, v->kvlist.pairs[i].key_strindex);
		mark_value(m, &v->kvlist.pairs[i].value);
	}
}

static void mark_pairs(struct marks *m, struct key_values kv)
{
	for (uint32_t i = 0; i < kv.count; i++) {
		mark_string(m, kv.ptr[i].key_strindex);
		mark_value(m, &kv.ptr[i].value);
	}
}

static void mark_texts(struct marks *m, const struct any_value *v)
{
	if (v->kind == ANY_STRING)
		mark_text(m, v->string);
	for (uint32_t i = 0; i < (v->kind == ANY_ARRAY ? v->array.count : 0); i++)
		mark_texts(m, &v->array.values[i]);
	for (uint32_t i = 0; i < (v->kind == ANY_KVLIST ? v->kvlist.count : 0); i++)
		mark_texts(m, &v->kvlist.pairs[i].value);
}

static void mark_messages(struct marks *m)
{
	const struct profiles *p = m->p;

	for (uint32_t i = 0; i < p->resource_count; i++)
		mark_pairs(m, p->resources[i].attributes);
	for (uint32_t i = 0; i < p->scope_count; i++)
		mark_pairs(m, p->scopes[i].attributes);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		mark_string(m, p->profiles[i].sample_type.type);
		mark_string(m, p->profiles[i].sample_type.unit);
		mark_string(m, p->profiles[i].period_type.type);
		mark_string(m, p->profiles[i].period_type.unit);
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		m->stacks[p->samples[i].stack.v] = true;
		m->links[p->samples[i].link.v] = true;
	}
	for (uint32_t i = 0; i < p->attribute_ref_count; i++)
		m->attributes[p->attribute_refs[i].v] = true;
	for (uint32_t i = 0; i < p->extra_count; i++)
		mark_texts(m, &p->extras[i].value);
}

static void mark_tables(struct marks *m)
{
	const struct dictionary *d = &m->p->dict;

	for (uint32_t i = 0; i < d->stack_location_count; i++)
		m->locations[d->stack_locations[i].v] = true;
	for (uint32_t i = 0; i < d->line_count; i++)
		m->functions[d->lines[i].function.v] = true;
	for (uint32_t i = 0; i < d->mapping_count; i++)
		mark_string(m, d->mappings[i].filename);
	for (uint32_t i = 0; i < d->function_count; i++) {
		mark_string(m, d->functions[i].name);
		mark_string(m, d->functions[i].system_name);
		mark_string(m, d->functions[i].filename);
	}
	for (uint32_t i = 0; i < d->attribute_count; i++) {
		mark_string(m, d->attributes[i].key);
		mark_string(m, d->attributes[i].unit);
		mark_value(m, &d->attributes[i].value);
	}
}

static int text_compare(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

static void mark_same_texts(struct marks *m)
{
	const struct dictionary *d = &m->p->dict;

	if (m->text_count)
		qsort(m->texts, m->text_count, sizeof(*m->texts), text_compare);
	for (uint32_t i = 0; i < d->string_count && m->text_count; i++)
		if (!m->strings[i])
			m->strings[i] = bsearch(&d->strings[i].ptr, m->texts, m->text_count,
						sizeof(*m->texts), text_compare);
}

static void marks_make(struct marks *m, const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	*m = (struct marks){ .p = p,
			     .links = marks_new(d->link_count),
			     .stacks = marks_new(d->stack_count),
			     .locations = marks_new(d->location_count),
			     .functions = marks_new(d->function_count),
			     .attributes = marks_new(d->attribute_count),
			     .strings = marks_new(d->string_count) };
	mark_messages(m);
	mark_tables(m);
	mark_same_texts(m);
}

static void marks_release(struct marks *m)
{
	free(m->links);
	free(m->stacks);
	free(m->locations);
	free(m->functions);
	free(m->attributes);
	free(m->strings);
	free(m->texts);
}

/* ---- text ---- */

struct section {
	struct text_renderer *t;
	struct render_out *out;
	bool begun;
};

static void entry(struct section *s, const char *table, uint32_t index)
{
	struct buf *b = s->out->buf;

	if (!s->begun)
		buf_lit(b, "unreferenced\n");
	s->begun = true;
	buf_printf(b, "  %s #%u", table, index);
}

static bool append_links(struct section *s, const struct marks *m, struct err *err)
{
	struct buf *b = s->out->buf;

	for (uint32_t i = 0; i < m->p->dict.link_count; i++) {
		const struct link *l = &m->p->dict.links[i];

		if (m->links[i])
			continue;
		entry(s, "link", i);
		buf_lit(b, "  trace ");
		buf_hex(b, l->trace_id, sizeof(l->trace_id));
		buf_lit(b, "  span ");
		buf_hex(b, l->span_id, sizeof(l->span_id));
		buf_char(b, '\n');
		text_full_extras(s->t, b, 4, MESSAGE_LINK, i);
		if (!render_out_check(s->out, err))
			return false;
	}
	return true;
}

static bool append_code(struct section *s, const struct marks *m, struct err *err)
{
	for (uint32_t i = 0; i < m->p->dict.stack_count; i++) {
		if (m->stacks[i])
			continue;
		entry(s, "stack", i);
		buf_printf(s->out->buf, "  frames %u\n", m->p->dict.stacks[i].locations.count);
		if (!text_full_stack(s->t, s->out, i, err))
			return false;
	}
	for (uint32_t i = 0; i < m->p->dict.location_count; i++) {
		if (m->locations[i])
			continue;
		entry(s, "location", i);
		buf_char(s->out->buf, '\n');
		if (!text_full_location(s->t, s->out, i, err))
			return false;
	}
	return true;
}

static void named(struct section *s, const char *label, struct strindex i, uint32_t function,
		  const char *field)
{
	if (!i.v)
		return;
	buf_printf(s->out->buf, "  %s ", label);
	text_full_name(s->t, s->out->buf, i, MESSAGE_FUNCTION, function, field);
}

static bool append_functions(struct section *s, const struct marks *m, struct err *err)
{
	struct buf *b = s->out->buf;

	for (uint32_t i = 0; i < m->p->dict.function_count; i++) {
		const struct function *f = &m->p->dict.functions[i];

		if (m->functions[i])
			continue;
		entry(s, "function", i);
		buf_lit(b, "  ");
		text_full_name(s->t, b, f->name, MESSAGE_FUNCTION, i, "name_strindex");
		named(s, "at", f->filename, i, "filename_strindex");
		named(s, "system", f->system_name, i, "system_name_strindex");
		if (f->start_line)
			buf_printf(b, "  start %lld", (long long)f->start_line);
		buf_char(b, '\n');
		text_full_extras(s->t, b, 4, MESSAGE_FUNCTION, i);
		if (!render_out_check(s->out, err))
			return false;
	}
	return true;
}

static bool append_rest(struct section *s, const struct marks *m, struct err *err)
{
	struct buf *b = s->out->buf;

	for (uint32_t i = 0; i < m->p->dict.attribute_count; i++) {
		if (m->attributes[i])
			continue;
		entry(s, "attribute", i);
		buf_lit(b, "  ");
		if (!text_full_attribute(s->t, s->out, 4, i, err))
			return false;
	}
	for (uint32_t i = 0; i < m->p->dict.string_count; i++) {
		if (m->strings[i])
			continue;
		entry(s, "string", i);
		buf_lit(b, "  ");
		text_full_word(b, m->p->dict.strings[i]);
		buf_char(b, '\n');
		if (!render_out_check(s->out, err))
			return false;
	}
	return true;
}

bool text_full_unreferenced(struct text_renderer *t, struct render_out *out, struct err *err)
{
	struct section s = { .t = t, .out = out };
	struct marks m;
	bool ok;

	marks_make(&m, t->names.profiles);
	ok = append_links(&s, &m, err) && append_code(&s, &m, err) &&
	     append_functions(&s, &m, err) && append_rest(&s, &m, err);
	marks_release(&m);
	return ok;
}
