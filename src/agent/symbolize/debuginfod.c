#include "agent/symbolize/debuginfod.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/curl_lib.h"

enum {
	ENTRIES_MOST = 1024, /* build ids remembered; a machine runs a few hundred */
	SERVERS_MOST = 16,
	HEX_MOST = 128,
	STALL_SECONDS = 90,
	CONNECT_SECONDS = 10,
};
#define BYTES_MOST    (UINT64_C(1) << 30)
#define FAILED_FOR_NS (600 * SECOND_NS)

enum entry_state {
	UNKNOWN, /* new, or its file was handed out: the folder may have it */
	WANTED,
	FETCHING,
	READY,
	ABSENT,
	FAILED
};

struct entry {
	char hex[HEX_MOST + 1];
	enum entry_state state;
	int fd; /* READY, and nobody took it yet */
	uint64_t failed_ns;
};

struct debuginfod {
	struct debuginfod_options options;
	char *urls; /* cut into servers */
	const char *servers[SERVERS_MOST];
	uint32_t server_count;
	atomic_bool stopping;
	pthread_t thread;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool running; /* the thread: begun with the first question */
	struct entry *entries;
	uint32_t entry_count, next;
	struct debuginfod_stats stats;
};

struct transfer {
	struct debuginfod *d;
	int fd;
	uint64_t bytes;
	bool too_large, write_failed;
};

/* ---- options ---- */

static uint64_t number_from(const char *variable, uint64_t unit)
{
	const char *text = getenv(variable);
	uint64_t n;

	return text && str_to_u64(str_cstr(text), &n) && n < UINT64_MAX / unit ? n * unit : 0;
}

struct debuginfod_options debuginfod_environment(void)
{
	return (struct debuginfod_options){
		.urls = getenv("DEBUGINFOD_URLS"),
		.cache_folder = -1,
		.stall_ns = number_from("DEBUGINFOD_TIMEOUT", SECOND_NS),
		.most_ns = number_from("DEBUGINFOD_MAXTIME", SECOND_NS),
		.most_bytes = number_from("DEBUGINFOD_MAXSIZE", 1),
	};
}

/* Words that are no address ("ima:enforcing") are settings of elfutils. */
static void cut_servers(struct debuginfod *d)
{
	char *rest = NULL;

	for (char *word = strtok_r(d->urls, " \t\n", &rest); word;
	     word = strtok_r(NULL, " \t\n", &rest)) {
		size_t len = strlen(word);

		while (len && word[len - 1] == '/')
			word[--len] = 0;
		if ((!strncmp(word, "http://", 7) || !strncmp(word, "https://", 8)) &&
		    d->server_count < SERVERS_MOST)
			d->servers[d->server_count++] = word;
	}
}

struct debuginfod *debuginfod_new(const struct debuginfod_options *options)
{
	struct debuginfod *d;

	if (!options->urls || !options->urls[0])
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		abort();
	d->options = *options;
	d->options.most_bytes = options->most_bytes ? options->most_bytes : BYTES_MOST;
	d->urls = strdup(options->urls);
	d->entries = calloc(ENTRIES_MOST, sizeof(*d->entries));
	if (!d->urls || !d->entries)
		abort();
	cut_servers(d);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	if (!d->server_count) {
		debuginfod_free(d);
		return NULL;
	}
	return d;
}

/* ---- one transfer ---- */

static size_t bytes_came(char *data, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * count, done = 0;

	t->bytes += len;
	t->too_large = t->bytes > t->d->options.most_bytes;
	if (t->too_large || atomic_load(&t->d->stopping))
		return 0;
	while (done < len) {
		ssize_t n = write(t->fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			t->write_failed = true;
			return 0;
		}
		done += (size_t)n;
	}
	return len;
}

/* curl asks once a second, also when nothing comes. */
static int shall_stop(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
		      curl_off_t up_now)
{
	struct transfer *t = arg;

	(void)total, (void)now, (void)up_total, (void)up_now;
	return atomic_load(&t->d->stopping);
}

static void prepare(const struct curl_lib *curl, CURL *easy, struct transfer *t, const char *url,
		    char *reason)
{
	const struct debuginfod_options *o = &t->d->options;

	curl->curl_easy_setopt(easy, CURLOPT_URL, url);
	curl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "flametap/" FLAMETAP_VERSION);
	curl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl->curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	curl->curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
	curl->curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl->curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl->curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
			       o->stall_ns ? (long)(o->stall_ns / SECOND_NS) : (long)STALL_SECONDS);
	if (o->most_ns)
		curl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(o->most_ns / 1000000));
	curl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, bytes_came);
	curl->curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	curl->curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl->curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, shall_stop);
	curl->curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
	curl->curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
}

