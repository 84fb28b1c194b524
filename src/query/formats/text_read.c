/*
 * text_read.c - profiles as text: folded stacks, and what `perf script` prints.
 *
 * Folded (flamegraph.pl and many others), a line a stack, the number behind the last space:
 *   root;child;leaf_[k] 42
 * The suffixes _[k] _[j] _[i] tell kernel, run-time made and inlined frames.
 *
 * perf script (perf-script(1)), an event a head line and its frames, leaf first, ended by an empty
 * line:
 *   comm  1234/1235 [001] 12345.678901:     250000 cycles:u:
 *           ffffffff81000000 do_syscall_64+0x40 ([kernel.kallsyms])
 *               55d0a0b1c2d3 main+0x13 (/usr/bin/prog)
 */
#include "query/formats/import.h"
#include "query/formats/import_build.h"

/* ---- folded ---- */

static void tell_type(struct import_frame *f)
{
	if (str_has_suffix(f->function, STR("_[k]")))
		f->type = STR("kernel");
	else if (!str_has_suffix(f->function, STR("_[i]")) &&
		 !str_has_suffix(f->function, STR("_[j]")))
		return;
	f->function = str_head(f->function, f->function.len - 4);
}

static bool folded_stack(struct import *im, struct str names, struct err *err)
{
	struct str name;

	import_stack_clear(im);
	while (str_split(&names, ';', &name)) {
		struct import_frame f = { .function = name };

		tell_type(&f);
		if (!import_stack_push(im, import_location(im, &f), err))
			return false;
	}
	import_stack_reverse(im);
	return true;
}

/* "a;b;c 42": the last space parts them. False where the line is none. */
static bool split_folded(struct str line, struct str *names, int64_t *value)
{
	size_t space = line.len;

	while (space > 0 && line.ptr[space - 1] != ' ')
		space--;
	if (space < 2 || !str_to_i64(str_skip(line, space), value))
		return false;
	*names = str_trim(str_head(line, space - 1));
	return names->len > 0;
}

bool folded_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	static const struct import_hints plain = { .type = { "samples", 7 },
						   .unit = { "count", 5 } };

	return folded_read_with(bytes, &plain, out, err);
}

bool folded_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		      struct err *err)
{
	struct str rest = blob_view(bytes), line;
	struct profile *profile;
	struct import im;
	uint64_t number = 0;
	bool ok = true;

	import_begin_with(&im, bytes, hints);
	profile = import_profile(&im, hints->type, hints->unit, hints->period_type,
				 hints->period_unit, hints->period);
	profile->time_unix_nano = hints->time;
	profile->duration_nano = hints->duration;
	while (ok && str_split(&rest, '\n', &line)) {
		struct str names;
		int64_t value;

		number++;
		line = str_trim(line);
		if (!line.len || line.ptr[0] == '#')
			continue;
		if (hints->lines) {
			names = line;
			value = 1;
		} else if (!split_folded(line, &names, &value)) {
			ok = err_set(err, ERR_INVALID,
				     "folded stacks: line %llu has no count behind its last space",
				     (unsigned long long)number);
			break;
		}
		ok = folded_stack(&im, names, err);
		if (ok)
			builder_sample(im.b, import_stack(&im), (struct link_index){ 0 }, NULL, 0,
				       &value, 1, NULL, 0);
	}
	return import_end(&im, ok, out, err);
}

/* ---- perf script ---- */

struct perf_event {
	struct str comm, event;
	int64_t pid, tid;
	uint64_t time_ns;
	int64_t value;
};

static struct str next_word(struct str *rest)
{
	struct str word;

	*rest = str_trim(*rest);
	for (word = *rest, word.len = 0; word.len < rest->len; word.len++)
		if (rest->ptr[word.len] == ' ' || rest->ptr[word.len] == '\t')
			break;
	*rest = str_skip(*rest, word.len);
	return word;
}

/* "12345.678901" to nanoseconds. */
static bool perf_time(struct str text, uint64_t *out)
{
	ptrdiff_t dot = str_find(text, '.');
	struct str fraction = str_skip(text, (size_t)(dot + 1));
	uint64_t seconds, part, unit = 1000000000;

	if (dot <= 0 || fraction.len == 0 || fraction.len > 9 ||
	    !str_to_u64(str_head(text, (size_t)dot), &seconds) || !str_to_u64(fraction, &part) ||
	    seconds > UINT64_C(10000000000))
		return false;
	for (size_t i = 0; i < fraction.len; i++)
		unit /= 10;
	*out = seconds * 1000000000 + part * unit;
	return true;
}

/* "1234" or "1234/1235". */
static bool perf_ids(struct str word, struct perf_event *e)
{
	ptrdiff_t slash = str_find(word, '/');

	if (slash < 0) {
		e->pid = 0;
		return str_to_i64(word, &e->tid) && e->tid >= 0;
	}
	return str_to_i64(str_head(word, (size_t)slash), &e->pid) &&
	       str_to_i64(str_skip(word, (size_t)slash + 1), &e->tid);
}

