/*
 * service_name.h - the service of a sender that does not name it (OpenTelemetry, service.name).
 *
 * Where the executable's name is known, it follows a colon: "unknown_service:java".
 */
#pragma once

#define UNKNOWN_SERVICE "unknown_service"
