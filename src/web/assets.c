/* assets.c - the page's files, gzipped into the program at build time (assets.S names them; without
 * -DUI=ON there is one plain page that says so). */
#include <pthread.h>
#include <stdio.h>

#include "base/hash.h"
#include "web/internal.h"

extern const char web_index_begin[], web_index_end[];
extern const char web_js_begin[], web_js_end[];
extern const char web_css_begin[], web_css_end[];
extern const char web_report_begin[], web_report_end[];

static struct web_asset assets[3];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set(struct web_asset *a, const char *path, const char *type, const char *begin,
		const char *end)
{
	a->path = path;
	a->content_type = type;
	a->gzipped = str_from(begin, (size_t)(end - begin));
	snprintf(a->etag, sizeof(a->etag), "\"%016llx\"", (unsigned long long)hash64(a->gzipped));
}

static void fill(void)
{
	set(&assets[0], "/", "text/html; charset=utf-8", web_index_begin, web_index_end);
	set(&assets[1], "/app.js", "text/javascript; charset=utf-8", web_js_begin, web_js_end);
	set(&assets[2], "/app.css", "text/css; charset=utf-8", web_css_begin, web_css_end);
}

const struct web_asset *web_asset_find(struct str path)
{
	pthread_once(&once, fill);
	for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
		if (str_is(path, assets[i].path) && assets[i].gzipped.len)
			return &assets[i];
	return NULL;
}

struct str web_report_frame(void)
{
	return str_from(web_report_begin, (size_t)(web_report_end - web_report_begin));
}
