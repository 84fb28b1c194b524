#include "model/profiles.h"

/* WIRE_V1_8 in enum wire_version, which the model cannot include; 0 is a message that was built
 * here. */
enum { SOURCE_VERSION_1_8 = 6 };

struct sample_values sample_values_to_write(const struct profiles *p, const struct profile *profile,
					    const struct sample *s)
{
	const int64_t *given = p->values + s->values.first;
	uint32_t values = s->values.count, timestamps = s->timestamps.count;

	if (!p->source_version || p->source_version >= SOURCE_VERSION_1_8)
		return (struct sample_values){ .given = given, .count = values };
	if (timestamps && values == 1 && *given == 1 &&
	    str_equal(profiles_string(p, profile->sample_type.unit), STR("count")))
		values = 0;
	if (timestamps ? !values || values == timestamps : values == 1)
		return (struct sample_values){ .given = given, .count = values };
	return (struct sample_values){ .count = timestamps ? timestamps : 1,
				       .sum = sample_total(p, profile, s).value };
}
