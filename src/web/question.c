/* question.c - a question from its request to its reply: parsed on the connection's loop, answered
 * on a thread of the pool. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "web/internal.h"

static void question_free(struct web_question *q)
{
	source_free(q->ask.source);
	source_free(q->ask.source2);
	blob_unref(q->ask.sent);
	buf_release(&q->ask.body);
	arena_release(&q->ask.arena);
	free(q);
}

void web_question_refuse(struct web_question *q, const struct err *err)
{
	q->form->refuse(q, err);
	question_free(q);
}

void web_question_reply(struct web_question *q)
{
	q->form->reply(q);
	question_free(q);
}

/* ---- the plain form ---- */

static void refuse_plain(struct web_question *q, const struct err *err)
{
	static const char LATER[] = "Try a shorter time, or again in a moment.";
	int status = web_status_of(err);

	web_reply_error(q->request, status, str_cstr(err->msg),
			status == 503 || status == 504 ? str_cstr(LATER) : str_from("", 0), NULL);
}

static void reply_plain(struct web_question *q)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);
	AUTO(buf_release) struct buf disposition = { 0 };

	if (q->etag[0]) /* kept, but never shown without asking again */
		headers[count++] = (struct net_header){ "etag", str_cstr(q->etag) };
	headers[count++] =
		(struct net_header){ "cache-control",
				     q->etag[0] ? STR("private, no-cache") : STR("no-store") };
	if (q->unchanged) {
		net_reply_http(q->request, 304, headers, count, str_from("", 0));
		return;
	}
	headers[count++] = (struct net_header){ "content-type", str_cstr(q->ask.content_type) };
	if (q->ask.file_name) {
		buf_printf(&disposition, "attachment; filename=\"%s\"", q->ask.file_name);
		headers[count++] =
			(struct net_header){ "content-disposition", buf_view(&disposition) };
	}
	net_reply_http(q->request, 200, headers, count, buf_view(&q->ask.body));
}

const struct web_form web_plain_form = { reply_plain, refuse_plain };

/* ---- its way ---- */

/* Whether all who ask have the answer already; the tag of it, where it has one. */
static bool clients_have_it(struct web_question *q)
{
	const struct net_request *r = q->request;
	bool all = true;

	if (!q->fixed || !web_etag(&q->ask, net_request_path(r), net_request_query(r), q->etag)) {
		q->etag[0] = 0;
		return false;
	}
	for (struct web_question *x = q; x; x = x->with) {
		x->unchanged = web_etag_in(x->none_match, str_cstr(q->etag));
		all = all && x->unchanged;
	}
	return all;
}

static bool answer_or_not(struct web_question *q, struct err *err)
{
	bool asks = q->answer != web_answer_upload && q->answer != web_answer_uploads;

	if (asks && !web_open_sources(&q->ask, err))
		return false;
	return (asks && clients_have_it(q)) || q->answer(&q->ask, err);
}

static bool all_gone(const void *ctx)
{
	for (const struct web_question *q = ctx; q; q = q->with)
		if (!atomic_load_explicit(q->gone, memory_order_relaxed))
			return false;
	return true;
}

/* It goes on while any of them waits, and is of the moment when the last of them asked. */
static void ask_for_all(struct web_question *q)
{
	struct web_ask *a = &q->ask;

	if (q->with) {
		a->cancelled = NULL;
		a->given_up = all_gone;
		a->given_up_ctx = q;
	}
	for (const struct web_question *x = q->with; x; x = x->with) {
		if (x->ask.now_ns > a->now_ns)
			a->now_ns = x->ask.now_ns;
		if (x->ask.deadline_ns > a->deadline_ns)
			a->deadline_ns = x->ask.deadline_ns;
	}
}

static void reply_or_refuse(struct web_question *q, bool ok, const struct err *err)
{
	if (ok)
		web_question_reply(q);
	else
		web_question_refuse(q, err);
}

/* The answer of q, for another who asked the same. */
static void reply_with(const struct web_question *q, struct web_question *x, bool ok,
		       const struct err *err)
{
	if (ok) {
		memcpy(x->etag, q->etag, sizeof(x->etag));
		x->ask.content_type = q->ask.content_type;
		x->ask.file_name = q->ask.file_name;
		buf_append(&x->ask.body, q->ask.body.ptr, q->ask.body.len);
	}
	reply_or_refuse(x, ok, err);
}

/* Each gets its reply; q, whose answer it is, the last. */
static void finish(struct web_question *q, bool ok, const struct err *err)
{
	struct web_share *share = q->share;
	uint32_t count = 1;

	for (struct web_question *x = q->with, *next; x; x = next, count++) {
		next = x->with;
		reply_with(q, x, ok, err);
	}
	reply_or_refuse(q, ok, err);
	if (share)
		web_sharing_end(share, count);
}

static void run(struct web_job *job, bool refused)
{
	struct web_question *q = (struct web_question *)job;
	struct err err = { 0 };
	bool ok;

	if (q->share)
		web_sharing_begin(q);
	ask_for_all(q);
	if (refused)
		ok = err_set(&err, ERR_BUSY, "too many questions at once");
	else if (all_gone(q))
		ok = err_set(&err, ERR_CANCELLED, "the client has gone");
	else if (clock_monotonic_ns() >= q->ask.deadline_ns)
		ok = err_set(&err, ERR_TIMEOUT, "the question waited too long for its turn");
	else
		ok = answer_or_not(q, &err);
	finish(q, ok, &err);
}

struct web_question *web_question_new(const struct web_options *options, struct net_request *r,
				      web_answer_fn *answer, const struct web_form *form)
{
	struct web_question *q = calloc(1, sizeof(*q));
	struct err err;

	q->job.run = run;
	q->options = options;
	q->request = r;
	q->answer = answer;
	q->form = form;
	q->ask.options = options;
	q->gone = q->ask.cancelled = net_request_hung_up(r);
	q->ask.content_type = "application/json";
	q->ask.now_ns = clock_realtime_ns();
	q->ask.deadline_ns = clock_monotonic_ns() + options->timeout_ns;
	arena_init(&q->ask.arena, 4096, 0);
	q->none_match = str_dup(&q->ask.arena, net_request_header(r, "if-none-match"));
	if (params_parse(&q->ask.arena, net_request_query(r), &q->ask.params, &err))
		return q;
	web_question_refuse(q, &err);
	return NULL;
}
