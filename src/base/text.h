/* text.h - small services for text that people type or read: suggestions, sizes, UTF-8. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

struct buf;

/* The candidate nearest to `word` (Damerau-Levenshtein, at most a third of its length away), or
 * NULL. */
const char *text_suggest(struct str word, const char *const *candidates, size_t count);
/* Bytes: "64MiB", "64MB", "64M", "1024". */
bool text_parse_size(struct str text, uint64_t *out_bytes, struct err *err) MUST_CHECK;
bool utf8_valid(struct str s);
/* Appends a character; U+FFFD where that is none. */
void utf8_append(struct buf *b, uint32_t character);
/* Appends s with each bad byte replaced by U+FFFD. */
void utf8_append_clean(struct buf *b, struct str s);
/* As utf8_append_clean(), and control characters as \n, \t, \x1b...: safe on a terminal and on one
 * line. */
void text_append_printable(struct buf *b, struct str s);
