/*
 * text.h - profiles as text for people: the layouts of `flametap backend -receiver stdout` and
 * `flametap decode`.
 *
 *   2026      the lazy backend of 2026, byte for byte (tests/fixtures/stdout). What came by
 *             reference (key_strindex, string_value_strindex) is an empty key or value there, so
 *             it is here; text_renderer_hid_references() tells, all other layouts resolve them.
 *   seed-000  its first form: "timestamp[0]" in lower case; no Time, Duration, PeriodType, Period
 *   seed-001  its second: Duration as a date of 1970, PeriodType with the temporality as third
 *   typed     the customprofilesexporter: values with their kind, "(Str)"; no times; frames with
 *             file, line and column on request
 *   full      all that the message holds; its grammar is in text_full.c
 *
 * Strings go out as the bytes that came, as the reference does it; with `printable` (a terminal),
 * and in layout full always, control characters are escaped and bad UTF-8 is replaced.
 * Memory: caches that are kept between requests. Threads: one at a time per renderer.
 */
#pragma once
#include "formats/render_out.h"
#include "model/profiles.h"
#include "pipeline/options.h"

enum text_layout { TEXT_2026, TEXT_SEED_000, TEXT_SEED_001, TEXT_TYPED, TEXT_FULL };
extern const char *const text_layout_names[]; /* by enum text_layout; NULL-terminated */

struct text_options {
	enum text_layout layout;
	bool colour;
	bool printable;
	/* The switches of the customprofilesexporter; all layouts but full honour them. */
	bool ignore_profiles_without_container_id; /* prints a block that says SKIPPED */
	bool resource_attributes, profile_attributes, sample_attributes, stack_frames;
	bool function_file;                      /* layout typed: ", File: f, Line: n, Column: n" */
	struct config_strings stack_frame_types; /* empty = all */
	struct config_strings sample_types;      /* empty = all; layout full honours it too */
};

/* What the reference does without a configuration: everything is shown, nothing skipped. */
struct text_options text_options_default(enum text_layout layout);

struct text_renderer;

/* The options' lists are borrowed. */
struct text_renderer *text_renderer_new(const struct text_options *options);
void text_renderer_free(struct text_renderer *t); /* NULL is fine */
/* Appends a message; the caller calls render_out_finish(). Refused profiles are left out. Fails as
 * `out` does only. */
bool text_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
		 struct err *err) MUST_CHECK;
/* True once a message had references that layout 2026 shows as empty. */
bool text_renderer_hid_references(const struct text_renderer *t);
