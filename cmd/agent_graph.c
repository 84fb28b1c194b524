/* agent_graph.c - the agent's flags as the YAML of a graph: profiling -> one OTLP exporter,
 * durable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "base/text.h"
#include "graph_yaml.h"

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* OTEL_EXPORTER_OTLP_PROFILES_X, else OTEL_EXPORTER_OTLP_X. */
static const char *exporter_variable(const char *what)
{
	const char *value;
	char name[64];

	snprintf(name, sizeof(name), "OTEL_EXPORTER_OTLP_PROFILES_%s", what);
	value = variable(name);
	snprintf(name, sizeof(name), "OTEL_EXPORTER_OTLP_%s", what);
	return value ? value : variable(name);
}

/* ---- who says it ---- */

struct attribute_list {
	struct {
		struct str key;
		struct str value; /* of OTEL_RESOURCE_ATTRIBUTES still as it is spelled there */
		bool encoded;
	} at[128];
	size_t count;
};

/* The last one of a name holds. */
static bool set_attribute(struct attribute_list *list, struct str key, struct str value,
			  bool encoded, struct err *err)
{
	size_t at = 0;

	while (at < list->count && !str_equal(list->at[at].key, key))
		at++;
	if (at == ARRAY_LEN(list->at))
		return err_set(err, ERR_LIMIT, "more than %zu resource attributes",
			       ARRAY_LEN(list->at));
	list->count += at == list->count;
	list->at[at].key = key;
	list->at[at].value = value;
	list->at[at].encoded = encoded;
	return true;
}

static bool add_attributes(struct attribute_list *list, const char *pairs, bool encoded,
			   struct err *err)
{
	struct str rest = str_cstr(pairs), pair;

	while (str_split(&rest, ',', &pair)) {
		ptrdiff_t equals = str_find(pair, '=');

		if (!str_trim(pair).len)
			continue;
		if (equals <= 0)
			return err_set(err, ERR_INVALID, "\"%.*s\" is not of the form name=value",
				       STR_ARG(pair));
		if (!set_attribute(list, str_trim(str_head(pair, (size_t)equals)),
				   str_trim(str_skip(pair, (size_t)equals + 1)), encoded, err))
			return false;
	}
	return true;
}

static void put_attributes(const struct attribute_list *list, struct yaml_out *y)
{
	bool any = false;

	for (size_t i = 0; i < list->count; i++) {
		AUTO(buf_release) struct buf value = { 0 };

		if (str_is(list->at[i].key, "service.name"))
			continue;
		if (!any)
			graph_begin(y, "resource_attributes");
		any = true;
		if (list->at[i].encoded)
			percent_decode(&value, list->at[i].value);
		else
			buf_str(&value, list->at[i].value);
		yaml_key(y, list->at[i].key);
		yaml_string(y, buf_view(&value));
	}
	if (any)
		yaml_map_end(y);
}

/* -service-name, OTEL_SERVICE_NAME, then service.name among the attributes. */
static void put_service_name(const struct flag *flags, const struct attribute_list *list,
			     struct yaml_out *y)
{
	AUTO(buf_release) struct buf decoded = { 0 };
	const char *name = flags_value(flags, "service-name");

	if (!name)
		name = variable("OTEL_SERVICE_NAME");

	for (size_t i = 0; !name && i < list->count; i++) {
		if (!str_is(list->at[i].key, "service.name"))
			continue;
		if (list->at[i].encoded)
			percent_decode(&decoded, list->at[i].value);
		else
			buf_str(&decoded, list->at[i].value);
		buf_char(&decoded, '\0');
		name = decoded.ptr;
	}
	graph_put(y, "service_name", name);
}

static bool put_identity(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	struct attribute_list list = { .count = 0 };
	const char *from_environment = variable("OTEL_RESOURCE_ATTRIBUTES");
	const char *tags = flags_value(flags, "tags");

	if (from_environment && !add_attributes(&list, from_environment, true, err))
		return err_prefix(err, "OTEL_RESOURCE_ATTRIBUTES");
	if (tags && !add_attributes(&list, tags, false, err))
		return err_prefix(err, "-tags");
	put_service_name(flags, &list, y);
	put_attributes(&list, y);
	return true;
}

/* ---- the exporter ---- */

static bool is_http(void)
{
	const char *protocol = exporter_variable("PROTOCOL");

	return protocol && strncmp(protocol, "http/", 5) == 0;
}

static bool check_protocol(struct err *err)
{
	static const char *const known[] = { "grpc", "http/protobuf", "http/json" };
	const char *protocol = exporter_variable("PROTOCOL");

	for (size_t i = 0; protocol && i < ARRAY_LEN(known); i++)
		if (strcmp(protocol, known[i]) == 0)
			return true;
	return !protocol || err_set(err, ERR_INVALID,
				    "OTEL_EXPORTER_OTLP_PROTOCOL can't be \"%s\"; it takes grpc, "
				    "http/protobuf, http/json",
				    protocol);
}

