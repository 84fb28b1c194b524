/* internal.h - what the files of src/web share: a question on its way to its answer. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "base/arena.h"
#include "base/buf.h"
#include "net/server.h"
#include "query/query.h"
#include "web/params.h"
#include "web/uploads.h"
#include "web/web.h"

struct proto_message;

/* One question: parsed, then answered on a thread of the pool. */
struct web_ask {
	const struct web_options *options;
	struct params params;
	struct arena arena;
	struct source *source, *source2; /* source2: of a diff's right side; NULL: the same */
	struct blob *sent;               /* the body that came with it, or NULL */
	uint64_t now_ns, deadline_ns;
	const atomic_bool *cancelled; /* the client has gone; NULL: given_up() says it */
	query_given_up_fn *given_up;  /* NULL, or of `given_up_ctx` */
	const void *given_up_ctx;
	struct buf body; /* the answer */
	const char *content_type;
	const char *file_name; /* not NULL: a download */
	bool clip;             /* collect only the events in the window */
	bool filters_choose;   /* an answer about events: those of stacks that x= leaves out do not
				  count */
	bool average;          /* collect what samples of a gauge add to its average */
	bool one_scale;        /* with it: counts of different periods as time */
	struct str group_by;   /* what the answer is grouped by */
	struct str message;    /* connect.h: what is asked, protobuf */
	bool json;             /* connect.h: the answer in JSON */
	const struct proto_message *response;
};

/* Fills `body`; the kind of a failure decides the status. */
typedef bool web_answer_fn(struct web_ask *a, struct err *err);

web_answer_fn web_answer_status, web_answer_flamegraph, web_answer_diff, web_answer_sandwich,
	web_answer_search, web_answer_top, web_answer_timeline, web_answer_heatmap,
	web_answer_chart, web_answer_source, web_answer_raw, web_answer_labels,
	web_answer_label_values, web_answer_export, web_answer_upload, web_answer_uploads,
	web_answer_report;

/* The store, or the uploads that the selectors name (upload.id). */
bool web_open_sources(struct web_ask *a, struct err *err) MUST_CHECK;
/* The selection of the URL; side 1 takes the names that end in "2". */
struct query *web_begin(struct web_ask *a, int side, struct err *err) MUST_CHECK;
/* What selects, for both sides, and what groups: parameters that any question may carry. */
#define WEB_SELECTION \
	"type query from to x by trace span asof since last group type2 query2 from2 to2"
bool web_request(struct web_ask *a, int side, struct query_request *out,
		 struct err *err) MUST_CHECK;

/* Without times: the last 15 minutes that have data, and lie no more than 15 minutes ahead of now
 * if there are such; a sender with a wrong clock hides nothing. [0, 1) of an empty source. */
bool web_recent(struct web_ask *a, struct source *source, struct source_range *out,
		struct err *err) MUST_CHECK;
/* Where those have nothing of the profile type: the last 15 minutes that have. "": any type. */
bool web_recent_of(struct web_ask *a, struct source *source, struct str type,
		   struct source_range *out, struct err *err) MUST_CHECK;

/* What frames are told apart by; query_begin() has refused what is none. */
enum query_by web_by(const struct web_ask *a);
/* A frame's key as URLs carry it: hex. */
bool web_key_parse(struct str text, uint64_t *out, struct err *err) MUST_CHECK;

/* ---- the pool (jobs.c) ---- */
struct web_jobs;
struct web_job {
	void (*run)(struct web_job *job, bool refused); /* refused: the queue is full or closed */
	uint64_t queued_ns;
	bool quick; /* takes milliseconds: goes before the others, and has a thread of its own */
	struct web_job *next;
};
/* `threads` answer everything, one more what is quick. queue_most: of each kind. */
struct web_jobs *web_jobs_new(uint32_t threads, uint32_t queue_most);
void web_jobs_add(struct web_jobs *jobs, struct web_job *job);
void web_jobs_free(struct web_jobs *jobs); /* refuses what waits, joins the threads */

/* ---- questions about a time to come (waits.c) ---- */
struct web_waits;
struct web_wait {
	struct web_job *job;
	uint64_t due_ns;         /* clock_monotonic_ns() */
	const atomic_bool *gone; /* nobody waits any more: due at once */
};
struct web_waits *web_waits_new(struct web_jobs *jobs);
/* Gives wait->job to the pool when it is due, or runs it refused when too many wait. */
void web_waits_add(struct web_waits *w, struct web_wait *wait);
void web_waits_stop(struct web_waits *w); /* refuses all, so that the listener can close */
void web_waits_free(struct web_waits *w); /* after the listener */
/* pprof.c: makes the parameters those of an export of the seconds to come. */
bool web_pprof_prepare(struct web_ask *a, uint64_t *wait_ns, struct err *err) MUST_CHECK;

/* ---- what an answer is of (etag.c) ---- */
enum { WEB_ETAG_MOST = 40 };
/* False: it is of the moment. The sources are open. */
bool web_etag(struct web_ask *a, struct str path, struct str query, char out[WEB_ETAG_MOST]);
/* Is the tag one of an If-None-Match? */
bool web_etag_in(struct str list, struct str etag);

/* ---- a question until it is answered (question.c) ---- */
struct web_question;
/* How an answer and a refusal look. Each is the request's one reply. */
struct web_form {
	void (*reply)(struct web_question *q);
	void (*refuse)(struct web_question *q, const struct err *err);
};
extern const struct web_form web_plain_form; /* the body as it is; {"error": ...} */

