/*
 * prometheus.c - the exporter that counts what it receives and serves the counters on /metrics of
 * an address of its own:
 *
 *   lazybackend_received_profiles_total{container_id}
 *   lazybackend_received_samples_total{container_id,process_executable_name}
 *   lazybackend_received_locations_total{container_id,process_executable_name,language}
 *
 * Names and labels are the lazy backend's of 2026: a label without a value is "unknown", language
 * is the frame type, a location counts once for each of its lines and once without any. Two things
 * differ, where it counted what its names do not say: profiles are profiles, not scopes; and the
 * process is looked for on the sample, then on its resource, where profilers put it since
 * OTLP 1.10. Past `max_series` a metric's further label sets are counted together, with "other" in
 * every label.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "components/exporters/exporters.h"
#include "components/exporters/names.h"
#include "net/server.h"

enum { LANGUAGES_AT_ONCE = 16, LABEL_MOST_BYTES = 256 };

struct prometheus {
	const char *endpoint;
	uint32_t max_series;

	struct metrics *metrics; /* not the program's own: what is served here */
	struct metric_family *profiles, *samples, *locations;
	struct net_app *app;
	struct net_listener *listener;
};

static const struct config_field prometheus_fields[] = {
	EXPORTER_FIELD("endpoint", CONFIG_STRING, offsetof(struct prometheus, endpoint),
		       "127.0.0.1:2112", "address to serve /metrics on", .aliases = { "metrics" }),
	EXPORTER_FIELD("max_series", CONFIG_UINT32, offsetof(struct prometheus, max_series), "1000",
		       "label sets of each metric; what comes after is counted as \"other\"",
		       .min = 1, .max = 1000000),
	{ 0 },
};

/* ---- counting ---- */

/* Samples of one process in a row: their frames by type, added to the counters at once. */
struct tally {
	struct prometheus *prometheus;
	struct names names;
	struct str container, process;
	struct {
		struct str language;
		int64_t lines;
	} languages[LANGUAGES_AT_ONCE];
	uint32_t language_count;
	int64_t samples;
	struct buf container_text, process_text; /* of values that are no strings */
};

static void tally_flush(struct tally *t)
{
	struct str labels[] = { t->container, t->process, STR("") };

	if (t->samples)
		metric_add(metric_get(t->prometheus->samples, labels), t->samples);
	for (uint32_t i = 0; i < t->language_count; i++) {
		labels[2] = t->languages[i].language;
		metric_add(metric_get(t->prometheus->locations, labels), t->languages[i].lines);
	}
	t->samples = 0;
	t->language_count = 0;
}

static void tally_lines(struct tally *t, struct str language, int64_t lines)
{
	uint32_t i = 0;

	while (i < t->language_count && !str_equal(t->languages[i].language, language))
		i++;
	if (i == LANGUAGES_AT_ONCE) {
		tally_flush(t);
		i = 0;
	}
	if (i == t->language_count) {
		t->languages[i].language = language;
		t->languages[i].lines = 0;
		t->language_count++;
	}
	t->languages[i].lines += lines;
}

static void tally_location(struct tally *t, const struct location *l)
{
	struct buf text;

	buf_init(&text, 0);
	tally_lines(t, names_frame_type(&t->names, l, &text), l->lines.count ? l->lines.count : 1);
	if (text.len)
		tally_flush(t); /* it refers to the text */
	buf_release(&text);
}

/* The text of a label: "unknown" without a value, cut when it is no name any more. */
static struct str label_text(const struct any_value *v, struct buf *text)
{
	if (!v)
		return STR("unknown");
	buf_reset(text);
	any_value_append_text(text, v);
	return text->len ? str_head(buf_view(text), LABEL_MOST_BYTES) : STR("unknown");
}

static void tally_process(struct tally *t, const struct resource_profiles *r,
			  const struct sample *s)
{
	const struct str key = STR("process.executable.name");
	const struct any_value *v = profiles_attribute(t->names.profiles, s->attributes, key);
	struct buf text;
	struct str process;

	buf_init(&text, 0);
	process = label_text(v ? v : key_values_find(r->attributes, key), &text);
	if (!str_equal(process, t->process)) {
		tally_flush(t);
		buf_reset(&t->process_text);
		buf_str(&t->process_text, process);
		t->process = buf_view(&t->process_text);
	}
	buf_release(&text);
}

static void tally_sample(struct tally *t, const struct resource_profiles *r, const struct sample *s)
{
	const struct dictionary *d = &t->names.profiles->dict;
	struct range list = d->stacks[s->stack.v].locations;

	tally_process(t, r, s);
	t->samples++;
	for (uint32_t i = 0; i < list.count; i++) {
		const struct location *l = &d->locations[d->stack_locations[list.first + i].v];

		tally_location(t, l);
	}
}

