/*
 * otlp_tls.h - the `tls` section of the OTLP exporters, as the Collector spells it (configtls,
 * client side).
 */
#pragma once
#include "net/tls.h"
#include "pipeline/options.h"

struct otlp_tls {
	bool insecure; /* no TLS at all, where the endpoint's scheme does not say otherwise */
	bool insecure_skip_verify;
	const char *ca_file, *ca_pem, *cert_file, *cert_pem, *key_file, *key_pem;
	const char *server_name_override, *min_version, *max_version;
	uint64_t reload_interval_ns; /* 0 = only on SIGHUP */
};

extern const struct config_field otlp_tls_fields[];

bool otlp_tls_check(const struct otlp_tls *t, struct err *err) MUST_CHECK;
/* The strings stay t's own. */
struct tls_options otlp_tls_options(const struct otlp_tls *t);
