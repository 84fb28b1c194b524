#include "flags_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/text.h"
#include "wire/otlp.h"

enum { FLAGS_MAX = 128, GIVEN_MOST = 1024 };

/* In the order in which they were given: the command line's first. */
static struct {
	const struct flag *flag;
	const char *value;
} given[GIVEN_MOST];
static unsigned given_count;

static bool is_same(const struct flag *a, const struct flag *b)
{
	if (a->option && b->option)
		return strcmp(a->option, b->option) == 0;
	return a == b || (a->target && a->target == b->target);
}

bool flags_given_before(const struct flag *f, unsigned mark)
{
	for (unsigned i = 0; i < given_count && i < mark; i++)
		if (is_same(given[i].flag, f))
			return true;
	return false;
}

bool flags_given(const struct flag *f)
{
	return flags_given_before(f, given_count);
}

unsigned flags_mark(void)
{
	return given_count;
}

void flags_forget(unsigned mark)
{
	given_count = mark;
}

const char *flags_next_value(const struct flag *f, unsigned *at)
{
	while (*at < given_count)
		if (is_same(given[(*at)++].flag, f))
			return given[*at - 1].value;
	return NULL;
}

const char *flags_value(const struct flag *flags, const char *name)
{
	const struct flag *f = flags_find(flags, str_cstr(name));
	const char *value, *last = f->fallback;
	unsigned at = 0;

	while ((value = flags_next_value(f, &at)))
		last = value;
	return last;
}

bool flags_is_true(const struct flag *flags, const char *name)
{
	const char *value = flags_value(flags, name);

	return value && strcmp(value, "true") == 0;
}

const struct flag *flags_find(const struct flag *flags, struct str name)
{
	for (const struct flag *f = flags; f->name; f++)
		if (str_is(name, f->name))
			return f;
	return NULL;
}

static bool unknown_flag(const struct command *c, struct str name, struct err *err)
{
	const char *names[FLAGS_MAX];
	size_t count = 0;
	const char *near;

	for (const struct flag *f = c->flags; f->name && count < FLAGS_MAX - 1; f++)
		names[count++] = f->name;
	names[count++] = "help";
	near = text_suggest(name, names, count);
	if (near)
		return err_set(err, ERR_INVALID, "unknown flag -%.*s; did you mean -%s?",
			       STR_ARG(name), near);
	return err_set(err, ERR_INVALID, "unknown flag -%.*s; 'flametap %s --help' lists them",
		       STR_ARG(name), c->name);
}

static bool choices_error(const struct flag *f, const char *value, struct err *err)
{
	char list[128] = "";
	size_t len = 0;

	for (size_t i = 0; f->choices[i] && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
					f->choices[i]);
	return err_set(err, ERR_INVALID, "-%s can't be \"%s\"; it takes %s", f->name, value, list);
}

static bool check_choice(const struct flag *f, const char *value, struct err *err)
{
	size_t count = 0;
	const char *near;

	for (; f->choices[count]; count++)
		if (strcmp(f->choices[count], value) == 0)
			return true;
	near = text_suggest(str_cstr(value), f->choices, count);
	if (near)
		return err_set(err, ERR_INVALID, "-%s can't be \"%s\"; did you mean \"%s\"?",
			       f->name, value, near);
	return choices_error(f, value, err);
}

/* "v1.9.0" and "1.9.2" are "1.9": the choices are minors, wire formats do not change in a patch. */
static bool check_version(const struct flag *f, const char **value, struct err *err)
{
	uint64_t minor, choice;

	if (wire_version_minor(str_cstr(*value), &minor))
		for (size_t i = 0; f->choices[i]; i++)
			if (wire_version_minor(str_cstr(f->choices[i]), &choice) &&
			    choice == minor) {
				*value = f->choices[i];
				return true;
			}
	return check_choice(f, *value, err);
}

static bool set_bool(const struct flag *f, const char **value, struct err *err)
{
	const char *text = *value ? *value : "true";
	bool on = strcmp(text, "true") == 0 || strcmp(text, "1") == 0 || strcmp(text, "t") == 0;

	if (!on && strcmp(text, "false") != 0 && strcmp(text, "0") != 0 && strcmp(text, "f") != 0)
		return err_set(err, ERR_INVALID, "-%s is true or false, not \"%s\"", f->name, text);
	if (f->target)
		*(bool *)f->target = on;
	*value = on ? "true" : "false";
	return true;
}

