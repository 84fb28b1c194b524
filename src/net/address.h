/*
 * address.h - where a server listens: the texts that users write, the socket, and who holds a port
 * already.
 *
 * "host:port", "[::1]:4317", ":4317" (all addresses), "localhost:0" (127.0.0.1 first, as Go does),
 * "unix:///path".
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include "base/err.h"

enum { ADDRESS_TEXT = 160 };

/* A listening, non-blocking socket, or -1. ERR_BUSY names the port and its holder as far as /proc
 * tells. */
int address_listen(const char *text, struct err *err);
/* "127.0.0.1:4317", "[::]:4317", "unix:///path" */
void address_format(const struct sockaddr *sa, socklen_t len, char out[ADDRESS_TEXT]);
/* "pid 1234 (nginx)" of the process that listens on a TCP port; false when unknown. Reads /proc. */
bool address_find_holder(unsigned port, char *out, size_t cap);
