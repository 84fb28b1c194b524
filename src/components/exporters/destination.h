/*
 * destination.h - the labels server_address, server_port and url_path of an exporter's metrics, as
 * the Collector makes them.
 *
 * Results borrow from the text. Threads: values, no state.
 */
#pragma once
#include "pipeline/component.h"

/* gRPC: "host:port" and "[::1]:4317" are taken apart; whatever else is the address as it stands. */
struct component_destination destination_of_endpoint(struct str endpoint);
/* http://host:port/path; no port where none is written. */
struct component_destination destination_of_url(struct str url);
