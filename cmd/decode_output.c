#include "decode_output.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/terminal.h"
#include "base/text.h"
#include "components/exporters/fd_out.h"
#include "components/exporters/resolved_json.h"
#include "components/exporters/text.h"
#include "components/exporters/type_watch.h"
#include "formats/folded.h"
#include "formats/render_out.h"
#include "wire/losses.h"
#include "wire/otlp_json.h"

enum { CHUNK_BYTES = 240 << 10 };

struct decode_output {
	bool (*put)(struct decode_output *d, const struct profiles *p, struct err *err);
	struct fd_out fd;
	struct buf buf, shown; /* the second: of a chunk of JSON on a terminal */
	struct render_out out;
	struct text_renderer *text;
	struct json_renderer *json;
	struct folded_renderer *folded;
	enum wire_version wire_version;
	struct buf held; /* otlp: the first body, until a second shows that lengths are due */
	unsigned bodies;
	bool told_references;
	struct config_strings types; /* shown; empty = all */
	char *types_text;            /* what their items are cut from */
	bool told_types;
	struct type_watch watch;
};

static bool write_chunk(void *ctx, struct str text, struct err *err)
{
	struct decode_output *d = ctx;

	return fd_out_write(&d->fd, text, err);
}

/* JSON allows DEL and U+0080 to U+009F in strings, which terminals obey: as the escapes of JSON. */
static bool write_json_to_terminal(void *ctx, struct str text, struct err *err)
{
	struct decode_output *d = ctx;

	buf_reset(&d->shown);
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		unsigned char next = i + 1 < text.len ? (unsigned char)text.ptr[i + 1] : 0;

		if (c == 0x7f)
			buf_lit(&d->shown, "\\u007f");
		else if (c == 0xc2 && next >= 0x80 && next <= 0x9f)
			buf_printf(&d->shown, "\\u%04x", next), i++;
		else
			buf_char(&d->shown, (char)c);
	}
	return fd_out_write(&d->fd, buf_view(&d->shown), err);
}

