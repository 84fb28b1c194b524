#include "formats/names.h"

#include <inttypes.h>

void names_put_raw(struct buf *b, struct str s)
{
	buf_str(b, s);
}

const struct bad_index *names_bad(const struct names *n, enum message_kind message, uint32_t index,
				  const char *field, uint32_t element)
{
	if (n->profiles->bad_index_count == 0)
		return NULL;
	return profiles_bad_index(n->profiles, message, index, field, element);
}

void names_append_bad(struct buf *b, const struct bad_index *bad)
{
	buf_printf(b, "<bad index %" PRId64 " of %u>", bad->value, bad->table_count);
}

void names_append(const struct names *n, struct buf *b, struct strindex s,
		  enum message_kind message, uint32_t index, const char *field)
{
	const struct bad_index *bad = s.v ? NULL : names_bad(n, message, index, field, 0);

	if (bad)
		names_append_bad(b, bad);
	else
		n->put(b, profiles_string(n->profiles, s));
}

/* The function of a line, or NULL after its bad index was printed. */
static const struct function *line_function(const struct names *n, struct buf *b,
					    const struct line *line)
{
	const struct dictionary *d = &n->profiles->dict;
	const struct bad_index *bad = NULL;

	if (line->function.v == 0)
		bad = names_bad(n, MESSAGE_LINE, NAMES_INDEX(d->lines, line), "function_index", 0);
	if (bad) {
		names_append_bad(b, bad);
		return NULL;
	}
	return &d->functions[line->function.v];
}

void names_append_function(const struct names *n, struct buf *b, const struct line *line)
{
	const struct function *f = line_function(n, b, line);

	if (f)
		names_append(n, b, f->name, MESSAGE_FUNCTION, line->function.v, "name_strindex");
}

void names_append_file(const struct names *n, struct buf *b, const struct line *line)
{
	const struct function *f = &n->profiles->dict.functions[line->function.v];

	names_append(n, b, f->filename, MESSAGE_FUNCTION, line->function.v, "filename_strindex");
}

static const struct bad_index *mapping_bad(const struct names *n, const struct location *location)
{
	const struct location *table = n->profiles->dict.locations;

	return location->mapping.v ? NULL
				   : names_bad(n, MESSAGE_LOCATION, NAMES_INDEX(table, location),
					       "mapping_index", 0);
}

bool names_has_mapping(const struct names *n, const struct location *location)
{
	return location->mapping.v || mapping_bad(n, location);
}

void names_append_mapping(const struct names *n, struct buf *b, const struct location *location)
{
	const struct bad_index *bad = mapping_bad(n, location);
	const struct mapping *m = &n->profiles->dict.mappings[location->mapping.v];

	if (bad)
		names_append_bad(b, bad);
	else
		names_append(n, b, m->filename, MESSAGE_MAPPING, location->mapping.v,
			     "filename_strindex");
}

struct str names_frame_type(const struct names *n, const struct location *location,
			    struct buf *text)
{
	const struct any_value *v =
		profiles_attribute(n->profiles, location->attributes, STR("profile.frame.type"));

	if (!v)
		return STR("unknown");
	if (v->kind == ANY_STRING)
		return v->string;
	buf_reset(text);
	any_value_append_text(text, v);
	return buf_view(text);
}

struct str names_build_id(const struct names *n, const struct mapping *mapping)
{
	static const char *const keys[] = {
		"process.executable.build_id.gnu",
		"process.executable.build_id.go",
		"process.executable.build_id.htlhash",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct any_value *v =
			profiles_attribute(n->profiles, mapping->attributes, str_cstr(keys[i]));

		if (v && v->kind == ANY_STRING && v->string.len)
			return v->string;
	}
	return STR("");
}

static struct str value_text(const struct any_value *v, struct buf *text)
{
	if (!v)
		return STR("");
	if (v->kind == ANY_STRING)
		return v->string;
	buf_reset(text);
	any_value_append_text(text, v);
	return buf_view(text);
}

struct str names_container_id(const struct profiles *p, const struct resource_profiles *r,
			      const struct sample *sample, struct buf *text)
{
	const struct str key = STR("container.id");
	struct str id = STR("");

	if (sample)
		id = value_text(profiles_attribute(p, sample->attributes, key), text);
	return id.len ? id : value_text(key_values_find(r->attributes, key), text);
}

void names_append_hex(struct buf *b, uint64_t v, unsigned digits_least)
{
	char text[2 + 16], *end = text + sizeof(text), *p = end;

	while (v || digits_least) {
		*--p = "0123456789abcdef"[v & 15];
		v >>= 4;
		digits_least -= digits_least > 0;
	}
	*--p = 'x';
	*--p = '0';
	buf_append(b, p, (size_t)(end - p));
}

bool names_wanted(const struct config_strings *list, struct str s)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (str_is(s, list->items[i]))
			return true;
	}
	return list->count == 0;
}

bool names_profile_wanted(const struct profiles *p, const struct profile *profile,
			  const struct config_strings *sample_types)
{
	return !profile->refused &&
	       (sample_types->count == 0 ||
		names_wanted(sample_types, profiles_string(p, profile->sample_type.type)));
}
