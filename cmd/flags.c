#include "flags_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/text.h"
#include "wire/otlp.h"

enum { FLAGS_MAX = 128 };

static const void *given[FLAGS_MAX];
static unsigned given_count;

bool flags_given_before(const void *target, unsigned mark)
{
	for (unsigned i = 0; i < given_count && i < mark; i++)
		if (given[i] == target)
			return true;
	return false;
}

bool flags_given(const void *target)
{
	return flags_given_before(target, given_count);
}

unsigned flags_mark(void)
{
	return given_count;
}

void flags_forget(unsigned mark)
{
	given_count = mark;
}

static const struct flag *find_flag(const struct command *c, struct str name)
{
	for (const struct flag *f = c->flags; f->name; f++)
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

static bool set_bool(const struct flag *f, const char *value, struct err *err)
{
	bool *target = f->target;

	if (!value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0 ||
	    strcmp(value, "t") == 0)
		*target = true;
	else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcmp(value, "f") == 0)
		*target = false;
	else
		return err_set(err, ERR_INVALID, "-%s is true or false, not \"%s\"", f->name,
			       value);
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

static bool check_number(const struct command *c, const struct flag *f, const char *value,
			 struct err *err)
{
	uint64_t number;

	if (!str_to_u64(str_cstr(value), &number))
		return err_set(err, ERR_INVALID, "-%s takes a whole number, not \"%s\"", f->name,
			       value);
	for (const struct flag_range *r = c->ranges; r && r->name; r++)
		if (strcmp(r->name, f->name) == 0 && (number < r->least || number > r->most))
			return err_set(err, ERR_INVALID, "-%s is %llu to %llu, not %s", f->name,
				       (unsigned long long)r->least, (unsigned long long)r->most,
				       value);
	return true;
}

static bool set_flag(const struct command *c, const struct flag *f, const char *value,
		     struct err *err)
{
	uint64_t number;

	switch (f->kind) {
	case FLAG_BOOL:
		return set_bool(f, value, err);
	case FLAG_LIST:
		return set_list(f, value, err);
	case FLAG_STEP:
		return add_step(f, value, err);
	case FLAG_UINT:
		if (!check_number(c, f, value, err))
			return false;
		break;
	case FLAG_SIZE:
		if (!text_parse_size(str_cstr(value), &number, err))
			return err_prefix(err, "-%s", f->name);
		break;
	case FLAG_DURATION:
		if (!duration_parse(str_cstr(value), &number, err))
			return err_prefix(err, "-%s", f->name);
		break;
	case FLAG_CHOICE:
		if (!check_choice(f, value, err))
			return false;
		break;
	case FLAG_WIRE_VERSION:
		if (!check_version(f, &value, err))
			return false;
		break;
	case FLAG_STRING:
		break;
	}
	*(const char **)f->target = value;
	return true;
}

static void remember_given(const struct flag *f)
{
	if (given_count < FLAGS_MAX)
		given[given_count++] = f->target;
}

bool flags_set(const struct command *c, const struct flag *f, const char *value, struct err *err)
{
	remember_given(f);
	return set_flag(c, f, value, err);
}

/* Reads the flag at argv[*i]; moves *i past a value in a word of its own. */
static bool parse_flag(const struct command *c, int argc, char **argv, int *i, struct err *err)
{
	const char *word = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
	const char *equals = strchr(word, '=');
	struct str name = equals ? str_from(word, (size_t)(equals - word)) : str_cstr(word);
	const struct flag *f = find_flag(c, name);
	const char *value = equals ? equals + 1 : NULL;

	if (!f)
		return unknown_flag(c, name, err);
	if (f->kind != FLAG_BOOL && !value) {
		if (*i + 1 >= argc)
			return err_set(err, ERR_INVALID, "-%s needs a value: %s", f->name,
				       f->value);
		value = argv[++*i];
	}
	if (f->secret && !strstr(value, "${"))
		fprintf(stderr,
			"flametap: -%s on the command line can be read by every user of this "
			"machine; "
			"prefer ${env:NAME} in a configuration\n",
			f->name);
	return flags_set(c, f, value, err);
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

/* A line feed goes on in the column of the text. */
static void print_lines(const char *text)
{
	for (; *text; text++) {
		putchar(*text);
		if (*text == '\n')
			printf("%33s", "");
	}
}

static void print_flag(const struct flag *f)
{
	char left[80];
	int n = snprintf(left, sizeof(left), "  -%s%s%s", f->name, f->value ? " " : "",
			 f->value ? f->value : "");

	if (n > 31)
		printf("%s\n%33s", left, "");
	else
		printf("%-33s", left);
	print_lines(f->help);
	if (f->fallback && f->fallback[0])
		printf(" (%s)", f->fallback);
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
				print_flag(f);
	}
	if (hidden && !all)
		printf("\nMore flags: flametap %s --help-all\n", c->name);
}
