/* decode.c - flametap decode: OTLP profiles files as text, JSON, folded stacks or OTLP again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "command.h"
#include "decode_output.h"
#include "flags.h"
#include "formats/formats.h"
#include "input.h"
#include "wire/otlp_json.h"

static const char *layout = "2026", *format = "text", *version_text, *input_version_text = "auto",
		  *color = "auto", *sample_types;
static bool strict, evidence, utc;

static const char *const layouts[] = { "2026", "seed-000", "seed-001", "typed", "full", NULL };
static const char *const decode_formats[] = { "text", "json", "otlp-json", "otlp", "folded", NULL };
static const char *const versions[] = { "auto", "1.3", "1.4",  "1.5",  "1.6", "1.7",
					"1.8",  "1.9", "1.10", "1.11", NULL };
static const char *const colors[] = { "auto", "always", "never", NULL };

static const struct flag flags[] = {
	FLAG("Output", "format", FLAG_CHOICE, &format, "FORMAT", "text",
	     "text, json (a line a sample), otlp-json, otlp, folded", .choices = decode_formats),
	FLAG("Output", "layout", FLAG_CHOICE, &layout, "LAYOUT", "2026",
	     "of text: 2026, seed-000, seed-001, typed, full (all)", .choices = layouts),
	FLAG("Output", "color", FLAG_CHOICE, &color, "WHEN", "auto", "auto, always, never",
	     .choices = colors),
	FLAG("Output", "sample-types", FLAG_STRING, &sample_types, "LIST", NULL,
	     "text, json, folded: only these, as samples,events; all"),
	FLAG("Output", "utc", FLAG_BOOL, &utc, NULL, NULL,
	     "timestamps in UTC instead of local time"),
	FLAG("Versions", "wire-version", FLAG_WIRE_VERSION, &version_text, "VERSION", NULL,
	     "with -format otlp* the version to write, else the one to read", .choices = versions),
	FLAG("Versions", "input-wire-version", FLAG_WIRE_VERSION, &input_version_text, "VERSION",
	     "auto", "read the files as this opentelemetry-proto version", .choices = versions),
	FLAG("Versions", "evidence", FLAG_BOOL, &evidence, NULL, NULL,
	     "say on stderr which version each body is in, and how that shows"),
	FLAG("Versions", "strict", FLAG_BOOL, &strict, NULL, NULL,
	     "leave out profiles with bad indices instead of marking them"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap decode --layout full body.pb",
	"zcat captured.pb.gz | flametap decode --format folded -",
	"flametap decode --format otlp --wire-version 1.9 new.pb > old.pb",
	NULL,
};

static const struct command command = {
	.name = "decode",
	.words = "FILE...|-",
	.summary =
		"Print OTLP profiles with every stack resolved: protobuf, OTLP/JSON, gzip, zstd.",
	.examples = examples,
	.flags = flags,
	.words_max = 1u << 20,
};

struct decoding {
	struct otlp_decode_options options;
	struct decode_output *output;
	unsigned failures;
	bool reader_left;
};

static void say_evidence(const char *file, const struct otlp_decode_report *r)
{
	fprintf(stderr, "%s: wire version %s%s: %s\n", file, wire_version_name(r->version),
		r->version_forced      ? " (as told)"
		: r->version_ambiguous ? " (ambiguous)"
				       : "",
		r->evidence);
}

static void say_problems(const char *file, const struct otlp_decode_report *r)
{
	if (r->first_problem[0])
		fprintf(stderr, "%s: %u bad indices%s: %s\n", file, r->bad_index_count,
			r->refused_profiles ? ", profiles left out" : "", r->first_problem);
	if (r->unknown_field_count && evidence)
		fprintf(stderr, "%s: %u unknown fields\n", file, r->unknown_field_count);
}

static bool decode_one(struct decoding *d, struct blob *body, struct profiles **out,
		       struct profiles **partial, struct otlp_decode_report *report,
		       struct err *err)
{
	*partial = NULL;
	if (!otlp_looks_like_json(blob_view(body)))
		return otlp_decode(body, &d->options, out, report, partial, err);
	if (otlp_json_is_foreign(blob_view(body), err))
		return false;
	return otlp_json_decode(body, &d->options, out, report, err);
}

/* True to go on with the next body. A reader that has seen enough (head) ends us without a word. */
static bool note_output_failure(struct decoding *d, const char *file, const struct err *err)
{
	if (err->kind == ERR_CANCELLED) {
		d->reader_left = true;
		return false;
	}
	fprintf(stderr, "%s: %s\n", file, err->msg);
	d->failures++;
	return err->kind != ERR_IO;
}

