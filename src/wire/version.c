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

bool wire_version_minor(struct str text, uint64_t *minor)
{
	struct str rest = text, part;
	uint64_t number[3] = { 0 };
	size_t parts = 0;

	if (rest.len && (rest.ptr[0] == 'v' || rest.ptr[0] == 'V'))
		rest = str_skip(rest, 1);
	while (str_split(&rest, '.', &part))
		if (parts == 3 || !str_to_u64(part, &number[parts++]))
			return false;
	if (parts < 2 || number[0] != 1)
		return false;
	*minor = number[1];
	return true;
}

/* "1.11" has the newest schema that is known here, too. */
bool wire_version_parse(struct str text, enum wire_version *out, struct err *err)
{
	uint64_t minor;

	if (str_is(text, "auto")) {
		*out = WIRE_AUTO;
		return true;
	}
	if (!wire_version_minor(text, &minor) || minor < 3 || minor > 11)
		return err_set(err, ERR_INVALID,
			       "\"%.*s\" is not an OTLP profiles version: auto, 1.3 to 1.11",
			       STR_ARG(text));
	*out = minor >= 10 ? WIRE_V1_10 : (enum wire_version)(WIRE_V1_3 + (minor - 3));
	return true;
}
