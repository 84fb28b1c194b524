/* doctor_text.c - findings for people, for programs, and for refusals. */
#include <stdio.h>

#include "agent/doctor/doctor.h"
#include "base/err.h"

static const char *const states[] = { "ok", "limits", "missing" };

bool doctor_can_profile(const struct doctor_report *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->findings[i].state == FINDING_MISSING)
			return false;
	return true;
}

static uint32_t count_state(const struct doctor_report *r, enum finding_state state)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->count; i++)
		count += r->findings[i].state == state;
	return count;
}

void doctor_write_text(const struct doctor_report *r, struct buf *out)
{
	uint32_t limits = count_state(r, FINDING_LIMITS);

	for (uint32_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->findings[i];

		buf_printf(out, "%-8s %-23s %s\n", states[f->state], f->name, f->found);
		if (f->costs)
			buf_printf(out, "         costs: %s\n", f->costs);
		if (f->fix)
			buf_printf(out, "         fix:   %s\n", f->fix);
	}
	if (!doctor_can_profile(r))
		buf_lit(out, "Profiling cannot start here: what is missing is marked so.\n");
	else if (limits)
		buf_printf(out, "Profiling works, with %u limit%s.\n", limits,
			   limits == 1 ? "" : "s");
	else
		buf_lit(out, "Profiling works, with nothing missing.\n");
}

static void put_json(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, ",\"%s\":", key);
	if (value)
		buf_json_string(out, str_cstr(value));
	else
		buf_lit(out, "null");
}

void doctor_write_json(const struct doctor_report *r, struct buf *out)
{
	buf_printf(out, "{\"can_profile\":%s,\"findings\":[",
		   doctor_can_profile(r) ? "true" : "false");
	for (uint32_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->findings[i];

		buf_printf(out, "%s{\"name\":\"%s\"", i ? ",\n " : "\n ", f->name);
		put_json(out, "state", states[f->state]);
		put_json(out, "found", f->found);
		put_json(out, "costs", f->costs);
		put_json(out, "fix", f->fix);
		buf_char(out, '}');
	}
	buf_lit(out, "\n]}\n");
}

bool doctor_refusal(const struct doctor_report *r, char *out, size_t room)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->findings[i];

		if (f->state != FINDING_MISSING)
			continue;
		snprintf(out, room, "%s: %s, so %s; 'flametap doctor' says what to do", f->name,
			 f->found, f->costs);
		return true;
	}
	return false;
}

void doctor_explain(struct err *err)
{
	struct doctor_report report;
	char why[sizeof(err->msg)];

	doctor_look(&report);
	if (doctor_refusal(&report, why, sizeof(why)))
		err_prefix(err, "%s", why);
}
