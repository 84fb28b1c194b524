/*
 * export.c - flametap export: what a store keeps, as the OTLP requests that came in; or a selection
 * of a store or of files in the format of another tool (export_view.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "command.h"
#include "export_view.h"
#include "flags.h"
#include "output.h"
#include "store/store.h"
#include "wire/losses.h"
#include "wire/otlp_json.h"

static struct selection_flags selection;
static const char *title;
static bool inverted;
static const char *out = "-", *format_name = "otlp", *version_text = "1.10";
static const struct format *format;
static enum wire_version version;

static const char *const versions[] = { "1.7", "1.8", "1.9", "1.10", "1.11", NULL };

static const struct flag flags[] = {
	SELECTION_FLAGS(selection),
	FLAG("Output", "o", FLAG_STRING, &out, "FILE", "-", "where to; - is standard output"),
	FLAG("Output", "format", FLAG_STRING, &format_name, "FORMAT", "otlp",
	     "otlp[-json] pprof pgo folded speedscope firefox dot svg"),
	FLAG("Output", "wire-version", FLAG_WIRE_VERSION, &version_text, "VERSION", "1.10",
	     "of otlp: the opentelemetry-proto version to write", .choices = versions),
	FLAG("Output", "title", FLAG_STRING, &title, "TEXT", NULL,
	     "of svg, dot, speedscope and firefox"),
	FLAG("Output", "inverted", FLAG_BOOL, &inverted, NULL, NULL,
	     "svg: from the functions that cost to their callers"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap export --db flametap.db -o out.otlp",
	"flametap export --db flametap.db | flametap decode --layout full -",
	"flametap export --format svg -o flames.svg profile.pb.gz",
	"flametap export --db flametap.db --select '{service.name=\"api\"}' --format pprof -o "
	"api.pb.gz",
	"flametap export --db flametap.db --select '{service.name=\"api\"}' --format pgo -o "
	"api.pgo",
	NULL,
};

static const struct command command = {
	.name = "export",
	.words = "[FILE...]",
	.summary = "Give back what a store keeps, as it came, or a selection for another tool.",
	.words_max = 1u << 20,
	.examples = examples,
	.flags = flags,
};

static struct otlp_losses losses; /* of all requests */

static void add_losses(const struct profiles *p, bool json)
{
	struct otlp_losses lost;

	if (otlp_losses(p, version, json, &lost))
		for (unsigned i = 0; i < OTLP_LOSSES; i++)
			losses.count[i] += lost.count[i];
}

static void tell_losses(void)
{
	AUTO(buf_release) struct buf line = { 0 };

	otlp_losses_append_text(&line, &losses);
	if (line.len)
		fprintf(stderr, "flametap export: %s has no place for: %.*s\n",
			format == &formats[FORMAT_OTLP_JSON] ? "OTLP/JSON"
							     : wire_version_name(version),
			STR_ARG(buf_view(&line)));
}

/* 4 bytes of length, big-endian, then the request. */
static bool encode(const struct profiles *p, struct buf *b, struct err *err)
{
	bool json = format == &formats[FORMAT_OTLP_JSON];
	size_t len;

	buf_reset(b);
	add_losses(p, json);
	if (json) {
		if (!otlp_json_encode(p, b, err))
			return false;
		buf_char(b, '\n');
		return true;
	}
	buf_lit(b, "\0\0\0\0");
	if (!otlp_encode(p, version, b, err))
		return false;
	len = b->len - 4;
	if (len > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "a request is longer than 4 GiB");
	for (int i = 0; i < 4; i++)
		b->ptr[i] = (char)(len >> (24 - 8 * i));
	return true;
}

static bool export_all(struct source *snap, const struct output *o, struct err *err)
{
	AUTO(buf_release) struct buf b = { 0 };
	struct profiles *p;
	uint64_t seq = 0;
	bool ok = true;

	while (ok && snap->ops->next_request(snap, seq, &seq, &p, err)) {
		if (!p)
			return true;
		ok = encode(p, &b, err) && output_write(o, buf_view(&b), err);
		profiles_free(p);
	}
	return false;
}

/* The whole store, request by request. */
static bool export_store(struct err *err)
{
	struct store_open_options options = { .location = selection.db };
	struct source *snap = NULL;
	struct store *store = NULL;
	struct output o;
	bool ok = wire_version_parse(str_cstr(version_text), &version, err) &&
		  store_open(&options, &store, err) && store_begin(store, &snap, err) &&
		  output_begin(&o, out, &selection.db, 1, err);

	if (ok)
		ok = output_end(&o, export_all(snap, &o, err), err);
	tell_losses();
	source_free(snap);
	store_close(store);
	return ok;
}

static bool export_selected(const struct words *words, struct err *err)
{
	struct export_view v = { .selection = &selection,
				 .format = format,
				 .title = title,
				 .inverted = inverted,
				 .losses = &losses,
				 .files = words->items,
				 .file_count = words->count };
	const char *const *inputs = selection.db ? &selection.db : (const char **)words->items;
	AUTO(buf_release) struct buf b = { 0 };
	struct output o;

	/* What cannot be made leaves no empty file behind. */
	if (!wire_version_parse(str_cstr(version_text), &v.version, err) ||
	    !export_view_write(&v, &b, err))
		return false;
	version = v.version;
	tell_losses();
	return output_begin(&o, out, inputs, selection.db ? 1 : words->count, err) &&
	       output_end(&o, output_write(&o, buf_view(&b), err), err);
}

static bool whole_store_wanted(const struct words *words)
{
	return words->count == 0 && export_view_is_otlp(format) && !selection.selector &&
	       !selection.type && !selection.from && !selection.to && !selection.trace &&
	       !selection.span && !selection.by && !selection.filters.count;
}

/* What is asked of a format that has no use for it is not left unheard. */
static bool flags_fit_format(struct err *err)
{
	static const struct {
		const void *target;
		const char *name, *of;
		const char *const formats[5];
	} flags_of[] = {
		{ &version_text, "wire-version", "otlp", { "otlp" } },
		{ &title,
		  "title",
		  "svg, dot, speedscope and firefox",
		  { "svg", "dot", "speedscope", "firefox" } },
		{ &inverted, "inverted", "svg", { "svg" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(flags_of); i++) {
		bool fits = !flags_given(flags_find(flags, str_cstr(flags_of[i].name)));

		for (size_t k = 0; !fits && flags_of[i].formats[k]; k++)
			fits = strcmp(flags_of[i].formats[k], format_name) == 0;
		if (!fits)
			return err_set(err, ERR_INVALID, "-%s is of %s, not of %s",
				       flags_of[i].name, flags_of[i].of, format_name);
	}
	return true;
}

static bool find_format(struct err *err)
{
	AUTO(buf_release) struct buf known = { 0 };

	format = export_format_find(str_cstr(format_name));
	if (format)
		return true;
	export_format_append_names(&known);
	return err_set(err, ERR_INVALID, "-format %s: expected one of %.*s", format_name,
		       STR_ARG(buf_view(&known)));
}

int export_run(int argc, char **argv)
{
	struct words words;
	struct err err = { 0 };
	int status;
	bool ok;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	if (!find_format(&err)) {
		free(words.items);
		return command_usage_error("export", &err);
	}
	if (!selection.db && words.count == 0)
		selection.db = "flametap.db";
	ok = flags_fit_format(&err) &&
	     (whole_store_wanted(&words) ? export_store(&err) : export_selected(&words, &err));
	free(words.items);
	if (!ok)
		fprintf(stderr, "flametap export: %s\n", err.msg);
	return ok ? EXIT_OK : EXIT_FAILED;
}
