/* pyro_labels.c - what there is: profile types, label names and values, series, how far data goes
 * back. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/intern.h"
#include "model/profiles.h"
#include "model/service_name.h"
#include "web/pyro.h"
#include "wire/pb_writer.h"

enum { VALUES_MOST = 10000, LABELS_OF_SERIES_MOST = 256, SETS_MOST = 20000 };

/* ---- a set of texts ---- */

struct texts {
	struct arena *arena;
	struct str *list;
	uint32_t count, cap;
	struct intern_table table;
};

static bool same_text(const void *ctx, uint32_t index, const void *key)
{
	return str_equal(((const struct texts *)ctx)->list[index], *(const struct str *)key);
}

/* True when it is new. */
static bool texts_add(struct texts *t, struct str s)
{
	if (intern_find_or_add(&t->table, hash64(s), same_text, t, &s, t->count) != UINT32_MAX)
		return false;
	if (t->count == t->cap) {
		uint32_t cap = t->cap ? 2 * t->cap : 64;

		t->list = arena_grow(t->arena, t->list, t->cap * sizeof(*t->list),
				     cap * sizeof(*t->list));
		t->cap = cap;
	}
	t->list[t->count++] = str_dup(t->arena, s);
	return true;
}

static int by_text(const void *a, const void *b)
{
	return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static bool put_names(struct web_ask *a, struct texts *t, struct err *err)
{
	struct pb_writer w;

	if (t->count)
		qsort(t->list, t->count, sizeof(*t->list), by_text);
	pw_begin(&w, &a->body, 64 * (size_t)t->count);
	for (uint32_t i = t->count; i-- > 0;)
		pw_bytes_present(&w, 1, t->list[i]);
	intern_release(&t->table);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the answer is too large");
}

/* ---- profile types ---- */

static void put_type(struct pb_writer *w, const struct query_type *t)
{
	size_t mark = pw_mark(w);

	pw_bytes(w, 7, t->period_unit);
	pw_bytes(w, 6, t->period_type);
	pw_bytes(w, 5, t->unit);
	pw_bytes(w, 4, t->type);
	pw_bytes(w, 2, t->name);
	pw_bytes(w, 1, t->id);
	pw_message(w, 1, mark);
}

static int by_id(const void *a, const void *b)
{
	return str_compare(((const struct query_type *)a)->id, ((const struct query_type *)b)->id);
}

/* All types there are in the range, by id. */
static bool types_of(struct web_ask *a, const struct pyro_request *r, struct query_type **out,
		     uint32_t *count, struct query **q, struct err *err)
{
	struct query_facts f;

	*q = pyro_begin(a, r, (struct str){ 0 }, (struct str){ 0 }, err);
	if (!*q)
		return false;
	f = query_facts(*q);
	*out = arena_alloc_array(&a->arena, f.type_count + 1, sizeof(**out));
	if (f.type_count) {
		memcpy(*out, f.types, f.type_count * sizeof(**out));
		qsort(*out, f.type_count, sizeof(**out), by_id);
	}
	*count = f.type_count;
	return true;
}

bool pyro_answer_profile_types(struct web_ask *a, struct err *err)
{
	struct pyro_request r;
	struct query_type *types;
	struct pb_writer w;
	struct query *q;
	uint32_t count;

	if (!pyro_request_read(pyro_methods[PYRO_PROFILE_TYPES].request, a->message, &r, err) ||
	    !types_of(a, &r, &types, &count, &q, err))
		return false;
	pw_begin(&w, &a->body, 128 * (size_t)count);
	for (uint32_t i = count; i-- > 0;)
		put_type(&w, &types[i]);
	query_end(q);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the answer is too large");
}

/* ---- labels ---- */

static const char *const type_labels[] = { "__name__",         "__period_type__", "__period_unit__",
					   "__profile_type__", "__type__",        "__unit__" };

enum type_label { NO_TYPE_LABEL = -1, TYPE_LABELS = 6 };

static struct str type_label(const struct query_type *t, int i)
{
	const struct str values[TYPE_LABELS] = { t->name, t->period_type, t->period_unit,
						 t->id,   t->type,        t->unit };

	return values[i];
}

static int type_label_called(struct str name)
{
	for (int i = 0; i < TYPE_LABELS; i++)
		if (str_is(name, type_labels[i]))
			return i;
	return NO_TYPE_LABEL;
}

struct naming {
	struct web_ask *ask;
	const struct pyro_request *request;
	struct texts texts;
	int label; /* of type_labels */
};

static bool add_label_names(void *ctx, struct query *q, struct err *err)
{
	struct naming *n = ctx;
	struct query_labels l;

	if (!query_label_names(q, &l, err))
		return false;
	for (uint32_t i = 0; i < l.count; i++)
		texts_add(&n->texts, pyro_label_name(&n->ask->arena, l.ptr[i].text));
	for (int i = 0; i < TYPE_LABELS && l.count; i++)
		texts_add(&n->texts, str_cstr(type_labels[i]));
	return true;
}

bool pyro_answer_label_names(struct web_ask *a, struct err *err)
{
	struct pyro_request r;
	struct naming n = { .ask = a, .request = &r, .texts.arena = &a->arena };

	if (!pyro_request_read(pyro_methods[PYRO_LABEL_NAMES].request, a->message, &r, err))
		return false;
	intern_init(&n.texts.table);
	if (pyro_each(a, &r, add_label_names, &n, err))
		return put_names(a, &n.texts, err);
	intern_release(&n.texts.table);
	return false;
}

static bool ignore_series(void *ctx, const struct source_series *s, struct err *err)
{
	(void)s, (void)err;
	*(bool *)ctx = true;
	return true;
}

static bool add_label_values(void *ctx, struct query *q, struct err *err)
{
	struct naming *n = ctx;
	struct query_labels l;
	bool any = false;

	if (n->label != NO_TYPE_LABEL) {
		struct query_type type = query_facts(q).type;

		if (n->request->matchers.count && !query_each_series(q, ignore_series, &any, err))
			return false;
		if (type.id.len && (any || !n->request->matchers.count))
			texts_add(&n->texts, type_label(&type, n->label));
		return true;
	}
	if (!query_label_values(
		    q,
		    &(struct query_values_options){ .key = n->request->name, .most = VALUES_MOST },
		    &l, err))
		return false;
	for (uint32_t i = 0; i < l.count; i++)
		texts_add(&n->texts, l.ptr[i].text);
	return true;
}

static bool label_values(struct web_ask *a, const struct pyro_request *r, struct texts *out,
			 struct err *err)
{
	struct naming n = { .ask = a,
			    .request = r,
			    .texts.arena = &a->arena,
			    .label = type_label_called(r->name) };

	if (!r->name.len)
		return err_set(err, ERR_INVALID, "name is missing: of which label?");
	intern_init(&n.texts.table);
	if (!pyro_each(a, r, add_label_values, &n, err)) {
		intern_release(&n.texts.table);
		return false;
	}
	*out = n.texts;
	return true;
}

bool pyro_answer_label_values(struct web_ask *a, struct err *err)
{
	struct pyro_request r;
	struct texts texts;

	return pyro_request_read(pyro_methods[PYRO_LABEL_VALUES].request, a->message, &r, err) &&
	       label_values(a, &r, &texts, err) && put_names(a, &texts, err);
}

/* GET /pyroscope/label-values?label=NAME: a list of strings. */
bool pyro_answer_rest_label_values(struct web_ask *a, struct err *err)
{
	struct pyro_request r = { .name = params_get(&a->params, "label") };
	struct texts texts;

	if (params_has(&a->params, "query")) {
		r.matchers.items[0] = params_get(&a->params, "query");
		r.matchers.count = 1;
	}
	if (str_is(r.name, "__name__")) /* what `query` of render begins with */
		r.name = STR("__profile_type__");
	if (!label_values(a, &r, &texts, err))
		return false;
	if (texts.count)
		qsort(texts.list, texts.count, sizeof(*texts.list), by_text);
	buf_char(&a->body, '[');
	for (uint32_t i = 0; i < texts.count; i++) {
		if (i)
			buf_char(&a->body, ',');
		buf_json_string(&a->body, texts.list[i]);
	}
	buf_lit(&a->body, "]\n");
	intern_release(&texts.table);
	return true;
}

/* ---- series ---- */

struct pair {
	struct str name, value;
};

struct listing {
	struct web_ask *ask;
	const struct pyro_request *request;
	struct query_type type;
	struct texts sets; /* encoded Labels messages */
	struct pair pairs[LABELS_OF_SERIES_MOST];
	uint32_t count;
};

static bool is_wanted(const struct pyro_request *r, struct str name)
{
	for (uint32_t i = 0; i < r->labels.count; i++)
		if (str_equal(r->labels.items[i], name))
			return true;
	return r->labels.count == 0;
}

/* The first of a name counts: it is the nearest to the samples. */
static void add_pair(struct listing *l, struct str name, struct str value)
{
	if (!value.len || l->count == LABELS_OF_SERIES_MOST || !is_wanted(l->request, name))
		return;
	for (uint32_t i = 0; i < l->count; i++)
		if (str_equal(l->pairs[i].name, name))
			return;
	l->pairs[l->count++] = (struct pair){ name, value };
}

static void add_attributes(struct listing *l, struct source_attributes list)
{
	struct arena *arena = &l->ask->arena;

	for (uint32_t i = 0; i < list.count; i++) {
		struct buf text = { 0 };

		any_value_append_text(&text, &list.ptr[i].value);
		add_pair(l, pyro_label_name(arena, list.ptr[i].key),
			 str_dup(arena, buf_view(&text)));
		buf_release(&text);
	}
}

static void add_pairs(struct listing *l, struct query_label_pairs list)
{
	for (uint32_t i = 0; i < list.count; i++)
		add_pair(l, pyro_label_name(&l->ask->arena, list.ptr[i].key),
			 str_dup(&l->ask->arena, list.ptr[i].value));
}

static const char EXECUTABLE[] = "process.executable.name";

static struct str executable_of(const struct query_label_set *set)
{
	const struct source_attributes lists[] = { set->series->lifted, set->series->resource };

	for (uint32_t i = 0; i < set->sample.count; i++)
		if (str_is(set->sample.ptr[i].key, EXECUTABLE))
			return set->sample.ptr[i].value;
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < lists[k].count; i++)
			if (str_is(lists[k].ptr[i].key, EXECUTABLE) &&
			    lists[k].ptr[i].value.kind == ANY_STRING)
				return lists[k].ptr[i].value.string;
	return (struct str){ 0 };
}

