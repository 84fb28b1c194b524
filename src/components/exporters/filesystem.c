/*
 * filesystem.c - the exporter that keeps profiles in files.
 *
 *   format json       one file a sample, <dir>/<container.id>/<sample type>/<n>.json, as the lazy
 *                     backend of 2026 writes them (stack_file.h, file_tree.h); the sample's own
 *                     container.id (up to OTLP 1.4), else its resource's, else "unknown"
 *   format jsonl      <dir>/profiles.jsonl, a line a profile with its samples, and each of their
 *                     frames and attributes once (resolved_json.h)
 *   format otlp       <dir>/profiles.otlp, whole requests, each behind its length as 4 bytes
 *                     big-endian: the form of the Collector's file exporter; `decode` reads it
 *   format otlp-json  <dir>/profiles.otlp.jsonl, a request in OTLP/JSON a line
 *
 * The last three only append, a write a request (of large ones one for each MiB), and rotate by
 * size (append_log.h). A batch is acknowledged once write(2) took all of it, which outlives the
 * process; with `fsync`, once the disk has it. What could not be written leaves nothing behind and
 * is answered RETRY: at least once.
 */
#include <inttypes.h>
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "components/exporters/append_log.h"
#include "components/exporters/exporters.h"
#include "components/exporters/file_tree.h"
#include "components/exporters/otlp_unwritten.h"
#include "components/exporters/resolved_json.h"
#include "components/exporters/stack_file.h"
#include "components/exporters/type_watch.h"
#include "formats/names.h"
#include "pipeline/worker.h"
#include "wire/otlp_json.h"

enum file_format { FORMAT_JSON, FORMAT_JSONL, FORMAT_OTLP, FORMAT_OTLP_JSON };
enum otlp_shape { SHAPE_NEWEST, SHAPE_ORIGINAL };
enum {
	CHUNK_BYTES = 1 << 20, /* of one write */
	TEXT_KEPT_BYTES = 8 << 20,
	IDLE_NS = 1000000000,
};

/* Why the samples of a request are in no file. */
enum not_kept { NOT_KEPT_DISK, NOT_KEPT_TOO_LONG, NOT_KEPT_REASONS };
static const char *const not_kept_reasons[NOT_KEPT_REASONS] = { "disk", "too_long" };

struct filesystem {
	const char *dir, *container_id;
	int format, otlp_version;
	bool ignore_profiles_without_container_id, fsync;
	struct config_strings sample_types;
	uint64_t rotate_bytes, max_text_bytes;
	uint32_t max_backups;

	const char *id;
	struct worker *worker;
	struct metric *torn_bytes, *deleted_files, *not_kept[NOT_KEPT_REASONS];
	struct otlp_unwritten unwritten; /* the OTLP formats */
	atomic_bool reopen;              /* SIGHUP: somebody may have moved the file */
	struct buf text;                 /* the worker's, as all below */
	struct buf id_text;              /* a container.id that is no string */
	struct type_watch types;
	uint64_t request_bytes; /* format json: in the files of this request */
	struct file_tree tree;
	struct stack_file stack;
	struct append_log log;
	struct json_renderer *json;
	bool opened;
};

static const char *const format_names[] = { "json", "jsonl", "otlp", "otlp-json", NULL };
static const char *const shape_names[] = { "newest", "original", NULL };

