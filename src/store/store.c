#include "store/store.h"

#include <stdlib.h>

#include "store/clickhouse/server.h"

static bool is_url(const char *location)
{
	return strstr(location, "://") != NULL;
}

bool store_open(const struct store_open_options *options, struct store **out, struct err *err)
{
	return is_url(options->location) ? ch_open(options, out, err)
					 : sqlite_open(options, out, err);
}

char *store_name(const char *location)
{
	struct ch_endpoint endpoint;
	struct err ignored;
	char *name;

	if (!is_url(location) || !ch_endpoint_parse(location, &endpoint, &ignored))
		return strdup(location);
	name = ch_endpoint_store(&endpoint, NULL);
	ch_endpoint_release(&endpoint);
	return name;
}
