/*
 * seal.h - the one place where a message's references are checked: every producer of a struct
 * profiles (protobuf and JSON decoders, the builder) calls this last.
 *
 * A reference is good when it is below its table's count. A bad one becomes 0 and a record in
 * bad_indices; with `strict`, each profile that reaches a bad one, by whatever way through the
 * dictionary, is marked refused. Ranges are the producer's own invariant and are not checked.
 * Extras and bad indices are sorted, runs of unknown fields of one message joined. Source: OTLP
 * profiles.proto, the comments on each index field.
 */
#pragma once
#include "model/profiles.h"

/* False (ERR_LIMIT) when the records of bad indices do not fit the arena's limit: the message is
 * sealed, they are not kept. */
bool profiles_seal(struct profiles *p, bool strict, struct err *err) MUST_CHECK;
