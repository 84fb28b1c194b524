#include "pipeline/expand.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

struct scalar {
	struct expand *x;
	struct config_pos pos;
	uint32_t rounds, depth;
	bool failed;
};

enum { NESTED_MOST = 100 };

static bool expand_text(struct scalar *s, struct str in, struct buf *out);

static bool fail(struct scalar *s, const char *what, struct str detail)
{
	if (!s->failed)
		problem_error(s->x->problems, &s->pos, "%s%.*s", what, STR_ARG(detail));
	s->failed = true;
	return false;
}

bool expand_read_file(struct arena *a, const char *path, struct str *out, struct err *err)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct buf content;
	ssize_t n = 0;

	if (fd < 0)
		return err_set_errno(err, "open %s", path);
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "read %s: is a directory", path);
	buf_init(&content, NODE_SOURCE_BYTES_MOST + 1);
	for (;;) {
		char *room = buf_reserve(&content, 4096);

		n = room ? read(fd, room, 4096) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_advance(&content, (size_t)n);
	}
	if (n < 0)
		err_set_errno(err, "read %s", path);
	else if (content.failed)
		err_set(err, ERR_LIMIT, "read %s: more than %d bytes", path,
			NODE_SOURCE_BYTES_MOST);
	else
		*out = str_dup(a, buf_view(&content));
	n = n < 0 || content.failed ? -1 : 0;
	buf_release(&content);
	return n == 0;
}

/* The index behind the "}" that closes the "${" at the start of s, or 0. */
static size_t reference_len(struct str s)
{
	uint32_t depth = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] == '$' && i + 1 < s.len && s.ptr[i + 1] == '{') {
			depth++;
			i++;
		} else if (s.ptr[i] == '}' && --depth == 0) {
			return i + 1;
		}
	}
	return 0;
}

/* Where the default's ":-" stands, outside of nested references; -1: there is none. */
static ptrdiff_t default_at(struct str s)
{
	for (size_t i = 0; i + 1 < s.len; i++) {
		if (s.ptr[i] == '$' && s.ptr[i + 1] == '{') {
			size_t len = reference_len(str_skip(s, i));

			if (len == 0)
				return -1;
			i += len - 1;
		} else if (s.ptr[i] == ':' && s.ptr[i + 1] == '-') {
			return (ptrdiff_t)i;
		}
	}
	return -1;
}

static bool env_name_valid(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return s.len > 0;
}

static bool spend(struct scalar *s, size_t bytes)
{
	if (bytes > s->x->bytes_left)
		return fail(s, "too much text comes of the references up to here", STR(""));
	s->x->bytes_left -= bytes;
	return true;
}

/* What a reference stands for, before it is expanded again. */
struct value {
	struct str text;
	bool missing; /* the variable is not set */
	bool given;   /* a default, even an empty one: text as it is */
};

static bool env_value(struct scalar *s, struct str inner, struct value *v)
{
	ptrdiff_t at = default_at(inner);
	struct str name_raw = at >= 0 ? str_head(inner, (size_t)at) : inner;
	const char *value;
	struct buf name;
	char *key;
	bool ok;

	buf_init(&name, EXPAND_BYTES_MOST);
	ok = expand_text(s, name_raw, &name) && spend(s, name.len);
	key = ok ? str_dup_cstr(s->x->arena, buf_view(&name)) : NULL;
	buf_release(&name);
	if (!ok)
		return false;
	if (!env_name_valid(str_cstr(key))) {
		problem_error(s->x->problems, &s->pos,
			      "environment variable \"%s\" has invalid name: must match regex "
			      "^[a-zA-Z_][a-zA-Z0-9_]*$",
			      key);
		s->failed = true;
		return false;
	}
	value = s->x->getenv ? s->x->getenv(key) : getenv(key);
	if (value) {
		v->text = str_cstr(value);
	} else if (at >= 0) {
		v->text = str_skip(inner, (size_t)at + 2);
		v->given = true;
	} else {
		problem_warn(s->x->problems, &s->pos,
			     "Configuration references unset environment variable \"%s\"", key);
		v->missing = true;
	}
	return true;
}

