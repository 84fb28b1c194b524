#include <assert.h>
#include <ctype.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/client.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/curl_lib.h"

enum {
	CONNECT_TIMEOUT_S = 5,
	RESPONSE_LIMIT_BYTES = 65536,
	CONNECTIONS_MOST = 100,
	HEADERS_MOST = 100,
	POLL_MS = 60000, /* the longest sleep; calls wake the thread */
	IDLE_CONNECTION_S = 90,
};

struct http_call {
	struct http_call *next; /* in client->arrived */
	struct http_call *prev_running, *next_running;
	struct http_client *client;
	struct client_call *user;
	char *method, *url, *content_type;
	struct blob *body; /* as sent: compressed or not */
	size_t body_sent;
	bool compressed;
	struct err refused; /* said on the client's thread, as everything */
	uint64_t timeout_ns;
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	struct buf response;
	bool response_cut;
	char reason[CURL_ERROR_SIZE];
};

struct http_client {
	const struct curl_lib *curl;
	enum compression compression;
	int compression_level;
	char **headers; /* "name: value" */
	uint32_t header_count;
	struct tls_options tls; /* its strings are copies */
	long ssl_versions;
	char *proxy_url;
	uint64_t connect_timeout_ns;
	size_t max_response_bytes;
	bool fresh_connections;
	CURLM *multi;
	pthread_t thread;
	struct http_call *running; /* the client's thread only */

	pthread_mutex_t lock; /* guards what follows */
	struct http_call *arrived, **arrived_last;
	bool stopping;
};

/* Calls. */

static void call_free(struct http_call *call)
{
	const struct curl_lib *curl = call->client->curl;

	curl->curl_easy_cleanup(call->easy);
	curl->curl_slist_free_all(call->headers);
	curl->curl_slist_free_all(call->connect_to);
	buf_release(&call->response);
	blob_unref(call->body);
	free(call->method);
	free(call->url);
	free(call->content_type);
	free(call);
}

static void call_answer(struct http_call *call, const struct client_result *result)
{
	call->user->internal = NULL;
	blob_unref(call->body); /* nothing of it is read any more: whose it is may write over it */
	call->body = NULL;
	call->user->done(call->user, result);
	call_free(call);
}

static void call_fail(struct http_call *call, const char *message)
{
	struct client_result result = { .message = str_cstr(message) };

	call_answer(call, &result);
}

/*
 * A server that writes its answer in small pieces, without TCP_NODELAY (ClickHouse 18 does), sends
 * the second one when the first is acknowledged; and on a connection that goes to and fro the
 * kernel acknowledges 40 ms later, hoping for data to go along. So it is told to do it at once,
 * with each piece, for it forgets.
 */
static void acknowledge(struct http_call *call)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	int on = 1;

	if (call->client->curl->curl_easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd) ==
		    CURLE_OK &&
	    fd != CURL_SOCKET_BAD)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/* The end of the headers: what follows may be waited for. */
static size_t header_came(char *data, size_t size, size_t count, void *arg)
{
	if (size * count <= 2 && *data == '\r')
		acknowledge(arg);
	return size * count;
}

static size_t response_came(char *data, size_t size, size_t count, void *arg)
{
	struct http_call *call = arg;
	size_t len = size * count;
	size_t room = call->client->max_response_bytes - call->response.len;

	acknowledge(call);
	buf_append(&call->response, data, len < room ? len : room);
	if (len > room) {
		call->response_cut = true;
		return 0; /* enough: what came is what the answer says, as far as anybody reads it
			   */
	}
	return len;
}

/* The request cannot have reached the peer when no byte of it went out. */
static bool call_was_sent(struct http_call *call, CURLcode code)
{
	long request_bytes = 0;

	if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
	    code == CURLE_COULDNT_CONNECT || code == CURLE_SSL_CONNECT_ERROR ||
	    code == CURLE_PEER_FAILED_VERIFICATION)
		return false;
	call->client->curl->curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &request_bytes);
	return request_bytes > 0;
}

static uint64_t call_retry_after_ns(struct http_call *call)
{
	curl_off_t seconds = 0;

	if (call->client->curl->curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &seconds) !=
		    CURLE_OK ||
	    seconds <= 0 || (uint64_t)seconds > UINT64_MAX / SECOND_NS)
		return 0;
	return (uint64_t)seconds * SECOND_NS;
}

