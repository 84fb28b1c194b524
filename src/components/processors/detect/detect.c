#include "components/processors/detect/detect.h"

#include <assert.h>

const struct detector *const detectors[] = { &detector_env,     &detector_system,
					     &detector_docker,  &detector_ec2,
					     &detector_gcp,     &detector_azure,
					     &detector_k8snode, NULL };

void detected_add(struct detected *d, const char *key, struct str value)
{
	struct key_value *kv = &d->pairs[d->count];

	if (!value.len || d->count == DETECTED_MOST ||
	    key_values_find((struct key_values){ d->pairs, d->count }, str_cstr(key)))
		return;
	*kv = (struct key_value){ .key = str_dup(d->arena, str_cstr(key)),
				  .value = { .kind = ANY_STRING,
					     .string = str_dup(d->arena, value) } };
	assert(kv->key.ptr && kv->value.string.ptr);
	d->count++;
}
