/* answer_source.c - the lines of the file that a function is in, with what they cost, and their
 * text where its folder is known. */
#include "web/internal.h"

#include "web/source_text.h"

enum { LINES_MOST = 5000, LINES_BEFORE = 100 };

/* Of a long file: from a little before the first line that costs something. */
static void put_text(struct buf *b, struct str text, int64_t first_cost)
{
	int64_t first = 1, at = 1, put = 0;
	struct str line;

	if (first_cost > LINES_MOST / 2)
		first = first_cost - LINES_BEFORE;
	buf_printf(b, ",\"text_first\":%lld,\"text\":[", (long long)first);
	for (; str_split(&text, '\n', &line) && put < LINES_MOST; at++) {
		if (at < first)
			continue;
		if (put++)
			buf_char(b, ',');
		buf_json_string(b, line);
	}
	buf_char(b, ']');
}

/* Only of files that the selection has costs in: a URL alone opens none. */
static void put_source(struct web_ask *a, const struct query_lines *lines)
{
	char found[SOURCE_PATH_MOST];
	struct blob *text;
	struct err err;

	if (!a->options->source_folder || !lines->line_count)
		return;
	text = source_text_read(a->options->source_folder, lines->file, found, &err);
	buf_str(&a->body, text ? STR(",\"text_of\":") : STR(",\"no_text\":"));
	buf_json_string(&a->body, str_cstr(text ? found : err.msg));
	if (text)
		put_text(&a->body, blob_view(text), lines->lines[0].line);
	blob_unref(text);
}

bool web_answer_source(struct web_ask *a, struct err *err)
{
	struct str name = params_get(&a->params, "name"), file = params_get(&a->params, "file");
	struct buf *b = &a->body;
	struct query_lines lines;
	struct query *q;

	if (!name.len && !file.len)
		return err_set(err, ERR_INVALID, "source: of which function (name) or file?");
	q = web_begin(a, 0, err);
	if (!q)
		return false;
	if (!query_lines(q, name, file, &lines, err)) {
		query_end(q);
		return false;
	}
	buf_lit(b, "{\"file\":");
	buf_json_string(b, lines.file);
	buf_lit(b, ",\"unit\":");
	buf_json_string(b, query_facts(q).type.unit);
	buf_printf(b, ",\"total\":%lld,\"lines\":[", (long long)lines.total);
	for (uint32_t i = 0; i < lines.line_count; i++)
		buf_printf(b, "%s[%lld,%lld,%lld]", i ? "," : "", (long long)lines.lines[i].line,
			   (long long)lines.lines[i].self, (long long)lines.lines[i].total);
	buf_char(b, ']');
	put_source(a, &lines);
	buf_lit(b, "}\n");
	query_end(q);
	return true;
}
