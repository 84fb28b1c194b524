#include "model/profiles.h"

/* WIRE_V1_8 in enum wire_version, which the model cannot include; 0 is a message that was built
 * here. */
enum { SOURCE_VERSION_1_8 = 6 };

struct range sample_values_to_write(const struct profiles *p, const struct profile *profile,
				    const struct sample *s)
{
	struct range none = { 0 };
	int64_t v;

	if (!p->source_version || p->source_version >= SOURCE_VERSION_1_8 || s->values.count != 1 ||
	    s->timestamps.count < 2 ||
	    !str_equal(profiles_string(p, profile->sample_type.unit), STR("count")))
		return s->values;
	v = p->values[s->values.first];
	return v == 1 ? none : s->values;
}