static void call_complete(struct http_call *call, CURLcode code)
{
	const struct curl_lib *curl = call->client->curl;
	struct client_result result = { .sent = call_was_sent(call, code) };
	long status = 0;
	char text[CURL_ERROR_SIZE + 64];

	curl->curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_OK || call->response_cut) {
		result.http_status = (int)status;
		result.ok = status >= 200 && status <= 299;
		result.retry_after_ns = call_retry_after_ns(call);
		snprintf(text, sizeof(text), "HTTP status %ld", status);
	} else if (code == CURLE_SEND_FAIL_REWIND) { /* body_rewind() */
		snprintf(text, sizeof(text), "the connection ended before the answer");
	} else {
		snprintf(text, sizeof(text), "%s",
			 call->reason[0] ? call->reason : curl->curl_easy_strerror(code));
	}
	result.message = result.ok ? (struct str){ 0 } : str_cstr(text);
	if (result.ok)
		result.body = buf_view(&call->response);
	else
		result.details = buf_view(&call->response);
	call_answer(call, &result);
}

/* A call as libcurl sees it. */

static bool header_add(struct http_call *call, const char *line)
{
	struct curl_slist *more = call->client->curl->curl_slist_append(call->headers, line);

	assert(more);
	call->headers = more;
	return true;
}

static void call_set_headers(struct http_call *call)
{
	const struct http_client *c = call->client;
	char line[256];

	header_add(call, "Expect:"); /* no 100-continue: a round trip for nothing */
	if (call->content_type) {
		snprintf(line, sizeof(line), "Content-Type: %s", call->content_type);
		header_add(call, line);
	}
	if (call->compressed) {
		snprintf(line, sizeof(line), "Content-Encoding: %s",
			 compression_name(c->compression));
		header_add(call, line);
	}
	for (uint32_t i = 0; i < c->header_count; i++)
		header_add(call, c->headers[i]);
}

static struct curl_blob pem_blob(const char *text)
{
	return (struct curl_blob){ .data = (void *)(uintptr_t)text,
				   .len = strlen(text),
				   .flags = CURL_BLOB_COPY };
}

static void set_pem(struct http_call *call, CURLoption option, const char *text)
{
	struct curl_blob blob = pem_blob(text);

	call->client->curl->curl_easy_setopt(call->easy, option, &blob);
}

static void call_set_tls(struct http_call *call)
{
	const struct curl_lib *curl = call->client->curl;
	const struct tls_options *t = &call->client->tls;

	curl->curl_easy_setopt(call->easy, CURLOPT_SSLVERSION, call->client->ssl_versions);
	if (t->insecure_skip_verify) {
		curl->curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl->curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (t->ca_pem)
		set_pem(call, CURLOPT_CAINFO_BLOB, t->ca_pem);
	else if (t->ca_file)
		curl->curl_easy_setopt(call->easy, CURLOPT_CAINFO, t->ca_file);
	if (t->cert_pem)
		set_pem(call, CURLOPT_SSLCERT_BLOB, t->cert_pem);
	else if (t->cert_file)
		curl->curl_easy_setopt(call->easy, CURLOPT_SSLCERT, t->cert_file);
	if (t->key_pem)
		set_pem(call, CURLOPT_SSLKEY_BLOB, t->key_pem);
	else if (t->key_file)
		curl->curl_easy_setopt(call->easy, CURLOPT_SSLKEY, t->key_file);
}

/* The URL's host becomes the name that TLS checks; the connection and the Host header keep the
 * URL's own. */
static bool url_rename(struct http_call *call, CURLU *url, struct err *err)
{
	const struct curl_lib *curl = call->client->curl;
	const char *name = call->client->tls.server_name;
	char *host = NULL, *port = NULL, *renamed = NULL;
	char line[600];
	bool ok;

	ok = curl->curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	     curl->curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
	     curl->curl_url_set(url, CURLUPART_HOST, name, 0) == CURLUE_OK &&
	     curl->curl_url_get(url, CURLUPART_URL, &renamed, 0) == CURLUE_OK;
	if (ok) {
		snprintf(line, sizeof(line), "%s:%s:%s:%s", name, port, host, port);
		call->connect_to = curl->curl_slist_append(NULL, line);
		snprintf(line, sizeof(line), "Host: %s:%s", host, port);
		header_add(call, line);
		free(call->url);
		call->url = strdup(renamed);
		assert(call->url);
	}
	curl->curl_free(host);
	curl->curl_free(port);
	curl->curl_free(renamed);
	return ok ||
	       err_set(err, ERR_INVALID, "URL \"%s\" does not go with the TLS server name \"%s\"",
		       call->url, name);
}

static bool call_set_url(struct http_call *call, struct err *err)
{
	const struct curl_lib *curl = call->client->curl;
	CURLU *url = curl->curl_url();
	CURLUcode code;
	bool ok = true;

	assert(url);
	code = curl->curl_url_set(url, CURLUPART_URL, call->url, 0);
	if (code != CURLUE_OK)
		ok = err_set(err, ERR_INVALID, "URL \"%s\": %s", call->url,
			     curl->curl_url_strerror(code));
	else if (call->client->tls.server_name && strncasecmp(call->url, "https:", 6) == 0)
		ok = url_rename(call, url, err);
	curl->curl_url_cleanup(url);
	if (!ok)
		return false;
	curl->curl_easy_setopt(call->easy, CURLOPT_URL, call->url);
	if (call->connect_to)
		curl->curl_easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->connect_to);
	return true;
}

