#include "formats/pprof_drop.h"

#include "base/cleanup.h"
#include "base/regex.h"

static bool compile_pattern(const char *field, struct str pattern, struct regex **out,
			    struct err *err)
{
	if (!pattern.len)
		return true;
	*out = regex_new(pattern, REGEX_WHOLE, err);
	return *out || err_prefix(err, "pprof: %s", field);
}

bool pprof_drop_init(struct pprof_drop *d, struct str drop, struct str keep, struct err *err)
{
	*d = (struct pprof_drop){ 0 };
	return !drop.len || (compile_pattern("drop_frames", drop, &d->drop, err) &&
			     compile_pattern("keep_frames", keep, &d->keep, err));
}

void pprof_drop_release(struct pprof_drop *d)
{
	regex_free(d->drop);
	regex_free(d->keep);
}

/* Of what a C++ name has in brackets although it is no parameter; 0: something else. */
static size_t length_of_part(struct str rest)
{
	static const struct str parts[] = { { "(anonymous namespace)", 21 }, { "operator()", 10 } };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (str_has_prefix(rest, parts[i]))
			return parts[i].len;
	return 0;
}

static struct str without_parameters(struct str name)
{
	size_t at = 0;

	if (name.len && name.ptr[0] == '.')
		name = str_skip(name, 1);
	while (at < name.len) {
		size_t part = length_of_part(str_skip(name, at));

		if (!part && name.ptr[at] == '(')
			break;
		at += part ? part : 1;
	}
	return str_head(name, at);
}

bool pprof_drop_matches(const struct pprof_drop *d, struct str function, bool *matches,
			struct err *err)
{
	struct str name = without_parameters(function);
	bool kept = false;

	*matches = false;
	if (!d->drop || !function.len)
		return true;
	if (!regex_match(d->drop, name, matches, err))
		return err_prefix(err, "pprof: drop_frames");
	if (*matches && d->keep && !regex_match(d->keep, name, &kept, err))
		return err_prefix(err, "pprof: keep_frames");
	*matches &= !kept;
	return true;
}

uint32_t pprof_drop_count(const enum pprof_frame *stack, uint32_t count)
{
	bool rooted = false; /* below a frame that stays */

	for (uint32_t i = count; i > 0; i--) {
		if (stack[i - 1] == PPROF_KEPT)
			rooted = true;
		else if (rooted)
			return stack[i - 1] == PPROF_DROPPED ? i : i - 1;
	}
	return 0;
}
