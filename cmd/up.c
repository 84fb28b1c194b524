/*
 * up.c - flametap up: this machine's profiles, kept in one SQLite file and shown in the browser.
 *
 * profiling + otlp -> sqlite, with the page beside it. Where the agent can't run it says why and
 * goes on as a receiver with a page.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/doctor/privileges.h"
#include "base/cleanup.h"
#include "command.h"
#include "flags.h"
#include "graph_yaml.h"
#include "net/address.h"
#include "net/tls.h"
#include "service.h"
#include "store/write/store_lock.h"
#include "store/write/writer.h"
#include "up_page.h"
#include "web/web.h"

static const char *db_file;
static bool no_agent, open_browser, print_config, demo;

static const char WHAT[] = "What runs";
static const char KEEP[] = "What is kept";
static const char SELF[] = "Itself";

/* clang-format off */
static const struct flag flags[] = {
	OPTION(WHAT, "listen", "ADDRESS", "extensions/web/endpoint", .fallback = "127.0.0.1:4040"),
	FLAG(WHAT, "auth", FLAG_STRING, NULL, "HOW", "none", "who may see the page: token, basic:FILE, bearer:FILE"),
	OPTION(WHAT, "allow-host", "NAMES", "extensions/web/allowed_hosts", .advanced = true),
	OPTION(WHAT, "tls-cert", "FILE", "extensions/web/tls_cert_file", .help = "the page's certificate chain, PEM", .advanced = true),
	OPTION(WHAT, "tls-key", "FILE", "extensions/web/tls_key_file", .help = "the page's private key, PEM", .advanced = true),
	OPTION(WHAT, "source", "DIR", "extensions/web/source", .advanced = true),
	FLAG(WHAT, "no-agent", FLAG_BOOL, &no_agent, NULL, NULL, "do not profile this machine: receive and show only"),
	OPTION(WHAT, "samples-per-second", "HZ", "receivers/profiling/samples_per_second", .least = 1, .most = 10000, .help = "how often the agent samples each CPU"),
	OPTION(WHAT, "grpc-address", "ADDRESS", "receivers/otlp/protocols/grpc/endpoint", .fallback = "127.0.0.1:4317", .help = "accept OTLP/gRPC from other profilers; empty = off"),
	OPTION(WHAT, "http-address", "ADDRESS", "receivers/otlp/protocols/http/endpoint", .fallback = "127.0.0.1:4318", .help = "accept OTLP/HTTP; empty = off"),
	FLAG(WHAT, "demo", FLAG_BOOL, &demo, NULL, NULL, "show recorded profiles, in a store of their own; profile nothing"),
	FLAG(WHAT, "open", FLAG_BOOL, &open_browser, NULL, NULL, "open the page in the browser"),
	FLAG(KEEP, "db", FLAG_STRING, &db_file, "FILE", NULL, "the store (root: in /var/lib/flametap; else in ~/.local/state)"),
	OPTION(KEEP, "retention", "DURATION", "exporters/sqlite/retention"),
	OPTION(KEEP, "max-size", "SIZE", "exporters/sqlite/max_size"),
	FLAG(SELF, "metrics-address", FLAG_STRING, NULL, "HOST:PORT", NULL, "serve own metrics for Prometheus: 127.0.0.1:8888", .advanced = true),
	OPTION(SELF, "log-level", "LEVEL", "service/telemetry/logs/level", .fallback = "warn", .advanced = true),
	FLAG(SELF, "print-config", FLAG_BOOL, &print_config, NULL, NULL, "print the equivalent YAML for 'flametap collector'"),
	{ 0 },
};
/* clang-format on */

/* What the flags say; set when they have been read. */
static struct {
	const char *listen, *grpc, *http, *auth, *tls_cert, *tls_key;
} f;

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

	const char *name = demo ? "demo" : "flametap";

	if (geteuid() == 0)
		snprintf(path, room, "/var/lib/flametap/%s.db", name);
	else if (state && state[0] == '/')
		snprintf(path, room, "%s/flametap/%s.db", state, name);
	else if (home && home[0] == '/')
		snprintf(path, room, "%s/.local/state/flametap/%s.db", home, name);
	else
		return err_set(err, ERR_INVALID,
			       "neither XDG_STATE_HOME nor HOME is set; choose a file with --db");
	return print_config || make_folders(path, err);
}