static size_t body_read(char *to, size_t size, size_t count, void *arg)
{
	struct http_call *call = arg;
	size_t left = call->body->len - call->body_sent, len = size * count;

	if (len > left)
		len = left;
	memcpy(to, call->body->ptr + call->body_sent, len);
	call->body_sent += len;
	return len;
}

/*
 * When a connection that was used before dies without an answer, libcurl repeats the request on a
 * new one by itself, and rewinds the body for it. The peer may have acted on the first: only our
 * caller may repeat it, who counts that. Refusing to rewind ends the request instead.
 */
static int body_rewind(void *arg, curl_off_t offset, int origin)
{
	(void)arg;
	(void)offset;
	(void)origin;
	return CURL_SEEKFUNC_FAIL;
}

static void call_set_body(struct http_call *call)
{
	const struct curl_lib *curl = call->client->curl;
	bool once = call->client->fresh_connections;

	if (call->body && call->body->len) {
		curl->curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
		curl->curl_easy_setopt(call->easy, CURLOPT_READFUNCTION, body_read);
		curl->curl_easy_setopt(call->easy, CURLOPT_READDATA, call);
		curl->curl_easy_setopt(call->easy, CURLOPT_SEEKFUNCTION, body_rewind);
		curl->curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE,
				       (curl_off_t)call->body->len);
	} else if (call->body) {
		curl->curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, "");
		once = true; /* there is nothing to rewind */
	}
	if (once) {
		curl->curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L);
		curl->curl_easy_setopt(call->easy, CURLOPT_FORBID_REUSE, 1L);
	}
	curl->curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, call->method);
}

static long ns_to_ms(uint64_t ns)
{
	uint64_t ms = ns / MILLI_NS + (ns % MILLI_NS != 0);

	return ms > INT32_MAX ? INT32_MAX : (long)ms;
}

static bool call_prepare(struct http_call *call, struct err *err)
{
	struct http_client *c = call->client;
	const struct curl_lib *curl = c->curl;
	CURL *easy = call->easy = curl->curl_easy_init();

	if (!easy)
		return err_set(err, ERR_INTERNAL, "libcurl is out of memory");
	call_set_headers(call);
	if (!call_set_url(call, err))
		return false;
	call_set_body(call);
	call_set_tls(call);
	curl->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	curl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "flametap/" FLAMETAP_VERSION);
	curl->curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl->curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->reason);
	curl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, response_came);
	curl->curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl->curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header_came);
	curl->curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
	curl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl->curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl->curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
	curl->curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, ns_to_ms(c->connect_timeout_ns));
	if (call->timeout_ns)
		curl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ns_to_ms(call->timeout_ns));
	if (c->proxy_url)
		curl->curl_easy_setopt(easy, CURLOPT_PROXY, c->proxy_url);
	return true;
}

/* The thread. */

static void running_add(struct http_client *c, struct http_call *call)
{
	call->prev_running = NULL;
	call->next_running = c->running;
	if (call->next_running)
		call->next_running->prev_running = call;
	c->running = call;
}

static void running_remove(struct http_client *c, struct http_call *call)
{
	if (call->next_running)
		call->next_running->prev_running = call->prev_running;
	if (call->prev_running)
		call->prev_running->next_running = call->next_running;
	else
		c->running = call->next_running;
}

static void call_begin(struct http_client *c, struct http_call *call)
{
	CURLMcode code;

	if (call->refused.kind || !call_prepare(call, &call->refused)) {
		call_fail(call, call->refused.msg);
		return;
	}
	code = c->curl->curl_multi_add_handle(c->multi, call->easy);
	if (code != CURLM_OK) {
		call_fail(call, c->curl->curl_multi_strerror(code));
		return;
	}
	running_add(c, call);
}

