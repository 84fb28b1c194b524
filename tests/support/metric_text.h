/* metric_text.h - what a registry's text says of one series, for tests that count. */
#pragma once
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/metrics.h"

/* series: the name and all its labels, "x_total{reason=\"full\"}"; -1: there is none. */
static inline long long metric_value(struct metrics *m, const char *series)
{
	size_t len = strlen(series);
	long long value = -1;
	const char *line;
	struct buf text;

	buf_init(&text, 0);
	metrics_write(m, &text);
	buf_char(&text, 0);
	for (line = text.ptr; line && *line; line = strchr(line, '\n') + 1)
		if (strncmp(line, series, len) == 0 && line[len] == ' ')
			value = atoll(line + len);
	buf_release(&text);
	return value;
}
