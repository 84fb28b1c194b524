/*
 * file_storage: the directory that `sending_queue: {storage: file_storage}` keeps its spool in.
 *
 * Names and defaults are the Collector's. The format is pipeline/spool.h's: segments need no
 * compaction, a damaged record does not stop a start, so `compaction`, `recreate` and `timeout` are
 * read without effect.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "components/extensions/extensions.h"

struct file_storage {
	const char *directory, *directory_permissions;
	bool create_directory, fsync, recreate;
	uint64_t timeout_ns;
	const struct config_node *compaction;
};

#define OFF(member) .offset = offsetof(struct file_storage, member)

/* clang-format off */
static const struct config_field file_storage_fields[] = {
	{ .name = "directory", .kind = CONFIG_STRING, OFF(directory), .default_text = "/var/lib/otelcol/file_storage",
	  .help = "where queues are kept" },
	{ .name = "create_directory", .kind = CONFIG_BOOL, OFF(create_directory), .default_text = "true",
	  .help = "make it when it is not there" },
	{ .name = "directory_permissions", .kind = CONFIG_STRING, OFF(directory_permissions), .default_text = "0750",
	  .help = "accepted; a spool's own directory is 0700" },
	{ .name = "fsync", .kind = CONFIG_BOOL, OFF(fsync), .default_text = "false",
	  .help = "accepted; service::flametap::spool::fsync decides, and is always by default" },
	{ .name = "recreate", .kind = CONFIG_BOOL, OFF(recreate), .default_text = "false",
	  .help = "accepted; damaged parts are set aside in any case" },
	{ .name = "timeout", .kind = CONFIG_DURATION, OFF(timeout_ns), .default_text = "1s",
	  .help = "accepted; a directory in use is an error at once" },
	{ .name = "compaction", .kind = CONFIG_ANY, OFF(compaction), .help = "accepted, without effect" },
	{ 0 },
};
/* clang-format on */

static bool file_storage_check(void *state, struct err *err)
{
	const struct file_storage *f = state;
	struct stat st;

	if (!f->directory || !*f->directory)
		return err_set(err, ERR_INVALID, "requires a non-empty \"directory\"");
	if (stat(f->directory, &st) == 0)
		return S_ISDIR(st.st_mode) ||
		       err_set(err, ERR_INVALID, "%s is not a directory", f->directory);
	if (errno == ENOENT && f->create_directory)
		return true; /* the spool makes it, and its parents */
	return err_set(err, ERR_NOT_FOUND, "directory must exist: stat %s: %s", f->directory,
		       strerror(errno));
}

static const char *file_storage_directory(const void *state)
{
	return ((const struct file_storage *)state)->directory;
}

const struct component_ops file_storage_extension = {
	.type = "file_storage",
	.summary = "keeps sending queues on disk",
	.kind = COMPONENT_EXTENSION,
	.state_size = sizeof(struct file_storage),
	.fields = file_storage_fields,
	.check = file_storage_check,
	.storage_directory = file_storage_directory,
};
