/*
 * json_transcode.h - a JSON body as the protobuf body that it means, by the schema of one version.
 *
 * Only names are looked up here; what the values mean (indices, defaults, merging of equal keys) is
 * then the protobuf decoder's, so that both encodings have one meaning: of equal keys the last
 * scalar counts, messages merge, lists join.
 */
#pragma once
#include "base/buf.h"
#include "wire/otlp.h"

struct json_transcoded {
	struct buf protobuf;
	uint32_t unknown_keys;   /* passed over; one whose value is null says nothing and is none */
	uint64_t unknown_values; /* those keys and all that was below them */
	uint64_t unknown_structure;   /* of them those below a key that only another version has for
					 its tables, samples or stacks */
	uint64_t samples;             /* read */
	uint64_t unknown_samples;     /* lists of samples, not empty, that were passed over */
	uint32_t renamed_keys;        /* known, by the name that another version has for them */
	bool keys_of_another_version; /* among the unknown ones */
	bool other_shape;       /* failed, but not in JSON's grammar: another version might fit */
	char first_unknown[64]; /* "locationsLength in Sample" */
};

/* `out` is released by the caller in any case: buf_release(&out->protobuf). */
bool json_transcode(struct str body, enum wire_version version, uint32_t depth_limit,
		    struct json_transcoded *out, struct err *err) MUST_CHECK;

/*
 * By the version whose keys fit best: the newest unless it leaves keys that another one knows, or
 * names them otherwise ("sample" is v1.8's and "samples" v1.9's). First decides the structure: a
 * version that must pass over tables, samples or stacks is not the one. Then the least passed over
 * (a key counts with all below it: a field of a later version may have any name), then fewest
 * renamed keys, then the newest.
 * Gives which, and `out` as above.
 */
bool json_transcode_by_keys(struct str body, uint32_t depth_limit, struct json_transcoded *out,
			    enum wire_version *version, struct err *err) MUST_CHECK;

/* How deep JSON nests for AnyValues nested `any_values` deep (0 = 64). */
uint32_t json_depth_limit(uint32_t any_values);