/* ---- who may see the page ---- */

enum { TOKEN_BYTES = 16, PAGE_URL_MOST = 400 };

static char token[128]; /* empty: none */

/* FLAMETAP_TOKEN keeps one over restarts; else each start makes a new one. */
static bool make_token(struct err *err)
{
	const char *given = getenv("FLAMETAP_TOKEN");
	uint8_t bytes[TOKEN_BYTES];

	if (given && *given) {
		if (strlen(given) >= sizeof(token) ||
		    strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789-_.~") != strlen(given))
			return err_set(err, ERR_INVALID,
				       "FLAMETAP_TOKEN must be at most %zu characters of a-z A-Z "
				       "0-9 - _ . ~",
				       sizeof(token) - 1);
		snprintf(token, sizeof(token), "%s", given);
		return true;
	}
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_set_errno(err, "no random bytes for a token");
	for (int i = 0; i < TOKEN_BYTES; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Here too, since without privileges no receiver is made that would look at it. */
static bool check_auth(struct err *err)
{
	if (strcmp(f.auth, "token") == 0)
		return make_token(err);
	if (strcmp(f.auth, "none") == 0 || (strncmp(f.auth, "basic:", 6) == 0 && f.auth[6]) ||
	    (strncmp(f.auth, "bearer:", 7) == 0 && f.auth[7]))
		return true;
	return err_set(err, ERR_INVALID,
		       "-auth is \"%.60s\", but must be none, token, basic:FILE or bearer:FILE",
		       f.auth);
}

/* As a person opens it: with the token, where one is needed. */
static void page_url(char url[PAGE_URL_MOST])
{
	snprintf(url, PAGE_URL_MOST, "http%s://%s/%s%s", f.tls_cert ? "s" : "", f.listen,
		 token[0] ? "?token=" : "", token);
}

/* ---- the graph ---- */

static bool put_otlp(struct yaml_out *y, struct err *err)
{
	bool ok = true;

	graph_begin(y, "otlp");
	graph_begin(y, "protocols");
	if (f.grpc[0]) {
		graph_begin(y, "grpc");
		ok = graph_put_options(y, flags, "receivers/otlp/protocols/grpc", err);
		yaml_map_end(y);
	}
	if (f.http[0]) {
		graph_begin(y, "http");
		ok = ok && graph_put_options(y, flags, "receivers/otlp/protocols/http", err);
		yaml_map_end(y);
	}
	yaml_map_end(y);
	graph_put(y, "validation", "lenient");
	graph_put(y, "other_signals", "reject_each");
	yaml_map_end(y);
	return ok;
}

static bool put_receivers(struct yaml_out *y, bool agent, struct err *err)
{
	bool ok;

	graph_begin(y, "receivers");
	ok = !(f.grpc[0] || f.http[0]) || put_otlp(y, err);
	graph_begin(y, "pyroscope");
	yaml_map_end(y);
	if (agent) {
		graph_begin(y, "profiling");
		ok = ok && graph_put_options(y, flags, "receivers/profiling", err);
		graph_put_bool(y, "send_error_frames", true);
		graph_put(y, "reporter_interval", "1s");
		graph_put_bool(y, "inlines", true);
		yaml_map_end(y);
	}
	yaml_map_end(y);
	return ok;
}

static void put_auth(struct yaml_out *y)
{
	if (strncmp(f.auth, "basic:", 6) == 0)
		graph_put(y, "basic_file", f.auth + 6);
	else if (strncmp(f.auth, "bearer:", 7) == 0)
		graph_put(y, "bearer_file", f.auth + 7);
	else if (strcmp(f.auth, "token") == 0)
		graph_put(y, "token", print_config ? "${env:FLAMETAP_TOKEN}" : token);
}

/* The agent's reports are small and alike: half of the exporter's own choice does. */
static const char CACHE[] = "4MiB";

static bool put_store(struct yaml_out *y, const char *db, struct err *err)
{
	bool ok;

	graph_begin(y, "exporters");
	graph_begin(y, "sqlite");
	graph_put(y, "path", db);
	ok = graph_put_options(y, flags, "exporters/sqlite", err);
	graph_put(y, "cache", CACHE);
	yaml_map_end(y);
	yaml_map_end(y);
	graph_begin(y, "extensions");
	graph_begin(y, "web");
	ok = ok && graph_put_options(y, flags, "extensions/web", err);
	graph_put(y, "store", db);
	put_auth(y);
	yaml_map_end(y);
	yaml_map_end(y);
	return ok;
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
	ok = graph_put_telemetry(y, flags, err);
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
	ok = put_receivers(y, agent, err) && put_store(y, db, err) && put_service(y, agent, err);
	yaml_map_end(y);
	yaml_out_free(y);
	return ok;
}

static void greet(const char *db, bool agent)
{
	char url[PAGE_URL_MOST];

	page_url(url);
	fprintf(stderr, "flametap up: %s\n", url);
	fprintf(stderr, "  %s\n",
		agent ? "profiling every process of this machine"
		      : "not profiling this machine: receiving only");
	if (f.grpc[0] || f.http[0])
		fprintf(stderr, "  taking OTLP profiles on %s%s%s\n", f.grpc,
			f.grpc[0] && f.http[0] ? " (gRPC) and " : "", f.http);
	fprintf(stderr, "  keeping every sample in %s\n", db);
}

static void missing(const char *what, const char *costs)
{
	fprintf(stderr, "flametap up: missing: %s (%s)\n", what, costs);
}

/* What sampling can't do without and is not there; true: something. */
static bool print_missing(void)
{
	static const char BTF[] = "/sys/kernel/btf/vmlinux";
	uint64_t effective, permitted;
	bool any = false;

	if (!capabilities_read(&effective, &permitted))
		return false;
	for (int i = 0; i < SAMPLER_CAPABILITIES; i++) {
		const struct sampler_capability *c = &sampler_capabilities[i];

		if (!c->required || capability_is_in(c, effective))
			continue;
		missing(c->name, c->costs);
		any = true;
	}
	if (access(BTF, R_OK) != 0) {
		missing(BTF, "the kernel's types, which its programs are fitted to");
		any = true;
	}
	return any;
}

/* Without privileges `up` goes on as a receiver with a page. */
static bool agent_wanted(void)
{
	if (no_agent || demo)
		return false;
	if (!print_missing())
		return true;
	fprintf(stderr,
		"flametap up: so this machine is not profiled, the rest runs; %sflametap "
		"doctor says more\n",
		geteuid() ? "sudo flametap up profiles it, " : "");
	return false;
}

/* A process of its own, which nobody waits for: it gives the page a second to listen. */
static void become_browser(const char *url)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), said = dup(STDERR_FILENO);

	if (null < 0 || fcntl(said, F_SETFD, FD_CLOEXEC) != 0)
		_exit(1);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	poll(NULL, 0, 1000);
	execlp("xdg-open", "xdg-open", url, (char *)NULL);
	dprintf(said, "flametap up: no browser could be opened: xdg-open: %m\n");
	_exit(1);
}

static void open_url(const char *url)
{
	pid_t child = fork();

	if (child < 0)
		fprintf(stderr, "flametap up: no browser could be opened: %m\n");
	else if (child > 0)
		waitpid(child, NULL, 0);
	else if (fork() == 0)
		become_browser(url);
	else
		_exit(0);
}

static void open_page(void)
{
	char url[PAGE_URL_MOST];

	page_url(url);
	open_url(url);
}

/* Where who starts a second one finds the page of the first, token and all: "FILE.url". */
static bool url_file(const char *db, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s.url", db) < PATH_MAX;
}

static void keep_url(const char *db)
{
	char path[PATH_MAX], url[PAGE_URL_MOST];
	AUTO(fd_close) int fd = -1;

	page_url(url);
	if (url_file(db, path))
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		dprintf(fd, "%s\n", url);
}

/* The URL that the one that writes this store has left. */
static bool url_left(const char *db, char url[PAGE_URL_MOST])
{
	AUTO(fd_close) int fd = -1;
	char path[PATH_MAX];
	ssize_t n = 0;

	if (url_file(db, path))
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, url, PAGE_URL_MOST - 1);
	url[n > 0 ? n : 0] = 0;
	url[strcspn(url, "\n")] = 0;
	return url[0] != 0;
}

