/*
 * answer_report.c - the HTML report: the page itself in one file, with the answers that it would
 * ask for.
 *
 * The build leaves a frame (report.html) that names the hashes of the page's script and style in a
 * Content-Security-Policy of its own: the file runs those and nothing else, and reaches no network.
 * In it lie, gzipped and in base64:
 *
 *   0   "FTR1"
 *   4   u32 length of the header
 *   8   the header: {"version", "made", "state", "parts": [["flamegraph", bytes], ...]}
 *   ... the parts, one behind the other: answers as docs/api.md has them
 *
 * A report stays below REPORT_MOST: past it, trees are pruned further, and lists are shorter.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/compress.h"
#include "web/internal.h"

enum { REPORT_MOST = 1000000, PARTS_MOST = 10, ATTEMPTS = 6 };

static const struct part {
	const char *name;
	web_answer_fn *answer;
	struct {
		const char *name;
		uint32_t most, least; /* by how much room there is */
	} more[2];
	bool diff; /* only where there are two sides */
} PARTS[] = {
	{ "status", web_answer_status, { { 0 } }, false },
	{ "flamegraph", web_answer_flamegraph, { { "max_nodes", 16384, 250 } }, false },
	{ "flamegraph inverted",
	  web_answer_flamegraph,
	  { { "max_nodes", 16384, 250 }, { "inverted", 1, 1 } },
	  false },
	{ "top", web_answer_top, { { "limit", 2000, 100 } }, false },
	{ "timeline", web_answer_timeline, { { "width", 480, 240 } }, false },
	{ "heatmap", web_answer_heatmap, { { "width", 300, 100 } }, false },
	{ "chart", web_answer_chart, { { "width", 800, 200 }, { "lanes", 30, 4 } }, false },
	{ "raw", web_answer_raw, { { "limit", 100, 10 } }, false },
	{ "diff", web_answer_diff, { { "max_nodes", 16384, 250 } }, true },
	{ "top diff", web_answer_top, { { "limit", 2000, 100 } }, true },
};
_Static_assert(ARRAY_LEN(PARTS) == PARTS_MOST, "a part more");

static bool is_side_two(struct str name)
{
	return str_is(name, "query2") || str_is(name, "from2") || str_is(name, "to2") ||
	       str_is(name, "type2");
}

/* The report's parameters as those of one of its questions. */
static struct params params_of(struct web_ask *a, const struct params *own, const struct part *part,
			       double share)
{
	struct params p = { arena_alloc_array(&a->arena, own->count + 4u, sizeof(struct param)),
			    0 };

	for (uint32_t i = 0; i < own->count; i++)
		if (part->diff || !is_side_two(own->ptr[i].name))
			p.ptr[p.count++] = own->ptr[i];
	for (size_t i = 0; i < ARRAY_LEN(part->more) && part->more[i].name; i++) {
		uint32_t n = (uint32_t)(part->more[i].most * share);

		n = n < part->more[i].least ? part->more[i].least : n;
		p.ptr[p.count++] = (struct param){ str_cstr(part->more[i].name),
						   str_printf(&a->arena, "%u", n) };
	}
	return p;
}

static bool answer_part(struct web_ask *a, const struct params *own, const struct part *part,
			double share, struct err *err)
{
	bool ok;

	a->params = params_of(a, own, part, share);
	ok = part->answer(a, err);
	a->params = *own;
	return ok;
}

static void put_header(struct web_ask *a, const size_t *sizes, struct buf *out)
{
	AUTO(buf_release) struct buf h = { 0 };
	uint32_t length;
	bool any = false;

	buf_printf(&h, "{\"version\":\"" FLAMETAP_VERSION "\",\"made\":\"%llu\",\"state\":",
		   (unsigned long long)a->now_ns);
	buf_json_string(&h, params_get(&a->params, "state"));
	buf_lit(&h, ",\"parts\":[");
	for (size_t i = 0; i < PARTS_MOST; i++) {
		if (!sizes[i])
			continue;
		buf_printf(&h, "%s[\"%s\",%zu]", any ? "," : "", PARTS[i].name, sizes[i]);
		any = true;
	}
	buf_lit(&h, "]}");
	length = (uint32_t)h.len;
	buf_lit(out, "FTR1");
	buf_append(out, &length, sizeof(length));
	buf_str(out, buf_view(&h));
}

