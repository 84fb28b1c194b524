#include "net/curl_lib.h"

#include <dlfcn.h>
#include <pthread.h>

static struct {
	pthread_once_t once;
	struct curl_lib table;
	struct err err; /* ERR_NONE: loaded */
} loaded = { .once = PTHREAD_ONCE_INIT };

static bool find(void *library, const char *name, void **out)
{
	*out = dlsym(library, name);
	if (!*out)
		return err_set(&loaded.err, ERR_UNSUPPORTED,
			       "HTTP needs libcurl 7.68 or newer, whose %s is missing here", name);
	return true;
}

static void load_once(void)
{
	void *curl = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

	if (!curl) {
		err_set(&loaded.err, ERR_UNSUPPORTED,
			"HTTP needs libcurl.so.4 (Debian: libcurl4): %s", dlerror());
		return;
	}
#define X(name)                                              \
	if (!find(curl, #name, (void **)&loaded.table.name)) \
		return;
	CURL_FUNCTIONS(X)
#undef X
	if (loaded.table.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		err_set(&loaded.err, ERR_INTERNAL, "libcurl cannot be initialised");
}

const struct curl_lib *curl_lib_load(struct err *err)
{
	pthread_once(&loaded.once, load_once);
	if (loaded.err.kind != ERR_NONE) {
		*err = loaded.err;
		return NULL;
	}
	return &loaded.table;
}
