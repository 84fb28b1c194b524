/*
 * pprof.c - GET /debug/pprof/profile?seconds=N: what was sampled in the next N seconds, as `go tool
 * pprof URL` asks for it (30 s where it says nothing; its client gives up after one and a half
 * times that).
 *
 * It becomes the question `export` about [now, now + N), asked a little later: profilers report
 * what they sampled with a delay.
 */
#include <string.h>

#include "web/internal.h"

enum { SECONDS_DEFAULT = 30, SECONDS_MOST = 300, OWN_MOST = 5 };

static const uint64_t SECOND = 1000000000;

static bool selector_of(struct web_ask *a, struct str *out, struct err *err)
{
	struct str service = params_get(&a->params, "service");
	struct buf text = { 0 };

	*out = params_get(&a->params, "query");
	if (!service.len)
		return true;
	if (out->len)
		return err_set(err, ERR_INVALID, "both query and service are given");
	buf_lit(&text, "{service.name=");
	buf_json_string(&text, service);
	buf_char(&text, '}');
	*out = str_dup(&a->arena, buf_view(&text));
	buf_release(&text);
	return true;
}

bool web_pprof_prepare(struct web_ask *a, uint64_t *wait_ns, struct err *err)
{
	struct str selector, type = params_get(&a->params, "type");
	struct param *list;
	uint32_t seconds, n = 0;
	uint64_t span, end;

	if (!params_u32(&a->params, "seconds", 1, SECONDS_MOST, SECONDS_DEFAULT, &seconds, err) ||
	    !selector_of(a, &selector, err))
		return false;
	span = seconds * SECOND;
	end = a->now_ns + span;
	list = arena_alloc_array(&a->arena, a->params.count + OWN_MOST, sizeof(*list));
	/* The first of a name counts. */
	list[n++] = (struct param){ STR("format"), STR("pprof") };
	list[n++] = (struct param){ STR("from"),
				    str_printf(&a->arena, "%llu", (unsigned long long)a->now_ns) };
	list[n++] =
		(struct param){ STR("to"), str_printf(&a->arena, "%llu", (unsigned long long)end) };
	list[n++] = (struct param){ STR("query"), selector };
	list[n++] = (struct param){ STR("type"), type };
	if (a->params.count)
		memcpy(list + n, a->params.ptr, a->params.count * sizeof(*list));
	a->params = (struct params){ list, a->params.count + n };
	a->clip = true;
	*wait_ns = span + (span / 4 < SECOND ? span / 4 : SECOND);
	a->deadline_ns += *wait_ns;
	return true;
}
