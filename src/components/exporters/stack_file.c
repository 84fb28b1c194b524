#include "components/exporters/stack_file.h"

#include <assert.h>
#include <stdlib.h>

#include "base/go_json.h"

enum { CACHE_TEXT_BYTES = 2 << 20 };

struct pair {
	struct str key;
	uint32_t place;
	const struct any_value *value; /* NULL: a bad index */
};

void stack_file_init(struct stack_file *f)
{
	*f = (struct stack_file){ 0 };
	line_cache_init(&f->frames, CACHE_TEXT_BYTES);
	buf_init(&f->text, 0);
}

void stack_file_release(struct stack_file *f)
{
	line_cache_release(&f->frames);
	buf_release(&f->text);
	free(f->pairs);
	*f = (struct stack_file){ 0 };
}

void stack_file_begin(struct stack_file *f, const struct profiles *p)
{
	f->names = (struct names){ .profiles = p, .put = names_put_raw };
	line_cache_begin(&f->frames, p->dict.location_count);
}

struct str stack_file_sample_type(const struct profiles *p, const struct profile *profile)
{
	struct str s = profiles_string(p, profile->sample_type.type);

	return s.len ? s : STR("unknown");
}

static void append_bad(struct stack_file *f, struct buf *b, const struct bad_index *bad)
{
	buf_reset(&f->text);
	names_append_bad(&f->text, bad);
	go_json_string(b, buf_view(&f->text));
}

/* ,\n        "key": "text" when the text is not empty */
static void text_member(struct buf *b, const char *key, struct str text)
{
	if (!text.len)
		return;
	buf_printf(b, ",\n      \"%s\": ", key);
	go_json_string(b, text);
}

static void number_member(struct buf *b, const char *key, int64_t n)
{
	if (n)
		buf_printf(b, ",\n      \"%s\": %lld", key, (long long)n);
}

static void append_type(struct buf *b, struct str type)
{
	buf_lit(b, "    {\n      \"type\": ");
	go_json_string(b, type);
}

static void append_line(struct stack_file *f, struct buf *b, struct str type,
			const struct line *line)
{
	append_type(b, type);
	buf_reset(&f->text);
	names_append_function(&f->names, &f->text, line);
	text_member(b, "function", buf_view(&f->text));
	buf_reset(&f->text);
	names_append_file(&f->names, &f->text, line);
	text_member(b, "file", buf_view(&f->text));
	number_member(b, "line", line->line);
	number_member(b, "column", line->column);
	buf_lit(b, "\n    }");
}

static void append_unsymbolized(struct stack_file *f, struct buf *b, struct str type,
				const struct location *l)
{
	append_type(b, type);
	buf_lit(b, ",\n      \"address\": \"");
	names_append_hex(b, l->address, 1);
	buf_char(b, '"');
	buf_reset(&f->text);
	if (names_has_mapping(&f->names, l))
		names_append_mapping(&f->names, &f->text, l);
	else
		buf_lit(&f->text, "<unknown>");
	text_member(b, "mapping", buf_view(&f->text));
	buf_lit(b, "\n    }");
}

static void append_objects(struct stack_file *f, struct buf *b, const struct location *l)
{
	struct buf text;
	struct str type;

	buf_init(&text, 0);
	type = names_frame_type(&f->names, l, &text);
	if (l->lines.count == 0)
		append_unsymbolized(f, b, type, l);
	for (uint32_t i = 0; i < l->lines.count; i++) {
		if (i)
			buf_lit(b, ",\n");
		append_line(f, b, type, &f->names.profiles->dict.lines[l->lines.first + i]);
	}
	buf_release(&text);
}

static void append_location(struct stack_file *f, struct buf *b, uint32_t index)
{
	const struct location *l = &f->names.profiles->dict.locations[index];
	struct str text;
	size_t start;

	if (!line_cache_get(&f->frames, index, &text)) {
		append_objects(f, line_cache_make(&f->frames, &start), l);
		if (!line_cache_made(&f->frames, index, start, &text)) {
			append_objects(f, b, l);
			return;
		}
	}
	buf_str(b, text);
}

static void append_bad_frame(struct stack_file *f, struct buf *b, const struct bad_index *bad)
{
	append_type(b, STR("unknown"));
	buf_lit(b, ",\n      \"function\": ");
	append_bad(f, b, bad);
	buf_lit(b, "\n    }");
}

