/* formats.c - the table of formats, and how the content of a file tells which one it is in. */
#include "formats/formats.h"

#include "formats/import_build.h"
#include "formats/readers_writers.h"
#include "wire/json_reader.h"
#include "wire/otlp_json.h"
#include "wire/pb_reader.h"

/* Top-level fields: of OTLP's oldest form, whose tables stand there. */
enum { LOOK_BYTES = 65536, TOP_FIELDS = 8 };

/* ---- by the keys of the outermost object ---- */

static enum format_row tell_json(struct str bytes)
{
	enum format_row found = FORMAT_OTLP_JSON;
	bool nodes = false, deltas = false, meta = false, threads = false;
	struct json_reader j;
	struct str key;

	json_reader_init(&j, bytes, 0);
	if (json_begin_object(&j))
		while (found == FORMAT_OTLP_JSON && json_next_key(&j, &key)) {
			nodes |= str_is(key, "nodes");
			meta |= str_is(key, "meta");
			threads |= str_is(key, "threads");
			deltas |= str_is(key, "timeDeltas") || str_is(key, "samples");
			if ((str_is(key, "shared") && !meta) || str_is(key, "activeProfileIndex"))
				found = FORMAT_SPEEDSCOPE;
			else if (str_is(key, "$schema") &&
				 str_search(json_string(&j), STR("speedscope")) >= 0)
				found = FORMAT_SPEEDSCOPE;
			else if (nodes && deltas)
				found = FORMAT_CPUPROFILE;
			else if (meta && threads)
				found = FORMAT_FIREFOX;
			else if (!str_is(key, "$schema"))
				json_skip(&j);
		}
	json_reader_release(&j);
	return found;
}

/* ---- text ---- */

static bool is_text(struct str bytes)
{
	struct str head = str_head(bytes, LOOK_BYTES);

	for (size_t i = 0; i < head.len; i++) {
		unsigned char c = (unsigned char)head.ptr[i];

		if (c < 0x20 && c != '\n' && c != '\r' && c != '\t')
			return false;
	}
	return head.len > 0;
}

static bool is_number(struct str s)
{
	int64_t v;
	double decimal;

	return str_to_i64(s, &v) || import_decimal(s, &decimal);
}

/* Folded: a number ends the first line that is no comment, or there are semicolons in it. perf
 * script: a time with a colon in it, or a frame behind it. */
static enum format_row tell_text(struct str bytes)
{
	struct str line, rest = bytes, first = { 0 };
	struct str word;

	while (!first.len && str_split(&rest, '\n', &line))
		if (str_trim(line).len && !import_is_comment(str_trim(line)))
			first = str_trim(line);
	word = import_last_word(first);
	if (word.len + 1 < first.len && is_number(word))
		return FORMAT_FOLDED;
	if (str_find(first, ';') > 0 && str_search(first, STR(": ")) < 0)
		return FORMAT_FOLDED;
	return str_find(first, ':') > 0 && str_find(first, ' ') > 0 ? FORMAT_PERF_SCRIPT
								    : FORMAT_OTLP;
}

/* ---- protobuf: pprof has a string table at the top, OTLP fields 1 and 2 only ---- */

static bool is_pprof(struct str bytes)
{
	struct pb_reader r = pb_reader_of(bytes);

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(6, PB_LEN))
			return true;
		pb_skip(&r, tag);
	}
	return false;
}

const struct format *format_tell(struct str bytes)
{
	enum format_row row = FORMAT_OTLP;

	if (otlp_looks_like_json(bytes))
		row = tell_json(bytes);
	else if (is_text(bytes)) /* before pprof: a text's letters may read as tags */
		row = tell_text(bytes);
	else if (is_pprof(bytes))
		row = FORMAT_PPROF;
	return &formats[row];
}

bool import_unknown(struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "this is no profile of a known format: OTLP (protobuf or JSON), pprof, "
		       "speedscope, Firefox, .cpuprofile, folded stacks, perf script");
}

/* What people give us although it is no profile yet. */
static bool refuse_perf_data(struct str bytes, struct err *err)
{
	return !(str_has_prefix(bytes, STR("PERFILE2")) ||
		 str_has_prefix(bytes, STR("2ELIFREP"))) ||
	       err_set(err, ERR_UNSUPPORTED,
		       "perf's own file; its text can be read: perf script -i FILE | flametap top "
		       "-");
}

