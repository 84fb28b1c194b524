#include "graph_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "flag_option.h"

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

void graph_put_list(struct yaml_out *y, const char *key, const char *comma_list)
{
	struct str rest = str_cstr(comma_list), item;

	yaml_key(y, str_cstr(key));
	yaml_list_begin(y, true);
	while (str_split(&rest, ',', &item))
		if (str_trim(item).len)
			yaml_string(y, str_trim(item));
	yaml_list_end(y);
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

/* ---- options that flags set ---- */

/* A list flag's values are items, another's are comma lists of them. */
static void put_items(struct yaml_out *y, const char *key, const struct flag *f)
{
	AUTO(buf_release) struct buf joined = { 0 };
	const char *value;
	unsigned at = 0;

	if (f->kind == FLAG_LIST) {
		yaml_key(y, str_cstr(key));
		yaml_list_begin(y, true);
		while ((value = flags_next_value(f, &at)))
			yaml_string(y, str_cstr(value));
		yaml_list_end(y);
		return;
	}
	while ((value = flags_next_value(f, &at)))
		buf_printf(&joined, "%s,", value);
	buf_char(&joined, '\0');
	if (joined.ptr[strspn(joined.ptr, ", ")])
		graph_put_list(y, key, joined.ptr);
}

static bool put_option(struct yaml_out *y, const char *key, const struct flag *f, struct err *err)
{
	const char *value = flags_value(f, f->name);

	switch (flag_option_field(f->option)->kind) {
	case CONFIG_BOOL:
	case CONFIG_UINT32:
	case CONFIG_UINT64:
	case CONFIG_DOUBLE:
	case CONFIG_SIZE_MIB:
		graph_put_number(y, key, value);
		return true;
	case CONFIG_STRINGS:
		put_items(y, key, f);
		return true;
	case CONFIG_MAP:
		return graph_put_pairs(y, key, value, err) || err_prefix(err, "-%s", f->name);
	default:
		graph_put(y, key, value);
		return true;
	}
}

/* What of the flag's option comes behind the path, where that leads to it. */
static bool is_below(const struct flag *f, const char *path, struct str *rest)
{
	struct str ahead = str_cstr(path), want, name;

	*rest = str_cstr(f->option ? f->option : "");
	while (str_split(&ahead, '/', &want))
		if (!str_split(rest, '/', &name) || (!str_equal(name, want) && !str_is(name, "*")))
			return false;
	return rest->len > 0;
}

static bool has_value(const struct flag *f)
{
	return f->fallback || flags_given(f);
}

/* An earlier flag has brought the entry. */
static bool is_written(const struct flag *flags, const struct flag *until, const char *path,
		       struct str key)
{
	struct str rest, name;

	for (const struct flag *f = flags; f != until; f++)
		if (is_below(f, path, &rest) && has_value(f) && str_split(&rest, '/', &name) &&
		    str_equal(name, key))
			return true;
	return false;
}

bool graph_put_options(struct yaml_out *y, const struct flag *flags, const char *path,
		       struct err *err)
{
	bool ok = true;

	for (const struct flag *f = flags; ok && f->name; f++) {
		char key[64], deeper[200];
		struct str rest, name;

		if (!is_below(f, path, &rest) || !has_value(f))
			continue;
		str_split(&rest, '/', &name);
		if (is_written(flags, f, path, name))
			continue;
		snprintf(key, sizeof(key), "%.*s", STR_ARG(name));
		snprintf(deeper, sizeof(deeper), "%s/%s", path, key);
		if (!rest.len) {
			ok = put_option(y, key, f, err);
			continue;
		}
		graph_begin(y, key);
		ok = graph_put_options(y, flags, deeper, err);
		yaml_map_end(y);
	}
	return ok;
}

/* ---- service::telemetry ---- */

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

bool graph_put_telemetry(struct yaml_out *y, const struct flag *flags, struct err *err)
{
	const char *metrics_address = flags_value(flags, "metrics-address");
	bool ok;

	graph_begin(y, "telemetry");
	ok = graph_put_options(y, flags, "service/telemetry", err);
	if (metrics_address && metrics_address[0]) {
		ok = ok && put_own_metrics(metrics_address, y, err);
	} else {
		graph_begin(y, "metrics");
		graph_put(y, "level", "none");
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static void put_default_spool_directory(struct yaml_out *y)
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

bool graph_put_spool(struct yaml_out *y, const struct flag *flags, struct err *err)
{
	bool ok;

	graph_begin(y, "spool");
	if (!flags_value(flags, "spool-dir"))
		put_default_spool_directory(y);
	ok = graph_put_options(y, flags, "service/flametap/spool", err);
	yaml_map_end(y);
	return ok;
}
