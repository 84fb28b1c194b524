/*
 * text_read.c - profiles as text: folded stacks, and what `perf script` prints.
 *
 * Folded (flamegraph.pl and many others), a line a stack, the number behind the last space:
 *   root;child;leaf_[k] 42
 * A count may have decimals. The suffixes _[k] _[j] _[i] tell kernel, run-time made and inlined
 * frames.
 *
 * perf script (perf-script(1)), an event a head line and its frames, leaf first, ended by an empty
 * line:
 *   comm  1234/1235 [001] 12345.678901:     250000 cycles:u:
 *           ffffffff81000000 do_syscall_64+0x40 ([kernel.kallsyms])
 *               55d0a0b1c2d3 main+0x13 (/usr/bin/prog)
 * Without call chains (perf record without -g) the one frame stands behind the event's name. A
 * frame in "(inlined)" is inlined into the next one. Modifiers of an event (cycles:ppp) are no part
 * of its name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "formats/import_build.h"
#include "formats/readers_writers.h"

enum { WORD_SHOWN = 40 };

struct str import_last_word(struct str line)
{
	size_t at = line.len;

	while (at > 0 && line.ptr[at - 1] != ' ' && line.ptr[at - 1] != '\t')
		at--;
	return str_skip(line, at);
}

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

static bool folded_stack(struct import *im, struct str names, uint64_t number, struct err *err)
{
	struct str name;

	import_stack_clear(im);
	while (str_split(&names, ';', &name)) {
		struct import_frame f = { .function = name };

		tell_type(&f);
		if (!import_stack_push(im, import_location(im, &f), err))
			return err_prefix(err, "folded stacks: line %llu",
					  (unsigned long long)number);
	}
	import_stack_reverse(im);
	return true;
}

struct folded_count {
	int64_t whole;
	double decimal; /* "2.5": flamegraph.pl takes it, and some tools write milliseconds so */
	bool is_decimal;
};

bool import_decimal(struct str word, double *out)
{
	ptrdiff_t dot = str_find(word, '.');
	struct str part = str_skip(word, (size_t)(dot + 1));
	char text[WORD_SHOWN + 1];
	int64_t whole;
	uint64_t digits;

	if (dot <= 0 || word.len > WORD_SHOWN || !str_to_i64(str_head(word, (size_t)dot), &whole) ||
	    (part.len && !str_to_u64(str_head(part, 18), &digits)))
		return false;
	for (size_t i = 0; i < part.len; i++)
		if (part.ptr[i] < '0' || part.ptr[i] > '9')
			return false;
	memcpy(text, word.ptr, word.len);
	text[word.len] = 0;
	*out = strtod(text, NULL);
	return true;
}

/* "a;b;c 42": the last space (or tab) parts them. False where the line is none. */
static bool split_folded(struct str line, struct str *names, struct folded_count *count)
{
	struct str word = import_last_word(line);
	size_t space = line.len - word.len;

	if (space < 2)
		return false;
	count->is_decimal = import_decimal(word, &count->decimal);
	if (!count->is_decimal && !str_to_i64(word, &count->whole))
		return false;
	*names = str_trim(str_head(line, space - 1));
	return names->len > 0;
}

