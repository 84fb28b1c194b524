#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

enum { SERIES_LIMIT_USUAL = 1000, TABLE_LEAST = 8 };

struct series {
	struct metric metric; /* first: callers hold its address, so a series never moves */
	uint64_t hash;
	struct str values[METRIC_LABELS_MAX]; /* behind the struct, same block */
};

struct metric_family {
	struct metrics *registry;
	struct metric_family *next;
	const char *name, *help;
	const char *label_names[METRIC_LABELS_MAX];
	uint32_t label_count;
	enum metric_kind kind;
	uint32_t series_limit;
	struct series **table; /* open addressing, a power of two, at most half full */
	uint32_t table_size, series_count;
	int64_t (*read)(void *); /* of a counter: microseconds, shown as seconds */
	void *read_arg;
};

struct metrics {
	pthread_mutex_t lock; /* guards the families and their tables, not the values */
	struct metric_family *families;
	struct metric_family *dropped;
};

static const char dropped_name[] = "flametap_metric_series_dropped_total";

struct metrics *metrics_new(void)
{
	static const char *const label_names[] = { "metric", NULL };
	struct metrics *m = calloc(1, sizeof(*m));

	assert(m);
	pthread_mutex_init(&m->lock, NULL);
	m->dropped = metrics_family(
		m, METRIC_COUNTER, dropped_name,
		"Label sets counted in the series \"other\" as their metric has too many.",
		label_names, 0);
	return m;
}

static void family_free(struct metric_family *f)
{
	for (uint32_t i = 0; i < f->table_size; i++)
		free(f->table[i]);
	free(f->table);
	free(f);
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	while (m->families) {
		struct metric_family *f = m->families;

		m->families = f->next;
		family_free(f);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* Families are kept sorted by name, as the exposition gives them. */
static struct metric_family **family_place(struct metrics *m, const char *name)
{
	struct metric_family **at = &m->families;

	while (*at && strcmp((*at)->name, name) < 0)
		at = &(*at)->next;
	return at;
}

static struct metric_family *family_find_or_add(struct metrics *m, enum metric_kind kind,
						const char *name, const char *help)
{
	struct metric_family **at = family_place(m, name), *f = *at;

	if (f && strcmp(f->name, name) == 0) {
		assert(f->kind == kind);
		return f;
	}
	f = calloc(1, sizeof(*f));
	assert(f);
	f->registry = m;
	f->kind = kind;
	f->name = name;
	f->help = help;
	f->next = *at;
	*at = f;
	return f;
}

struct metric_family *metrics_family(struct metrics *m, enum metric_kind kind, const char *name,
				     const char *help, const char *const *label_names,
				     uint32_t series_limit)
{
	struct metric_family *f;
	uint32_t count = 0;

	pthread_mutex_lock(&m->lock);
	f = family_find_or_add(m, kind, name, help);
	while (label_names && label_names[count]) {
		assert(count < METRIC_LABELS_MAX);
		f->label_names[count] = label_names[count];
		count++;
	}
	assert(f->series_limit == 0 ||
	       f->label_count == count); /* the same name has the same labels */
	f->label_count = count;
	if (f->series_limit == 0)
		f->series_limit = series_limit ? series_limit : SERIES_LIMIT_USUAL;
	pthread_mutex_unlock(&m->lock);
	return f;
}

static uint64_t values_hash(const struct str *values, uint32_t count)
{
	uint64_t hash = count;

	for (uint32_t i = 0; i < count; i++)
		hash = (hash ^ hash64(values[i])) * UINT64_C(0x9e3779b97f4a7c15) + i;
	return hash ^ hash >> 32;
}

static bool series_is(const struct series *s, uint64_t hash, const struct str *values,
		      uint32_t count)
{
	if (s->hash != hash)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!str_equal(s->values[i], values[i]))
			return false;
	return true;
}

static struct series *series_new(uint64_t hash, const struct str *values, uint32_t count)
{
	size_t bytes = sizeof(struct series);
	struct series *s;
	char *text;

	for (uint32_t i = 0; i < count; i++)
		bytes += values[i].len;
	s = calloc(1, bytes);
	assert(s);
	s->hash = hash;
	text = (char *)(s + 1);
	for (uint32_t i = 0; i < count; i++) {
		if (values[i].len)
			memcpy(text, values[i].ptr, values[i].len);
		s->values[i] = str_from(text, values[i].len);
		text += values[i].len;
	}
	return s;
}

static struct series **table_place(struct series **table, uint32_t size, uint64_t hash,
				   const struct str *values, uint32_t count)
{
	uint32_t at = (uint32_t)hash & (size - 1);

	while (table[at] && !series_is(table[at], hash, values, count))
		at = (at + 1) & (size - 1);
	return &table[at];
}

static void table_grow(struct metric_family *f)
{
	uint32_t size = f->table_size ? f->table_size * 2 : TABLE_LEAST;
	struct series **table = calloc(size, sizeof(*table));

	assert(table);
	for (uint32_t i = 0; i < f->table_size; i++) {
		struct series *s = f->table[i];

		if (s)
			*table_place(table, size, s->hash, s->values, f->label_count) = s;
	}
	free(f->table);
	f->table = table;
	f->table_size = size;
}

static struct series **family_place_series(struct metric_family *f, uint64_t hash,
					   const struct str *values)
{
	if (f->series_count * 2 >= f->table_size)
		table_grow(f);
	return table_place(f->table, f->table_size, hash, values, f->label_count);
}

static struct metric *family_add_series(struct metric_family *f, struct series **place,
					uint64_t hash, const struct str *values)
{
	*place = series_new(hash, values, f->label_count);
	f->series_count++;
	return &(*place)->metric;
}

static struct metric *family_get_other(struct metric_family *f)
{
	static const struct str others[METRIC_LABELS_MAX] = {
		STR("other"), STR("other"), STR("other"), STR("other"), STR("other"), STR("other"),
	};
	uint64_t hash = values_hash(others, f->label_count);
	struct series **place = family_place_series(f, hash, others);

	return *place ? &(*place)->metric : family_add_series(f, place, hash, others);
}

static struct metric *family_get(struct metric_family *f, const struct str *values)
{
	uint64_t hash = values_hash(values, f->label_count);
	struct series **place = family_place_series(f, hash, values);
	struct metric_family *dropped = f->registry->dropped;
	struct str name[METRIC_LABELS_MAX] = { str_cstr(f->name) };

	if (*place)
		return &(*place)->metric;
	if (f->series_count < f->series_limit)
		return family_add_series(f, place, hash, values);
	if (f != dropped)
		metric_add(family_get(dropped, name), 1);
	return family_get_other(f);
}

struct metric *metric_get(struct metric_family *f, const struct str *label_values)
{
	struct metric *s;

	pthread_mutex_lock(&f->registry->lock);
	s = family_get(f, label_values);
	pthread_mutex_unlock(&f->registry->lock);
	return s;
}

static void add_read(struct metrics *m, enum metric_kind kind, const char *name, const char *help,
		     int64_t (*read)(void *), void *arg)
{
	struct metric_family *f;

	pthread_mutex_lock(&m->lock);
	f = family_find_or_add(m, kind, name, help);
	f->series_limit = 1;
	f->read = read;
	f->read_arg = arg;
	pthread_mutex_unlock(&m->lock);
}

void metrics_gauge_fn(struct metrics *m, const char *name, const char *help,
		      int64_t (*read)(void *), void *arg)
{
	add_read(m, METRIC_GAUGE, name, help, read, arg);
}

void metrics_seconds_fn(struct metrics *m, const char *name, const char *help,
			int64_t (*read_us)(void *), void *arg)
{
	add_read(m, METRIC_COUNTER, name, help, read_us, arg);
}

/* Escapes of the text format 0.0.4: a backslash and a line feed, and the quote in label values. */
static void append_escaped(struct buf *out, struct str s, bool quote)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] == '\n')
			buf_lit(out, "\\n");
		else if (s.ptr[i] == '\\' || (quote && s.ptr[i] == '"'))
			buf_append(out, (char[]){ '\\', s.ptr[i] }, 2);
		else
			buf_char(out, s.ptr[i]);
	}
}