static bool file_value(struct scalar *s, struct str path_raw, struct value *v)
{
	struct str content;
	struct buf path;
	struct err err;
	char *name;
	bool ok;

	buf_init(&path, EXPAND_BYTES_MOST);
	ok = expand_text(s, path_raw, &path) && spend(s, path.len);
	name = ok ? str_dup_cstr(s->x->arena, buf_view(&path)) : NULL;
	buf_release(&path);
	if (!ok)
		return false;
	if (s->x->no_files)
		return fail(s, "files are not read here: ", str_cstr(name));
	if (!expand_read_file(s->x->arena, name, &content, &err)) {
		problem_error(s->x->problems, &s->pos, "unable to read the file file:%s: %s", name,
			      err.msg);
		s->failed = true;
		return false;
	}
	while (content.len &&
	       (content.ptr[content.len - 1] == '\n' || content.ptr[content.len - 1] == '\r'))
		content.len--;
	v->text = content;
	return true;
}

static bool value_of(struct scalar *s, struct str inner, struct value *v)
{
	ptrdiff_t colon = str_find(inner, ':');
	struct str scheme = colon > 0 ? str_head(inner, (size_t)colon) : STR("env");
	struct str rest = colon > 0 ? str_skip(inner, (size_t)colon + 1) : inner;

	*v = (struct value){ 0 };
	/* ${X:-d}: the colon belongs to the default */
	if (colon > 0 && rest.len && rest.ptr[0] == '-')
		return env_value(s, inner, v);
	/* ${${S}:X} and ${A${B}}: a nested reference may hold the first colon */
	if (str_search(scheme, STR("${")) >= 0)
		return env_value(s, inner, v);
	if (str_is(scheme, "env"))
		return env_value(s, rest, v);
	if (str_is(scheme, "file"))
		return file_value(s, rest, v);
	if (str_is(scheme, "yaml")) {
		v->text = rest;
		return true;
	}
	problem_error(s->x->problems, &s->pos, "scheme \"%.*s\" is not supported for uri \"%.*s\"",
		      STR_ARG(scheme), STR_ARG(inner));
	s->failed = true;
	return false;
}

/* Looking for the closing brace costs, too: unclosed references by the thousand end at the same
 * limit. */
static bool reference_value(struct scalar *s, struct str inner, struct value *v)
{
	bool ok;

	if (s->depth >= NESTED_MOST)
		return fail(s, "too many recursive expansions", STR(""));
	s->depth++;
	ok = value_of(s, inner, v);
	s->depth--;
	return ok;
}

/* Expands what a reference stands for; false past the limits, which also end a value that names
 * itself. */
static bool expand_again(struct scalar *s, struct str text, struct buf *out)
{
	if (++s->rounds > EXPAND_ROUNDS_MOST)
		return fail(s, "too many recursive expansions", STR(""));
	return spend(s, text.len) && expand_text(s, text, out);
}

static bool expand_text(struct scalar *s, struct str in, struct buf *out)
{
	while (in.len) {
		ptrdiff_t at = str_find(in, '$');
		struct value v;
		size_t len;

		buf_str(out, at < 0 ? in : str_head(in, (size_t)at));
		if (at < 0)
			break;
		in = str_skip(in, (size_t)at);
		len = in.len > 1 && in.ptr[1] == '{' ? reference_len(in) : 0;
		if (in.len > 1 && in.ptr[1] == '{' && !spend(s, len ? len : in.len))
			return false;
		if (len) {
			struct str inner = str_from(in.ptr + 2, len - 3);

			if (!reference_value(s, inner, &v) || !expand_again(s, v.text, out))
				return false;
			in = str_skip(in, len);
			continue;
		}
		buf_char(out, '$');
		in = str_skip(in, in.len > 1 && in.ptr[1] == '$' ? 2 : 1);
	}
	if (out->failed)
		return fail(s, "a value of more than a MiB comes of the references here", STR(""));
	return true;
}