struct web_question {
	struct web_job job;
	struct web_wait wait;
	const struct web_options *options;
	struct net_request *request;
	web_answer_fn *answer;
	const struct web_form *form;
	bool fixed;                /* the URL and what the source holds decide the answer */
	struct str none_match;     /* If-None-Match */
	bool unchanged;            /* the client has the answer */
	char etag[WEB_ETAG_MOST];  /* empty: none */
	const atomic_bool *gone;   /* nobody waits for this reply any more */
	struct web_share *share;   /* NULL: it is answered alone */
	struct web_question *with; /* what is answered by the same run, one after another */
	struct web_ask ask;
};
/* With its URL's parameters; NULL: they were bad, and it is refused. */
struct web_question *web_question_new(const struct web_options *options, struct net_request *r,
				      web_answer_fn *answer, const struct web_form *form);
/* Answers with what is in `ask`, or refuses; frees. */
void web_question_reply(struct web_question *q);
void web_question_refuse(struct web_question *q, const struct err *err);

/* ---- equal questions (sharing.c) ---- */
struct web_sharing;
struct web_share;
/* Any thread. */
struct web_sharing *web_sharing_new(struct web_jobs *jobs);
void web_sharing_free(struct web_sharing *s); /* after the pool */
/* Gives the question to the pool, alone or together with equal ones that wait: `key` is all that
 * decides the answer. */
void web_sharing_add(struct web_sharing *s, struct web_question *q, struct str key);
/* The run of q and of all behind q->with begins: nobody joins it any more. */
void web_sharing_begin(struct web_question *q);
/* It is over, and so many have their replies. */
void web_sharing_end(struct web_share *share, uint32_t answered);

/* ---- a store that takes nothing (answer_status.c) ---- */
bool web_store_failing(const struct web_options *o, struct store_failing *out);
void web_put_failing(struct buf *b, const struct store_failing *f); /* docs/api.md */

/* ---- who follows (live.c) ---- */
struct web_live;
struct web_live *web_live_new(const struct web_options *options); /* outlives it */
void web_live_add(struct web_live *l, struct net_request *r);
void web_live_stop(struct web_live *l); /* ends all answers, so that the listener can close */
void web_live_free(struct web_live *l); /* after the listener */

/* A window that moves, at one moment: [from, for ever) as the source was then. */
struct live_state {
	uint64_t asof, from;
};
struct live_selection {
	const struct web_options *options;
	struct params params; /* as any question's; times are not looked at */
	uint64_t step_ns;     /* of the timeline */
	const atomic_bool *cancelled;
};
/* live_delta.c: what is to be added and taken away when `was` becomes `is`, as JSON (docs/api.md).
 * ERR_UNSUPPORTED: averages do not add up; ERR_LIMIT: too much, the whole is less. */
struct live_also {
	bool coverage;  /* what agents reported of the whole of `is` */
	bool processes; /* how many the whole of `is` is of: walks all its samples */
};
bool live_delta(struct source *source, const struct live_selection *s, struct live_state was,
		struct live_state is, struct live_also also, struct buf *out,
		struct err *err) MUST_CHECK;

/* ---- who may ask (guard.c) ---- */
struct web_guard {
	char *hosts; /* comma list, lower case */
	const struct web_options *options;
	bool any_host; /* listens beyond loopback without a list */
	pthread_rwlock_t lock;
	char *basic, *bearer; /* lock; the files' text, or NULL */
	const char *challenge;
};
/* Reads the files of secrets; options must outlive it. Release it in any case. */
bool web_guard_init(struct web_guard *g, const struct web_options *options,
		    struct err *err) MUST_CHECK;
/* Reads them again; on failure the old ones hold. */
bool web_guard_reload(struct web_guard *g, struct err *err) MUST_CHECK;
void web_guard_release(struct web_guard *g);
/* The URL that was opened carries the token: true when it was answered, with a cookie in its place
 * and the same address without it (RFC 6265; HttpOnly, SameSite=Strict). */
bool web_guard_exchange(const struct web_guard *g, struct net_request *r);
void web_guard_refuse(const struct web_guard *g, struct net_request *r, int status,
		      const char *why);
bool web_guard_hosts(const struct web_guard *g, const struct net_request *r); /* is it us? */
/* 0, or the HTTP status to refuse with and why. */
int web_guard_check(struct web_guard *g, const struct net_request *r, const char **why);
/* The same as an err, for answers that have a form of their own. */
bool web_guard_let_in(struct web_guard *g, const struct net_request *r, struct err *err);

/* ---- answers ---- */
enum { WEB_HEADERS_MOST = 12 };
/* The headers that every answer carries; returns how many were written. */
size_t web_common_headers(struct net_header headers[WEB_HEADERS_MOST]);
/* challenge: of a 401, else NULL. */
void web_reply_error(struct net_request *r, int status, struct str what, struct str hint,
		     const char *challenge);
void web_error_body(struct buf *out, struct str what, struct str hint); /* docs/api.md */
int web_status_of(const struct err *err);

/* ---- the page (assets.c) ---- */
struct web_asset {
	const char *path, *content_type;
	struct str gzipped;
	char etag[24];  /* "\"0123456789abcdef\"" */
	bool immutable; /* its URL is another for another content */
};
/* NULL: no such file of the page. */
const struct web_asset *web_asset_find(struct str path);
void web_asset_send(struct net_request *r, const struct web_asset *asset);
/* What an HTML report is put into (answer_report.c), gzipped. */
struct str web_report_frame(void);
