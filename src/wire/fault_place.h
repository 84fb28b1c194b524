/*
 * fault_place.h - where in a broken body a fault lies, for people: the path of the innermost
 * message that is not whole, in its version's names. Private to src/wire.
 */
#pragma once
#include "wire/otlp.h"
#include "wire/pb_reader.h"

struct fault_place {
	const uint8_t *at;
	enum pb_fault fault;
	bool cut;                  /* `at` begins a message of which only whole fields are there: */
	uint64_t announced, there; /* its bytes */
};

/*
 * Appends "resource_profiles[0].scope_profiles[2].profiles[0].sample[17]" (nothing for the request
 * itself) for the reader's fault, which lies in the body. Of a message that is cut short, the
 * innermost one's fault is given.
 */
struct fault_place fault_place_append(struct buf *path, struct str body, enum wire_version version,
				      const struct pb_reader *r);