/* Ours are told by what they answer; behind TLS by the URL that one of ours left. */
static bool other_is_there(const char *db)
{
	char url[PAGE_URL_MOST];

	if (up_page_is_there(f.listen))
		return true;
	return url_left(db, url) && strncmp(url, "https://", 8) == 0 &&
	       strncmp(url + 8, f.listen, strlen(f.listen)) == 0 && up_page_is_tls(f.listen);
}

/* The one whose page is where ours would be keeps this store. */
static bool other_keeps(const char *db, char url[PAGE_URL_MOST])
{
	const char *port = strrchr(f.listen, ':');
	size_t len = port ? strlen(port) : 0;
	const char *there =
		url_left(db, url) && len ? strstr(url + strlen("https://"), port) : NULL;

	return there && there[len] == '/' && store_written_elsewhere(db);
}

/* That is the one to look at. */
static int show_other(const char *url)
{
	fprintf(stderr,
		"flametap up: it is already running: %s\n"
		"  --listen ADDRESS and --db FILE start another one beside it\n",
		url);
	if (open_browser)
		open_url(url);
	return EXIT_OK;
}

static bool is_taken(const char *address)
{
	struct err err = { 0 };
	AUTO(fd_close) int fd = address[0] ? address_listen(address, &err) : -1;

	return fd < 0 && err.kind == ERR_BUSY;
}