static void client_end_finished(struct http_client *c)
{
	CURLMsg *msg;
	int left;

	while ((msg = c->curl->curl_multi_info_read(c->multi, &left))) {
		struct http_call *call = NULL;
		CURLcode code = msg->data.result;

		if (msg->msg != CURLMSG_DONE)
			continue;
		c->curl->curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call);
		c->curl->curl_multi_remove_handle(c->multi, call->easy); /* msg is gone with it */
		running_remove(c, call);
		call_complete(call, code);
	}
}

/* What arrived since; false once the client is to stop and nothing is left to be answered. */
static bool client_begin_arrived(struct http_client *c, bool *stopping)
{
	struct http_call *call, *next;

	pthread_mutex_lock(&c->lock);
	call = c->arrived;
	c->arrived = NULL;
	c->arrived_last = &c->arrived;
	*stopping = c->stopping;
	pthread_mutex_unlock(&c->lock);
	for (; call; call = next) {
		next = call->next;
		if (*stopping)
			call_fail(call, "the client is closed");
		else
			call_begin(c, call);
	}
	return !*stopping;
}

static void *client_main(void *arg)
{
	struct http_client *c = arg;
	bool stopping;
	int active;

	pthread_setname_np(pthread_self(), "http-client");
	while (client_begin_arrived(c, &stopping)) {
		c->curl->curl_multi_perform(c->multi, &active);
		client_end_finished(c);
		c->curl->curl_multi_poll(c->multi, NULL, 0, POLL_MS, NULL);
	}
	while (c->running) {
		struct http_call *call = c->running;

		c->curl->curl_multi_remove_handle(c->multi, call->easy);
		running_remove(c, call);
		call_fail(call, "the client is closed");
	}
	client_begin_arrived(c, &stopping); /* what a done() just called for */
	return NULL;
}

/* The way in. */

static void call_set_payload(struct http_call *call, struct blob *body)
{
	const struct http_client *c = call->client;
	struct buf out;
	size_t len;
	char *bytes;

	if (!body)
		return;
	if (c->compression != COMPRESSION_NONE && body->len) {
		buf_init(&out, 0);
		if (compress_into(c->compression, c->compression_level, blob_view(body), &out,
				  &call->refused)) {
			bytes = buf_take(&out, &len);
			call->body = blob_adopt(bytes, len);
			call->compressed = true;
			return;
		}
		buf_release(&out);
	}
	call->body = blob_ref(body);
}

void http_client_call(struct http_client *c, const char *method, const char *url,
		      const char *content_type, struct blob *body, uint64_t timeout_ns,
		      struct client_call *user)
{
	struct http_call *call = calloc(1, sizeof(*call));

	assert(call);
	call->client = c;
	call->user = user;
	call->method = strdup(method);
	call->url = strdup(url);
	call->content_type = content_type ? strdup(content_type) : NULL;
	assert(call->method && call->url && (!content_type || call->content_type));
	call->timeout_ns = timeout_ns;
	buf_init(&call->response, 0);
	call_set_payload(
		call,
		body); /* on the caller's thread, so that many callers compress side by side */
	user->internal = call;
	pthread_mutex_lock(&c->lock);
	*c->arrived_last = call;
	c->arrived_last = &call->next;
	pthread_mutex_unlock(&c->lock);
	c->curl->curl_multi_wakeup(c->multi);
}

/* Birth and death. */

static char *copy_or_null(const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	assert(!text || copy);
	return copy;
}

