#include "query/formats/import.h"
#include "query/formats/import_build.h"

#include "wire/json_reader.h"
#include "wire/otlp_json.h"
#include "wire/pb_reader.h"

/* Top-level fields: of OTLP's oldest form, whose tables stand there. */
enum { LOOK_BYTES = 65536, TOP_FIELDS = 8 };

/* ---- by the keys of the outermost object ---- */

static enum import_format tell_json(struct str bytes)
{
	enum import_format found = IMPORT_OTLP_JSON;
	bool nodes = false, deltas = false, meta = false, threads = false;
	struct json_reader j;
	struct str key;

	json_reader_init(&j, bytes, 0);
	if (json_begin_object(&j))
		while (found == IMPORT_OTLP_JSON && json_next_key(&j, &key)) {
			nodes |= str_is(key, "nodes");
			meta |= str_is(key, "meta");
			threads |= str_is(key, "threads");
			deltas |= str_is(key, "timeDeltas") || str_is(key, "samples");
			if ((str_is(key, "shared") && !meta) || str_is(key, "activeProfileIndex"))
				found = IMPORT_SPEEDSCOPE;
			else if (str_is(key, "$schema") &&
				 str_search(json_string(&j), STR("speedscope")) >= 0)
				found = IMPORT_SPEEDSCOPE;
			else if (nodes && deltas)
				found = IMPORT_CPUPROFILE;
			else if (meta && threads)
				found = IMPORT_FIREFOX;
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
static enum import_format tell_text(struct str bytes)
{
	struct str line, rest = bytes, first = { 0 };
	struct str word;

	while (!first.len && str_split(&rest, '\n', &line))
		if (str_trim(line).len && !import_is_comment(str_trim(line)))
			first = str_trim(line);
	word = import_last_word(first);
	if (word.len + 1 < first.len && is_number(word))
		return IMPORT_FOLDED;
	if (str_find(first, ';') > 0 && str_search(first, STR(": ")) < 0)
		return IMPORT_FOLDED;
	return str_find(first, ':') > 0 && str_find(first, ' ') > 0 ? IMPORT_PERF_SCRIPT
								    : IMPORT_OTLP;
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

enum import_format import_tell(struct str bytes)
{
	if (otlp_looks_like_json(bytes))
		return tell_json(bytes);
	if (is_text(bytes)) /* first: a text's letters may read as tags */
		return tell_text(bytes);
	return is_pprof(bytes) ? IMPORT_PPROF : IMPORT_OTLP;
}

const char *import_format_name(enum import_format f)
{
	static const char *const names[] = {
		[IMPORT_OTLP] = "OTLP",
		[IMPORT_OTLP_JSON] = "OTLP/JSON",
		[IMPORT_PPROF] = "pprof",
		[IMPORT_SPEEDSCOPE] = "speedscope's JSON",
		[IMPORT_CPUPROFILE] = "a .cpuprofile",
		[IMPORT_FIREFOX] = "a profile of the Firefox Profiler",
		[IMPORT_FOLDED] = "folded stacks",
		[IMPORT_PERF_SCRIPT] = "text of perf script",
	};

	return names[f];
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

static bool read_as_told(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;

	if (!refuse_perf_data(blob_view(bytes), err))
		return false;
	switch (import_tell(blob_view(bytes))) {
	case IMPORT_PPROF:
		return pprof_read(bytes, out, err);
	case IMPORT_SPEEDSCOPE:
		return speedscope_read(bytes, out, err);
	case IMPORT_CPUPROFILE:
		return cpuprofile_read(bytes, out, err);
	case IMPORT_FIREFOX:
		return firefox_read(bytes, out, err);
	case IMPORT_FOLDED:
		return folded_read(bytes, out, err);
	case IMPORT_PERF_SCRIPT:
		return perf_script_read(bytes, out, err);
	case IMPORT_OTLP_JSON:
		return otlp_json_decode(bytes, &options, out, &report, err);
	case IMPORT_OTLP:
		break;
	}
	return otlp_decode(bytes, &options, out, &report, NULL, err) ||
	       (may_be_otlp(blob_view(bytes)) ? false : import_unknown(err));
}

bool import_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct str rest = blob_view(bytes), mark = STR("\xef\xbb\xbf");
	struct blob *after;
	bool ok;

	if (!str_has_prefix(rest, mark))
		return read_as_told(bytes, out, err);
	after = blob_copy(str_skip(rest, mark.len));
	ok = read_as_told(after, out, err);
	blob_unref(after);
	return ok;
}
