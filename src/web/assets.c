/* assets.c - the page's files, gzipped into the program at build time (assets_data.c; without
 * -DUI=ON there is one plain page that says so), and the description of the API. */
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "net/compress.h"
#include "web/internal.h"

extern const char web_index_begin[], web_index_end[];
extern const char web_js_begin[], web_js_end[];
extern const char web_css_begin[], web_css_end[];
extern const char web_report_begin[], web_report_end[];
extern const char web_openapi_begin[], web_openapi_end[];

static struct web_asset assets[4];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set(struct web_asset *a, const char *path, const char *type, bool immutable,
		const char *begin, const char *end)
{
	a->path = path;
	a->content_type = type;
	a->immutable = immutable;
	a->gzipped = str_from(begin, (size_t)(end - begin));
	snprintf(a->etag, sizeof(a->etag), "\"%016llx\"", (unsigned long long)hash64(a->gzipped));
}

static void fill(void)
{
	set(&assets[0], "/", "text/html; charset=utf-8", false, web_index_begin, web_index_end);
	set(&assets[1], "/app.js", "text/javascript; charset=utf-8", true, web_js_begin,
	    web_js_end);
	set(&assets[2], "/app.css", "text/css; charset=utf-8", true, web_css_begin, web_css_end);
	set(&assets[3], "/api/v1/openapi.json", "application/json", false, web_openapi_begin,
	    web_openapi_end);
}

const struct web_asset *web_asset_find(struct str path)
{
	pthread_once(&once, fill);
	for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
		if (str_is(path, assets[i].path) && assets[i].gzipped.len)
			return &assets[i];
	return NULL;
}

void web_asset_send(struct net_request *r, const struct web_asset *asset)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);
	struct blob *plain;
	struct err err;

	headers[count++] = (struct net_header){ "content-type", str_cstr(asset->content_type) };
	headers[count++] = (struct net_header){ "etag", str_cstr(asset->etag) };
	headers[count++] = (struct net_header){ "vary", STR("accept-encoding") };
	headers[count++] =
		(struct net_header){ "cache-control",
				     asset->immutable ? STR("public, max-age=31536000, immutable")
						      : STR("no-cache") };
	if (web_etag_in(net_request_header(r, "if-none-match"), str_cstr(asset->etag))) {
		net_reply_http(r, 304, headers, count, str_from("", 0));
		return;
	}
	if (net_request_accepts_gzip(r)) {
		headers[count++] = (struct net_header){ "content-encoding", STR("gzip") };
		net_reply_http(r, 200, headers, count, asset->gzipped);
	} else if ((plain = decompress(COMPRESSION_GZIP, asset->gzipped, 4 << 20, &err))) {
		net_reply_http(r, 200, headers, count, blob_view(plain));
		blob_unref(plain);
	} else {
		web_reply_error(r, 500, str_cstr(err.msg), str_from("", 0), NULL);
	}
}

struct str web_report_frame(void)
{
	return str_from(web_report_begin, (size_t)(web_report_end - web_report_begin));
}
