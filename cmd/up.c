/*
 * up.c - flametap up: this machine's profiles, kept in one SQLite file and shown in the browser.
 *
 * profiling + otlp -> sqlite, with the page beside it. Where the agent can't run it says why and
 * goes on as a receiver with a page.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "command.h"
#include "flags.h"
#include "graph_yaml.h"
#include "service.h"

static struct {
	const char *db, *listen, *grpc, *http, *retention, *max_size, *rate, *log_level, *metrics;
} f = {
	.listen = "127.0.0.1:4040",
	.grpc = "127.0.0.1:4317",
	.http = "127.0.0.1:4318",
	.log_level = "warn",
};
static bool no_agent, open_browser, print_config;

static const char WHAT[] = "What runs";
static const char KEEP[] = "What is kept";
static const char SELF[] = "Itself";

static const char *const levels[] = { "debug", "info", "warn", "error", NULL };

static const struct flag flags[] = {
	{ WHAT, "listen", FLAG_STRING, &f.listen, "ADDRESS", "127.0.0.1:4040", "where the page is",
	  NULL, false, false },
	{ WHAT, "no-agent", FLAG_BOOL, &no_agent, NULL, NULL,
	  "do not profile this machine: receive and show only", NULL, false, false },
	{ WHAT, "samples-per-second", FLAG_UINT, &f.rate, "HZ", "20", "of the agent, on each CPU",
	  NULL, false, false },
	{ WHAT, "grpc-address", FLAG_STRING, &f.grpc, "ADDRESS", "127.0.0.1:4317",
	  "OTLP/gRPC from other profilers; empty: none", NULL, false, false },
	{ WHAT, "http-address", FLAG_STRING, &f.http, "ADDRESS", "127.0.0.1:4318",
	  "OTLP/HTTP; empty: none", NULL, false, false },
	{ WHAT, "open", FLAG_BOOL, &open_browser, NULL, NULL, "open the page in the browser", NULL,
	  false, false },
	{ KEEP, "db", FLAG_STRING, &f.db, "FILE", NULL,
	  "the store (root: /var/lib/flametap/flametap.db, else in the user's state)", NULL, false,
	  false },
	{ KEEP, "retention", FLAG_STRING, &f.retention, "DURATION", "0",
	  "keep what arrived this long: 168h; 0 = for ever", NULL, false, false },
	{ KEEP, "max-size", FLAG_STRING, &f.max_size, "SIZE", "0",
	  "at most this much, oldest goes first: 10GiB; 0 = no limit", NULL, false, false },
	{ SELF, "metrics-address", FLAG_STRING, &f.metrics, "HOST:PORT", NULL,
	  "own metrics for Prometheus, as 127.0.0.1:8888", NULL, true, false },
	{ SELF, "log-level", FLAG_CHOICE, &f.log_level, "LEVEL", "warn", "debug, info, warn, error",
	  levels, true, false },
	{ SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL,
	  "print the YAML that 'flametap collector' would run alike", NULL, false, false },
	{ 0 },
};

static const char *const examples[] = {
	"sudo flametap up",
	"flametap up --no-agent --db profiles.db",
	NULL,
};

static const struct command command = {
	.name = "up",
	.words = "",
	.summary = "Profile this machine, keep every sample, show flame graphs in the browser.",
	.examples = examples,
	.flags = flags,
};

/* ---- the file ---- */

static bool make_folders(char *path, struct err *err)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return err_set_errno(err, "can't make the folder %s", path);
		*slash = '/';
	}
	return true;
}

/* root: /var/lib/flametap/flametap.db, else $XDG_STATE_HOME or ~/.local/state. */
static bool default_file(char *path, size_t room, struct err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		snprintf(path, room, "/var/lib/flametap/flametap.db");
	else if (state && state[0] == '/')
		snprintf(path, room, "%s/flametap/flametap.db", state);
	else if (home && home[0] == '/')
		snprintf(path, room, "%s/.local/state/flametap/flametap.db", home);
	else
		return err_set(err, ERR_INVALID,
			       "neither XDG_STATE_HOME nor HOME is set; --db says where");
	return print_config || make_folders(path, err);
}

/* ---- the graph ---- */