static int64_t tally_profiles(struct tally *t, const struct resource_profiles *r,
			      struct range profiles)
{
	const struct profiles *p = t->names.profiles;
	int64_t count = 0;

	for (uint32_t k = profiles.first; k < profiles.first + profiles.count; k++) {
		struct range list = p->profiles[k].samples;

		if (p->profiles[k].refused)
			continue;
		count++;
		for (uint32_t i = list.first; i < list.first + list.count; i++)
			tally_sample(t, r, &p->samples[i]);
	}
	return count;
}

static void tally_resource(struct tally *t, const struct resource_profiles *r)
{
	int64_t count = 0;

	t->container =
		label_text(key_values_find(r->attributes, STR("container.id")), &t->container_text);
	t->process = STR("");
	for (uint32_t i = r->scopes.first; i < r->scopes.first + r->scopes.count; i++)
		count += tally_profiles(t, r, t->names.profiles->scopes[i].profiles);
	tally_flush(t);
	metric_add(metric_get(t->prometheus->profiles, &t->container), count);
}

static void prometheus_consume(void *state, struct batch *batch, struct completion *done)
{
	static const struct outcome ok = { .kind = OUTCOME_OK };
	const struct profiles *p = batch->profiles;
	struct tally t = { .prometheus = state, .names = { .profiles = p, .put = names_put_raw } };

	buf_init(&t.container_text, 0);
	buf_init(&t.process_text, 0);
	for (uint32_t i = 0; i < p->resource_count; i++)
		tally_resource(&t, &p->resources[i]);
	buf_release(&t.container_text);
	buf_release(&t.process_text);
	batch_unref(batch);
	completion_done(done, &ok);
}

/* ---- serving ---- */

static void serve_metrics(struct net_request *r, struct blob *body, void *ctx)
{
	static const struct net_header headers[] = {
		{ "content-type",
		  { "text/plain; version=0.0.4; charset=utf-8",
		    sizeof("text/plain; version=0.0.4; charset=utf-8") - 1 } },
	};
	struct prometheus *s = ctx;
	struct buf text;

	blob_unref(body);
	buf_init(&text, 0);
	metrics_write(s->metrics, &text);
	net_reply_http(r, 200, headers, ARRAY_LEN(headers), buf_view(&text));
	buf_release(&text);
}

static void make_families(struct prometheus *s)
{
	static const char *const profile_labels[] = { "container_id", NULL };
	static const char *const sample_labels[] = { "container_id", "process_executable_name",
						     NULL };
	static const char *const location_labels[] = { "container_id", "process_executable_name",
						       "language", NULL };

	s->metrics = metrics_new();
	s->profiles =
		metrics_family(s->metrics, METRIC_COUNTER, "lazybackend_received_profiles_total",
			       "Profiles received.", profile_labels, s->max_series);
	s->samples =
		metrics_family(s->metrics, METRIC_COUNTER, "lazybackend_received_samples_total",
			       "Samples received.", sample_labels, s->max_series);
	s->locations = metrics_family(
		s->metrics, METRIC_COUNTER, "lazybackend_received_locations_total",
		"Frames received, inlined ones counted each.", location_labels, s->max_series);
}

static bool prometheus_start(void *state, const struct component_host *host, struct err *err)
{
	const struct net_app_options options = { .metrics = host->metrics };
	struct prometheus *s = state;

	make_families(s);
	s->app = net_app_new(&options);
	net_app_route(s->app, "GET", "/metrics", NULL, (struct net_handler){ serve_metrics, s });
	s->listener = net_listen(host->loops, s->app, s->endpoint, NULL, err);
	if (!s->listener)
		return err_prefix(err, "serving Prometheus metrics");
	LOG(LOG_INFO, "Serving Prometheus metrics on /metrics", LOG_S("exporter", host->id),
	    LOG_S("endpoint", net_listener_address(s->listener)));
	return true;
}

static void prometheus_stop(void *state, uint64_t deadline_ns)
{
	struct prometheus *s = state;

	net_listener_close(s->listener, deadline_ns);
	s->listener = NULL;
}

static void prometheus_release(void *state)
{
	struct prometheus *s = state;

	if (s->app)
		net_app_free(s->app);
	if (s->metrics)
		metrics_free(s->metrics);
}

const struct component_ops prometheus_exporter = {
	.type = "prometheus",
	.summary = "counts what it receives and serves the counters to Prometheus",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct prometheus),
	.fields = prometheus_fields,
	.start = prometheus_start,
	.consume = prometheus_consume,
	.stop = prometheus_stop,
	.release = prometheus_release,
};
