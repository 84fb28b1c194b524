/*
 * curl_lib.h - libcurl as a table of functions, loaded on first use.
 *
 * Linked, it would cost every process 7.7 MB of memory, and most speak gRPC only. The prototypes
 * are libcurl's own.
 */
#pragma once
#define CURL_DISABLE_TYPECHECK /* its macros stand in the way of calls through a table */
#include <curl/curl.h>
#include "base/err.h"

#define CURL_FUNCTIONS(X)           \
	X(curl_global_init)         \
	X(curl_easy_init)           \
	X(curl_easy_cleanup)        \
	X(curl_easy_setopt)         \
	X(curl_easy_perform)        \
	X(curl_easy_getinfo)        \
	X(curl_easy_strerror)       \
	X(curl_multi_init)          \
	X(curl_multi_cleanup)       \
	X(curl_multi_setopt)        \
	X(curl_multi_add_handle)    \
	X(curl_multi_remove_handle) \
	X(curl_multi_perform)       \
	X(curl_multi_poll)          \
	X(curl_multi_wakeup)        \
	X(curl_multi_info_read)     \
	X(curl_multi_strerror)      \
	X(curl_slist_append)        \
	X(curl_slist_free_all)      \
	X(curl_url)                 \
	X(curl_url_set)             \
	X(curl_url_get)             \
	X(curl_url_cleanup)         \
	X(curl_url_strerror)        \
	X(curl_free)

struct curl_lib {
#define X(name) __typeof__(&name) name;
	CURL_FUNCTIONS(X)
#undef X
};

/* NULL when the library or one of the functions is missing. Any thread. */
const struct curl_lib *curl_lib_load(struct err *err);
