#include "net/tls_lib.h"

#include <dlfcn.h>
#include <pthread.h>

static struct {
	pthread_once_t once;
	struct tls_lib table;
	struct err err; /* ERR_NONE: loaded */
} loaded = { .once = PTHREAD_ONCE_INIT };

static bool find(void *library, const char *name, void **out)
{
	*out = dlsym(library, name);
	if (!*out)
		return err_set(&loaded.err, ERR_UNSUPPORTED,
			       "TLS needs OpenSSL 3, whose %s is missing here", name);
	return true;
}

static void load_once(void)
{
	void *ssl = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
	void *crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);

	if (!ssl || !crypto) {
		err_set(&loaded.err, ERR_UNSUPPORTED,
			"TLS needs libssl.so.3 and libcrypto.so.3 (Debian: libssl3): %s",
			dlerror());
		return;
	}
#define X(name)                                             \
	if (!find(ssl, #name, (void **)&loaded.table.name)) \
		return;
	TLS_SSL_FUNCTIONS(X)
#undef X
#define X(name)                                                \
	if (!find(crypto, #name, (void **)&loaded.table.name)) \
		return;
	TLS_CRYPTO_FUNCTIONS(X)
#undef X
}

const struct tls_lib *tls_lib_load(struct err *err)
{
	pthread_once(&loaded.once, load_once);
	if (loaded.err.kind != ERR_NONE) {
		*err = loaded.err;
		return NULL;
	}
	return &loaded.table;
}
