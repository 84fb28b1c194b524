/*
 * up_page.h - `flametap up` as a client of a page: is one there already, whose, and the demo's
 * profiles.
 *
 * Plain HTTP/1.1 over one connection a request; a second or two at most. Threads: the caller's.
 */
#pragma once
#include <stdbool.h>
#include "base/str.h"

/* Does a page of flametap's answer at "host:port"? With or without a secret, which is not sent. */
bool up_page_is_there(const char *address);
/* Does it answer, and with no word of HTTP? */
bool up_page_is_tls(const char *address);
/* The store that a process writes, by the lock that it holds: "pid 1234 (flametap)". False: none,
 * or we may not look. */
bool up_page_store(const char *holder, char *out, size_t room);
/*
 * "HOST:0": a free port of it is taken and kept, and the address with it written. A socket that is
 * bound and does not listen keeps everybody else from it; one with SO_REUSEADDR may still listen
 * there. -1: another port is asked for, or none is free. The socket is the caller's to close.
 */
int up_page_take_port(const char *address, char *out, size_t room);
/* Forks a process that sends the recorded profiles of the demo once the page answers. */
void up_demo_start(const char *address, const char *token);
