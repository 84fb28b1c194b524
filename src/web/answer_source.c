/* answer_source.c - the lines of the file that a function is in, with what they cost. */
#include "web/internal.h"

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
	buf_lit(b, "]}\n");
	query_end(q);
	return true;
}