static struct config_node *text_node(struct scalar *s, struct str text, bool quoted)
{
	struct config_node *n = node_new(s->x->arena, NODE_SCALAR, s->pos);

	n->text = str_dup(s->x->arena, text);
	n->quoted = quoted;
	return n;
}

static void set_positions(struct config_node *n, struct config_pos pos)
{
	n->pos = pos;
	for (uint32_t i = 0; n->kind == NODE_MAP && i < n->count; i++) {
		n->entries[i].pos = pos;
		set_positions(n->entries[i].value, pos);
	}
	for (uint32_t i = 0; n->kind == NODE_LIST && i < n->count; i++)
		set_positions(n->items[i], pos);
}

/* The value of a scalar that is one whole reference: YAML, or the text as it is where it is none.
 */
static struct config_node *typed_node(struct scalar *s, const struct value *v, struct str text)
{
	struct problems quiet;
	struct config_node *n;

	if (v->given && text.len == 0)
		return text_node(s, text, true);
	problems_init(&quiet);
	n = node_parse(s->x->arena, text, s->pos.file, &s->x->nodes_left, &quiet);
	problems_release(&quiet);
	if (!n)
		return text_node(s, text, true);
	set_positions(n, s->pos);
	n->text = str_dup(s->x->arena,
			  text); /* for a string: what was written, not what YAML makes of it */
	if (n->kind == NODE_SCALAR)
		n->quoted = false;
	return n;
}

static struct config_node *whole_reference(struct scalar *s, struct str in)
{
	struct config_node *n = NULL;
	struct value v;
	struct buf out;

	if (!reference_value(s, str_from(in.ptr + 2, in.len - 3), &v))
		return NULL;
	if (v.missing)
		return node_new(s->x->arena, NODE_NULL, s->pos);
	buf_init(&out, EXPAND_BYTES_MOST);
	if (expand_again(s, v.text, &out))
		n = typed_node(s, &v, buf_view(&out));
	buf_release(&out);
	return n;
}

static struct config_node *expand_scalar(struct expand *x, const struct config_node *from)
{
	struct scalar s = { .x = x, .pos = from->pos };
	struct config_node *n = NULL;
	struct buf out;

	if (str_find(from->text, '$') < 0)
		return (struct config_node *)from;
	if (str_has_prefix(from->text, STR("${")) && reference_len(from->text) == from->text.len) {
		n = whole_reference(&s, from->text);
	} else {
		buf_init(&out, EXPAND_BYTES_MOST);
		if (expand_text(&s, from->text, &out))
			n = text_node(&s, buf_view(&out), from->quoted);
		buf_release(&out);
	}
	if (n)
		n->reference = from->text;
	return n;
}

static struct config_node *expand_node(struct expand *x, const struct config_node *from)
{
	struct config_node *to;
	bool ok = true;

	if (from->kind == NODE_NULL)
		return (struct config_node *)from;
	if (from->kind == NODE_SCALAR)
		return expand_scalar(x, from);
	to = node_new(x->arena, from->kind, from->pos);
	for (uint32_t i = 0; from->kind == NODE_MAP && i < from->count; i++) {
		const struct config_entry *e = &from->entries[i];
		struct config_node *value = expand_node(x, e->value);

		ok = ok && value;
		if (value)
			node_add(x->arena, to, e->key, e->pos, value);
	}
	for (uint32_t i = 0; from->kind == NODE_LIST && i < from->count; i++) {
		struct config_node *item = expand_node(x, from->items[i]);

		ok = ok && item;
		if (item)
			node_append(x->arena, to, item);
	}
	return ok ? to : NULL;
}

struct config_node *expand_tree(struct expand *x, const struct config_node *root)
{
	if (!x->nodes_left)
		x->nodes_left = NODES_MOST;
	if (!x->bytes_left)
		x->bytes_left = UINT64_C(64) * EXPAND_BYTES_MOST;
	return expand_node(x, root);
}