/* A name may begin with '#', as private methods of JavaScript do: then a count ends the line. */
bool import_is_comment(struct str line)
{
	struct folded_count count;
	struct str names;

	if (!line.len || line.ptr[0] != '#')
		return false;
	return line.len == 1 || strchr(" \t#!", line.ptr[1]) || !split_folded(line, &names, &count);
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
		struct folded_count count = { .whole = 1 };
		struct str names;
		int64_t value;

		number++;
		line = str_trim(line);
		if (!line.len || import_is_comment(line))
			continue;
		if (hints->lines) {
			names = line;
		} else if (!split_folded(line, &names, &count)) {
			struct str word = import_last_word(line);

			ok = err_set(err, ERR_INVALID,
				     "folded stacks: line %llu has no count behind its last space, "
				     "but '%.*s'",
				     (unsigned long long)number,
				     (int)(word.len < WORD_SHOWN ? word.len : WORD_SHOWN),
				     word.ptr);
			break;
		}
		ok = folded_stack(&im, names, number, err);
		value = count.is_decimal ? import_whole(&im, count.decimal) : count.whole;
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
	bool has_period; /* `value` is what perf says, not one event */
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

/* "cycles:ppp", "cpu-clock:u": what stands behind the last colon says which of them (perf-list(1),
 * event modifiers). A tracepoint's name has a colon, too. */
static struct str without_modifiers(struct str event)
{
	size_t at = event.len;

	while (at > 0 && event.ptr[at - 1] != ':' && strchr("ukhIGHpPSDWebR", event.ptr[at - 1]))
		at--;
	return at > 1 && event.ptr[at - 1] == ':' ? str_head(event, at - 1) : event;
}

/* Names may have spaces: the ids stand before "[cpu]" or the time. *behind: what comes after the
 * event's name. */
static bool perf_head(struct str line, struct perf_event *e, struct str *behind)
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
	e->has_period = str_to_i64(word, &e->value);
	if (e->has_period)
		word = next_word(&rest);
	while (word.len && word.ptr[word.len - 1] == ':')
		word.len--;
	e->event = without_modifiers(word);
	*behind = str_trim(rest);
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

/* Where "(/usr/sbin/nginx (deleted))" at a line's end opens, or 0. */
static size_t last_parenthesis(struct str s)
{
	size_t at = s.len;
	size_t depth = 0;

	if (!at || s.ptr[at - 1] != ')')
		return 0;
	do {
		if (!at)
			return 0;
		at--;
		depth += s.ptr[at] == ')';
		depth -= s.ptr[at] == '(';
	} while (depth > 0);
	return at + 1;
}

/* "55d0a0b1c2d3 main+0x13 (/usr/bin/prog)" */
static bool perf_frame(struct str line, struct import_frame *f)
{
	struct str rest = line, symbol;
	size_t open;
	ptrdiff_t plus;

	*f = (struct import_frame){ 0 };
	if (!hex(next_word(&rest), &f->address)) {
		if (!str_has_suffix(line, STR(" (inlined)")))
			return false;
		rest = line; /* it has its caller's address */
	}
	symbol = str_trim(rest);
	open = last_parenthesis(symbol);
	if (open > 0) {
		f->binary = str_from(symbol.ptr + open, symbol.len - open - 1);
		symbol = str_trim(str_head(symbol, open - 1));
	}
	if (str_has_suffix(f->binary, STR(" (deleted)")))
		f->binary = str_head(f->binary, f->binary.len - strlen(" (deleted)"));
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

/* An event that is read, and the frames that are inlined into the one that comes. */
struct perf_reading {
	struct import im;
	struct perf_event e;
	bool open, any;
	struct str event; /* whose profile is open */
	bool has_period;  /* and of which kind */
	struct str inlined[IMPORT_INLINED_MOST];
	uint32_t inlined_count;
};

static bool push_frame(struct perf_reading *r, struct import_frame *f, struct err *err)
{
	if (str_is(f->binary, "inlined") && f->function.len &&
	    r->inlined_count < IMPORT_INLINED_MOST) {
		r->inlined[r->inlined_count++] = f->function;
		return true;
	}
	f->inlined = r->inlined;
	f->inlined_count = r->inlined_count;
	r->inlined_count = 0;
	return import_stack_push(&r->im, import_location(&r->im, f), err);
}

static bool put_event(struct perf_reading *r, struct err *err)
{
	struct import *im = &r->im;
	const struct perf_event *e = &r->e;
	struct attribute_index a[] = {
		import_text(im, "thread.name", e->comm),
		import_int(im, "thread.id", e->tid),
		import_int(im, "process.pid", e->pid),
		import_text(im, "perf.event", e->event),
	};

	r->open = false;
	if (r->inlined_count) { /* into nothing: the outermost of them is the function */
		struct import_frame f = { .function = r->inlined[--r->inlined_count],
					  .type = STR("native") };

		if (!push_frame(r, &f, err))
			return false;
	}
	builder_sample(im->b, import_stack(im), (struct link_index){ 0 }, a, 4, &e->value, 1,
		       &e->time_ns, 1);
	return true;
}

static bool is_time_event(struct str event)
{
	return str_search(event, STR("cpu-clock")) >= 0 ||
	       str_search(event, STR("task-clock")) >= 0;
}

/* Clock events count nanoseconds, others what they are called. One profile an event kind in a row.
 * A tracepoint is sched/sched_switch, as its folders are called: colons part what a type consists
 * of. Where the field `period` was not printed, nobody knows how long a clock's event stands for.
 */
static void open_profile(struct import *im, struct str event, bool has_period)
{
	bool time = is_time_event(event);
	struct str type = time && has_period   ? STR("cpu")
			  : time || !event.len ? STR("samples")
					       : event;
	struct buf name;

	buf_init(&name, 0);
	for (size_t i = 0; i < type.len; i++)
		buf_char(&name, type.ptr[i] == ':' ? '/' : type.ptr[i]);
	import_profile(im, buf_view(&name), time && has_period ? STR("nanoseconds") : STR("count"),
		       STR(""), STR(""), 0);
	buf_release(&name);
}

static bool begin_event(struct perf_reading *r, struct str behind, struct err *err)
{
	struct import_frame f;

	if (!r->any || !str_equal(r->event, r->e.event) || r->has_period != r->e.has_period)
		open_profile(&r->im, r->e.event, r->e.has_period);
	r->event = r->e.event;
	r->has_period = r->e.has_period;
	r->any = r->open = true;
	import_stack_clear(&r->im);
	/* A tracepoint has its fields there. */
	if (!behind.len || (str_find(r->e.event, ':') >= 0 && !str_has_suffix(behind, STR(")"))) ||
	    !perf_frame(behind, &f))
		return true;
	return push_frame(r, &f, err);
}

/* A frame may begin like a head whose command is a number: "dd 99 1.5: 7 cycles:". */
static bool perf_line(struct perf_reading *r, struct str line, uint64_t number, struct err *err)
{
	struct str text = str_trim(line), behind;
	bool indented = line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t');
	struct import_frame f;
	struct perf_event e;

	if (!text.len)
		return !r->open || put_event(r, err);
	if (text.ptr[0] == '#')
		return true;
	if (r->open && indented && str_search(text, STR(": ")) < 0 &&
	    text.ptr[text.len - 1] != ':' && perf_frame(text, &f))
		return push_frame(r, &f, err);
	if (perf_head(text, &e, &behind)) {
		if (r->open && !put_event(r, err))
			return false;
		r->e = e;
		return begin_event(r, behind, err);
	}
	if (r->open && indented && perf_frame(text, &f))
		return push_frame(r, &f, err);
	if (!r->any)
		return import_unknown(err);
	return err_set(err, ERR_INVALID, "perf script: line %llu is neither an event nor a frame",
		       (unsigned long long)number);
}

bool perf_script_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct perf_reading r = { .open = false };
	struct str rest = blob_view(bytes), line;
	uint64_t number = 0;
	bool ok = true;

	import_begin(&r.im, bytes);
	while (ok && str_split(&rest, '\n', &line))
		ok = perf_line(&r, line, ++number, err);
	if (ok && r.open)
		ok = put_event(&r, err);
	return import_end(&r.im, ok, out, err);
}
