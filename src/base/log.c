#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"

enum { LINE_BYTES_MOST = 64 * 1024 };

/* The one mutable state of base: where and how this process logs. Set at start, read by every
 * thread. */
static struct {
	atomic_int least, format, fd;
	atomic_bool colours;
} log_state = { .least = LOG_INFO, .format = LOG_TEXT, .fd = STDERR_FILENO };

static const struct {
	const char *text, *json, *colour;
} levels[] = {
	[LOG_DEBUG] = { "DEBUG", "debug", "\x1b[2m" },
	[LOG_INFO] = { "INFO ", "info", "\x1b[32m" },
	[LOG_WARN] = { "WARN ", "warn", "\x1b[33m" },
	[LOG_ERROR] = { "ERROR", "error", "\x1b[31m" },
};

void log_setup(enum log_level least, enum log_format format, int fd)
{
	atomic_store(&log_state.least, (int)least);
	atomic_store(&log_state.format, (int)format);
	atomic_store(&log_state.fd, fd);
	atomic_store(&log_state.colours, format == LOG_TEXT && terminal_wants_colour(fd));
}

bool log_enabled(enum log_level level)
{
	return (int)level >= atomic_load_explicit(&log_state.least, memory_order_relaxed);
}

static bool needs_quotes(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f)
			return true;
	}
	return s.len == 0 || !utf8_valid(s);
}

static void append_text_string(struct buf *line, struct str s)
{
	if (needs_quotes(s))
		buf_json_string(line, s);
	else
		text_append_printable(line, s);
}

static void append_value(struct buf *line, const struct log_field *f, enum log_format format)
{
	switch (f->kind) {
	case LOG_F_STR:
		if (format == LOG_JSON)
			buf_json_string(line, f->s);
		else
			append_text_string(line, f->s);
		break;
	case LOG_F_INT:
		buf_i64(line, f->i);
		break;
	case LOG_F_UINT:
		buf_u64(line, f->u);
		break;
	case LOG_F_BOOL:
		buf_str(line, f->i ? STR("true") : STR("false"));
		break;
	}
}

static void append_text_line(struct buf *line, enum log_level level, const char *msg,
			     const struct log_field *fields, size_t count)
{
	bool colours = atomic_load_explicit(&log_state.colours, memory_order_relaxed);

	clock_append_rfc3339(line, clock_realtime_ns());
	buf_char(line, ' ');
	if (colours)
		buf_str(line, str_cstr(levels[level].colour));
	buf_str(line, str_cstr(levels[level].text));
	if (colours)
		buf_lit(line, "\x1b[0m");
	buf_char(line, ' ');
	text_append_printable(line, str_cstr(msg));
	for (size_t i = 0; i < count; i++) {
		buf_str(line, i ? STR(" ") : STR("  "));
		buf_str(line, str_cstr(fields[i].name));
		buf_char(line, '=');
		append_value(line, &fields[i], LOG_TEXT);
	}
}

static void append_json_line(struct buf *line, enum log_level level, const char *msg,
			     const struct log_field *fields, size_t count)
{
	buf_lit(line, "{\"ts\":\"");
	clock_append_rfc3339(line, clock_realtime_ns());
	buf_lit(line, "\",\"level\":\"");
	buf_str(line, str_cstr(levels[level].json));
	buf_lit(line, "\",\"msg\":");
	buf_json_string(line, str_cstr(msg));
	for (size_t i = 0; i < count; i++) {
		buf_char(line, ',');
		buf_json_string(line, str_cstr(fields[i].name));
		buf_char(line, ':');
		append_value(line, &fields[i], LOG_JSON);
	}
	buf_char(line, '}');
}

/* A log that cannot be written is no reason to stop: whatever is left is given up. */
static void line_write(int fd, struct str line)
{
	while (line.len) {
		ssize_t n = write(fd, line.ptr, line.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		line = str_skip(line, (size_t)n);
	}
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t count)
{
	int saved_errno = errno;
	struct buf line;

	buf_init(&line, LINE_BYTES_MOST);
	if (atomic_load_explicit(&log_state.format, memory_order_relaxed) == LOG_JSON)
		append_json_line(&line, level, msg, fields, count);
	else
		append_text_line(&line, level, msg, fields, count);
	if (line.failed) { /* fields past the limit: the message alone still says what happened */
		buf_reset(&line);
		log_write(level, msg, NULL, 0);
	} else {
		buf_char(&line, '\n');
		line_write(atomic_load_explicit(&log_state.fd, memory_order_relaxed),
			   buf_view(&line));
	}
	buf_release(&line);
	errno = saved_errno;
}

bool log_gate_open(struct log_gate *g, uint64_t interval_ns, uint64_t *skipped)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t next = atomic_load_explicit(&g->next_ns, memory_order_relaxed);

	if (now < next || !atomic_compare_exchange_strong(&g->next_ns, &next, now + interval_ns)) {
		atomic_fetch_add_explicit(&g->skipped, 1, memory_order_relaxed);
		return false;
	}
	*skipped = atomic_exchange_explicit(&g->skipped, 0, memory_order_relaxed);
	return true;
}
