/*
 * descriptors.h - the schemas of OTLP profiles, and of gRPC's own services, as serialized
 * FileDescriptorProtos, for gRPC server reflection.
 *
 * Made once, on first use, from a table of our own (source: opentelemetry-proto v1.11.0 and, for
 * v1experimental, v1.3.2; grpc.health.v1, grpc.reflection.v1 and v1alpha). Memory: for the life of
 * the process. Threads: any.
 */
#pragma once
#include <stddef.h>
#include "base/str.h"

struct otlp_descriptor {
	const char *name; /* "opentelemetry/proto/profiles/v1development/profiles.proto" */
	struct str bytes; /* a serialized FileDescriptorProto */
};

/* Number of files, dependencies first; *files is valid for the life of the process. */
size_t otlp_descriptors(const struct otlp_descriptor **files);