static void append_label_value(struct buf *out, struct str value)
{
	struct buf clean;

	if (utf8_valid(value)) {
		append_escaped(out, value, true);
		return;
	}
	buf_init(&clean, 0);
	utf8_append_clean(&clean, value);
	append_escaped(out, buf_view(&clean), true);
	buf_release(&clean);
}

static void series_write(const struct metric_family *f, const struct series *s, struct buf *out)
{
	bool any = false;

	buf_str(out, str_cstr(f->name));
	for (uint32_t i = 0; i < f->label_count; i++) {
		if (!s->values[i].len)
			continue;
		buf_char(out, any ? ',' : '{');
		any = true;
		buf_str(out, str_cstr(f->label_names[i]));
		buf_lit(out, "=\"");
		append_label_value(out, s->values[i]);
		buf_char(out, '"');
	}
	if (any)
		buf_char(out, '}');
	buf_char(out, ' ');
	buf_i64(out, atomic_load_explicit(&s->metric.value, memory_order_relaxed));
	buf_char(out, '\n');
}

static int series_compare(const void *a, const void *b, void *label_count)
{
	const struct series *x = *(const struct series *const *)a,
			    *y = *(const struct series *const *)b;

	for (uint32_t i = 0; i < *(const uint32_t *)label_count; i++) {
		int order = str_compare(x->values[i], y->values[i]);

		if (order)
			return order;
	}
	return 0;
}

/* Series come sorted by their values, so that two scrapes can be compared. */
static void family_write_series(struct metric_family *f, struct buf *out)
{
	const struct series **sorted = calloc((size_t)f->series_count, sizeof(*sorted));
	uint32_t count = 0;

	assert(sorted);
	for (uint32_t i = 0; i < f->table_size; i++)
		if (f->table[i])
			sorted[count++] = f->table[i];
	qsort_r(sorted, count, sizeof(*sorted), series_compare, &f->label_count);
	for (uint32_t i = 0; i < count; i++)
		series_write(f, sorted[i], out);
	free(sorted);
}

static void read_write(const struct metric_family *f, struct buf *out)
{
	int64_t value = f->read(f->read_arg);

	buf_str(out, str_cstr(f->name));
	if (f->kind == METRIC_COUNTER)
		buf_printf(out, " %" PRId64 ".%06" PRId64 "\n", value / 1000000, value % 1000000);
	else
		buf_printf(out, " %" PRId64 "\n", value);
}

static void family_write(struct metric_family *f, struct buf *out)
{
	if (!f->series_count && !f->read)
		return;
	buf_lit(out, "# HELP ");
	buf_str(out, str_cstr(f->name));
	buf_char(out, ' ');
	append_escaped(out, str_cstr(f->help), false);
	buf_lit(out, "\n# TYPE ");
	buf_str(out, str_cstr(f->name));
	buf_str(out, f->kind == METRIC_COUNTER ? STR(" counter\n") : STR(" gauge\n"));
	if (f->read)
		read_write(f, out);
	else
		family_write_series(f, out);
}

void metrics_write(struct metrics *m, struct buf *out)
{
	pthread_mutex_lock(&m->lock);
	for (struct metric_family *f = m->families; f; f = f->next)
		family_write(f, out);
	pthread_mutex_unlock(&m->lock);
}