/* READY, ABSENT, or FAILED with a reason. */
static enum entry_state ask_server(struct transfer *t, const char *server, const char *hex,
				   struct err *err)
{
	const struct curl_lib *curl = curl_lib_load(err);
	char url[2048], reason[CURL_ERROR_SIZE] = "";
	enum entry_state state = FAILED;
	long status = 0;
	CURLcode code;
	CURL *easy;

	if (!curl)
		return FAILED;
	if ((size_t)snprintf(url, sizeof(url), "%s/buildid/%s/debuginfo", server, hex) >=
	    sizeof(url)) {
		err_set(err, ERR_LIMIT, "%.100s...: longer than %zu bytes", server, sizeof(url));
		return FAILED;
	}
	easy = curl->curl_easy_init();
	if (!easy)
		abort();
	prepare(curl, easy, t, url, reason);
	code = curl->curl_easy_perform(easy);
	curl->curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_OK)
		state = READY;
	else if (status == 404 || status == 410)
		state = ABSENT;
	else if (t->too_large)
		err_set(err, ERR_LIMIT, "%s: more than %" PRIu64 " bytes", url,
			t->d->options.most_bytes);
	else if (t->write_failed)
		err_set_errno(err, "writing what %s sends", server);
	else
		err_set(err, ERR_UNAVAILABLE, "%s: %s", url,
			reason[0] ? reason : curl->curl_easy_strerror(code));
	curl->curl_easy_cleanup(easy);
	return state;
}

/* ---- files ---- */

