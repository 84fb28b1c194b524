/*
 * up_page.h - `flametap up` as a client of a page: is one there already, and the demo's profiles.
 *
 * Plain HTTP/1.1 over one connection a request; a second or two at most. Threads: the caller's.
 */
#pragma once
#include <stdbool.h>
#include "base/str.h"

/* Does a page of flametap's answer at "host:port"? With or without a secret, which is not sent. */
/* Does it answer, and with no word of HTTP? */
bool up_page_is_tls(const char *address);
/* "HOST:0": the same with a port that is free now. False: another port is asked for, or none is
 * there. */
bool up_page_pick_port(const char *address, char *out, size_t room);
bool up_page_is_there(const char *address);
/* Forks a process that sends the recorded profiles of the demo once the page answers. */
void up_demo_start(const char *address, const char *token);