/* Else what its decoder has to say of single fields means nothing to who gave us a picture. */
static bool may_be_otlp(struct str bytes)
{
	struct pb_reader r = pb_reader_of(bytes);
	uint32_t tag = pb_more(&r) ? pb_tag(&r) : 0;

	return !is_text(bytes) && tag >= PB_TAG(1, PB_LEN) && tag <= PB_TAG(TOP_FIELDS, PB_LEN) &&
	       (tag & 7) == PB_LEN;
}

static bool read_otlp(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;

	return otlp_decode(bytes, &options, out, &report, NULL, err) ||
	       (may_be_otlp(blob_view(bytes)) ? false : import_unknown(err));
}

static bool read_otlp_json(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;

	return otlp_json_decode(bytes, &options, out, &report, err);
}

static bool write_otlp(const struct profiles *p, const struct export_options *o, struct buf *out,
		       struct err *err)
{
	return otlp_encode(p, o && o->version ? o->version : WIRE_NEWEST, out, err);
}

static bool write_otlp_json(const struct profiles *p, const struct export_options *o,
			    struct buf *out, struct err *err)
{
	(void)o;
	return otlp_json_encode(p, out, err);
}

const struct format formats[FORMATS] = {
	[FORMAT_PPROF] = { .name = "pprof",
			   .title = "pprof",
			   .endings = { ".pb.gz", ".pprof" },
			   .file_name = "profile.pb.gz",
			   .content_type = "application/octet-stream",
			   .gzip = true,
			   .adds_up = true,
			   .all_types = true,
			   .write = pprof_write,
			   .read = pprof_read },
	[FORMAT_PGO] = { .name = "pgo",
			 .title = "a profile for Go's compiler",
			 .endings = { ".pgo" },
			 .file_name = "default.pgo",
			 .content_type = "application/octet-stream",
			 .gzip = true,
			 .adds_up = true,
			 .write = go_pgo_write },
	[FORMAT_FOLDED] = { .name = "folded",
			    .title = "folded stacks",
			    .endings = { ".folded", ".txt" },
			    .file_name = "profile.folded",
			    .content_type = "text/plain; charset=utf-8",
			    .adds_up = true,
			    .one_scale = true,
			    .write = folded_write,
			    .read = folded_read },
	[FORMAT_SPEEDSCOPE] = { .name = "speedscope",
				.title = "speedscope's JSON",
				.endings = { ".speedscope.json" },
				.file_name = "profile.speedscope.json",
				.content_type = "application/json",
				.adds_up = true,
				.write = speedscope_write,
				.read = speedscope_read },
	[FORMAT_FIREFOX] = { .name = "firefox",
			     .title = "a profile of the Firefox Profiler",
			     .endings = { ".firefox.json" },
			     .file_name = "profile.firefox.json",
			     .content_type = "application/json",
			     .adds_up = true,
			     .write = firefox_write,
			     .read = firefox_read },
	[FORMAT_OTLP] = { .name = "otlp",
			  .title = "OTLP",
			  .endings = { ".otlp", ".pb" },
			  .file_name = "profile.otlp.pb",
			  .content_type = "application/x-protobuf",
			  .all_types = true,
			  .write = write_otlp,
			  .read = read_otlp },
	[FORMAT_OTLP_JSON] = { .name = "otlp-json",
			       .title = "OTLP/JSON",
			       .endings = { ".json" },
			       .file_name = "profile.otlp.json",
			       .content_type = "application/json",
			       .all_types = true,
			       .write = write_otlp_json,
			       .read = read_otlp_json },
	[FORMAT_CPUPROFILE] = { .name = "cpuprofile",
				.title = "a .cpuprofile",
				.read = cpuprofile_read },
	[FORMAT_PERF_SCRIPT] = { .name = "perf-script",
				 .title = "text of perf script",
				 .read = perf_script_read },
};

static bool read_as_told(struct blob *bytes, struct profiles **out, struct err *err)
{
	return refuse_perf_data(blob_view(bytes), err) &&
	       format_tell(blob_view(bytes))->read(bytes, out, err);
}

bool format_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct str rest = blob_view(bytes), byte_order_mark = STR("\xef\xbb\xbf");
	struct blob *after;
	bool ok;

	if (!str_has_prefix(rest, byte_order_mark))
		return read_as_told(bytes, out, err);
	after = blob_copy(str_skip(rest, byte_order_mark.len));
	ok = read_as_told(after, out, err);
	blob_unref(after);
	return ok;
}