static bool write_held(struct decode_output *d, bool with_length, struct err *err)
{
	uint32_t len = (uint32_t)d->held.len;
	const char head[4] = { (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len };

	if (with_length && !fd_out_write(&d->fd, str_from(head, sizeof(head)), err))
		return false;
	return fd_out_write(&d->fd, buf_view(&d->held), err);
}

/* One line a body. */
static void tell_losses(const struct decode_output *d, const struct profiles *p, bool json)
{
	enum wire_version version = json ? WIRE_NEWEST : d->wire_version;
	AUTO(buf_release) struct buf line = { 0 };
	struct otlp_losses lost;

	if (!otlp_losses(p, version, json, &lost))
		return;
	otlp_losses_append_text(&line, &lost);
	fprintf(stderr, "flametap decode: %s %s has no place for: %.*s\n",
		json ? "OTLP/JSON" : "wire version", wire_version_name(version),
		STR_ARG(buf_view(&line)));
}

static bool put_otlp(struct decode_output *d, const struct profiles *p, struct err *err)
{
	if (d->bodies++ > 0 && !write_held(d, true, err))
		return false;
	buf_reset(&d->held);
	tell_losses(d, p, false);
	return otlp_encode(p, d->wire_version, &d->held, err);
}

static bool put_otlp_json(struct decode_output *d, const struct profiles *p, struct err *err)
{
	tell_losses(d, p, true);
	if (!otlp_json_encode(p, &d->buf, err))
		return false;
	buf_char(&d->buf, '\n');
	return render_out_finish(&d->out, err);
}

static void tell_hidden_references(struct decode_output *d)
{
	if (d->told_references || !text_renderer_hid_references(d->text))
		return;
	d->told_references = true;
	fputs("flametap decode: attributes that came by reference are empty in layout 2026; "
	      "--layout full shows them\n",
	      stderr);
}

static bool put_text(struct decode_output *d, const struct profiles *p, struct err *err)
{
	if (!text_render(d->text, p, &d->out, err) || !render_out_finish(&d->out, err))
		return false;
	tell_hidden_references(d);
	return true;
}

static bool put_json(struct decode_output *d, const struct profiles *p, struct err *err)
{
	return json_render(d->json, p, &d->out, err) && render_out_finish(&d->out, err);
}

static struct str profile_type(const struct profiles *p, uint32_t profile)
{
	return profiles_string(p, p->profiles[profile].sample_type.type);
}

/* Items are cut from text at its commas, blanks around them taken off. */
static void set_types(struct decode_output *d, struct str text)
{
	struct str rest = text, item;

	d->types_text = strndup(text.len ? text.ptr : "", text.len);
	assert(d->types_text);
	rest.ptr = d->types_text;
	while (str_split(&rest, ',', &item)) {
		item = str_trim(item);
		d->types_text[item.ptr - d->types_text + (ptrdiff_t)item.len] = '\0';
		d->types.items =
			reallocarray(d->types.items, d->types.count + 1, sizeof(*d->types.items));
		assert(d->types.items);
		d->types.items[d->types.count++] = item.ptr;
	}
}

static void set_one_type(struct decode_output *d, struct str type)
{
	d->types_text = strndup(type.len ? type.ptr : "", type.len);
	assert(d->types_text);
	d->types.items = calloc(1, sizeof(*d->types.items));
	assert(d->types.items);
	d->types.items[0] = d->types_text;
	d->types.count = 1;
}

static void tell_left_out(struct decode_output *d, struct str left_out)
{
	AUTO(buf_release) struct buf line = { 0 };

	d->told_types = true;
	buf_lit(&line, "flametap decode: folded shows sample type \"");
	text_append_printable(&line, str_cstr(d->types.items[0]));
	buf_lit(&line, "\", not \"");
	text_append_printable(&line, left_out);
	buf_lit(&line, "\"; --sample-types chooses\n");
	fwrite(line.ptr, 1, line.len, stderr);
}

enum { TYPES_COMPARED = 16 };

/* The one of a body that most samples have, of equal ones the first; UINT32_MAX without samples. Of
 * its first TYPES_COMPARED types: nobody sends more. */
static uint32_t usual_type(const struct profiles *p)
{
	struct {
		uint32_t profile;
		uint64_t samples;
	} seen[TYPES_COMPARED];
	uint32_t count = 0, best = 0;

	for (uint32_t i = 0; i < p->profile_count; i++) {
		uint32_t k = 0;

		if (p->profiles[i].refused || !p->profiles[i].samples.count)
			continue;
		while (k < count &&
		       !str_equal(profile_type(p, seen[k].profile), profile_type(p, i)))
			k++;
		if (k == TYPES_COMPARED)
			continue;
		if (k == count) {
			seen[count].profile = i;
			seen[count++].samples = 0;
		}
		seen[k].samples += p->profiles[i].samples.count;
	}
	for (uint32_t k = 1; k < count; k++)
		if (seen[k].samples > seen[best].samples)
			best = k;
	return count ? seen[best].profile : UINT32_MAX;
}

/* One sample type a graph: the most usual of the first body with samples, when none was asked for.
 */
static void choose_folded_type(struct decode_output *d, const struct profiles *p)
{
	uint32_t usual = d->types.count ? UINT32_MAX : usual_type(p);

	if (usual != UINT32_MAX)
		set_one_type(d, profile_type(p, usual));
	for (uint32_t i = 0; i < p->profile_count && !d->told_types; i++) {
		struct str type = profile_type(p, i);

		if (!p->profiles[i].samples.count || p->profiles[i].refused)
			continue;
		if (!str_is(type, d->types.items[0]))
			tell_left_out(d, type);
	}
}

static bool put_folded(struct decode_output *d, const struct profiles *p, struct err *err)
{
	if (!d->folded) {
		struct folded_options options = { .process = true };

		if (!d->types.given)
			choose_folded_type(d, p);
		if (!d->types.count && !d->types.given)
			return true; /* no samples yet */
		options.sample_types = d->types;
		d->folded = folded_renderer_new(&options);
	} else if (!d->types.given) {
		choose_folded_type(d, p);
	}
	return folded_render(d->folded, p, &d->out, err) && render_out_finish(&d->out, err);
}

static bool is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool colour_wanted(const char *choice)
{
	if (!is(choice, "auto"))
		return is(choice, "always");
	return terminal_wants_colour(STDOUT_FILENO);
}

static struct text_renderer *make_text(const struct decode_output_options *o,
				       const struct config_strings *types)
{
	enum text_layout layout = TEXT_2026;
	struct text_options options;

	while (!is(text_layout_names[layout], o->layout))
		layout++; /* the flag's choices are these names */
	options = text_options_default(layout);
	options.colour = colour_wanted(o->color);
	options.sample_types = *types;
	options.printable = isatty(STDOUT_FILENO);
	return text_renderer_new(&options);
}

static void choose_format(struct decode_output *d, const struct decode_output_options *o)
{
	if (is(o->format, "otlp")) {
		d->put = put_otlp;
	} else if (is(o->format, "otlp-json")) {
		d->put = put_otlp_json;
	} else if (is(o->format, "json")) {
		d->put = put_json;
		d->json = json_renderer_new(JSON_LINE_A_SAMPLE, &d->types);
	} else if (is(o->format, "folded")) {
		d->put = put_folded;
	} else {
		d->put = put_text;
		d->text = make_text(o, &d->types);
	}
}

struct decode_output *decode_output_new(const struct decode_output_options *o, struct err *err)
{
	struct decode_output *d;

	if (o->wire_version < WIRE_V1_7)
		return err_set(err, ERR_UNSUPPORTED,
			       "version %s can be read, not written; 1.7, 1.8, 1.9 and 1.10 can",
			       wire_version_name(o->wire_version)),
		       NULL;
	if (is(o->format, "otlp-json") && o->wire_version != WIRE_NEWEST)
		return err_set(err, ERR_UNSUPPORTED,
			       "OTLP/JSON is written in the newest version only (%s), not in %s; "
			       "-format otlp writes older ones",
			       wire_version_name(WIRE_NEWEST), wire_version_name(o->wire_version)),
		       NULL;
	if (is(o->format, "otlp") && isatty(STDOUT_FILENO))
		return err_set(err, ERR_INVALID,
			       "-format otlp is binary, and standard output is a terminal: add "
			       "'> FILE' or '| PROGRAM'"),
		       NULL;
	signal(SIGPIPE, SIG_IGN);
	d = calloc(1, sizeof(*d));
	d->wire_version = o->wire_version;
	fd_out_init(&d->fd, STDOUT_FILENO);
	d->out = (struct render_out){
		.buf = &d->buf, .chunk_bytes = CHUNK_BYTES, .write = write_chunk, .ctx = d
	};
	if (o->sample_types) {
		if (!is(o->sample_types, "all"))
			set_types(d, str_cstr(o->sample_types));
		d->types.given = true;
	}
	choose_format(d, o);
	if ((d->put == put_json || d->put == put_otlp_json) && isatty(STDOUT_FILENO))
		d->out.write = write_json_to_terminal;
	return d;
}

bool decode_output_put(struct decode_output *d, const struct profiles *p,
		       const struct otlp_decode_report *report, struct err *err)
{
	(void)report;
	if (d->types.given)
		type_watch_note(&d->watch, &d->types, p);
	buf_reset(&d->buf);
	fd_out_begin(&d->fd);
	return d->put(d, p, err);
}

static void tell_missing_types(const struct decode_output *d)
{
	AUTO(buf_release) struct buf text = { 0 };

	if (d->types.given && d->watch.requests && type_watch_append(&d->watch, &d->types, &text))
		fprintf(stderr, "flametap decode: %.*s\n", STR_ARG(buf_view(&text)));
}

bool decode_output_end(struct decode_output *d, struct err *err)
{
	bool ok = d->bodies == 0 || write_held(d, d->bodies > 1, err);

	fd_out_release(&d->fd);
	tell_missing_types(d);
	text_renderer_free(d->text);
	json_renderer_free(d->json);
	folded_renderer_free(d->folded);
	buf_release(&d->buf);
	buf_release(&d->shown);
	buf_release(&d->held);
	free(d->types.items);
	free(d->types_text);
	free(d);
	return ok;
}
