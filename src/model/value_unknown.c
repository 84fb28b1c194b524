#include "model/value_unknown.h"

#include "base/buf.h"

bool value_unknown_equal(const struct value_unknown *a, const struct value_unknown *b)
{
	if (a == b)
		return true;
	if (!a || !b)
		return value_unknown_is_none(a) && value_unknown_is_none(b);
	return str_equal(a->value, b->value) && str_equal(a->list, b->list) &&
	       str_equal(a->pair, b->pair);
}

bool value_unknown_any(const struct any_value *v)
{
	if (!value_unknown_is_none(v->unknown))
		return true;
	if (v->kind == ANY_ARRAY)
		for (uint32_t i = 0; i < v->array.count; i++)
			if (value_unknown_any(&v->array.values[i]))
				return true;
	if (v->kind == ANY_KVLIST)
		for (uint32_t i = 0; i < v->kvlist.count; i++)
			if (value_unknown_any(&v->kvlist.pairs[i].value))
				return true;
	return false;
}

struct walk {
	value_unknown_fn *fn;
	void *arg;
	struct buf place;
};

static void tell(struct walk *w, struct str fields)
{
	if (fields.len)
		w->fn(w->arg, buf_view(&w->place), fields);
}

/* The value's own place is what w->place says. */
static void walk_value(struct walk *w, const struct any_value *v)
{
	const struct value_unknown *u = v->unknown;
	size_t mark = w->place.len, list;

	if (u)
		tell(w, u->value);
	if (v->kind != ANY_ARRAY && v->kind != ANY_KVLIST)
		return;
	buf_str(&w->place, v->kind == ANY_ARRAY ? STR(".array_value") : STR(".kvlist_value"));
	if (u)
		tell(w, u->list);
	list = w->place.len;
	for (uint32_t i = 0; i < (v->kind == ANY_ARRAY ? v->array.count : 0); i++) {
		buf_printf(&w->place, ".values[%u]", i);
		walk_value(w, &v->array.values[i]);
		w->place.len = list;
	}
	for (uint32_t i = 0; i < (v->kind == ANY_KVLIST ? v->kvlist.count : 0); i++) {
		const struct any_value *in = &v->kvlist.pairs[i].value;

		buf_printf(&w->place, ".values[%u]", i);
		if (in->unknown)
			tell(w, in->unknown->pair);
		buf_lit(&w->place, ".value");
		walk_value(w, in);
		w->place.len = list;
	}
	w->place.len = mark;
}

void value_unknown_each(const struct any_value *v, value_unknown_fn *fn, void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };

	if (!value_unknown_any(v))
		return;
	buf_init(&w.place, 0);
	if (v->unknown)
		tell(&w, v->unknown->pair);
	buf_lit(&w.place, "value");
	walk_value(&w, v);
	buf_release(&w.place);
}
