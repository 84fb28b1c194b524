/* Selectors, times and regexes as people and URLs give them: parsed or refused, in bounded time. */
#include <stdlib.h>
#include "base/regex.h"
#include "fuzz/fuzz.h"
#include "query/select/selector.h"
#include "query/time/time_range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_from(data, size);
	struct selector *s;
	struct regex *r;
	struct err err;
	uint64_t ns;
	bool matches;

	s = selector_parse(text, &err);
	for (uint32_t i = 0; s && i < s->count; i++)
		if (!matcher_match(&s->matchers[i], text, &matches, &err) && err.kind == ERR_NONE)
			abort();
	selector_free(s);
	/* no instant is spelled that long, but for spaces around it */
	if (time_parse(text, UINT64_C(1767225600000000000), &ns, &err) &&
	    str_trim(text).len > 64 + 16)
		abort();
	r = regex_new(text, REGEX_WITHIN, &err);
	if (r && !regex_match(r, STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"), &matches, &err) &&
	    err.kind == ERR_NONE)
		abort();
	regex_free(r);
	return 0;
}
