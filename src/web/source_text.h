/*
 * source_text.h - the text of a source file, from the one folder that whoever runs this named.
 *
 * The path is a profile's, so a sender's: below the folder only, longest ending first
 * ("/build/src/a.c": build/src/a.c, src/a.c, a.c). Never followed: "..", symbolic links, names that
 * begin with a dot, other file systems' magic links; only regular files of text, up to 2 MiB.
 */
#pragma once
#include "base/blob.h"
#include "base/err.h"

enum { SOURCE_BYTES_MOST = 2 << 20, SOURCE_PATH_MOST = 1024 };

/* NULL: there is none, and why. `found` is the path below the folder. The caller unrefs. */
struct blob *source_text_read(const char *folder, struct str file, char found[SOURCE_PATH_MOST],
			      struct err *err);