/* Its page is where ours would be, and it keeps something else. */
static int refuse_port(void)
{
	const char *port = strrchr(f.listen, ':');
	char holder[64] = "another flametap", store[PATH_MAX];

	if (port)
		address_find_holder((unsigned)atoi(port + 1), holder, sizeof(holder));
	fprintf(stderr, "flametap up: %s is in use by %s", f.listen, holder);
	if (up_page_store(holder, store, sizeof(store)))
		fprintf(stderr, ", which keeps %s", store);
	fprintf(stderr, ": http%s://%s/\n  beside it: flametap up --listen 127.0.0.1:0%s%s ...\n",
		up_page_is_there(f.listen) ? "" : "s", f.listen,
		is_taken(f.grpc) ? " --grpc-address ''" : "",
		is_taken(f.http) ? " --http-address ''" : "");
	return EXIT_FAILED;
}

/* Said before anything is begun, and before the other one's URL is written over. */
static int refuse_store(const char *db)
{
	char url[PAGE_URL_MOST];

	fprintf(stderr,
		"flametap up: %s is being written by another flametap; a store has one writer\n",
		db);
	if (url_left(db, url))
		fprintf(stderr, "  its page: %s\n", url);
	fprintf(stderr, "  --db FILE names another store\n");
	return EXIT_FAILED;
}

/* Said before anything is begun: what is wrong with an address, or whose port it is, and the flag
 * that chooses another. */
static bool can_listen(const char *flag, const char *address, const char *advice)
{
	AUTO(fd_close) int fd = -1;
	struct err err;

	if (!address[0] || strncmp(address, "unix:", 5) == 0) /* whose socket would stay */
		return true;
	fd = address_listen(address, &err);
	if (fd < 0)
		fprintf(stderr, "flametap up: --%s: %s\n", flag, err.msg);
	if (fd < 0 && err.kind == ERR_BUSY)
		fprintf(stderr, "  --%s ADDRESS %s\n", flag, advice);
	return fd >= 0;
}

static bool can_listen_everywhere(void)
{
	return can_listen("listen", f.listen, "moves the page elsewhere") &&
	       can_listen("grpc-address", f.grpc,
			  "takes OTLP profiles elsewhere, --grpc-address '' not at all") &&
	       can_listen("http-address", f.http,
			  "takes OTLP profiles elsewhere, --http-address '' not at all");
}

static bool can_read_secrets(struct err *err)
{
	const char *colon = strchr(f.auth, ':');
	AUTO(fd_close) int fd = colon ? open(colon + 1, O_RDONLY | O_CLOEXEC) : -1;

	return !colon || fd >= 0 || err_set_errno(err, "--auth: cannot read %s", colon + 1);
}

