/*
 * otlp.h - the OTLP receiver's own parts: its state and how a request is answered. The component is
 * otlp_receiver.
 *
 * One request: the server hands over the whole decompressed body; it is decoded on the connection's
 * loop, handed to the pipeline, and answered when the pipeline says what became of it (OTLP spec,
 * "OTLP/gRPC Response", "OTLP/HTTP Response").
 */
#pragma once
#include "base/metrics.h"
#include "net/server.h"
#include "pipeline/component.h"
#include "wire/otlp.h"

enum { OTLP_SIGNAL_COUNT = 3 };

/* Traces, metrics, logs: what a sender may send beside profiles. */
struct otlp_signal {
	const char *name;  /* "traces" */
	const char *items; /* "spans" */
	const char *grpc_path;
	const char *http_path;
	const char *json_rejected; /* "rejectedSpans" */
	/* Keys from the request down to the item, ended by NULL; "*" = any key. */
	const char *json_path[6];
};
extern const struct otlp_signal otlp_signals[OTLP_SIGNAL_COUNT];

struct otlp_tls_config {
	const char *cert_file, *key_file, *client_ca_file, *min_version, *max_version;
	const char *cert_pem, *key_pem;
	uint64_t reload_interval_ns;
};

struct otlp_grpc_config {
	bool enabled;
	const char *endpoint;
	struct config_strings extra_endpoints;
	const char *transport;
	uint32_t max_recv_msg_size_mib;
	uint32_t max_concurrent_streams;
	uint64_t read_buffer_size, write_buffer_size;
	bool tls_enabled, include_metadata;
	struct otlp_tls_config tls;
};

struct otlp_http_config {
	bool enabled;
	const char *endpoint;
	uint64_t max_request_body_size;
	bool tls_enabled, include_metadata;
	struct otlp_tls_config tls;
};

struct otlp_signal_route {
	struct otlp_receiver *receiver;
	const struct otlp_signal *signal;
};

struct otlp_receiver {
	/* options */
	struct {
		struct otlp_grpc_config grpc;
		struct otlp_http_config http;
	} protocols;
	const char *wire_version_text;
	int validation;                 /* enum otlp_validation */
	int other_signals;              /* enum otlp_other_signals */
	enum wire_version wire_version; /* of wire_version_text, once checked */

	/* run time */
	const struct component_host *host;
	struct otlp_counters *counters;
	struct net_app *grpc_app, *http_app;
	struct tls_context *grpc_tls, *http_tls;
	struct net_listener *listeners[20];
	unsigned listener_count;
	struct otlp_signal_route signal_routes[OTLP_SIGNAL_COUNT];
};

enum otlp_validation { OTLP_VALIDATION_DEFAULT, OTLP_VALIDATION_STRICT, OTLP_VALIDATION_LENIENT };
enum otlp_other_signals { OTLP_OTHER_DEFAULT, OTLP_OTHER_REFUSE, OTLP_OTHER_REJECT_EACH };

bool otlp_receiver_strict(const struct otlp_receiver *r);
bool otlp_receiver_answers_other_signals(const struct otlp_receiver *r);

struct otlp_counters *otlp_counters_new(struct metrics *metrics, const char *id);
void otlp_counters_free(struct otlp_counters *c);

/* Handlers: ctx is the struct otlp_receiver, or for other signals a struct otlp_signal_route. */
void otlp_handle_profiles(struct net_request *r, struct blob *body, void *ctx);

void otlp_handle_other_signal(struct net_request *r, struct blob *body, void *ctx);
/* Number of items in a request body; false when it is broken. */
bool otlp_signal_count_protobuf(const struct otlp_signal *s, struct str body, uint64_t *count,
				struct err *err) MUST_CHECK;
bool otlp_signal_count_json(const struct otlp_signal *s, struct str body, uint64_t *count,
			    struct err *err) MUST_CHECK;

/* The status of an outcome or an error: OTLP spec, "Failures"; google.rpc codes. */
int otlp_grpc_code(enum err_kind kind, bool retryable);
int otlp_http_status(int grpc_code);
bool otlp_request_is_json(const struct net_request *r);
/* Answers with a google.rpc.Status in the request's protocol and encoding; retry_after_ns 0 = no
 * hint. */
void otlp_reply_error(struct net_request *r, int grpc_code, struct str message,
		      uint64_t retry_after_ns);
/* Answers success with an Export response, partial when rejected or message say so. */
void otlp_reply_success(struct net_request *r, int64_t rejected, struct str message);
/* For struct net_app_options. */
void otlp_error_body(struct net_request *r, int http_status, struct str message, struct buf *out,
		     const char **content_type);