static bool name_is_ours(const char *name)
{
	static const char *const ours[] = { "content-length",   "transfer-encoding",
					    "content-encoding", "content-type",
					    "connection",       "expect" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return true;
	return false;
}

/* The value is not shown: it may be a secret. RFC 9110, 5.6.2 and 5.5. */
static bool header_check(const struct client_header *h, struct err *err)
{
	if (!*h->name)
		return err_set(err, ERR_INVALID, "a header has no name");
	for (const char *p = h->name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("!#$%&'*+-.^_`|~", *p))
			return err_set(err, ERR_INVALID,
				       "header \"%s\" has a character that no header name has",
				       h->name);
	if (name_is_ours(h->name))
		return err_set(err, ERR_INVALID, "header \"%s\" belongs to the protocol itself",
			       h->name);
	for (const char *p = h->value; p && *p; p++)
		if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return err_set(err, ERR_INVALID,
				       "the value of header \"%s\" has a control character",
				       h->name);
	return true;
}

static bool client_copy_headers(struct http_client *c, const struct http_client_options *o,
				struct err *err)
{
	if (o->header_count > HEADERS_MOST)
		return err_set(err, ERR_LIMIT, "%u headers, at most %d are possible",
			       o->header_count, HEADERS_MOST);
	c->headers = calloc(o->header_count ? o->header_count : 1, sizeof(*c->headers));
	assert(c->headers);
	for (uint32_t i = 0; i < o->header_count; i++) {
		const char *value = o->headers[i].value ? o->headers[i].value : "";

		if (!header_check(&o->headers[i], err))
			return false;
		/* "name;" is how libcurl is told to send an empty value */
		if (asprintf(&c->headers[i], *value ? "%s: %s" : "%s;", o->headers[i].name, value) <
		    0)
			abort();
		c->header_count++;
	}
	return true;
}

static bool tls_version(const char *text, long v12, long v13, long otherwise, long *out,
			struct err *err)
{
	if (!text)
		*out = otherwise;
	else if (strcmp(text, "1.2") == 0)
		*out = v12;
	else if (strcmp(text, "1.3") == 0)
		*out = v13;
	else
		return err_set(err, ERR_INVALID,
			       "TLS version \"%s\" is not offered, 1.2 and 1.3 are", text);
	return true;
}

static bool client_copy_tls(struct http_client *c, const struct tls_options *t, struct err *err)
{
	long least = 0, most = 0;

	if (!tls_version(t->min_version, CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_3,
			 CURL_SSLVERSION_TLSv1_2, &least, err) ||
	    !tls_version(t->max_version, CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3,
			 CURL_SSLVERSION_MAX_DEFAULT, &most, err))
		return false;
	c->ssl_versions = least | most;
	c->tls = (struct tls_options){
		.cert_file = copy_or_null(t->cert_file),
		.key_file = copy_or_null(t->key_file),
		.ca_file = copy_or_null(t->ca_file),
		.cert_pem = copy_or_null(t->cert_pem),
		.key_pem = copy_or_null(t->key_pem),
		.ca_pem = copy_or_null(t->ca_pem),
		.server_name = copy_or_null(t->server_name),
		.insecure_skip_verify = t->insecure_skip_verify,
	};
	return true;
}

static void free_text(const char *text)
{
	free((void *)(uintptr_t)text);
}

static void client_release(struct http_client *c)
{
	for (uint32_t i = 0; i < c->header_count; i++)
		free(c->headers[i]);
	free(c->headers);
	free_text(c->tls.cert_file);
	free_text(c->tls.key_file);
	free_text(c->tls.ca_file);
	free_text(c->tls.cert_pem);
	free_text(c->tls.key_pem);
	free_text(c->tls.ca_pem);
	free_text(c->tls.server_name);
	free(c->proxy_url);
	if (c->multi)
		c->curl->curl_multi_cleanup(c->multi);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Signals belong to the main thread, which waits for them. */
static bool client_start(struct http_client *c, const struct http_client_options *o,
			 struct err *err)
{
	long connections = o->max_connections ? (long)o->max_connections : CONNECTIONS_MOST;
	sigset_t all, before;
	int rc;

	c->multi = c->curl->curl_multi_init();
	if (!c->multi)
		return err_set(err, ERR_INTERNAL, "libcurl is out of memory");
	c->curl->curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&c->thread, NULL, client_main, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0 ||
	       err_set(err, ERR_IO, "cannot start the HTTP client's thread: %s", strerror(rc));
}

struct http_client *http_client_new(const struct http_client_options *options, struct err *err)
{
	const struct curl_lib *curl = curl_lib_load(err);
	struct http_client *c;

	if (!curl)
		return NULL;
	c = calloc(1, sizeof(*c));
	assert(c);
	c->curl = curl;
	c->compression = options->compression;
	c->compression_level = options->compression_level;
	c->proxy_url = copy_or_null(options->proxy_url);
	c->connect_timeout_ns = options->connect_timeout_ns ? options->connect_timeout_ns
							    : CONNECT_TIMEOUT_S * SECOND_NS;
	c->max_response_bytes =
		options->max_response_bytes ? options->max_response_bytes : RESPONSE_LIMIT_BYTES;
	c->fresh_connections = options->fresh_connections;
	pthread_mutex_init(&c->lock, NULL);
	c->arrived_last = &c->arrived;
	if (!client_copy_headers(c, options, err) || !client_copy_tls(c, &options->tls, err) ||
	    !client_start(c, options, err)) {
		client_release(c);
		return NULL;
	}
	return c;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_mutex_unlock(&c->lock);
	c->curl->curl_multi_wakeup(c->multi);
	pthread_join(c->thread, NULL);
	client_release(c);
}
