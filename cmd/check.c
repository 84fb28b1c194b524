/* check.c - flametap check: the conformance rules over files; exit 1 when one has errors. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "command.h"
#include "flags.h"
#include "input.h"
#include "wire/check.h"
#include "wire/otlp_json.h"

static bool json;
static const char *version_text = "auto";
static const char *most_text = "100";

static const char *const versions[] = { "auto", "1.3", "1.4",  "1.5",  "1.6", "1.7",
					"1.8",  "1.9", "1.10", "1.11", NULL };

static const struct flag flags[] = {
	FLAG("Flags", "json", FLAG_BOOL, &json, NULL, NULL,
	     "one JSON object a line and finding, and a summary of each body"),
	FLAG("Flags", "wire-version", FLAG_WIRE_VERSION, &version_text, "VERSION", "auto",
	     "the opentelemetry-proto version the files are in", .choices = versions),
	FLAG("Flags", "most", FLAG_UINT, &most_text, "N", "100",
	     "findings shown of each body; 0 = all"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap check body.pb",
	"flametap check --json *.pb | jq .rule",
	NULL,
};

static const struct command command = {
	.name = "check",
	.words = "FILE...|-",
	.summary =
		"Find what is wrong with OTLP profiles files, by the rules of their wire version.",
	.examples = examples,
	.flags = flags,
	.words_max = 1u << 20,
};

struct totals {
	unsigned bodies, errors, warnings;
};

static const char *severity_name(enum check_severity s)
{
	return s == CHECK_ERROR ? "error" : "warning";
}

/* An object without its closing brace: what findings, summaries and unreadable files have alike. */
static void begin_json(const char *file, size_t offset, const char *severity, const char *rule,
		       struct str path, struct str message, struct buf *out)
{
	buf_lit(out, "{\"file\":");
	buf_json_string(out, str_cstr(file));
	buf_printf(out, ",\"offset\":%zu,\"severity\":\"%s\",\"rule\":\"%s\",\"path\":", offset,
		   severity, rule);
	buf_json_string(out, path);
	buf_lit(out, ",\"message\":");
	buf_json_string(out, message);
}

static void print_json(const char *file, size_t offset, const struct check_finding *f,
		       struct buf *out)
{
	begin_json(file, offset, severity_name(f->severity), f->rule, f->path, f->message, out);
	buf_lit(out, "}\n");
}

/* The last line of each body. */
static void print_json_summary(const char *file, size_t offset, const struct check_result *r,
			       struct buf *out)
{
	AUTO(buf_release) struct buf message = { 0 };

	buf_printf(&message, "%s: %u errors, %u warnings", r->errors ? "FAILED" : "ok", r->errors,
		   r->warnings);
	begin_json(file, offset, "summary", "summary", (struct str){ 0 }, buf_view(&message), out);
	buf_printf(out, ",\"wire_version\":\"%s\",\"evidence\":", wire_version_name(r->version));
	buf_json_string(out, str_cstr(r->evidence));
	buf_printf(out, ",\"errors\":%u,\"warnings\":%u,\"not_shown\":%u}\n", r->errors,
		   r->warnings, r->suppressed);
}

static void print_text(const char *file, const struct check_finding *f, struct buf *out)
{
	buf_printf(out, "%s: %s: ", file, severity_name(f->severity));
	text_append_printable(out, f->path);
	if (f->path.len)
		buf_char(out, ' ');
	text_append_printable(out, f->message);
	buf_printf(out, "  [%s]\n", f->rule);
}

static void print_findings(const char *file, size_t offset, const struct check_result *r)
{
	AUTO(buf_release) struct buf out = { 0 };

	for (uint32_t i = 0; i < r->count; i++) {
		if (json)
			print_json(file, offset, &r->findings[i], &out);
		else
			print_text(file, &r->findings[i], &out);
	}
	if (r->suppressed && !json)
		buf_printf(&out, "%s: %u more findings; --most 0 shows all\n", file, r->suppressed);
	if (json)
		print_json_summary(file, offset, r, &out);
	if (out.len)
		fwrite(out.ptr, 1, out.len, stdout);
}

/* A file, or a body of it, that no rule can be applied to. */
static void tell_unreadable(const char *file, size_t offset, const struct err *err,
			    struct totals *t)
{
	AUTO(buf_release) struct buf out = { 0 };
	struct str message = str_cstr(err->msg);
	size_t named = strlen(file);

	t->errors++;
	if (str_has_prefix(message, str_cstr(file)) &&
	    str_has_prefix(str_skip(message, named), STR(": ")))
		message = str_skip(message, named + 2);
	if (!json) {
		fprintf(stderr, "%s: FAILED, can't be checked: %.*s\n", file, STR_ARG(message));
		return;
	}
	begin_json(file, offset, "error", "unreadable", (struct str){ 0 }, message, &out);
	buf_lit(&out, "}\n");
	fwrite(out.ptr, 1, out.len, stdout);
}

static void check_body(const char *file, size_t offset, struct blob *body,
		       enum wire_version version, uint32_t most, struct totals *t)
{
	struct check_result result;
	struct err err;

	t->bodies++;
	if ((otlp_looks_like_json(blob_view(body)) &&
	     otlp_json_is_foreign(blob_view(body), &err)) ||
	    !otlp_check(body, version, most ? most : UINT32_MAX, &result, &err)) {
		tell_unreadable(file, offset, &err, t);
		return;
	}
	print_findings(file, offset, &result);
	if (!json)
		printf("%s: %s, wire version %s (%s): %u errors, %u warnings\n", file,
		       result.errors ? "FAILED" : "ok", wire_version_name(result.version),
		       result.evidence, result.errors, result.warnings);
	t->errors += result.errors;
	t->warnings += result.warnings;
	check_result_release(&result);
}

static void check_file(const char *file, enum wire_version version, uint32_t most, struct totals *t)
{
	struct input in;
	struct err err = { 0 };
	struct blob *body;
	size_t offset = 0;

	if (!input_open(&in, file, &err)) {
		tell_unreadable(file, offset, &err, t);
		return;
	}
	while (input_next(&in, &body, &offset, &err)) {
		check_body(file, offset, body, version, most, t);
		blob_unref(body);
	}
	if (err.kind != ERR_NONE)
		tell_unreadable(file, in.raw_next, &err, t);
	input_close(&in);
}

/* Findings that nobody could read are no answer. */
static bool all_was_written(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	fprintf(stderr, "flametap check: writing to standard output: %s\n", strerror(errno));
	return false;
}

int check_run(int argc, char **argv)
{
	struct totals totals = { 0 };
	enum wire_version version = WIRE_AUTO;
	struct words words;
	struct err err;
	int status;
	uint64_t most;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	str_to_u64(str_cstr(most_text), &most);
	if (!str_is(str_cstr(version_text), "auto") &&
	    !wire_version_parse(str_cstr(version_text), &version, &err))
		return command_usage_error("check", &err);
	if (words.count == 0) {
		free(words.items);
		err_set(&err, ERR_INVALID, "no file given; '-' reads standard input");
		return command_usage_error("check", &err);
	}
	for (unsigned i = 0; i < words.count; i++)
		check_file(words.items[i], version, most > UINT32_MAX ? UINT32_MAX : (uint32_t)most,
			   &totals);
	free(words.items);
	return all_was_written() && totals.errors == 0 ? EXIT_OK : EXIT_FAILED;
}
