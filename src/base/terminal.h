/*
 * terminal.h - whether what is written to a descriptor should have colours.
 *
 * Threads: any (reads the environment).
 */
#pragma once
#include <stdbool.h>

/* A terminal that is not "dumb", and no NO_COLOR (no-color.org: any value but the empty one). */
bool terminal_wants_colour(int fd);
