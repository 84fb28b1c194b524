/* flags_source.c - flags from where they are not typed: the environment and a file. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "flags.h"
#include "flags_internal.h"

enum { FILE_MOST = 1 << 20 };

static void environment_name(const char *prefix, const char *flag, char *out, size_t room)
{
	size_t len = (size_t)snprintf(out, room, "%s%s", prefix, flag);

	for (size_t i = strlen(prefix); i < len && i < room - 1; i++)
		out[i] =
			out[i] == '-' || out[i] == '.' ? '_' : (char)toupper((unsigned char)out[i]);
}

bool flags_read_environment(const struct command *c, const char *prefix, struct err *err)
{
	unsigned mark = flags_mark();

	for (const struct flag *f = c->flags; f->name; f++) {
		const char *value;
		char name[96];

		environment_name(prefix, f->name, name, sizeof(name));
		value = getenv(name);
		if (!value || !*value || flags_given_before(f, mark))
			continue;
		if (!flags_set(f, value, err))
			return err_prefix(err, "%s", name);
	}
	return true;
}

/* The line's text is the file's: a NUL is put behind the value. */
static bool read_line(const struct command *c, char *line, unsigned mark, struct err *err)
{
	struct str text = str_trim(str_cstr(line));
	const struct flag *f;
	struct str value;
	size_t end = 0;

	if (!text.len || text.ptr[0] == '#')
		return true;
	while (end < text.len && !strchr(" \t=", text.ptr[end]))
		end++;
	f = flags_find(c->flags, str_skip(str_head(text, end), strspn(text.ptr, "-")));
	if (!f || flags_given_before(f, mark))
		return true;
	value = str_skip(text, end);
	while (value.len && strchr(" \t=", value.ptr[0]))
		value = str_skip(value, 1);
	line[(size_t)(value.ptr - line) + value.len] = 0;
	return flags_set(f, value.len ? value.ptr : NULL, err);
}

static char *read_all(FILE *f, const char *path, struct err *err)
{
	char *text = malloc(FILE_MOST + 1);
	size_t len = text ? fread(text, 1, FILE_MOST + 1, f) : 0;

	if (text && len <= FILE_MOST && !ferror(f)) {
		text[len] = 0;
		return realloc(text, len + 1);
	}
	free(text);
	err_set(err, ERR_LIMIT, "%s can't be read, or is more than %d bytes", path, FILE_MOST);
	return NULL;
}

bool flags_read_file(const struct command *c, const char *path, char **out, struct err *err)
{
	unsigned mark = flags_mark(), number = 0;
	FILE *f = fopen(path, "re");
	char *text, *line, *next;

	*out = NULL;
	if (!f && errno == ENOENT)
		return true;
	if (!f)
		return err_set_errno(err, "%s", path);
	text = read_all(f, path, err);
	fclose(f);
	*out = text;
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		number++;
		if (!read_line(c, line, mark, err))
			return err_prefix(err, "%s:%u", path, number);
	}
	return text != NULL;
}
