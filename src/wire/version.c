#include <assert.h>

#include "base/cleanup.h"
#include "wire/otlp.h"

static const char *const names[] = {
	[WIRE_AUTO] = "auto", [WIRE_V1_3] = "1.3", [WIRE_V1_4] = "1.4",
	[WIRE_V1_5] = "1.5",  [WIRE_V1_6] = "1.6", [WIRE_V1_7] = "1.7",
	[WIRE_V1_8] = "1.8",  [WIRE_V1_9] = "1.9", [WIRE_V1_10] = "1.10",
};

const char *wire_version_name(enum wire_version v)
{
	assert((size_t)v < ARRAY_LEN(names));
	return names[v];
}

/* "1.11" and later minors have the newest schema that is known here; "1.8.0" is "1.8". */
bool wire_version_parse(struct str text, enum wire_version *out, struct err *err)
{
	struct str rest = text, part;
	uint64_t number[3] = { 0 };
	size_t parts = 0;

	if (str_is(text, "auto")) {
		*out = WIRE_AUTO;
		return true;
	}
	if (rest.len && (rest.ptr[0] == 'v' || rest.ptr[0] == 'V'))
		rest = str_skip(rest, 1);
	while (str_split(&rest, '.', &part))
		if (parts == 3 || !str_to_u64(part, &number[parts++]))
			goto unknown;
	if (parts < 2 || number[0] != 1 || number[1] < 3 || number[1] > 11)
		goto unknown;
	*out = number[1] >= 10 ? WIRE_V1_10 : (enum wire_version)(WIRE_V1_3 + (number[1] - 3));
	return true;
unknown:
	return err_set(err, ERR_INVALID, "\"%.*s\" is no OTLP profiles version: auto, 1.3 to 1.11",
		       STR_ARG(text));
}
