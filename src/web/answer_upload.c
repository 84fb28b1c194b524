/* answer_upload.c - files dropped onto the page: taken, listed, and opened in the store's place. */
#include "query/select/selector.h"
#include "web/internal.h"

static const char LABEL[] = "upload.id";

static void put_upload(struct buf *b, const struct upload *one)
{
	buf_printf(b, "{\"id\":\"%s\",\"name\":", one->id);
	buf_json_string(b, str_cstr(one->name));
	buf_printf(b, ",\"bytes\":%llu,\"time\":\"%llu\",\"query\":\"{%s=\\\"%s\\\"}\"}",
		   (unsigned long long)one->bytes, (unsigned long long)one->time_ns, LABEL,
		   one->id);
}

/* POST: the body is the file, `name` what it is called. */
bool web_answer_upload(struct web_ask *a, struct err *err)
{
	struct upload one;

	if (!a->sent || !blob_view(a->sent).len)
		return err_set(err, ERR_INVALID, "the file is empty");
	if (!uploads_add(a->options->uploads, a->sent, params_get(&a->params, "name"), a->now_ns,
			 &one, err))
		return false;
	put_upload(&a->body, &one);
	buf_char(&a->body, '\n');
	return true;
}

bool web_answer_uploads(struct web_ask *a, struct err *err)
{
	struct upload *list = arena_alloc_array(&a->arena, UPLOADS_MOST, sizeof(*list));
	uint32_t count = uploads_list(a->options->uploads, a->now_ns, list);

	(void)err;
	buf_char(&a->body, '[');
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			buf_char(&a->body, ',');
		put_upload(&a->body, &list[i]);
	}
	buf_lit(&a->body, "]\n");
	return true;
}

/* The value that a selector gives to upload.id with `=`; empty: none, or no selector at all (the
 * engine says why). */
static struct str wanted_upload(struct arena *arena, struct str query)
{
	struct selector *s;
	struct str id = { 0 };
	struct err ignored;

	if (str_search(query, STR("upload")) < 0)
		return id;
	s = selector_parse(query, &ignored);
	for (uint32_t i = 0; s && i < s->count; i++)
		if (s->matchers[i].op == MATCH_EQUAL &&
		    label_key_is(str_cstr(LABEL), s->matchers[i].key))
			id = str_dup(arena, s->matchers[i].value);
	selector_free(s);
	return id;
}

static bool open_one(struct web_ask *a, struct str query, struct source **out, struct err *err)
{
	const struct web_sources *sources = &a->options->sources;
	struct str id = wanted_upload(&a->arena, query);

	if (id.len)
		return uploads_open(a->options->uploads, id, out, err);
	return sources->open(sources->ctx, out, err);
}

bool web_open_sources(struct web_ask *a, struct err *err)
{
	if (!open_one(a, params_get(&a->params, "query"), &a->source, err))
		return false;
	return !params_has(&a->params, "query2") ||
	       open_one(a, params_get(&a->params, "query2"), &a->source2, err);
}
