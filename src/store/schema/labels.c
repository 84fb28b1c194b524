#include "store/schema/labels.h"

#include "base/cleanup.h"

static const struct str names[LABEL_KEYS] = {
	[LABEL_SERVICE] = { "service.name", 12 },
	[LABEL_EXECUTABLE] = { "process.executable.name", 23 },
	[LABEL_HOST] = { "host.name", 9 },
	[LABEL_CONTAINER_ID] = { "container.id", 12 },
	[LABEL_CONTAINER] = { "container.name", 14 },
	[LABEL_POD] = { "k8s.pod.name", 12 },
	[LABEL_NAMESPACE] = { "k8s.namespace.name", 18 },
	[LABEL_DEPLOYMENT] = { "k8s.deployment.name", 19 },
	[LABEL_ENVIRONMENT] = { "deployment.environment.name", 27 },
	[LABEL_PROFILER] = { "", 0 },
};

static char plain(char c)
{
	bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

	return letter ? c : '_';
}

/* Same but for punctuation: wider than what queries take for one key. */
static bool is_alike(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (a.ptr[i] != b.ptr[i] && plain(a.ptr[i]) != plain(b.ptr[i]))
			return false;
	return true;
}

enum label_key label_key_of(struct str key, bool *exact)
{
	for (unsigned i = 0; i < LABEL_PROFILER; i++) {
		if (!is_alike(key, names[i]))
			continue;
		*exact = str_equal(key, names[i]);
		return (enum label_key)i;
	}
	*exact = false;
	return LABEL_NONE;
}

/* The first one that is text, and not empty. */
static const struct key_value *text_of(struct key_values list, struct str key)
{
	for (uint32_t i = 0; i < list.count; i++) {
		const struct key_value *kv = &list.ptr[i];

		if (str_equal(kv->key, key) && kv->value.kind == ANY_STRING)
			return kv->value.string.len ? kv : NULL;
	}
	return NULL;
}

const struct key_value *label_profiler(struct key_values resource)
{
	const struct key_value *host = text_of(resource, STR("host.id"));

	if (text_of(resource, STR("telemetry.sdk.name")))
		return NULL;
	return host ? host : text_of(resource, STR("host.name"));
}

bool label_keys_asked(const struct str *keys, uint32_t count, uint32_t *bits)
{
	*bits = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool exact;
		enum label_key k = label_key_of(keys[i], &exact);

		if (k == LABEL_NONE)
			return false;
		*bits |= 1u << k;
		if (k == LABEL_SERVICE) /* is made of it where nobody says one */
			*bits |= 1u << LABEL_EXECUTABLE;
	}
	return true;
}