/* Secrets and certificate can be read, the store's folder be written to, and the store be ours. */
static bool can_begin(const char *db, struct err *err)
{
	struct tls_options options = { .server = true,
				       .cert_file = f.tls_cert,
				       .key_file = f.tls_key };
	struct tls_context *tls;
	char folder[PATH_MAX];

	if (snprintf(folder, sizeof(folder), "%s", db) >= (int)sizeof(folder))
		return err_set(err, ERR_INVALID, "--db: the path of the store is too long");
	if (access(dirname(folder), W_OK | X_OK) != 0)
		return err_set_errno(err, "--db: the store's folder, %s", folder);
	if (!store_may_keep(db, err))
		return err_prefix(err, "--db");
	if (!can_read_secrets(err))
		return false;
	if (!f.tls_cert || !f.tls_key)
		return true; /* one alone is refused where it is used */
	tls = tls_context_new(&options, err);
	tls_context_free(tls);
	return tls != NULL;
}

/* Beyond this machine, without a secret. */
static void warn_of_strangers(void)
{
	if (strcmp(f.auth, "none") == 0 && !web_is_loopback(f.listen))
		fprintf(stderr,
			"  WARNING: anyone who can reach %s can see all profiles; --auth token "
			"asks for a "
			"secret\n",
			f.listen);
}

static void forget_url(const char *db)
{
	char path[PATH_MAX];

	if (url_file(db, path))
		unlink(path);
}

/* What is told once, by the process that runs the graph: a worker that is started again is silent.
 */
struct greeting {
	const char *db;
	bool agent;
	bool *told; /* shared with every worker */
};

static void graph_started(void *arg)
{
	const struct greeting *g = arg;

	if (*g->told)
		return;
	*g->told = true;
	greet(g->db, g->agent);
	warn_of_strangers();
}

/* False: it was said why not, or who runs already. */
static bool may_begin(const char *db, int *status)
{
	char url[PAGE_URL_MOST];
	struct err err;

	*status = EXIT_FAILED;
	if (other_is_there(db))
		*status = other_keeps(db, url) ? show_other(url) : refuse_port();
	else if (store_written_elsewhere(db))
		*status = refuse_store(db);
	else if (!can_begin(db, &err))
		fprintf(stderr, "flametap up: %s\n", err.msg);
	else
		return can_listen_everywhere();
	return false;
}

static int begin(struct service_options *options, const char *db, bool agent)
{
	bool *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			  -1, 0);
	struct greeting greeting = { db, agent, told };
	int status;

	if (told != MAP_FAILED) {
		options->started = graph_started;
		options->started_arg = &greeting;
	}
	keep_url(db);
	if (open_browser)
		open_page();
	if (demo)
		up_demo_start(f.listen, token);
	status = service_run(options);
	forget_url(db);
	return status;
}

static void read_flags(void)
{
	f.listen = flags_value(flags, "listen");
	f.auth = flags_value(flags, "auth");
	f.grpc = flags_value(flags, "grpc-address");
	f.http = flags_value(flags, "http-address");
	f.tls_cert = flags_value(flags, "tls-cert");
	f.tls_key = flags_value(flags, "tls-key");
}

/* Of port 0 another one, so that the URL that is printed is the one that it will be. *fd, a socket,
 * keeps it until the page listens. */
static bool take_port(int *fd, struct err *err)
{
	static char address[300];

	*fd = up_page_take_port(f.listen, address, sizeof(address));
	if (*fd < 0)
		return true;
	f.listen = address;
	return flags_set(flags_find(flags, STR("listen")), address, err);
}

static int run(void)
{
	AUTO(buf_release) struct buf yaml = { 0 };
	struct config_source source = { CONFIG_FROM_TEXT, NULL, NULL };
	struct service_options options = {
		.command = "up", .sources = &source, .source_count = 1, .print_config = print_config
	};
	char path[4096];
	const char *db = db_file ? db_file : path;
	struct err err;
	AUTO(fd_close) int port = -1;
	int status;
	bool agent;

	if ((!print_config && !take_port(&port, &err)) || !check_auth(&err) ||
	    (!db_file && !default_file(path, sizeof(path), &err)))
		return command_usage_error("up", &err);
	if (!print_config && !may_begin(db, &status))
		return status;
	agent = agent_wanted();
	if (!make_graph(db, agent, &yaml, &err))
		return command_usage_error("up", &err);
	buf_char(&yaml, '\0');
	source.text = yaml.ptr;
	umask(0077); /* the store is its owner's */
	return print_config ? service_run(&options) : begin(&options, db, agent);
}

int up_run(int argc, char **argv)
{
	struct words words;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	read_flags();
	return run();
}