static bool is_true(const char *value)
{
	return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

/* What the standard's variables say is as if the flags had been given. */
static bool read_exporter_variables(const struct flag *flags, struct err *err)
{
	static const struct {
		const char *flag, *variable;
	} pairs[] = {
		{ "ca", "CERTIFICATE" },  { "cert", "CLIENT_CERTIFICATE" },
		{ "key", "CLIENT_KEY" },  { "compression", "COMPRESSION" },
		{ "headers", "HEADERS" },
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		const char *value = exporter_variable(pairs[i].variable);

		if (value && !flags_assume(flags, pairs[i].flag, value, err))
			return err_prefix(err, "OTEL_EXPORTER_OTLP_%s", pairs[i].variable);
	}
	return !is_true(exporter_variable("INSECURE")) ||
	       flags_assume(flags, "disable-tls", "true", err);
}

/* OTEL_EXPORTER_OTLP_TIMEOUT counts milliseconds. */
static bool put_timeout(struct yaml_out *y, struct err *err)
{
	const char *text = exporter_variable("TIMEOUT");
	char duration[40];
	uint64_t ms;

	if (!text)
		return true;
	if (!str_to_u64(str_cstr(text), &ms) || ms > 3600000)
		return err_set(err, ERR_INVALID,
			       "OTEL_EXPORTER_OTLP_TIMEOUT \"%s\" is not a number of milliseconds",
			       text);
	snprintf(duration, sizeof(duration), "%llums", (unsigned long long)ms);
	graph_put(y, "timeout", duration);
	return true;
}

static bool sends_over_http(const struct flag *flags)
{
	return !flags_value(flags, "collection-agent") && is_http();
}

static const char *exporter_name(const struct flag *flags)
{
	return sends_over_http(flags) ? "otlp_http" : "otlp_grpc";
}

/* Where no flag names the peer. */
static bool put_destination(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	const char *flag = flags_value(flags, "collection-agent");
	const char *whole_url = variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT");
	const char *endpoint = exporter_variable("ENDPOINT");
	bool http = sends_over_http(flags);

	if (flag ? !*flag : !endpoint)
		return err_set(err, ERR_INVALID,
			       "no collection agent to send to: -collection-agent HOST:PORT, or "
			       "OTEL_EXPORTER_OTLP_ENDPOINT");
	if (!flag)
		graph_put(y, http && whole_url ? "profiles_endpoint" : "endpoint", endpoint);
	if (http && strcmp(exporter_variable("PROTOCOL"), "http/json") == 0)
		graph_put(y, "encoding", "json");
	return true;
}

static bool put_exporter(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, exporter_name(flags));
	ok = put_destination(flags, y, err) && put_timeout(y, err) &&
	     graph_put_options(y, flags, "exporters/otlp_grpc", err);
	graph_put_bool(y, "log_sent", true);
	yaml_map_end(y);
	return ok;
}

/* ---- the graph ---- */

static bool put_receiver(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, "profiling");
	ok = graph_put_options(y, flags, "receivers/profiling", err) && put_identity(flags, y, err);
	yaml_map_end(y);
	return ok;
}

static void put_pipeline(const struct flag *flags, struct yaml_out *y)
{
	graph_begin(y, "pipelines");
	graph_begin(y, "profiles");
	graph_put_list(y, "receivers", "profiling");
	graph_put_list(y, "exporters", exporter_name(flags));
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool put_engine(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, "flametap");
	graph_put_number(y, "max_inflight_mib", flags_value(flags, "max-inflight-mib"));
	graph_put_bool(y, "durable", true);
	graph_put(y, "worker_user", flags_value(flags, "user"));
	ok = graph_put_spool(y, flags, err);
	yaml_map_end(y);
	return ok;
}

static bool put_service(const struct flag *flags, struct yaml_out *y, struct err *err)
{
	bool ok;

	graph_begin(y, "service");
	put_pipeline(flags, y);
	ok = graph_put_telemetry(y, flags, err) && put_engine(flags, y, err);
	yaml_map_end(y);
	return ok;
}

/* Maps that were begun are ended, also when something is wrong. */
bool agent_graph_yaml(const struct flag *flags, struct buf *out, struct err *err)
{
	struct yaml_out *y;
	bool ok;

	if (!check_protocol(err) || !read_exporter_variables(flags, err))
		return false;
	if (flags_is_true(flags, "verbose") && !flags_assume(flags, "log-level", "debug", err))
		return false;
	y = yaml_out_new(out);
	yaml_map_begin(y);
	graph_begin(y, "receivers");
	ok = put_receiver(flags, y, err);
	yaml_map_end(y);
	graph_begin(y, "exporters");
	ok = ok && put_exporter(flags, y, err);
	yaml_map_end(y);
	ok = ok && put_service(flags, y, err);
	yaml_map_end(y);
	yaml_out_free(y);
	return ok;
}