static bool set_list(const struct flag *f, const char *value, struct err *err)
{
	struct flag_list *list = f->target;

	if (list->count == sizeof(list->items) / sizeof(list->items[0]))
		return err_set(err, ERR_LIMIT, "-%s was given more than %u times", f->name,
			       list->count);
	list->items[list->count++] = value;
	return true;
}

static bool add_step(const struct flag *f, const char *value, struct err *err)
{
	struct flag_steps *steps = f->target;

	if (steps->count == sizeof(steps->items) / sizeof(steps->items[0]))
		return err_set(err, ERR_LIMIT, "-%s is one of more than %u such flags", f->name,
			       steps->count);
	steps->items[steps->count].flag = f->name;
	steps->items[steps->count++].value = value;
	return true;
}

static bool check_number(const struct flag *f, const char *value, struct err *err)
{
	uint64_t number;

	if (!str_to_u64(str_cstr(value), &number))
		return err_set(err, ERR_INVALID, "-%s takes a whole number, not \"%s\"", f->name,
			       value);
	if (f->most && (number < f->least || number > f->most))
		return err_set(err, ERR_INVALID, "-%s is %llu to %llu, not %s", f->name,
			       (unsigned long long)f->least, (unsigned long long)f->most, value);
	return true;
}

static bool check_text(const struct flag *f, const char **value, struct err *err)
{
	uint64_t number;

	switch (f->kind) {
	case FLAG_UINT:
		return check_number(f, *value, err);
	case FLAG_SIZE:
		return text_parse_size(str_cstr(*value), &number, err) ||
		       err_prefix(err, "-%s", f->name);
	case FLAG_DURATION:
		return duration_parse(str_cstr(*value), &number, err) ||
		       err_prefix(err, "-%s", f->name);
	case FLAG_CHOICE:
		return check_choice(f, *value, err);
	case FLAG_WIRE_VERSION:
		return check_version(f, value, err);
	default:
		return true;
	}
}

static bool set_flag(const struct flag *f, const char **value, struct err *err)
{
	if (f->kind == FLAG_BOOL)
		return set_bool(f, value, err);
	if (f->kind == FLAG_LIST && f->target)
		return set_list(f, *value, err);
	if (f->kind == FLAG_STEP)
		return add_step(f, *value, err);
	if (!check_text(f, value, err))
		return false;
	if (f->target)
		*(const char **)f->target = *value;
	return true;
}

bool flags_set(const struct flag *f, const char *value, struct err *err)
{
	const struct flag whole = flag_complete(f);

	if (!value && whole.kind != FLAG_BOOL)
		return err_set(err, ERR_INVALID, "-%s needs a value: %s", f->name, f->value);
	if (given_count == GIVEN_MOST)
		return err_set(err, ERR_LIMIT, "more than %d flags", GIVEN_MOST);
	if (!set_flag(&whole, &value, err))
		return false;
	given[given_count].flag = f;
	given[given_count++].value = value;
	return true;
}

bool flags_assume(const struct flag *flags, const char *name, const char *value, struct err *err)
{
	const struct flag *f = flags_find(flags, str_cstr(name));

	return flags_given(f) || flags_set(f, value, err);
}

/* Reads the flag at argv[*i]; moves *i past a value in a word of its own. */
static bool parse_flag(const struct command *c, int argc, char **argv, int *i, struct err *err)
{
	const char *word = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
	const char *equals = strchr(word, '=');
	struct str name = equals ? str_from(word, (size_t)(equals - word)) : str_cstr(word);
	const struct flag *row = flags_find(c->flags, name);
	const struct flag flag = row ? flag_complete(row) : (struct flag){ 0 }, *f = &flag;
	const char *value = equals ? equals + 1 : NULL;

	if (!row)
		return unknown_flag(c, name, err);
	if (f->kind != FLAG_BOOL && !value && *i + 1 < argc)
		value = argv[++*i];
	if (f->secret && value && !strstr(value, "${"))
		fprintf(stderr,
			"flametap: -%s on the command line can be read by every user of this "
			"machine; "
			"prefer ${env:NAME} in a configuration\n",
			f->name);
	return flags_set(row, value, err);
}

static bool is_word(const char *arg)
{
	return arg[0] != '-' || arg[1] == '\0';
}

static bool asks(const char *arg, const char *name)
{
	return strcmp(arg + (arg[1] == '-' ? 2 : 1), name) == 0;
}