/* A file without a name: in the cache folder, so that it can be given one, or for this run. */
static int open_nameless(const struct debuginfod *d)
{
	const char *folder = getenv("TMPDIR");

	if (d->options.cache_folder >= 0)
		return openat(d->options.cache_folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return open(folder && folder[0] ? folder : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC,
		    0600);
}

static void cached_name(const char *hex, char out[HEX_MOST + 8])
{
	snprintf(out, HEX_MOST + 8, "%s.debug", hex);
}

/* Another agent may have been faster: its file is as good. */
static void give_name(const struct debuginfod *d, int fd, const char *hex)
{
	char self[64], name[HEX_MOST + 8];

	if (d->options.cache_folder < 0)
		return;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	cached_name(hex, name);
	if (linkat(AT_FDCWD, self, d->options.cache_folder, name, AT_SYMLINK_FOLLOW) != 0 &&
	    errno != EEXIST)
		LOG(LOG_DEBUG, "A debug file is not kept", LOG_S("file", name),
		    LOG_S("error", strerror(errno)));
}

static int open_cached(const struct debuginfod *d, const char *hex)
{
	char name[HEX_MOST + 8];

	if (d->options.cache_folder < 0)
		return -1;
	cached_name(hex, name);
	return openat(d->options.cache_folder, name,
		      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* ---- the thread ---- */

static enum entry_state fetch(struct debuginfod *d, const char *hex, int *fd, struct err *err,
			      uint64_t *bytes)
{
	struct transfer t = { .d = d, .fd = open_nameless(d) };
	enum entry_state state = ABSENT;

	if (t.fd < 0) {
		err_set_errno(err, "a file for debug information");
		return FAILED;
	}
	for (uint32_t i = 0; i < d->server_count && !atomic_load(&d->stopping); i++) {
		enum entry_state answer = ask_server(&t, d->servers[i], hex, err);

		if (answer == READY) {
			give_name(d, t.fd, hex);
			*fd = t.fd;
			*bytes = t.bytes;
			return READY;
		}
		if (answer == FAILED)
			state = FAILED;
		if (ftruncate(t.fd, 0) != 0 || lseek(t.fd, 0, SEEK_SET) != 0)
			break;
		t.bytes = 0;
		t.too_large = t.write_failed = false;
	}
	close(t.fd);
	return state;
}

static void note_outcome(struct debuginfod *d, struct entry *e, enum entry_state state,
			 uint64_t bytes, const struct err *err)
{
	e->state = state;
	e->failed_ns = clock_monotonic_ns();
	d->stats.fetched += state == READY;
	d->stats.absent += state == ABSENT;
	d->stats.bytes += bytes;
	if (state == FAILED && !atomic_load(&d->stopping)) {
		d->stats.failed++;
		snprintf(d->stats.problem, sizeof(d->stats.problem), "%.159s", err->msg);
		LOG(d->stats.failed == 1 ? LOG_WARN : LOG_DEBUG, "A debug file was not fetched",
		    LOG_S("build_id", e->hex), LOG_S("error", d->stats.problem));
	}
}

static void *fetch_wanted(void *arg)
{
	struct debuginfod *d = arg;

	pthread_mutex_lock(&d->lock);
	while (!atomic_load(&d->stopping)) {
		struct entry *e = NULL;
		struct err err = { 0 };
		enum entry_state state;
		uint64_t bytes = 0;
		int fd = -1;

		for (uint32_t i = 0; i < d->entry_count && !e; i++)
			e = d->entries[i].state == WANTED ? &d->entries[i] : NULL;
		if (!e) {
			pthread_cond_wait(&d->changed, &d->lock);
			continue;
		}
		e->state = FETCHING; /* entries never move: the name may be read without the lock */
		pthread_mutex_unlock(&d->lock);
		state = fetch(d, e->hex, &fd, &err, &bytes);
		pthread_mutex_lock(&d->lock);
		e->fd = fd;
		note_outcome(d, e, state, bytes, &err);
		pthread_cond_broadcast(&d->changed);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

void debuginfod_free(struct debuginfod *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	atomic_store(&d->stopping, true);
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	if (d->running)
		pthread_join(d->thread, NULL);
	for (uint32_t i = 0; i < d->entry_count; i++) {
		if (d->entries[i].state == READY && d->entries[i].fd >= 0)
			close(d->entries[i].fd);
	}
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	free(d->entries);
	free(d->urls);
	free(d);
}

/* ---- questions ---- */

static bool is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!isxdigit((unsigned char)s.ptr[i]))
			return false;
	}
	return s.len >= 4 && s.len <= HEX_MOST;
}

/* The entry of a build id, made when it is new; NULL: no room. Called with the lock held. */
static struct entry *entry_of(struct debuginfod *d, struct str hex)
{
	struct entry *e;

	for (uint32_t i = 0; i < d->entry_count; i++) {
		if (str_equal(str_cstr(d->entries[i].hex), hex))
			return &d->entries[i];
	}
	if (d->entry_count == ENTRIES_MOST)
		return NULL;
	e = &d->entries[d->entry_count++];
	*e = (struct entry){ .fd = -1 };
	memcpy(e->hex, hex.ptr, hex.len);
	return e;
}

/* The thread may not start: then nothing is fetched, and the next question tries again. */
static void ensure_thread(struct debuginfod *d)
{
	if (!d->running)
		d->running = pthread_create(&d->thread, NULL, fetch_wanted, d) == 0;
	pthread_cond_broadcast(&d->changed);
}

static void wait_for(struct debuginfod *d, const struct entry *e, uint64_t wait_ns)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(wait_ns / SECOND_NS);
	until.tv_nsec += (long)(wait_ns % SECOND_NS);
	if (until.tv_nsec >= (long)SECOND_NS) {
		until.tv_nsec -= (long)SECOND_NS;
		until.tv_sec++;
	}
	while ((e->state == WANTED || e->state == FETCHING) &&
	       pthread_cond_timedwait(&d->changed, &d->lock, &until) == 0)
		;
}

/* What is known of an entry that was asked for. A file is handed out once. */
static enum debuginfod_answer answer_of(struct entry *e, int *fd)
{
	switch (e->state) {
	case READY:
		*fd = e->fd;
		e->fd = -1;
		e->state = UNKNOWN;
		return DEBUGINFOD_HERE;
	case ABSENT:
		return DEBUGINFOD_ABSENT;
	case FAILED:
		if (clock_monotonic_ns() - e->failed_ns > FAILED_FOR_NS)
			e->state = UNKNOWN;
		return DEBUGINFOD_ABSENT;
	default:
		return DEBUGINFOD_LATER;
	}
}

enum debuginfod_answer debuginfod_get(struct debuginfod *d, struct str build_id_hex,
				      uint64_t wait_ns, int *fd)
{
	enum debuginfod_answer answer = DEBUGINFOD_ABSENT;
	struct entry *e;

	if (!d || !is_hex(build_id_hex))
		return DEBUGINFOD_ABSENT;
	pthread_mutex_lock(&d->lock);
	e = entry_of(d, build_id_hex);
	if (e && e->state == UNKNOWN) {
		*fd = open_cached(d, e->hex);
		if (*fd >= 0) {
			pthread_mutex_unlock(&d->lock);
			return DEBUGINFOD_HERE;
		}
		e->state = WANTED;
		ensure_thread(d);
	}
	if (e && wait_ns)
		wait_for(d, e, wait_ns);
	if (e)
		answer = answer_of(e, fd);
	pthread_mutex_unlock(&d->lock);
	return answer;
}

void debuginfod_stats(struct debuginfod *d, struct debuginfod_stats *out)
{
	pthread_mutex_lock(&d->lock);
	*out = d->stats;
	pthread_mutex_unlock(&d->lock);
}