static void append_frames(struct stack_file *f, struct buf *b, uint32_t sample)
{
	const struct dictionary *d = &f->names.profiles->dict;
	uint32_t stack = f->names.profiles->samples[sample].stack.v;
	struct range list = d->stacks[stack].locations;
	const struct bad_index *bad =
		stack ? NULL : names_bad(&f->names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	buf_lit(b, ",\n  \"frames\": ");
	if (list.count == 0 && !bad) {
		buf_lit(b, "null");
		return;
	}
	buf_lit(b, "[\n");
	if (bad)
		append_bad_frame(f, b, bad);
	for (uint32_t k = 0; k < list.count && !b->failed; k++) {
		uint32_t index = d->stack_locations[list.first + k].v;

		bad = index ? NULL
			    : names_bad(&f->names, MESSAGE_STACK, stack, "location_indices", k);
		if (k)
			buf_lit(b, ",\n");
		if (bad)
			append_bad_frame(f, b, bad);
		else
			append_location(f, b, index);
	}
	buf_lit(b, "\n  ]");
}

static int pair_compare(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int order = str_compare(x->key, y->key);

	return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* The attributes of a sample by key; those whose index is bad have its text as key, and no value.
 */
static const struct pair *sorted_pairs(struct stack_file *f, uint32_t sample, struct range list)
{
	const struct profiles *p = f->names.profiles;

	if (list.count > f->pair_cap) {
		free(f->pairs);
		f->pair_cap = list.count < 32 ? 32 : list.count;
		f->pairs = malloc(f->pair_cap * sizeof(*f->pairs));
		assert(f->pairs);
	}
	for (uint32_t i = 0; i < list.count; i++) {
		uint32_t a = names_attribute_ref(p, list, i).v;
		const struct attribute *attribute = &p->dict.attributes[a];

		f->pairs[i] =
			(struct pair){ profiles_string(p, attribute->key), i, &attribute->value };
		if (!a && names_bad(&f->names, MESSAGE_SAMPLE, sample, "attribute_indices", i))
			f->pairs[i].value = NULL;
	}
	qsort(f->pairs, list.count, sizeof(*f->pairs), pair_compare);
	return f->pairs;
}

static void append_pair(struct stack_file *f, struct buf *b, uint32_t sample,
			const struct pair *pair)
{
	buf_lit(b, "    ");
	if (!pair->value) {
		append_bad(f, b,
			   names_bad(&f->names, MESSAGE_SAMPLE, sample, "attribute_indices",
				     pair->place));
		buf_lit(b, ": \"\"");
		return;
	}
	go_json_string(b, pair->key);
	buf_lit(b, ": ");
	buf_reset(&f->text);
	any_value_append_text(&f->text, pair->value);
	go_json_string(b, buf_view(&f->text));
}

static void append_attributes(struct stack_file *f, struct buf *b, uint32_t sample)
{
	struct range list = f->names.profiles->samples[sample].attributes;
	const struct pair *pairs;
	bool first = true;

	if (list.count == 0)
		return;
	pairs = sorted_pairs(f, sample, list);
	buf_lit(b, ",\n  \"attributes\": {\n");
	for (uint32_t i = 0; i < list.count; i++) {
		/* a map has a key once, the last one set */
		if (i + 1 < list.count && pairs[i].value && pairs[i + 1].value &&
		    str_equal(pairs[i].key, pairs[i + 1].key))
			continue;
		if (!first)
			buf_lit(b, ",\n");
		first = false;
		append_pair(f, b, sample, &pairs[i]);
	}
	buf_lit(b, "\n  }");
}

static void append_timestamps(struct buf *b, const struct profiles *p, struct range list)
{
	if (list.count == 0)
		return;
	buf_lit(b, ",\n  \"timestamps_unix_nano\": [\n");
	for (uint32_t i = 0; i < list.count; i++) {
		if (i)
			buf_lit(b, ",\n");
		buf_lit(b, "    ");
		buf_u64(b, p->timestamps[list.first + i]);
	}
	buf_lit(b, "\n  ]");
}

void stack_file_append(struct stack_file *f, struct buf *b, struct str container_id,
		       const struct profile *profile, uint32_t sample)
{
	const struct profiles *p = f->names.profiles;

	buf_lit(b, "{\n  \"container_id\": ");
	go_json_string(b, container_id);
	buf_lit(b, ",\n  \"profile_id\": \"");
	buf_hex(b, profile->profile_id, sizeof(profile->profile_id));
	buf_lit(b, "\",\n  \"sample_type\": ");
	go_json_string(b, stack_file_sample_type(p, profile));
	append_timestamps(b, p, p->samples[sample].timestamps);
	append_attributes(f, b, sample);
	append_frames(f, b, sample);
	buf_lit(b, "\n}");
}
