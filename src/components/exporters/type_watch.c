#include "components/exporters/type_watch.h"

#include <stdio.h>

#include "base/log.h"
#include "base/text.h"

static void note_seen(struct type_watch *w, struct str type)
{
	type = str_head(type, TYPE_WATCH_NAME - 1);
	for (uint32_t i = 0; i < w->seen_count; i++)
		if (str_is(type, w->seen[i]))
			return;
	if (w->seen_count < TYPE_WATCH_SEEN)
		snprintf(w->seen[w->seen_count++], TYPE_WATCH_NAME, "%.*s", STR_ARG(type));
}

static void note_type(struct type_watch *w, const struct config_strings *wanted, struct str type)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		if (!str_is(type, wanted->items[i]))
			continue;
		w->matched |= i < TYPE_WATCH_WANTED ? UINT64_C(1) << i : 0;
		return;
	}
	note_seen(w, type);
}

void type_watch_note(struct type_watch *w, const struct config_strings *wanted,
		     const struct profiles *p)
{
	if (!wanted->count || w->told)
		return;
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		if (!profile->refused)
			note_type(w, wanted, profiles_string(p, profile->sample_type.type));
	}
	if (p->sample_count && w->requests < UINT32_MAX)
		w->requests++;
}

static void append_quoted(struct buf *out, struct str name)
{
	buf_char(out, '"');
	text_append_printable(out, name);
	buf_char(out, '"');
}

static bool append_missing(const struct type_watch *w, const struct config_strings *wanted,
			   struct buf *out)
{
	bool any = false;

	for (uint32_t i = 0; i < wanted->count && i < TYPE_WATCH_WANTED; i++) {
		if (w->matched >> i & 1)
			continue;
		buf_str(out, any ? STR(", ") : STR("no profile has the sample type "));
		append_quoted(out, str_cstr(wanted->items[i]));
		any = true;
	}
	return any;
}

bool type_watch_append(const struct type_watch *w, const struct config_strings *wanted,
		       struct buf *out)
{
	if (!append_missing(w, wanted, out))
		return false;
	for (uint32_t i = 0; i < w->seen_count; i++) {
		buf_str(out, i ? STR(", ") : STR("; not asked for came "));
		append_quoted(out, str_cstr(w->seen[i]));
	}
	return true;
}

void type_watch_warn(struct type_watch *w, const struct config_strings *wanted,
		     const struct profiles *p, const char *exporter)
{
	struct buf text;

	if (!wanted->count || w->told)
		return;
	type_watch_note(w, wanted, p);
	if (w->requests < TYPE_WATCH_REQUESTS)
		return;
	w->told = true; /* or there is nothing to tell */
	buf_init(&text, 0);
	if (type_watch_append(w, wanted, &text))
		LOG(LOG_WARN, "A sample type that was asked for does not come",
		    LOG_S("exporter", exporter), LOG_U("requests", w->requests),
		    LOG_STR("so_far", buf_view(&text)));
	buf_release(&text);
}
