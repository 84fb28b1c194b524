#include "graph_yaml.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Values as given; what refers to the environment stays a reference, so that --print-config shows
 * no secret. */
static void put_value(struct yaml_out *y, const char *value)
{
	if (strstr(value, "${"))
		yaml_reference(y, str_cstr(value));
	else
		yaml_string(y, str_cstr(value));
}

/* A line only where the flag was given: the component's own default holds else. */
void graph_put(struct yaml_out *y, const char *key, const char *value)
{
	if (!value)
		return;
	yaml_key(y, str_cstr(key));
	put_value(y, value);
}

void graph_put_number(struct yaml_out *y, const char *key, const char *digits)
{
	if (!digits)
		return;
	yaml_key(y, str_cstr(key));
	yaml_bare(y, str_cstr(digits));
}

void graph_put_bool(struct yaml_out *y, const char *key, bool value)
{
	graph_put_number(y, key, value ? "true" : "false");
}

void graph_put_true(struct yaml_out *y, const char *key, bool value)
{
	if (value)
		graph_put_bool(y, key, true);
}

void graph_begin(struct yaml_out *y, const char *key)
{
	yaml_key(y, str_cstr(key));
	yaml_map_begin(y);
}

void graph_put_lists(struct yaml_out *y, const char *key, const char *const *comma_lists,
		     uint32_t count)
{
	bool begun = false;

	for (uint32_t i = 0; i < count; i++) {
		struct str rest = str_cstr(comma_lists[i]), item;

		if (rest.len && !begun) {
			yaml_key(y, str_cstr(key));
			yaml_list_begin(y, true);
			begun = true;
		}
		while (str_split(&rest, ',', &item))
			if (str_trim(item).len)
				yaml_string(y, str_trim(item));
	}
	if (begun)
		yaml_list_end(y);
}

void graph_put_list(struct yaml_out *y, const char *key, const char *comma_list)
{
	graph_put_lists(y, key, &comma_list, 1);
}

static bool put_pair(struct yaml_out *y, struct str pair, struct err *err)
{
	ptrdiff_t equals = str_find(pair, '=');
	AUTO(buf_release) struct buf value = { 0 };

	if (equals <= 0)
		return err_set(err, ERR_INVALID, "\"%.*s\" is not of the form name=value",
			       STR_ARG(pair));
	buf_str(&value, str_trim(str_skip(pair, (size_t)equals + 1)));
	buf_char(&value, '\0');
	yaml_key(y, str_trim(str_head(pair, (size_t)equals)));
	put_value(y, value.ptr);
	return true;
}

/* A map from "k=v,k=v". */
bool graph_put_pairs(struct yaml_out *y, const char *key, const char *pairs, struct err *err)
{
	struct str rest = str_cstr(pairs), pair;
	bool ok = true;

	if (rest.len == 0)
		return true;
	graph_begin(y, key);
	while (ok && str_split(&rest, ',', &pair))
		ok = put_pair(y, pair, err);
	yaml_map_end(y);
	return ok;
}

/* metrics.readers: [{pull: {exporter: {prometheus: {host, port}}}}] */
static void put_reader(struct yaml_out *y, const char *host, const char *port)
{
	yaml_key(y, STR("readers"));
	yaml_list_begin(y, false);
	yaml_map_begin(y);
	graph_begin(y, "pull");
	graph_begin(y, "exporter");
	graph_begin(y, "prometheus");
	graph_put(y, "host", host);
	graph_put_number(y, "port", port);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_map_end(y);
	yaml_list_end(y);
}

/* `metrics` from HOST:PORT. */
static bool put_own_metrics(const char *address, struct yaml_out *y, struct err *err)
{
	const char *colon = strrchr(address, ':');
	AUTO(buf_release) struct buf host = { 0 };
	uint64_t port;

	if (!colon || !str_to_u64(str_cstr(colon + 1), &port) || port > 65535)
		return err_set(err, ERR_INVALID, "-metrics-address \"%s\" is not HOST:PORT",
			       address);
	buf_append(&host, address, (size_t)(colon - address));
	if (host.len == 0)
		buf_lit(&host, "0.0.0.0");
	buf_char(&host, '\0');
	graph_begin(y, "metrics");
	graph_put(y, "level", "normal");
	put_reader(y, host.ptr, colon + 1);
	yaml_map_end(y);
	return true;
}

bool graph_put_telemetry(struct yaml_out *y, const char *log_level, const char *log_format,
			 const char *metrics_address, struct err *err)
{
	bool ok = true;

	graph_begin(y, "telemetry");
	graph_begin(y, "logs");
	graph_put(y, "level", log_level);
	graph_put(y, "encoding", log_format);
	yaml_map_end(y);
	if (metrics_address && metrics_address[0]) {
		ok = put_own_metrics(metrics_address, y, err);
	} else {
		graph_begin(y, "metrics");
		graph_put(y, "level", "none");
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

void graph_put_default_spool_directory(struct yaml_out *y)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	AUTO(buf_release) struct buf path = { 0 };

	if (geteuid() == 0)
		buf_lit(&path, "/var/lib/flametap/spool");
	else if (state && state[0] == '/')
		buf_printf(&path, "%s/flametap/spool", state);
	else
		buf_printf(&path, "%s/.local/state/flametap/spool", home ? home : "/tmp");
	buf_char(&path, '\0');
	graph_put(y, "directory", path.ptr);
}