/* Every series has a service (OpenTelemetry, service.name). */
static void add_service(struct listing *l, const struct query_label_set *set)
{
	struct str executable = executable_of(set);

	add_pair(l, STR("service_name"),
		 executable.len
			 ? str_printf(&l->ask->arena, UNKNOWN_SERVICE ":%.*s", STR_ARG(executable))
			 : STR(UNKNOWN_SERVICE));
}

static int by_name(const void *a, const void *b)
{
	return str_compare(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

/* What of samples and profiles is looked at: what is asked for, and what names a service. */
static bool wants_key(void *ctx, struct str key)
{
	const struct listing *l = ctx;

	return is_wanted(l->request, pyro_label_name(&l->ask->arena, key)) ||
	       (str_is(key, EXECUTABLE) && is_wanted(l->request, STR("service_name")));
}

static bool take_set(void *ctx, const struct query_label_set *set, struct err *err)
{
	struct listing *l = ctx;
	const struct source_series *s = set->series;
	struct buf message = { 0 };
	struct pb_writer w;
	bool ok;

	l->count = 0;
	for (int i = 0; i < TYPE_LABELS; i++)
		add_pair(l, str_cstr(type_labels[i]), type_label(&l->type, i));
	add_pairs(l, set->sample);
	add_attributes(l, s->lifted);
	add_attributes(l, s->resource);
	add_attributes(l, s->scope);
	add_pair(l, STR("otel_scope_name"), str_dup(&l->ask->arena, s->scope_name));
	add_pair(l, STR("otel_scope_version"), str_dup(&l->ask->arena, s->scope_version));
	add_pairs(l, set->profile);
	add_service(l, set);
	qsort(l->pairs, l->count, sizeof(*l->pairs), by_name);
	pw_begin(&w, &message, 512);
	for (uint32_t i = l->count; i-- > 0;) {
		size_t mark = pw_mark(&w);

		pw_bytes(&w, 2, l->pairs[i].value);
		pw_bytes(&w, 1, l->pairs[i].name);
		pw_message(&w, 1, mark);
	}
	ok = pw_finish(&w) || err_set(err, ERR_LIMIT, "the labels of a series are too large");
	if (ok && l->count && texts_add(&l->sets, buf_view(&message)) && l->sets.count > SETS_MOST)
		ok = err_set(err, ERR_LIMIT,
			     "more than %d sets of labels: label_names says which ones are wanted",
			     SETS_MOST);
	buf_release(&message);
	return ok;
}

static bool list_series(void *ctx, struct query *q, struct err *err)
{
	struct listing *l = ctx;

	l->type = query_facts(q).type;
	return query_each_label_set(q, wants_key, take_set, l, err);
}

bool pyro_answer_series(struct web_ask *a, struct err *err)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct pyro_request r;
	bool ok;

	l->ask = a;
	l->request = &r;
	l->sets.arena = &a->arena;
	intern_init(&l->sets.table);
	/* A set of labels is field 1 of the answer, as a name is of the other answers. */
	if (pyro_request_read(pyro_methods[PYRO_SERIES].request, a->message, &r, err) &&
	    pyro_each(a, &r, list_series, l, err)) {
		ok = put_names(a, &l->sets, err);
	} else {
		intern_release(&l->sets.table);
		ok = false;
	}
	free(l);
	return ok;
}

/* ---- how far it goes ---- */

bool pyro_answer_profile_stats(struct web_ask *a, struct err *err)
{
	struct source_range extent;
	struct pb_writer w;
	struct err why;

	if (!a->source->ops->extent(a->source, &extent, &why)) {
		*err = why;
		return why.kind == ERR_NOT_FOUND; /* the empty answer */
	}
	pw_begin(&w, &a->body, 32);
	pw_uint(&w, 3, extent.to / 1000000);
	pw_uint(&w, 2, extent.from / 1000000);
	pw_uint(&w, 1, 1);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the answer is too large");
}
