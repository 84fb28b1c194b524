/*
 * stdout.c - the exporters that print: `stdout` and, in the layout of seed 002,
 * `customprofilesexporter`.
 *
 * One worker thread renders a request and writes it in chunks; requests never interleave, whichever
 * instance they came through. A batch is acknowledged once its last byte was accepted by the
 * descriptor. A reader that closed its end stops the program, as it does every Unix filter.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "components/exporters/exporters.h"
#include "components/exporters/fd_out.h"
#include "components/exporters/text.h"
#include "components/exporters/type_watch.h"
#include "pipeline/worker.h"

enum { CHUNK_BYTES = 240 << 10 }; /* a line more, and the buffer still is 256 KiB */
enum colour_choice { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

struct stdout_state {
	int layout, colour; /* enum text_layout, enum colour_choice */
	struct text_options text;
	uint64_t max_text_bytes;

	const struct component_host *host;
	struct text_renderer *renderer;
	struct worker *worker;
	struct fd_out fd;
	struct buf buf; /* the worker's, as all below */
	bool told_references, gone;
	struct type_watch types;
};

/* There is one standard output, whatever the number of instances. */
static pthread_mutex_t stdout_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const colour_names[] = { "auto", "always", "never", NULL };

#define TEXT_FIELD(name_, kind_, member, default_, help_, ...)                                    \
	EXPORTER_FIELD(name_, kind_, offsetof(struct stdout_state, text.member), default_, help_, \
		       ##__VA_ARGS__)
#define STATE_FIELD(name_, kind_, member, default_, help_, ...)                              \
	EXPORTER_FIELD(name_, kind_, offsetof(struct stdout_state, member), default_, help_, \
		       ##__VA_ARGS__)

/* What both exporters have; they differ in what they do with resources that have no container.id.
 */
#define SHARED_FIELDS(skip_default)                                                              \
	TEXT_FIELD("export_resource_attributes", CONFIG_BOOL, resource_attributes, "true",       \
		   "print the attributes of resources"),                                         \
		TEXT_FIELD("export_profile_attributes", CONFIG_BOOL, profile_attributes, "true", \
			   "print the attributes of profiles"),                                  \
		TEXT_FIELD("export_sample_attributes", CONFIG_BOOL, sample_attributes, "true",   \
			   "print the attributes of samples"),                                   \
		TEXT_FIELD("export_stack_frames", CONFIG_BOOL, stack_frames, "true",             \
			   "print stacks"),                                                      \
		TEXT_FIELD("export_stack_frame_types", CONFIG_STRINGS, stack_frame_types, NULL,  \
			   "frame types to print (native, kernel, go, jvm, ...); empty: all"),   \
		TEXT_FIELD("export_function_file", CONFIG_BOOL, function_file, "false",          \
			   "layout typed: print file, line and column of frames"),               \
		TEXT_FIELD("ignore_profiles_without_container_id", CONFIG_BOOL,                  \
			   ignore_profiles_without_container_id, skip_default,                   \
			   "print SKIPPED for resources without container.id"),                  \
		STATE_FIELD("color", CONFIG_ENUM, colour, "auto",                                \
			    "colours: auto (a terminal, without NO_COLOR), always, never",       \
			    .choices = colour_names, .aliases = { "colour" }),                   \
		STATE_FIELD("max_text_mib", CONFIG_SIZE_MIB, max_text_bytes, "1024",             \
			    "longest text of one request; more is cut (0: no limit)")

static const struct config_field stdout_fields[] = {
	STATE_FIELD("layout", CONFIG_ENUM, layout, "2026",
		    "2026, seed-000, seed-001, typed or full", .choices = text_layout_names),
	TEXT_FIELD("sample_types", CONFIG_STRINGS, sample_types, NULL,
		   "sample types to print; empty: all", .aliases = { "export_sample_types" }),
	SHARED_FIELDS("false"),
	{ 0 },
};

static const struct config_field custom_fields[] = {
	TEXT_FIELD("export_sample_types", CONFIG_STRINGS, sample_types, NULL,
		   "sample types to print; empty: all", .aliases = { "sample_types" }),
	SHARED_FIELDS("true"),
	{ 0 },
};

static bool colour_wanted(int choice)
{
	if (choice != COLOUR_AUTO)
		return choice == COLOUR_ALWAYS;
	return terminal_wants_colour(STDOUT_FILENO);
}

static void tell_hidden_references(struct stdout_state *s)
{
	if (s->told_references || !text_renderer_hid_references(s->renderer))
		return;
	s->told_references = true;
	LOG(LOG_INFO, "Attributes that came by reference (key_strindex, string_value_strindex) are "
		      "empty in layout 2026; "
		      "layout full shows them");
}

static bool write_chunk(void *ctx, struct str text, struct err *err)
{
	return fd_out_write(ctx, text, err);
}

static bool print_batch(struct stdout_state *s, const struct batch *batch, struct err *err)
{
	struct render_out out = {
		.buf = &s->buf,
		.chunk_bytes = CHUNK_BYTES,
		.limit_bytes = s->max_text_bytes,
		.write = write_chunk,
		.ctx = &s->fd,
	};

	buf_reset(&s->buf);
	fd_out_begin(&s->fd);
	if (text_render(s->renderer, batch->profiles, &out, err) && render_out_finish(&out, err))
		return true;
	if (!fd_out_take_back(&s->fd) && err->kind == ERR_LIMIT) {
		struct err ignored;

		/* the text is cut, and says so where its reader looks */
		buf_reset(&s->buf);
		buf_printf(&s->buf, "--- cut: %s ---\n\n", err->msg);
		(void)!fd_out_write(&s->fd, buf_view(&s->buf), &ignored);
	}
	return false;
}

/* Once its reader is gone standard output stays useless: the process is asked to stop, once. */
static void reader_gone(struct stdout_state *s, const struct err *err)
{
	if (s->gone)
		return;
	s->gone = true;
	if (s->host->fail)
		s->host->fail(s->host, err);
}

static void print_item(struct stdout_state *s, struct worker_item *item)
{
	struct outcome o = { .kind = OUTCOME_OK };
	struct err err = { 0 };
	bool ok;

	pthread_mutex_lock(&stdout_lock);
	ok = print_batch(s, item->batch, &err);
	pthread_mutex_unlock(&stdout_lock);
	if (!ok) {
		if (err.kind == ERR_CANCELLED)
			reader_gone(s, &err);
		o = (struct outcome){ .kind = err.kind == ERR_LIMIT ? OUTCOME_PERMANENT
								    : OUTCOME_RETRY };
		o.err = err;
	}
	tell_hidden_references(s);
	type_watch_warn(&s->types, &s->text.sample_types, item->batch->profiles, s->host->id);
	worker_item_done(item, &o);
}

static void stdout_work(void *arg, struct worker_item *items, uint32_t count)
{
	sigset_t pipe_signal;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL); /* EPIPE tells us in words */
	for (uint32_t i = 0; i < count; i++)
		print_item(arg, &items[i]);
}

/* The set is open: a type of a later profiler is as good as any. But a mistyped one shows nothing.
 */
static void warn_of_unknown_frame_types(const struct stdout_state *s)
{
	static const char *const known[] = {
		"native", "kernel", "go",   "jvm",  "cpython", "php",     "ruby",         "perl",
		"v8js",   "dotnet", "beam", "rust", "luajit",  "unknown", "abort-marker",
	};
	const struct config_strings *wanted = &s->text.stack_frame_types;

	for (uint32_t i = 0; i < wanted->count; i++) {
		const char *near;
		size_t k = 0;

		while (k < ARRAY_LEN(known) && strcmp(known[k], wanted->items[i]) != 0)
			k++;
		if (k < ARRAY_LEN(known))
			continue;
		near = text_suggest(str_cstr(wanted->items[i]), known, ARRAY_LEN(known));
		LOG(LOG_WARN, "A frame type that no profiler is known to send",
		    LOG_S("type", wanted->items[i]), LOG_S("exporter", s->host->id),
		    near ? LOG_S("similar", near)
			 : LOG_S("known",
				 "native, kernel, go, jvm, cpython, php, ruby, perl, v8js, "
				 "dotnet, beam, rust, luajit"));
	}
}

static bool stdout_start(void *state, const struct component_host *host, struct err *err)
{
	struct stdout_state *s = state;
	struct worker_options options = {
		.name = "stdout",
		.work = stdout_work,
		.arg = s,
	};

	s->host = host;
	s->text.layout = (enum text_layout)s->layout;
	s->text.colour = colour_wanted(s->colour);
	s->text.printable = isatty(STDOUT_FILENO); /* a process may call itself ESC [2J */
	s->renderer = text_renderer_new(&s->text);
	fd_out_init(&s->fd, STDOUT_FILENO);
	buf_init(&s->buf, 0);
	warn_of_unknown_frame_types(s);
	s->worker = worker_new(&options, err);
	return s->worker != NULL;
}

static bool custom_check(void *state, struct err *err)
{
	struct stdout_state *s = state;

	(void)err;
	s->layout = TEXT_TYPED;
	return true;
}

static void stdout_consume(void *state, struct batch *batch, struct completion *done)
{
	struct stdout_state *s = state;

	worker_push(s->worker, batch, done);
}

/* A reader that stands still is given up while the senders can still be told. */
static void stdout_stopping(void *state, uint64_t deadline_ns)
{
	struct stdout_state *s = state;
	uint64_t now = clock_monotonic_ns();
	uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

	fd_out_stop(&s->fd, now + left / 4 * 3);
}

static void stdout_stop(void *state, uint64_t deadline_ns)
{
	struct stdout_state *s = state;

	fd_out_stop(&s->fd, deadline_ns);
	worker_stop(s->worker, deadline_ns);
}

static void stdout_release(void *state)
{
	struct stdout_state *s = state;

	worker_free(s->worker);
	fd_out_release(&s->fd);
	text_renderer_free(s->renderer);
	buf_release(&s->buf);
}

const struct component_ops stdout_exporter = {
	.type = "stdout",
	.summary = "prints profiles with resolved stacks",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct stdout_state),
	.fields = stdout_fields,
	.start = stdout_start,
	.consume = stdout_consume,
	.stopping = stdout_stopping,
	.stop = stdout_stop,
	.release = stdout_release,
};

const struct component_ops customprofilesexporter_exporter = {
	.type = "customprofilesexporter",
	.summary = "prints profiles with the kind of every attribute's value",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct stdout_state),
	.fields = custom_fields,
	.check = custom_check,
	.start = stdout_start,
	.consume = stdout_consume,
	.stopping = stdout_stopping,
	.stop = stdout_stop,
	.release = stdout_release,
};