#define FIELD(name_, kind_, member, default_, help_, ...)                                  \
	EXPORTER_FIELD(name_, kind_, offsetof(struct filesystem, member), default_, help_, \
		       ##__VA_ARGS__)

static const struct config_field filesystem_fields[] = {
	FIELD("dir", CONFIG_STRING, dir, "profiles", "directory to write to, made when missing"),
	FIELD("format", CONFIG_ENUM, format, "json",
	      "json (a file a sample); jsonl, otlp, otlp-json (growing)", .choices = format_names),
	FIELD("container_id", CONFIG_STRING, container_id, NULL,
	      "keep only samples with this container.id (json, jsonl)"),
	FIELD("ignore_profiles_without_container_id", CONFIG_BOOL,
	      ignore_profiles_without_container_id, "false",
	      "leave out samples without container.id (json, jsonl)"),
	FIELD("sample_types", CONFIG_STRINGS, sample_types, NULL,
	      "sample types to keep; empty: all (json, jsonl)"),
	FIELD("fsync", CONFIG_BOOL, fsync, "false",
	      "acknowledge only what is on the disk: survives power loss"),
	FIELD("max_mib", CONFIG_SIZE_MIB, rotate_bytes, "100",
	      "size at which a growing file is rotated; 0 = never"),
	FIELD("max_backups", CONFIG_UINT32, max_backups, "100",
	      "rotated files to keep; older ones are deleted (0: keep all)"),
	FIELD("otlp_version", CONFIG_ENUM, otlp_version, "newest",
	      "format otlp: newest (older requests are re-encoded) or original",
	      .choices = shape_names),
	FIELD("max_text_mib", CONFIG_SIZE_MIB, max_text_bytes, "1024",
	      "longest text of one request; a longer one is refused (0: no limit)"),
	{ 0 },
};

static bool id_wanted(const struct filesystem *f, struct str id)
{
	if (!id.len && f->ignore_profiles_without_container_id)
		return false;
	return !f->container_id || !*f->container_id ||
	       str_is(id.len ? id : STR("unknown"), f->container_id);
}

static bool sample_wanted(void *ctx, const struct profiles *p, const struct resource_profiles *r,
			  const struct sample *s)
{
	struct filesystem *f = ctx;

	return id_wanted(f, names_container_id(p, r, s, &f->id_text));
}

static bool filters(const struct filesystem *f)
{
	return f->ignore_profiles_without_container_id || (f->container_id && *f->container_id);
}

/* ---- format json: a file a sample ---- */

static bool add_sample(struct filesystem *f, const struct profiles *p,
		       const struct resource_profiles *r, const struct profile *profile,
		       uint32_t sample, struct err *err)
{
	struct str id = names_container_id(p, r, &p->samples[sample], &f->id_text);

	if (!id_wanted(f, id))
		return true;
	if (!id.len)
		id = STR("unknown");
	buf_reset(&f->text);
	stack_file_append(&f->stack, &f->text, id, profile, sample);
	if (f->text.failed)
		return err_set(err, ERR_LIMIT, "the file of a sample passes the limit of %zu bytes",
			       f->text.limit_bytes);
	f->request_bytes += f->text.len;
	if (f->max_text_bytes && f->request_bytes > f->max_text_bytes)
		return err_set(err, ERR_LIMIT,
			       "the files of this request pass the limit of %" PRIu64 " bytes",
			       f->max_text_bytes);
	return file_tree_add(&f->tree, id, stack_file_sample_type(p, profile), buf_view(&f->text),
			     err);
}

static bool add_profile(struct filesystem *f, const struct profiles *p,
			const struct resource_profiles *r, const struct profile *profile,
			struct err *err)
{
	for (uint32_t i = 0; i < profile->samples.count; i++)
		if (!add_sample(f, p, r, profile, profile->samples.first + i, err))
			return false;
	return true;
}

static bool add_resource(struct filesystem *f, const struct profiles *p,
			 const struct resource_profiles *r, struct err *err)
{
	for (uint32_t i = r->scopes.first; i < r->scopes.first + r->scopes.count; i++) {
		struct range list = p->scopes[i].profiles;

		for (uint32_t k = list.first; k < list.first + list.count; k++) {
			if (names_profile_wanted(p, &p->profiles[k], &f->sample_types) &&
			    !add_profile(f, p, r, &p->profiles[k], err))
				return false;
		}
	}
	return true;
}

static bool keep_as_files(struct filesystem *f, const struct profiles *p, struct err *err)
{
	f->request_bytes = 0;
	file_tree_begin(&f->tree);
	stack_file_begin(&f->stack, p);
	for (uint32_t i = 0; i < p->resource_count; i++) {
		if (!add_resource(f, p, &p->resources[i], err)) {
			file_tree_abort(&f->tree);
			return false;
		}
	}
	return file_tree_commit(&f->tree, err);
}

/* ---- growing files ---- */

/* The first bytes tell about how much there is: a request that takes several writes is never split
 * over two files. */
static bool append_chunk(void *ctx, struct str bytes, struct err *err)
{
	struct filesystem *f = ctx;

	if (!f->opened) {
		if (!append_log_begin(&f->log, bytes.len, err))
			return false;
		f->opened = true;
	}
	return append_log_write(&f->log, bytes, err);
}

static bool render_jsonl(struct filesystem *f, const struct profiles *p, struct render_out *out,
			 struct err *err)
{
	return json_render(f->json, p, out, err) && render_out_finish(out, err);
}

/* The record is in the buffer whole before its length is known. */
static bool encode_otlp(struct filesystem *f, const struct batch *batch, struct err *err)
{
	bool whole = batch->body && batch->encoding == BATCH_BODY_PROTOBUF &&
		     batch->profiles->refused_profile_count == 0 &&
		     (batch->wire_version == WIRE_NEWEST || f->otlp_version == SHAPE_ORIGINAL);
	struct buf *b = &f->text;
	size_t len;

	buf_lit(b, "\0\0\0\0");
	if (whole)
		buf_str(b, blob_view(batch->body));
	else if (!otlp_encode(batch->profiles, WIRE_NEWEST, b, err))
		return false;
	else
		otlp_unwritten_note(&f->unwritten, batch->profiles, WIRE_NEWEST, false);
	if (b->failed || b->len > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "the request passes the limit of %zu bytes",
			       b->limit_bytes);
	len = b->len - 4;
	if (len == 0) { /* an empty request leaves no record */
		buf_reset(b);
		return true;
	}
	for (int i = 0; i < 4; i++)
		b->ptr[i] = (char)(len >> (24 - 8 * i));
	return true;
}

static bool render_otlp(struct filesystem *f, const struct batch *batch, struct render_out *out,
			struct err *err)
{
	if (f->format == FORMAT_OTLP)
		return encode_otlp(f, batch, err) && render_out_finish(out, err);
	if (!otlp_json_encode(batch->profiles, out->buf, err))
		return false;
	otlp_unwritten_note(&f->unwritten, batch->profiles, WIRE_NEWEST, true);
	buf_char(out->buf, '\n');
	return render_out_finish(out, err);
}

static bool append_batch(struct filesystem *f, const struct batch *batch, struct err *err)
{
	struct render_out out = {
		.buf = &f->text,
		.chunk_bytes = CHUNK_BYTES,
		.limit_bytes = f->max_text_bytes,
		.write = append_chunk,
		.ctx = f,
	};
	bool ok;

	if (atomic_exchange(&f->reopen, false))
		f->log.broken = true;
	f->opened = false;
	buf_reset(&f->text);
	ok = f->format == FORMAT_JSONL ? render_jsonl(f, batch->profiles, &out, err)
				       : render_otlp(f, batch, &out, err);
	if (!f->opened)
		return ok;
	if (ok && append_log_commit(&f->log, err))
		return true;
	append_log_abort(&f->log);
	return false;
}

/* ---- the component ---- */

static void count_losses(struct filesystem *f)
{
	if (f->format == FORMAT_JSON)
		return;
	if (f->log.torn_bytes)
		LOG(LOG_WARN, "Cut a torn record off the end of the file", LOG_S("dir", f->dir),
		    LOG_U("bytes", f->log.torn_bytes));
	if (f->log.deleted_files)
		LOG(LOG_INFO, "Deleted rotated files past max_backups", LOG_S("dir", f->dir),
		    LOG_U("files", f->log.deleted_files));
	if (f->log.taken_away)
		LOG(LOG_WARN, "The file was removed or renamed by others: begun anew",
		    LOG_S("dir", f->dir));
	if (f->torn_bytes) {
		metric_add(f->torn_bytes, (int64_t)f->log.torn_bytes);
		metric_add(f->deleted_files, (int64_t)f->log.deleted_files);
	}
	f->log.torn_bytes = f->log.deleted_files = f->log.taken_away = 0;
}

static void count_not_kept(struct filesystem *f, const struct batch *batch, const struct err *err)
{
	enum not_kept reason = err->kind == ERR_LIMIT ? NOT_KEPT_TOO_LONG : NOT_KEPT_DISK;

	if (f->not_kept[reason])
		metric_add(f->not_kept[reason], (int64_t)batch_sample_count(batch));
}

static void keep_item(struct filesystem *f, struct worker_item *item)
{
	struct outcome o = { .kind = OUTCOME_OK };
	struct err err = { 0 };
	bool ok = f->format == FORMAT_JSON ? keep_as_files(f, item->batch->profiles, &err)
					   : append_batch(f, item->batch, &err);

	if (!ok) {
		o = outcome_of(&err);
		count_not_kept(f, item->batch, &err);
	}
	count_losses(f);
	type_watch_warn(&f->types, &f->sample_types, item->batch->profiles, f->id);
	worker_item_done(item, &o);
}

static void filesystem_work(void *arg, struct worker_item *items, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		keep_item(arg, &items[i]);
}

/* An unusually large request is no reason to hold its memory for good. */
static void filesystem_idle(void *arg)
{
	struct filesystem *f = arg;

	buf_reset(&f->text);
	buf_trim(&f->text, TEXT_KEPT_BYTES);
	buf_reset(&f->id_text);
	buf_trim(&f->id_text, TEXT_KEPT_BYTES);
}

static bool filesystem_check(void *state, struct err *err)
{
	const struct filesystem *f = state;
	bool otlp = f->format == FORMAT_OTLP || f->format == FORMAT_OTLP_JSON;

	if (!f->dir || !*f->dir)
		return err_set(err, ERR_INVALID, "'dir' is empty");
	if (otlp && ((f->container_id && *f->container_id) || f->sample_types.count ||
		     f->ignore_profiles_without_container_id))
		return err_set(
			err, ERR_INVALID,
			"'container_id', 'sample_types' and 'ignore_profiles_without_container_id' "
			"work with the formats json and jsonl only; the format is '%s'",
			format_names[f->format]);
	return true;
}

static bool open_log(struct filesystem *f, struct err *err)
{
	static const char *const endings[] = {
		[FORMAT_JSONL] = ".jsonl",
		[FORMAT_OTLP] = ".otlp",
		[FORMAT_OTLP_JSON] = ".otlp.jsonl",
	};

	f->json = json_renderer_new(JSON_LINE_A_PROFILE, &f->sample_types);
	if (filters(f))
		json_renderer_filter(f->json, sample_wanted, f);
	f->log = (struct append_log){
		.dir = f->dir,
		.name = "profiles",
		.ending = endings[f->format],
		.form = f->format == FORMAT_OTLP ? APPEND_PREFIXED : APPEND_LINES,
		.sync = f->fsync,
		.max_bytes = f->rotate_bytes,
		.max_backups = f->max_backups,
		.fd = -1,
	};
	return append_log_open(&f->log, err);
}

static void make_metrics(struct filesystem *f, const struct component_host *host)
{
	static const char *const labels[] = { "exporter", NULL };
	static const char *const reason_labels[] = { "exporter", "reason", NULL };
	struct str id = str_cstr(host->id);

	if (!host->metrics)
		return;
	for (int i = 0; i < NOT_KEPT_REASONS; i++) {
		struct str values[] = { id, str_cstr(not_kept_reasons[i]) };

		f->not_kept[i] =
			metric_get(metrics_family(host->metrics, METRIC_COUNTER,
						  "flametap_filesystem_unwritten_samples_total",
						  "samples of requests that could not be written",
						  reason_labels, 0),
				   values);
	}
	f->torn_bytes = metric_get(
		metrics_family(
			host->metrics, METRIC_COUNTER, "flametap_filesystem_torn_bytes_total",
			"bytes of unfinished records cut off when a file was opened", labels, 0),
		&id);
	f->deleted_files = metric_get(
		metrics_family(
			host->metrics, METRIC_COUNTER, "flametap_filesystem_deleted_files_total",
			"rotated files deleted because max_backups newer ones exist", labels, 0),
		&id);
}

static bool filesystem_start(void *state, const struct component_host *host, struct err *err)
{
	struct filesystem *f = state;
	struct worker_options options = {
		.name = "filesystem",
		.work = filesystem_work,
		.idle = filesystem_idle,
		.idle_ns = IDLE_NS,
		.arg = f,
	};

	f->id = host->id;
	make_metrics(f, host);
	if (f->format == FORMAT_OTLP || f->format == FORMAT_OTLP_JSON)
		otlp_unwritten_init(&f->unwritten, host);
	buf_init(&f->text, f->max_text_bytes);
	buf_init(&f->id_text, 0);
	f->log.fd = -1;
	file_tree_init(&f->tree, f->dir, ".json", f->fsync);
	stack_file_init(&f->stack);
	if (f->format == FORMAT_JSON ? !file_tree_make_root(&f->tree, err) : !open_log(f, err))
		return false;
	count_losses(f);
	f->worker = worker_new(&options, err);
	return f->worker != NULL;
}

static void filesystem_consume(void *state, struct batch *batch, struct completion *done)
{
	struct filesystem *f = state;

	worker_push(f->worker, batch, done);
}

static void filesystem_stop(void *state, uint64_t deadline_ns)
{
	struct filesystem *f = state;

	worker_stop(f->worker, deadline_ns);
}

static bool filesystem_reload(void *state, struct err *err)
{
	struct filesystem *f = state;

	(void)err;
	if (f->format != FORMAT_JSON)
		atomic_store(&f->reopen, true);
	return true;
}

static void filesystem_release(void *state)
{
	struct filesystem *f = state;

	worker_free(f->worker);
	if (!f->dir || !f->tree.root)
		return; /* was never started */
	append_log_close(&f->log);
	json_renderer_free(f->json);
	file_tree_release(&f->tree);
	stack_file_release(&f->stack);
	buf_release(&f->text);
	buf_release(&f->id_text);
}

const struct component_ops filesystem_exporter = {
	.type = "filesystem",
	.summary = "keeps profiles in files: one a sample, or growing and rotated ones",
	.kind = COMPONENT_EXPORTER,
	.state_size = sizeof(struct filesystem),
	.fields = filesystem_fields,
	.check = filesystem_check,
	.start = filesystem_start,
	.consume = filesystem_consume,
	.stop = filesystem_stop,
	.reload = filesystem_reload,
	.release = filesystem_release,
};