static void put_receivers(struct yaml_out *y, bool agent)
{
	graph_begin(y, "receivers");
	if (f.grpc[0] || f.http[0]) {
		graph_begin(y, "otlp");
		graph_begin(y, "protocols");
		if (f.grpc[0]) {
			graph_begin(y, "grpc");
			graph_put(y, "endpoint", f.grpc);
			yaml_map_end(y);
		}
		if (f.http[0]) {
			graph_begin(y, "http");
			graph_put(y, "endpoint", f.http);
			yaml_map_end(y);
		}
		yaml_map_end(y);
		graph_put(y, "validation", "lenient");
		graph_put(y, "other_signals", "reject_each");
		yaml_map_end(y);
	}
	graph_begin(y, "pyroscope");
	yaml_map_end(y);
	if (agent) {
		graph_begin(y, "profiling");
		graph_put_number(y, "samples_per_second", f.rate);
		graph_put_bool(y, "send_error_frames", true);
		yaml_map_end(y);
	}
	yaml_map_end(y);
}

static void put_store(struct yaml_out *y, const char *db)
{
	graph_begin(y, "exporters");
	graph_begin(y, "sqlite");
	graph_put(y, "path", db);
	graph_put(y, "retention", f.retention);
	graph_put(y, "max_size", f.max_size);
	yaml_map_end(y);
	yaml_map_end(y);
	graph_begin(y, "extensions");
	graph_begin(y, "web");
	graph_put(y, "endpoint", f.listen);
	graph_put(y, "store", db);
	yaml_map_end(y);
	yaml_map_end(y);
}

static bool put_service(struct yaml_out *y, bool agent, struct err *err)
{
	bool otlp = f.grpc[0] || f.http[0], ok;

	graph_begin(y, "service");
	graph_put_list(y, "extensions", "web");
	graph_begin(y, "pipelines");
	graph_begin(y, "profiles");
	graph_put_list(y, "receivers",
		       !agent ? (otlp ? "otlp,pyroscope" : "pyroscope")
		       : otlp ? "otlp,pyroscope,profiling"
			      : "pyroscope,profiling");
	graph_put_list(y, "exporters", "sqlite");
	yaml_map_end(y);
	yaml_map_end(y);
	ok = graph_put_telemetry(y, f.log_level, NULL, f.metrics, err);
	graph_begin(y, "flametap");
	graph_put_bool(y, "durable", true);
	graph_put_bool(y, "strict", false);
	yaml_map_end(y);
	yaml_map_end(y);
	return ok;
}

static bool make_graph(const char *db, bool agent, struct buf *out, struct err *err)
{
	struct yaml_out *y = yaml_out_new(out);
	bool ok;

	yaml_map_begin(y);
	put_receivers(y, agent);
	put_store(y, db);
	ok = put_service(y, agent, err);
	yaml_map_end(y);
	yaml_out_free(y);
	return ok;
}

static void greet(const char *db, bool agent)
{
	fprintf(stderr, "flametap up: http://%s/\n", f.listen);
	fprintf(stderr, "  %s\n",
		agent ? "profiling every process of this machine"
		      : "not profiling this machine: receiving only");
	if (f.grpc[0] || f.http[0])
		fprintf(stderr, "  taking OTLP profiles on %s%s%s\n", f.grpc,
			f.grpc[0] && f.http[0] ? " (gRPC) and " : "", f.http);
	fprintf(stderr, "  keeping every sample in %s\n", db);
}

/* Without privileges `up` goes on as a receiver with a page. */
static bool agent_wanted(void)
{
	if (no_agent)
		return false;
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "flametap up: not root, so this machine is not profiled (flametap doctor "
			"says what is "
			"missing); sudo flametap up does\n");
	return false;
}

static void open_page(void)
{
	char command_line[400];

	snprintf(command_line, sizeof(command_line),
		 "(sleep 1; xdg-open 'http://%s/') > /dev/null 2>&1 &", f.listen);
	if (strpbrk(f.listen, "'\\$`") || system(command_line) != 0)
		fprintf(stderr, "flametap up: no browser could be opened\n");
}

static int run(void)
{
	AUTO(buf_release) struct buf yaml = { 0 };
	struct config_source source = { CONFIG_FROM_TEXT, NULL, NULL };
	struct service_options options = {
		.command = "up", .sources = &source, .source_count = 1, .print_config = print_config
	};
	char path[4096];
	struct err err;
	bool agent = agent_wanted();

	if (!f.db && !default_file(path, sizeof(path), &err))
		return command_usage_error("up", &err);
	if (!make_graph(f.db ? f.db : path, agent, &yaml, &err))
		return command_usage_error("up", &err);
	buf_char(&yaml, '\0');
	source.text = yaml.ptr;
	umask(0077); /* the store is its owner's */
	if (!print_config) {
		greet(f.db ? f.db : path, agent);
		if (open_browser)
			open_page();
	}
	return service_run(&options);
}

int up_run(int argc, char **argv)
{
	struct words words;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	return run();
}
