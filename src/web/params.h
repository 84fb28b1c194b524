/*
 * params.h - the query of a URL: names and values, decoded, in their order.
 *
 * RFC 3986, 2.1, and `+` as a space (HTML forms). Bad escapes are an error. Memory: all in the
 * arena. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { PARAMS_MOST = 64, PARAMS_BYTES_MOST = 65536 };

struct param {
	struct str name, value;
};

struct params {
	struct param *ptr;
	uint32_t count;
};

bool params_parse(struct arena *arena, struct str query, struct params *out,
		  struct err *err) MUST_CHECK;
/* The first one of that name; empty when there is none. */
struct str params_get(const struct params *p, const char *name);
bool params_has(const struct params *p, const char *name);
/* Are all names among those, a space between each? Else ERR_INVALID says which one is not. */
bool params_known(const struct params *p, const char *names, struct err *err) MUST_CHECK;
/* A number within [least, most]; `otherwise` when absent. */
bool params_u32(const struct params *p, const char *name, uint32_t least, uint32_t most,
		uint32_t otherwise, uint32_t *out, struct err *err) MUST_CHECK;