/* Names may have spaces: the ids stand before "[cpu]" or the time. */
static bool perf_head(struct str line, struct perf_event *e)
{
	struct str rest = line, word;
	bool ids = false;

	*e = (struct perf_event){ .value = 1 };
	for (unsigned i = 0; i < 16; i++) {
		word = next_word(&rest);
		if (!word.len)
			return false;
		if (word.ptr[word.len - 1] == ':' &&
		    perf_time(str_head(word, word.len - 1), &e->time_ns))
			break;
		if (i > 0 && perf_ids(word, e)) {
			e->comm = str_trim(str_from(line.ptr, (size_t)(word.ptr - line.ptr)));
			ids = true;
		}
	}
	if (!ids || !e->time_ns)
		return false;
	word = next_word(&rest);
	if (str_to_i64(word, &e->value))
		word = next_word(&rest);
	while (word.len && word.ptr[word.len - 1] == ':')
		word.len--;
	e->event = word;
	return true;
}

static bool hex(struct str s, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];
		int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

		if (d < 0 || i >= 16)
			return false;
		*out = *out << 4 | (uint64_t)d;
	}
	return s.len > 0;
}

/* "55d0a0b1c2d3 main+0x13 (/usr/bin/prog)" */
static bool perf_frame(struct str line, struct import_frame *f)
{
	struct str rest = line, symbol;
	size_t open;
	ptrdiff_t plus;

	*f = (struct import_frame){ 0 };
	if (!hex(next_word(&rest), &f->address))
		return false;
	symbol = str_trim(rest);
	for (open = symbol.len; open > 0 && symbol.ptr[open - 1] != '(';)
		open--;
	if (open > 0 && symbol.ptr[symbol.len - 1] == ')') {
		f->binary = str_from(symbol.ptr + open, symbol.len - open - 1);
		symbol = str_trim(str_head(symbol, open - 1));
	}
	plus = str_search(symbol, STR("+0x"));
	if (plus > 0)
		symbol = str_head(symbol, (size_t)plus);
	if (!str_is(symbol, "[unknown]"))
		f->function = symbol;
	if (str_is(f->binary, "[unknown]"))
		f->binary = (struct str){ 0 };
	f->type = str_has_prefix(f->binary, STR("[kernel")) || str_has_suffix(f->binary, STR(".ko"))
			  ? STR("kernel")
			  : STR("native");
	return true;
}

static void put_event(struct import *im, const struct perf_event *e)
{
	struct attribute_index a[] = {
		import_text(im, "thread.name", e->comm),
		import_int(im, "thread.id", e->tid),
		import_int(im, "process.pid", e->pid),
		import_text(im, "perf.event", e->event),
	};

	builder_sample(im->b, import_stack(im), (struct link_index){ 0 }, a, 4, &e->value, 1,
		       &e->time_ns, 1);
}

static bool is_time_event(struct str event)
{
	return str_search(event, STR("cpu-clock")) >= 0 ||
	       str_search(event, STR("task-clock")) >= 0;
}

/* Clock events count nanoseconds, others what they are called. One profile an event kind in a row.
 */
static void open_profile(struct import *im, struct str event)
{
	struct str type = is_time_event(event) ? STR("cpu") : event.len ? event : STR("samples");

	import_profile(im, type, is_time_event(event) ? STR("nanoseconds") : STR("count"), STR(""),
		       STR(""), 0);
}

bool perf_script_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct str rest = blob_view(bytes), line, event = { 0 };
	struct perf_event e = { 0 };
	struct import_frame f;
	struct import im;
	uint64_t number = 0;
	bool open = false, ok = true, any = false;

	import_begin(&im, bytes);
	while (ok && str_split(&rest, '\n', &line)) {
		struct str text = str_trim(line);

		number++;
		if (!text.len || text.ptr[0] == '#') {
			if (open && !text.len)
				put_event(&im, &e);
			open = open && text.len;
			continue;
		}
		if (open && (line.ptr[0] == ' ' || line.ptr[0] == '\t') && perf_frame(text, &f)) {
			ok = import_stack_push(&im, import_location(&im, &f), err);
			continue;
		}
		if (open)
			put_event(&im, &e);
		open = perf_head(text, &e);
		if (!open) {
			ok = err_set(err, ERR_INVALID,
				     "perf script: line %llu is neither an event nor a frame",
				     (unsigned long long)number);
			break;
		}
		if (!any || !str_equal(event, e.event))
			open_profile(&im, e.event);
		event = e.event;
		any = true;
		import_stack_clear(&im);
	}
	if (ok && open)
		put_event(&im, &e);
	return import_end(&im, ok, out, err);
}
