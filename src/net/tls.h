/*
 * tls.h - TLS contexts for servers and clients. libssl is loaded on first use only (it costs 3.5 MB
 * of memory).
 *
 * A context reads its files when made and again on tls_context_reload(); a reload that fails leaves
 * the old certificate in use and says why. Threads: any; connections take the context that is
 * current when they begin. A context is freed after the listeners and clients that use it. Errors
 * name the file.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

struct tls_context;

struct tls_options {
	bool server;
	const char *cert_file, *key_file; /* PEM; server: required */
	const char *ca_file; /* server: client CA (asks for and requires client certificates);
				client: roots, NULL = system */
	const char *cert_pem, *key_pem, *ca_pem; /* text instead of files */
	const char *server_name;   /* client: SNI and name check, NULL = from the endpoint */
	bool insecure_skip_verify; /* client */
	const char *min_version;   /* "1.2" (default), "1.3" */
	const char *max_version;
	bool alpn_h2_only;           /* client of gRPC */
	uint64_t reload_interval_ns; /* read the files again at a handshake this long after the last
					time; 0 = never */
};

struct tls_context *tls_context_new(const struct tls_options *options, struct err *err) MUST_CHECK;
bool tls_context_reload(struct tls_context *c, struct err *err) MUST_CHECK;
void tls_context_free(struct tls_context *c);
