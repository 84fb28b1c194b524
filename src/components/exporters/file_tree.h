/*
 * file_tree.h - numbered files in directories, added all or none:
 * <dir>/<first>/<second>/<n><ending>
 *
 * A request's files are first written under hidden names (".<n>.<pid>-<token>.part") and then
 * renamed, so that nobody sees half a file, and nothing stays of a request that failed. The number
 * goes on after the highest that a directory has, whoever made it; a number is never written over.
 * Names come from safe_name.h. What a killed process left under hidden names goes when its
 * directory is used again.
 *
 * Memory: the directories met, forgotten past 4096. Threads: one at a time.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/intern.h"

struct tree_dir;
struct tree_file;

struct file_tree {
	const char *root, *ending; /* borrowed; ".json" */
	bool sync;                 /* fsync files and directories before a request counts as kept */
	uint64_t token; /* tells our hidden names from those of an earlier process with our pid */
	struct arena arena;        /* the directories' paths */
	struct intern_table table; /* path -> dirs */
	struct tree_dir *dirs;
	uint32_t dir_count, dir_cap;
	struct tree_file *files; /* of the request at hand, in the order they were added */
	uint32_t file_count, file_cap, renamed_count;
	struct buf path, hidden;
};

void file_tree_init(struct file_tree *t, const char *root, const char *ending, bool sync);
void file_tree_release(struct file_tree *t);
/* Makes the root, so that a name that can't be is found before the first request. */
bool file_tree_make_root(struct file_tree *t, struct err *err) MUST_CHECK;

void file_tree_begin(struct file_tree *t);
/* Writes the next file of <root>/<first>/<second> under a hidden name. */
bool file_tree_add(struct file_tree *t, struct str first, struct str second, struct str content,
		   struct err *err) MUST_CHECK;
/* Gives the files of the request their names. On failure none of them is left. */
bool file_tree_commit(struct file_tree *t, struct err *err) MUST_CHECK;
/* Removes what was added since file_tree_begin(). */
void file_tree_abort(struct file_tree *t);
