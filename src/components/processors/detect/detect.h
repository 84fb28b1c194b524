/*
 * detect.h - the detectors of the resourcedetection processor: what a machine, its environment, its
 * container engine or its cloud says of it, as attributes of resources.
 *
 * A detector blocks until it knows or the time is over; it runs at start, on the main thread.
 * Memory: what it found lies in the arena of `struct detected`.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "model/profiles.h"

enum { DETECTED_MOST = 256 };

struct detected {
	struct arena *arena;
	struct key_value pairs[DETECTED_MOST];
	uint32_t count;
};
/* The first detector's word counts: a key that is there stays. Texts are copied; an empty one is
 * not added. */
void detected_add(struct detected *d, const char *key, struct str value);

struct detect_options {
	uint64_t deadline_ns;                /* monotonic */
	const char *const *hostname_sources; /* system */
	uint32_t hostname_source_count;
	const char *node_variable; /* k8snode: names this node */
	bool anonymous;            /* k8snode: without the service account, and unverified */
};

struct detect_attribute {
	const char *name;
	bool enabled; /* by default */
};

struct detector {
	const char *name;
	const struct detect_attribute *attributes; /* ends with a NULL name; NULL: any */
	/* False: it could not be asked (retried until the deadline). */
	bool (*detect)(const struct detect_options *o, struct detected *out, struct err *err);
};
extern const struct detector *const detectors[]; /* NULL-terminated */
extern const struct detector detector_env, detector_system, detector_docker, detector_ec2,
	detector_gcp, detector_azure, detector_k8snode;

/* ---- for detectors that ask by HTTP ---- */

struct detect_request {
	const char *unix_socket;  /* NULL: none */
	const char *url, *header; /* "Metadata: true" or NULL */
	const char *method;       /* NULL: GET */
	const char *ca_file;      /* https: whom to trust */
	bool unverified;          /* https: trust anybody */
	uint64_t deadline_ns;
};
/* The body of a 200, in `out`. No proxy, no redirects, at most a MiB. */
bool detect_http(const struct detect_request *r, struct buf *out, struct err *err) MUST_CHECK;
/* The text or number at a path such as "compute/vmId"; empty when it is not there or the body is no
 * JSON. */
struct str detect_json(struct arena *arena, struct str body, const char *path);
