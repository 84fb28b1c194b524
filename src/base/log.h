/*
 * log.h - one line per event on stderr, text or JSON.
 *
 * Text:  2026-11-21T10:00:00.000Z INFO  Starting gRPC server  endpoint=127.0.0.1:4317
 * JSON:  {"ts":"…","level":"info","msg":"Starting gRPC server","endpoint":"127.0.0.1:4317"}
 * Colours only on a terminal without NO_COLOR. Fields are name, format pairs ended by NULL through
 * the macros. Threads: any; one write(2) per line. Only cmd/, pipeline and components log; base,
 * model, wire and net return err.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
	const char *name;
	enum { LOG_F_STR, LOG_F_INT, LOG_F_UINT, LOG_F_BOOL } kind;
	struct str s;
	int64_t i;
	uint64_t u;
};

#define LOG_S(field, cstr) \
	((struct log_field){ .name = (field), .kind = LOG_F_STR, .s = str_cstr(cstr) })
#define LOG_STR(field, str) ((struct log_field){ .name = (field), .kind = LOG_F_STR, .s = (str) })
#define LOG_I(field, v)     ((struct log_field){ .name = (field), .kind = LOG_F_INT, .i = (v) })
#define LOG_U(field, v)     ((struct log_field){ .name = (field), .kind = LOG_F_UINT, .u = (v) })

void log_setup(enum log_level least, enum log_format format, int fd); /* default: INFO, text, 2 */
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *msg, const struct log_field *fields, size_t count);

/* LOG(LOG_INFO, "Starting gRPC server", LOG_S("endpoint", addr)); */
#define LOG(level, msg, ...)                                                             \
	do {                                                                             \
		if (log_enabled(level)) {                                                \
			const struct log_field log_fields_[] = { { 0 }, ##__VA_ARGS__ }; \
			log_write(level, msg, log_fields_ + 1,                           \
				  sizeof(log_fields_) / sizeof(log_fields_[0]) - 1);     \
		}                                                                        \
	} while (0)

/* True at most once per interval for a call site: static struct log_gate g; if (log_gate_open(&g,
 * 10 * SECOND_NS, &skipped)) */
struct log_gate {
	_Atomic uint64_t next_ns;
	_Atomic uint64_t skipped;
};
bool log_gate_open(struct log_gate *g, uint64_t interval_ns, uint64_t *skipped);
