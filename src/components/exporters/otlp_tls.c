#include "components/exporters/otlp_tls.h"

#include <string.h>

#include "components/exporters/exporters.h"

/* clang-format off */
const struct config_field otlp_tls_fields[] = {
	EXPORTER_FIELD("insecure", CONFIG_BOOL, offsetof(struct otlp_tls, insecure), "false", "no TLS"),
	EXPORTER_FIELD("insecure_skip_verify", CONFIG_BOOL, offsetof(struct otlp_tls, insecure_skip_verify), "false",
		       "TLS with any certificate"),
	EXPORTER_FIELD("ca_file", CONFIG_STRING, offsetof(struct otlp_tls, ca_file), NULL,
		       "CA of the peer's certificate; default: the system's"),
	EXPORTER_FIELD("ca_pem", CONFIG_STRING, offsetof(struct otlp_tls, ca_pem), NULL, "the same as text"),
	EXPORTER_FIELD("cert_file", CONFIG_STRING, offsetof(struct otlp_tls, cert_file), NULL, "our certificate, for peers that ask for one"),
	EXPORTER_FIELD("cert_pem", CONFIG_STRING, offsetof(struct otlp_tls, cert_pem), NULL, "the same as text"),
	EXPORTER_FIELD("key_file", CONFIG_STRING, offsetof(struct otlp_tls, key_file), NULL, "its key"),
	EXPORTER_FIELD("key_pem", CONFIG_SECRET, offsetof(struct otlp_tls, key_pem), NULL, "the same as text"),
	EXPORTER_FIELD("server_name_override", CONFIG_STRING, offsetof(struct otlp_tls, server_name_override), NULL,
		       "the name that the peer's certificate must have; default: the endpoint's host"),
	EXPORTER_FIELD("min_version", CONFIG_STRING, offsetof(struct otlp_tls, min_version), "1.2", "1.2 or 1.3"),
	EXPORTER_FIELD("max_version", CONFIG_STRING, offsetof(struct otlp_tls, max_version), NULL, "1.2 or 1.3; default: the newest"),
	EXPORTER_FIELD("reload_interval", CONFIG_DURATION, offsetof(struct otlp_tls, reload_interval_ns), "0",
		       "how often certificates are read again; 0: on SIGHUP"),
	{ 0 },
};
/* clang-format on */

static bool both_or_none(const char *file, const char *pem, const char *what, struct err *err)
{
	if (file && pem)
		return err_set(err, ERR_INVALID, "tls: give either %s_file or %s_pem, not both",
			       what, what);
	return true;
}

static bool version_known(const char *name, const char *version, struct err *err)
{
	if (version && *version && strcmp(version, "1.2") != 0 && strcmp(version, "1.3") != 0)
		return err_set(err, ERR_INVALID, "tls: %s is \"%s\", 1.2 and 1.3 are possible",
			       name, version);
	return true;
}

bool otlp_tls_check(const struct otlp_tls *t, struct err *err)
{
	if (!both_or_none(t->ca_file, t->ca_pem, "ca", err) ||
	    !both_or_none(t->cert_file, t->cert_pem, "cert", err) ||
	    !both_or_none(t->key_file, t->key_pem, "key", err) ||
	    !version_known("min_version", t->min_version, err) ||
	    !version_known("max_version", t->max_version, err))
		return false;
	if ((t->cert_file || t->cert_pem) != (t->key_file || t->key_pem))
		return err_set(err, ERR_INVALID,
			       "tls: a certificate and its key go together, only the %s is given",
			       t->cert_file || t->cert_pem ? "certificate" : "key");
	if (t->min_version && t->max_version && *t->max_version &&
	    strcmp(t->min_version, t->max_version) > 0)
		return err_set(err, ERR_INVALID, "tls: min_version %s is above max_version %s",
			       t->min_version, t->max_version);
	return true;
}

static const char *or_null(const char *text)
{
	return text && *text ? text : NULL;
}

struct tls_options otlp_tls_options(const struct otlp_tls *t)
{
	return (struct tls_options){
		.cert_file = or_null(t->cert_file),
		.key_file = or_null(t->key_file),
		.ca_file = or_null(t->ca_file),
		.cert_pem = or_null(t->cert_pem),
		.key_pem = or_null(t->key_pem),
		.ca_pem = or_null(t->ca_pem),
		.server_name = or_null(t->server_name_override),
		.insecure_skip_verify = t->insecure_skip_verify,
		.min_version = or_null(t->min_version),
		.max_version = or_null(t->max_version),
		.reload_interval_ns = t->reload_interval_ns,
	};
}
