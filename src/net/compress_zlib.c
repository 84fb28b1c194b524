#include "net/compress_zlib.h"

#include <dlfcn.h>

enum { WINDOW_GZIP_ONLY = 15 + 16 };

bool zlib_open(struct zlib *z, struct err *err)
{
	z->handle = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!z->handle)
		return err_set(err, ERR_UNSUPPORTED,
			       "what is left of broken gzip data can't be read: it needs libz.so.1 "
			       "(Debian: zlib1g)");
	*(void **)&z->init = dlsym(z->handle, "inflateInit2_");
	*(void **)&z->step = dlsym(z->handle, "inflate");
	*(void **)&z->reset = dlsym(z->handle, "inflateReset");
	*(void **)&z->end = dlsym(z->handle, "inflateEnd");
	if (z->init && z->step && z->reset && z->end)
		return true;
	dlclose(z->handle);
	return err_set(err, ERR_UNSUPPORTED, "libz.so.1 lacks a function");
}

void zlib_close(struct zlib *z)
{
	dlclose(z->handle);
}

bool zlib_begin_gzip(const struct zlib *z, z_stream *s)
{
	return z->init(s, WINDOW_GZIP_ONLY, ZLIB_VERSION, (int)sizeof(*s)) == Z_OK;
}
