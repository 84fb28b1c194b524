#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "components/processors/detect/detect.h"
#include "net/curl_lib.h"
#include "wire/json_reader.h"

enum { ANSWER_BYTES_MOST = 1 << 20 };

static size_t bytes_came(char *bytes, size_t size, size_t count, void *arg)
{
	struct buf *out = arg;

	buf_append(out, bytes, size * count);
	return out->failed ? 0 : size * count;
}

static void prepare(const struct curl_lib *curl, CURL *easy, const struct detect_request *r,
		    long timeout_ms, struct curl_slist *headers, struct buf *out)
{
	curl->curl_easy_setopt(easy, CURLOPT_URL, r->url);
	curl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl->curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
	curl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "flametap/" FLAMETAP_VERSION);
	curl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, bytes_came);
	curl->curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
	if (r->unix_socket)
		curl->curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, r->unix_socket);
	if (r->method)
		curl->curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
	if (r->ca_file)
		curl->curl_easy_setopt(easy, CURLOPT_CAINFO, r->ca_file);
	if (r->unverified) {
		curl->curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl->curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (headers)
		curl->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
}

bool detect_http(const struct detect_request *r, struct buf *out, struct err *err)
{
	const struct curl_lib *curl = curl_lib_load(err);
	uint64_t now_ns = clock_monotonic_ns();
	struct curl_slist *headers = NULL;
	CURLcode code;
	CURL *easy;

	if (!curl)
		return false;
	if (now_ns >= r->deadline_ns)
		return err_set(err, ERR_TIMEOUT, "%s: no time is left", r->url);
	easy = curl->curl_easy_init();
	if (!easy)
		return err_set(err, ERR_INTERNAL, "libcurl does not start");
	if (r->header)
		headers = curl->curl_slist_append(NULL, r->header);
	buf_reset(out);
	out->limit_bytes = ANSWER_BYTES_MOST;
	prepare(curl, easy, r, (long)((r->deadline_ns - now_ns) / 1000000) + 1, headers, out);
	code = curl->curl_easy_perform(easy);
	curl->curl_slist_free_all(headers);
	curl->curl_easy_cleanup(easy);
	return code == CURLE_OK ||
	       err_set(err, ERR_UNAVAILABLE, "%s: %s", r->url, curl->curl_easy_strerror(code));
}

/* The value of the first of the path's keys; the reader stands before it. */
static bool find_key(struct json_reader *j, struct str key)
{
	struct str name;

	if (json_peek(j) != JSON_OBJECT || !json_begin_object(j))
		return false;
	while (json_next_key(j, &name)) {
		if (str_equal(name, key))
			return true;
		json_skip(j);
	}
	return false;
}

struct str detect_json(struct arena *arena, struct str body, const char *path)
{
	struct str rest = str_cstr(path), key, found = { 0 };
	struct json_reader j;
	bool there = true;

	json_reader_init(&j, body, 64);
	while (there && str_split(&rest, '/', &key))
		there = find_key(&j, key);
	if (there && json_peek(&j) == JSON_STRING)
		found = str_dup(arena, json_string(&j));
	json_reader_release(&j);
	return found;
}
