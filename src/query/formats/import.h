/*
 * import.h - reads a profile into the model: OTLP (protobuf and JSON, every wire version).
 *
 * The bytes are decompressed already. Memory: the result takes its own reference of the bytes where
 * it borrows from them. Threads: no state.
 */
#pragma once
#include "base/blob.h"
#include "model/profiles.h"

bool import_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;