static enum flags_outcome read_arguments(const struct command *c, int argc, char **argv,
					 struct words *words, struct err *err)
{
	bool only_words = false;

	for (int i = 0; i < argc; i++) {
		if (only_words || is_word(argv[i])) {
			words->items[words->count++] = argv[i];
		} else if (strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (asks(argv[i], "help-all") || asks(argv[i], "help") ||
			   asks(argv[i], "h")) {
			flags_print_help(c, asks(argv[i], "help-all"));
			return FLAGS_HELP_SHOWN;
		} else if (!parse_flag(c, argc, argv, &i, err)) {
			return FLAGS_ERROR;
		}
	}
	if (words->count > c->words_max) {
		err_set(err, ERR_INVALID, "'%s' takes %s, not \"%s\"", c->name,
			c->words_max ? "fewer words" : "no words", words->items[c->words_max]);
		return FLAGS_ERROR;
	}
	return FLAGS_GO;
}

enum flags_outcome flags_parse(const struct command *c, int argc, char **argv, struct words *words,
			       struct err *err)
{
	enum flags_outcome outcome;

	words->items = calloc((size_t)argc + 1, sizeof(char *));
	words->count = 0;
	outcome = read_arguments(c, argc, argv, words, err);
	if (outcome != FLAGS_GO) {
		free(words->items);
		words->items = NULL;
	}
	return outcome;
}

enum { HELP_COLUMN = 33, HELP_WIDTH = 100 };

/* In lines that begin in the column of the help; a line feed begins a new one. */
static void print_wrapped(const char *text)
{
	size_t column = HELP_COLUMN;

	while (*text) {
		size_t word = strcspn(text, " \n"), gap = column > HELP_COLUMN;

		if (column + gap + word > HELP_WIDTH) {
			printf("\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
			gap = 0;
		}
		printf("%*s%.*s", (int)gap, "", (int)word, text);
		column += gap + word;
		text += word;
		if (*text == '\n')
			column = HELP_WIDTH;
		text += *text != 0;
	}
}

static void append_choices(const struct flag *f, struct buf *out)
{
	if (f->kind != FLAG_CHOICE || strstr(f->help, f->choices[0]))
		return;
	for (size_t i = 0; f->choices[i]; i++)
		if (f->choices[i][0])
			buf_printf(out, "%s%s", i ? ", " : ": ", f->choices[i]);
}

static void print_flag(struct flag f)
{
	AUTO(buf_release) struct buf help = { 0 };
	char left[80];
	int n = snprintf(left, sizeof(left), "  -%s%s%s", f.name, f.value ? " " : "",
			 f.value ? f.value : "");

	buf_printf(&help, "%s", f.help);
	append_choices(&f, &help);
	if (f.fallback && f.fallback[0])
		buf_printf(&help, " (%s)", f.fallback);
	buf_char(&help, '\0');
	if (n >= HELP_COLUMN - 1)
		printf("%s\n", left);
	printf("%-*s", HELP_COLUMN, n >= HELP_COLUMN - 1 ? "" : left);
	print_wrapped(help.ptr);
	printf("\n");
}

static bool group_printed_before(const struct command *c, const struct flag *f)
{
	for (const struct flag *g = c->flags; g != f; g++)
		if (strcmp(g->group, f->group) == 0)
			return true;
	return false;
}

static bool group_has_rows(const struct command *c, const char *group, bool all)
{
	for (const struct flag *f = c->flags; f->name; f++)
		if (strcmp(f->group, group) == 0 && (all || !f->advanced))
			return true;
	return false;
}

void flags_print_help(const struct command *c, bool all)
{
	bool hidden = false;

	printf("%s\n\nUsage: flametap %s%s%s%s\n", c->summary, c->name,
	       c->flags->name ? " [flags]" : "", c->words[0] ? " " : "", c->words);
	for (const char *const *line = c->examples; line && *line; line++)
		printf("  %s\n", *line);
	for (const struct flag *head = c->flags; head->name; head++) {
		hidden |= head->advanced;
		if (group_printed_before(c, head) || !group_has_rows(c, head->group, all))
			continue;
		printf("\n%s\n", head->group);
		for (const struct flag *f = c->flags; f->name; f++)
			if (strcmp(f->group, head->group) == 0 && (all || !f->advanced))
				print_flag(flag_complete(f));
	}
	if (hidden && !all)
		printf("\nMore flags: flametap %s --help-all\n", c->name);
}
