#include "agent/runtimes/offset_table.h"

#include <string.h>

/* The next word of a line; false: there is none. */
static bool next_word(struct str *line, struct str *word)
{
	size_t n = 0;

	*line = str_trim(*line);
	while (n < line->len && line->ptr[n] != ' ' && line->ptr[n] != '\t')
		n++;
	*word = str_head(*line, n);
	*line = str_skip(*line, n);
	return n > 0;
}

/* Takes up to 4 digits off the begin of a text. */
static bool take_number(struct str *text, uint32_t *number)
{
	uint32_t n = 0;

	*number = 0;
	while (n < 4 && n < text->len && text->ptr[n] >= '0' && text->ptr[n] <= '9')
		*number = *number * 10 + (uint32_t)(text->ptr[n++] - '0');
	*text = str_skip(*text, n);
	return n > 0;
}

bool offset_version_parse(struct str text, uint32_t *version)
{
	uint32_t major, minor;

	if (!take_number(&text, &major) || !text.len || text.ptr[0] != '.')
		return false;
	text = str_skip(text, 1);
	if (!take_number(&text, &minor))
		return false;
	*version = OFFSET_VERSION(major, minor);
	return true;
}

static bool parse_versions(struct offset_table *t, struct str line, struct err *err)
{
	struct str word;

	if (t->version_count)
		return err_set(err, ERR_INVALID, "a second list of versions");
	while (next_word(&line, &word)) {
		if (t->version_count == OFFSET_VERSIONS_MOST)
			return err_set(err, ERR_LIMIT, "more than %d versions",
				       OFFSET_VERSIONS_MOST);
		if (!offset_version_parse(word, &t->versions[t->version_count++]))
			return err_set(err, ERR_INVALID, "\"%.*s\" is not a version",
				       STR_ARG(word));
	}
	return t->version_count || err_set(err, ERR_INVALID, "no version");
}

static bool parse_value(struct str word, int32_t *value, struct err *err)
{
	uint64_t n;

	*value = -1;
	if (str_is(word, "-"))
		return true;
	if (!str_to_u64(word, &n) || n > OFFSET_MOST)
		return err_set(err, ERR_INVALID, "\"%.*s\" is not a number from 0 to %d",
			       STR_ARG(word), OFFSET_MOST);
	*value = (int32_t)n;
	return true;
}

static bool parse_field(struct offset_table *t, uint32_t field, struct str line, struct err *err)
{
	uint32_t count = 0;
	struct str word;

	while (next_word(&line, &word)) {
		if (count == t->version_count)
			return err_set(err, ERR_INVALID, "more values than %u versions",
				       t->version_count);
		if (!parse_value(word, &t->values[count++][field], err))
			return false;
	}
	return (count && count == t->version_count) ||
	       err_set(err, ERR_INVALID, "%u values for %u versions", count, t->version_count);
}

struct parser {
	struct offset_table *t;
	const char *const *fields;
	bool seen[OFFSET_FIELDS_MOST];
};

static bool parse_line(struct parser *p, struct str line, struct err *err)
{
	struct str name;

	if (!next_word(&line, &name) || name.ptr[0] == '#')
		return true;
	if (str_is(name, "version"))
		return parse_versions(p->t, line, err);
	for (uint32_t i = 0; i < p->t->field_count; i++) {
		if (!str_is(name, p->fields[i]))
			continue;
		if (p->seen[i])
			return err_set(err, ERR_INVALID, "a second line for %s", p->fields[i]);
		p->seen[i] = true;
		return parse_field(p->t, i, line, err) || err_prefix(err, "%s", p->fields[i]);
	}
	return err_set(err, ERR_INVALID, "\"%.*s\" is not a field", STR_ARG(name));
}

bool offset_table_parse(struct offset_table *t, const char *const *fields, uint32_t field_count,
			struct str text, struct err *err)
{
	struct parser p = { .t = t, .fields = fields };
	uint32_t number = 0;
	struct str line;

	memset(t, 0, sizeof(*t));
	t->field_count = field_count;
	if (field_count > OFFSET_FIELDS_MOST || text.len > OFFSET_TABLE_BYTES_MOST)
		return err_set(err, ERR_LIMIT, "a table has at most %d fields and %d bytes",
			       OFFSET_FIELDS_MOST, OFFSET_TABLE_BYTES_MOST);
	while (text.len && str_split(&text, '\n', &line)) {
		number++;
		if (!parse_line(&p, line, err))
			return err_prefix(err, "line %u", number);
	}
	for (uint32_t i = 0; i < field_count; i++)
		if (!p.seen[i])
			return err_set(err, ERR_INVALID, "no line for %s", fields[i]);
	return true;
}

const int32_t *offset_table_find(const struct offset_table *t, uint32_t version)
{
	for (uint32_t i = 0; i < t->version_count; i++)
		if (t->versions[i] == version)
			return t->values[i];
	return NULL;
}