/* All answers, gzipped; of what can be shorter the share. */
static bool make_bundle(struct web_ask *a, double share, struct buf *out, struct err *err)
{
	const struct params own = a->params;
	bool two = params_has(&own, "query2") || params_has(&own, "from2"), ok = true;
	AUTO(buf_release) struct buf parts = { 0 }, plain = { 0 };
	size_t sizes[PARTS_MOST] = { 0 };

	for (size_t i = 0; ok && i < PARTS_MOST; i++) {
		if (PARTS[i].diff && !two)
			continue;
		buf_release(&a->body);
		a->body = (struct buf){ 0 };
		ok = answer_part(a, &own, &PARTS[i], share, err);
		sizes[i] = a->body.len;
		buf_str(&parts, buf_view(&a->body));
	}
	buf_release(&a->body);
	a->body = (struct buf){ 0 };
	if (!ok)
		return false;
	put_header(a, sizes, &plain);
	buf_str(&plain, buf_view(&parts));
	return compress_into(COMPRESSION_GZIP, 9, buf_view(&plain), out, err);
}

static bool put_asset(struct buf *out, struct str gzipped, struct err *err)
{
	struct blob *plain = decompress(COMPRESSION_GZIP, gzipped, 4 << 20, err);

	if (!plain)
		return false;
	buf_str(out, blob_view(plain));
	blob_unref(plain);
	return true;
}

/* The frame, with what stands for each @NAME@ in its place. */
static bool put_file(struct buf *out, struct str bundle, struct err *err)
{
	static const char *const paths[] = { "/app.css", "/app.js" };
	static const struct str marks[] = { STR("@CSS@"), STR("@JS@") };
	const struct str data = STR("@DATA@");
	AUTO(buf_release) struct buf frame = { 0 };
	struct str rest;
	ptrdiff_t at;

	if (!put_asset(&frame, web_report_frame(), err))
		return false;
	rest = buf_view(&frame);
	for (unsigned i = 0; i < 3; i++) {
		struct str mark = i == 0 ? marks[0] : i == 1 ? data : marks[1];

		at = str_search(rest, mark);
		if (at < 0)
			return err_set(err, ERR_UNSUPPORTED,
				       "this flametap was built without its page: no report");
		buf_str(out, str_head(rest, (size_t)at));
		rest = str_skip(rest, (size_t)at + mark.len);
		if (i == 1)
			buf_base64(out, bundle.ptr, bundle.len);
		else if (!put_asset(out, web_asset_find(str_cstr(paths[i / 2]))->gzipped, err))
			return false;
	}
	buf_str(out, rest);
	return true;
}

bool web_answer_report(struct web_ask *a, struct err *err)
{
	double share = 1;

	for (int attempt = 0;; attempt++) {
		AUTO(buf_release) struct buf bundle = { 0 };
		struct buf file = { 0 };
		double data, room;

		if (!make_bundle(a, share, &bundle, err))
			return false;
		if (!put_file(&file, buf_view(&bundle), err)) {
			buf_release(&file);
			return false;
		}
		if (file.len < REPORT_MOST) {
			a->body = file;
			break;
		}
		data = (double)bundle.len * 4 / 3;
		room = REPORT_MOST - ((double)file.len - data);
		buf_release(&file);
		if (attempt == ATTEMPTS - 1 || room <= 0)
			return err_set(err, ERR_LIMIT,
				       "a report of this selection has more than %d bytes: a "
				       "shorter time has room",
				       REPORT_MOST);
		share *= 0.8 * room / data;
	}
	a->content_type = "text/html; charset=utf-8";
	a->file_name = "flametap-report.html";
	return true;
}