/* What reads badly, and looks like what other commands read. */
static bool is_other_format(const char *file, struct blob *body)
{
	const struct format *looks = format_tell(blob_view(body));

	if (looks == &formats[FORMAT_OTLP] || looks == &formats[FORMAT_OTLP_JSON])
		return false;
	fprintf(stderr, "%s: this is %s, not OTLP: flametap top, diff, view and export read it\n",
		file, looks->title);
	return true;
}

/* A broken body is shown as far as it could be read, and fails the command. */
static bool show_body(struct decoding *d, const char *file, size_t offset, struct blob *body)
{
	struct otlp_decode_report report = { 0 };
	struct profiles *profiles = NULL, *partial = NULL;
	struct err err;
	bool whole = decode_one(d, body, &profiles, &partial, &report, &err), shown = true;

	if ((!whole || report.first_problem[0]) && is_other_format(file, body)) {
		profiles_free(profiles);
		profiles_free(partial);
		d->failures++;
		return true;
	}
	if (!whole) {
		fprintf(stderr, "%s: body at byte %zu: %s%s\n", file, offset, err.msg,
			partial ? "; what could be read of it follows" : "");
		d->failures++;
		profiles = partial;
	}
	if (evidence && report.version)
		say_evidence(file, &report);
	say_problems(file, &report);
	if (profiles)
		shown = decode_output_put(d->output, profiles, &report, &err);
	profiles_free(profiles);
	return shown || note_output_failure(d, file, &err);
}

static void note_damage(struct decoding *d, const char *file, struct input *in)
{
	if (in->damage.kind == ERR_NONE)
		return;
	fprintf(stderr, "%s: %s\n", file, in->damage.msg);
	in->damage.kind = ERR_NONE;
	d->failures++;
}

static bool show_file(struct decoding *d, const char *file)
{
	struct input in;
	struct err err = { 0 };
	struct blob *body;
	size_t offset;
	bool go_on = true;

	if (!input_open_broken(&in, file, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		d->failures++;
		return true;
	}
	note_damage(d, file, &in);
	while (go_on && input_next(&in, &body, &offset, &err)) {
		note_damage(d, file, &in);
		go_on = show_body(d, file, offset, body);
		blob_unref(body);
	}
	if (go_on && err.kind != ERR_NONE) {
		fprintf(stderr, "%s\n", err.msg);
		d->failures++;
	}
	input_close(&in);
	return go_on;
}

static bool parse_version(const char *text, enum wire_version *out, struct err *err)
{
	if (!text || strcmp(text, "auto") == 0)
		return true;
	return wire_version_parse(str_cstr(text), out, err);
}

static bool choose_versions(struct decoding *d, struct decode_output_options *o, struct err *err)
{
	bool encodes = strncmp(format, "otlp", 4) == 0;

	o->wire_version = WIRE_NEWEST;
	return parse_version(input_version_text, &d->options.version, err) &&
	       parse_version(version_text, encodes ? &o->wire_version : &d->options.version, err);
}

static int run(const struct words *words)
{
	struct decoding d = { .options = { .strict = strict } };
	struct decode_output_options o = {
		.format = format, .layout = layout, .color = color, .sample_types = sample_types
	};
	struct err err;

	if (utc)
		setenv("TZ", "UTC", 1);
	if (!choose_versions(&d, &o, &err) || !(d.output = decode_output_new(&o, &err)))
		return command_usage_error("decode", &err);
	for (unsigned i = 0; i < words->count; i++)
		if (!show_file(&d, words->items[i]))
			break;
	if (!decode_output_end(d.output, &err) && !d.reader_left && err.kind != ERR_CANCELLED) {
		fprintf(stderr, "%s\n", err.msg);
		d.failures++;
	}
	return d.failures ? EXIT_FAILED : EXIT_OK;
}

int decode_run(int argc, char **argv)
{
	struct words words;
	struct err err;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	if (words.count == 0) {
		free(words.items);
		err_set(&err, ERR_INVALID, "no file given; '-' reads standard input");
		return command_usage_error("decode", &err);
	}
	status = run(&words);
	free(words.items);
	return status;
}
