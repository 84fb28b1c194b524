#include "web/params.h"

#include <string.h>

#include "base/hex.h"

static bool decode(struct arena *arena, struct str in, struct str *out, struct err *err)
{
	char *text = arena_alloc(arena, in.len + 1);
	size_t len = 0;

	for (size_t i = 0; i < in.len; i++) {
		char c = in.ptr[i];

		if (c == '+') {
			c = ' ';
		} else if (c == '%') {
			int byte = percent_escape_at(in, i);

			if (byte < 0)
				return err_set(err, ERR_INVALID,
					       "the URL's query has a bad escape at byte %zu of "
					       "\"%.*s\"",
					       i, (int)(in.len < 80 ? in.len : 80), in.ptr);
			c = (char)byte;
			i += 2;
		}
		text[len++] = c;
	}
	*out = str_from(text, len);
	return true;
}

bool params_parse(struct arena *arena, struct str query, struct params *out, struct err *err)
{
	struct param list[PARAMS_MOST];
	struct params p = { 0 };
	struct str rest = query, pair;

	if (query.len > PARAMS_BYTES_MOST)
		return err_set(err, ERR_LIMIT, "the URL's query has %zu bytes, at most %d are read",
			       query.len, PARAMS_BYTES_MOST);
	while (str_split(&rest, '&', &pair)) {
		ptrdiff_t equals = str_find(pair, '=');
		struct str name = equals < 0 ? pair : str_head(pair, (size_t)equals);
		struct str value =
			equals < 0 ? str_from("", 0) : str_skip(pair, (size_t)equals + 1);

		if (pair.len == 0)
			continue;
		if (p.count == PARAMS_MOST)
			return err_set(err, ERR_LIMIT,
				       "the URL's query has more than %d parameters", PARAMS_MOST);
		if (!decode(arena, name, &list[p.count].name, err) ||
		    !decode(arena, value, &list[p.count].value, err))
			return false;
		p.count++;
	}
	if (p.count) {
		p.ptr = arena_alloc(arena, p.count * sizeof(*p.ptr));
		memcpy(p.ptr, list, p.count * sizeof(*p.ptr));
	}
	*out = p;
	return true;
}

static const struct param *find(const struct params *p, const char *name)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (str_is(p->ptr[i].name, name))
			return &p->ptr[i];
	return NULL;
}

struct str params_get(const struct params *p, const char *name)
{
	const struct param *found = find(p, name);

	return found ? found->value : str_from("", 0);
}

bool params_has(const struct params *p, const char *name)
{
	return find(p, name) != NULL;
}

static bool is_among(struct str name, const char *names)
{
	struct str rest = str_cstr(names), one;

	while (str_split(&rest, ' ', &one))
		if (str_equal(one, name))
			return true;
	return false;
}

bool params_known(const struct params *p, const char *names, struct err *err)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (!is_among(p->ptr[i].name, names))
			return err_set(err, ERR_INVALID,
				       "there is no parameter \"%.*s\" here; there are %s",
				       STR_ARG(str_head(p->ptr[i].name, 40)), names);
	return true;
}

bool params_u32(const struct params *p, const char *name, uint32_t least, uint32_t most,
		uint32_t otherwise, uint32_t *out, struct err *err)
{
	struct str text = params_get(p, name);
	uint64_t v = otherwise;

	if (text.len && (!str_to_u64(text, &v) || v < least || v > most))
		return err_set(err, ERR_INVALID, "%s is \"%.*s\"; expected a number from %u to %u",
			       name, (int)(text.len < 40 ? text.len : 40), text.ptr, least, most);
	*out = (uint32_t)v;
	return true;
}
