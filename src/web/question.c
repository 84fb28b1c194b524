/* question.c - a question from its request to its reply: parsed on the connection's loop, answered
 * on a thread of the pool. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "web/internal.h"

static void question_free(struct web_question *q)
{
	query_source_free(q->ask.source);
	query_source_free(q->ask.source2);
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

/* Whether the client has the answer already; the tag of it, where it has one. */
static bool client_has_it(struct web_question *q)
{
	const struct net_request *r = q->request;

	if (!q->fixed || !web_etag(&q->ask, net_request_path(r), net_request_query(r), q->etag)) {
		q->etag[0] = 0;
		return false;
	}
	return web_etag_in(q->none_match, str_cstr(q->etag));
}

static bool answer_or_not(struct web_question *q, struct err *err)
{
	bool asks = q->answer != web_answer_upload && q->answer != web_answer_uploads;

	if (asks && !web_open_sources(&q->ask, err))
		return false;
	q->unchanged = asks && client_has_it(q);
	return q->unchanged || q->answer(&q->ask, err);
}

static void run(struct web_job *job, bool refused)
{
	struct web_question *q = (struct web_question *)job;
	struct err err = { 0 };
	bool ok;

	if (refused)
		ok = err_set(&err, ERR_BUSY, "too many questions at once");
	else if (atomic_load(q->ask.cancelled))
		ok = err_set(&err, ERR_CANCELLED, "the client has gone");
	else if (clock_monotonic_ns() >= q->ask.deadline_ns)
		ok = err_set(&err, ERR_TIMEOUT, "the question waited too long for its turn");
	else
		ok = answer_or_not(q, &err);
	if (ok)
		web_question_reply(q);
	else
		web_question_refuse(q, &err);
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
	q->ask.cancelled = net_request_hung_up(r);
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
