#include "pipeline/spool.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "pipeline/spool_internal.h"

static const uint64_t segment_bytes_usual = 16 << 20;

void spool_segment_name(uint64_t first_sequence, char name[32])
{
	snprintf(name, 32, "%020" PRIu64 ".seg", first_sequence);
}

static bool segment_parse(const char *name, uint64_t *first_sequence)
{
	struct str s = str_cstr(name);

	return s.len == 24 && str_has_suffix(s, STR(".seg")) &&
	       str_to_u64(str_head(s, 20), first_sequence);
}

void spool_save_bytes(struct spool *s, uint32_t segment, uint64_t offset, uint64_t len,
		      const char *why)
{
	char segment_name[32], name[80];

	spool_segment_name(s->segments[segment].first_sequence, segment_name);
	snprintf(name, sizeof(name), "%s-%" PRIu64, segment_name, offset);
	if (spool_reader_open(s) && s->read_segment == segment)
		spool_corrupt_save(s->dir_fd, name, s->read_fd, offset, len, STR(""));
	LOG(LOG_ERROR, "Damaged bytes in the spool are set aside", LOG_S("spool", s->path),
	    LOG_S("file", name), LOG_U("bytes", len), LOG_S("reason", why));
}

static struct spool_segment *segment_add(struct spool *s, uint64_t first_sequence)
{
	VEC_ROOM(s->segments, s->segment_count, s->segment_cap);
	s->segments[s->segment_count] = (struct spool_segment){
		.first_sequence = first_sequence,
		.end_sequence = first_sequence,
	};
	return &s->segments[s->segment_count++];
}

static void report_bytes(struct spool *s)
{
	if (s->metrics.bytes)
		metric_set(s->metrics.bytes, (int64_t)s->bytes);
}

/* What was on disk before counts, even when it is more than the budget has: then nothing new is
 * taken. */
static void charge(struct spool *s, struct spool_segment *seg)
{
	if (s->o.budget && budget_take(s->o.budget, seg->bytes))
		seg->charged = seg->bytes;
	s->bytes += seg->bytes;
}

static void segment_delete(struct spool *s, uint32_t index)
{
	struct spool_segment *seg = &s->segments[index];
	char name[32];

	spool_segment_name(seg->first_sequence, name);
	if (index == s->read_segment) {
		fd_close(&s->read_fd);
		s->read_fd = -1;
		s->read_offset = 0;
	}
	if (index + 1 == s->segment_count) {
		fd_close(&s->write_fd);
		s->write_fd = -1;
	}
	unlinkat(s->dir_fd, name, 0);
	if (s->o.budget)
		budget_give(s->o.budget, seg->charged);
	s->bytes -= seg->bytes;
	s->segment_count--;
	memmove(seg, seg + 1, (s->segment_count - index) * sizeof(*seg));
	if (s->read_segment > index)
		s->read_segment--;
	report_bytes(s);
}

/* All before it is done. */
static uint64_t low_sequence(const struct spool *s)
{
	uint64_t low = s->next_given;

	for (uint32_t i = 0; i < s->unfinished_count; i++)
		low = s->unfinished[i] < low ? s->unfinished[i] : low;
	for (uint32_t i = 0; i < s->repeat_count; i++)
		low = s->repeat[i] < low ? s->repeat[i] : low;
	return low;
}

static void delete_done_segments(struct spool *s, bool all)
{
	uint64_t low = low_sequence(s);

	while (s->segment_count > 1 && s->segments[0].end_sequence <= low && s->read_segment > 0)
		segment_delete(s, 0);
	/* The one that is written to goes when it has grown, or its room is needed. */
	if (s->segment_count == 1 && s->segments[0].end_sequence <= low &&
	    s->read_offset >= s->segments[0].bytes &&
	    (all ? s->segments[0].bytes > 0 : s->segments[0].bytes >= s->o.segment_bytes / 4))
		segment_delete(s, 0);
}

static bool segment_begin(struct spool *s, struct err *err)
{
	char name[32];

	if (s->write_fd >= 0 &&
	    s->segments[s->segment_count - 1].bytes + s->staged.len <= s->o.segment_bytes)
		return true;
	if (s->write_fd >= 0 && s->segments[s->segment_count - 1].bytes == 0)
		return true; /* one record larger than a segment */
	spool_segment_name(s->next_sequence, name);
	fd_close(&s->write_fd);
	s->write_fd = openat(s->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->write_fd < 0)
		return err_set_errno(err, "cannot make %s/%s", s->path, name);
	segment_add(s, s->next_sequence);
	if (s->o.fsync == SPOOL_FSYNC_ALWAYS && fsync(s->dir_fd) < 0)
		return err_set_errno(err, "cannot sync %s", s->path);
	return true;
}

static bool write_at(int fd, struct str bytes, uint64_t offset)
{
	while (bytes.len) {
		ssize_t n = pwrite(fd, bytes.ptr, bytes.len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
		offset += (uint64_t)n;
	}
	return true;
}

static bool sync_now(struct spool *s)
{
	s->synced_ns = clock_monotonic_ns();
	s->unsynced = false;
	return s->write_fd < 0 || fdatasync(s->write_fd) == 0;
}

static bool sync_by_policy(struct spool *s)
{
	if (s->o.fsync == SPOOL_FSYNC_ALWAYS)
		return sync_now(s);
	if (s->o.fsync == SPOOL_FSYNC_INTERVAL && !s->unsynced) {
		s->unsynced = true;
		s->synced_ns = clock_monotonic_ns(); /* up to now nothing was owed */
	}
	return true;
}

static void staged_clear(struct spool *s)
{
	buf_reset(&s->staged);
	buf_trim(&s->staged, 1 << 20);
	s->staged_count = 0;
	s->staged_seen = 0;
	s->staged_charged = 0;
}

bool spool_has_taken(struct spool *s, struct batch *batch)
{
	if (!s->o.dedup_window_ns ||
	    !spool_seen_has(&s->seen, batch_request_hash(batch), clock_realtime_ns()))
		return false;
	metric_add(s->metrics.duplicate, 1);
	return true;
}

void spool_set_packing(struct spool *s, bool packing)
{
	s->packing = packing;
}

static bool is_half_full(const struct spool *s)
{
	return s->o.budget && budget_used(s->o.budget) > s->o.budget->limit_bytes / 2;
}

bool spool_stage(struct spool *s, struct batch *batch, uint64_t *sequence, struct err *err)
{
	size_t from = s->staged.len, len;

	if (!spool_record_append(&s->staged, batch, s->next_sequence + s->staged_count,
				 s->packing || is_half_full(s), err))
		return false;
	len = s->staged.len - from;
	if (s->o.budget && !budget_take(s->o.budget, len)) {
		delete_done_segments(s, true);
		if (!budget_take(s->o.budget, len)) {
			s->staged.len = from;
			metric_add(s->metrics.refused_full, 1);
			return err_set(err, ERR_BUSY,
				       "the spool is full: %zu of %zu bytes are in use, %zu more "
				       "are needed",
				       budget_used(s->o.budget), s->o.budget->limit_bytes, len);
		}
	}
	s->staged_charged += len;
	*sequence = s->next_sequence + s->staged_count++;
	s->staged_seen += spool_seen_add(&s->seen, batch_request_hash(batch), clock_realtime_ns());
	return true;
}

static bool write_staged(struct spool *s, struct err *err)
{
	struct spool_segment *seg;
	uint64_t end;

	if (!segment_begin(s, err))
		return false;
	seg = &s->segments[s->segment_count - 1];
	end = seg->bytes;
	if (!write_at(s->write_fd, buf_view(&s->staged), end) || !sync_by_policy(s)) {
		err_set_errno(err, "cannot write the spool %s", s->path);
		/* Half a record is none: cut it off, and begin a new file, as nobody knows what a
		 * failed sync left. */
		if (ftruncate(s->write_fd, (off_t)end) < 0)
			LOG(LOG_WARN, "Cannot cut off what was half written",
			    LOG_S("spool", s->path));
		fd_close(&s->write_fd);
		s->write_fd = -1;
		return false;
	}
	seg->bytes += s->staged.len;
	seg->charged += s->staged_charged;
	s->bytes += s->staged.len;
	s->next_sequence += s->staged_count;
	seg->end_sequence = s->next_sequence;
	return true;
}

/* An empty file of a failed attempt would have the next one's name. */
static void drop_empty_segment(struct spool *s)
{
	if (s->write_fd < 0 && s->segment_count && s->segments[s->segment_count - 1].bytes == 0)
		segment_delete(s, s->segment_count - 1);
}

/* A disk that is full may hold what is sent already: without that there may be room. */
static bool write_staged_with_room(struct spool *s, struct err *err)
{
	uint64_t before = s->bytes;

	if (write_staged(s, err))
		return true;
	drop_empty_segment(s);
	delete_done_segments(s, true);
	if (s->bytes < before && write_staged(s, err))
		return true;
	drop_empty_segment(s);
	return false;
}

bool spool_commit(struct spool *s, struct err *err)
{
	bool ok = s->staged_count == 0 || write_staged_with_room(s, err);

	if (!ok) {
		metric_add(s->metrics.refused_io, s->staged_count);
		spool_seen_drop_last(&s->seen, s->staged_seen);
		if (s->o.budget)
			budget_give(s->o.budget, s->staged_charged);
	} else {
		metric_add(s->metrics.appended, s->staged_count);
		s->pending += s->staged_count;
	}
	staged_clear(s);
	report_bytes(s);
	return ok;
}

static void cursor_save(struct spool *s)
{
	struct spool_cursor c = { .next = s->next_given };
	static struct log_gate gate;
	uint64_t skipped;
	struct err err;

	c.unfinished = malloc((s->unfinished_count + s->repeat_count) * sizeof(uint64_t) + 1);
	assert(c.unfinished);
	for (uint32_t i = 0; i < s->unfinished_count; i++)
		c.unfinished[c.count++] = s->unfinished[i];
	for (uint32_t i = 0; i < s->repeat_count; i++)
		c.unfinished[c.count++] = s->repeat[i];
	if (spool_cursor_write(s->dir_fd, &s->cursor_fd, &c, &err))
		s->cursor_dirty = false;
	else if (log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_WARN, "What is sent cannot be recorded: after a crash it is sent again",
		    LOG_S("spool", s->path), LOG_S("error", err.msg));
	free(c.unfinished);
}

void spool_settle(struct spool *s)
{
	if (s->cursor_dirty)
		cursor_save(s);
	delete_done_segments(s, false);
	if (!s->pending) /* nothing is left that a loss of power could take */
		s->unsynced = false;
	if (s->unsynced && clock_monotonic_ns() >= s->synced_ns + s->o.fsync_interval_ns &&
	    !sync_now(s))
		LOG(LOG_ERROR, "The spool cannot be synced", LOG_S("spool", s->path));
}

uint64_t spool_settle_due_ns(const struct spool *s)
{
	return s->unsynced ? s->synced_ns + s->o.fsync_interval_ns : 0;
}

uint64_t spool_pending(const struct spool *s)
{
	return s->pending;
}

static int compare_segments(const void *a, const void *b)
{
	uint64_t x = ((const struct spool_segment *)a)->first_sequence;
	uint64_t y = ((const struct spool_segment *)b)->first_sequence;

	return x < y ? -1 : x > y;
}

static bool list_segments(struct spool *s, struct err *err)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	uint64_t first;

	if (!dir) {
		fd_close(&fd);
		return err_set_errno(err, "cannot list %s", s->path);
	}
	while ((e = readdir(dir)))
		if (segment_parse(e->d_name, &first))
			segment_add(s, first);
	closedir(dir);
	if (s->segment_count)
		qsort(s->segments, s->segment_count, sizeof(*s->segments), compare_segments);
	return true;
}

/* The last record of the last segment may be half there; only a body that matches its checksum
 * counts. */
static bool tail_whole(int fd, const struct spool_record *r, uint64_t offset)
{
	AUTO(ptr_free) char *stored = malloc(r->stored_len + 1);

	assert(stored);
	return spool_read_at(fd, stored, r->stored_len, offset + sizeof(*r)) &&
	       hash64(str_from(stored, r->stored_len)) == r->stored_hash;
}

static void cut_tail(struct spool *s, uint32_t index, int fd, uint64_t from, uint64_t end)
{
	char segment_name[32], name[80];

	spool_segment_name(s->segments[index].first_sequence, segment_name);
	snprintf(name, sizeof(name), "%s-%" PRIu64 ".torn", segment_name, from);
	spool_corrupt_save(s->dir_fd, name, fd, from, end - from, STR(""));
	if (ftruncate(fd, (off_t)from) == 0)
		s->segments[index].bytes = from;
	metric_add(s->metrics.torn, 1);
	LOG(LOG_WARN, "The spool's end was torn and is cut off", LOG_S("spool", s->path),
	    LOG_S("file", name), LOG_U("bytes", end - from));
}

/* Walks the headers of a segment: counts what is to be given out, finds where the whole records
 * end. */
static void scan_segment(struct spool *s, uint32_t index, int fd)
{
	struct spool_segment *seg = &s->segments[index];
	bool last = index + 1 == s->segment_count;
	uint64_t offset = 0, end = seg->bytes, next;
	struct spool_record r;

	while (offset < end) {
		bool valid = end - offset >= sizeof(r) &&
			     spool_read_at(fd, &r, sizeof(r), offset) &&
			     spool_record_valid(&r, end - offset);

		if (!valid) {
			next = spool_record_search(fd, offset + 1, end);
			if (next == end && last) {
				cut_tail(s, index, fd, offset, end);
				return;
			}
			offset = next;
			continue;
		}
		next = offset + sizeof(r) + r.stored_len;
		if (last && next == end && !tail_whole(fd, &r, offset)) {
			cut_tail(s, index, fd, offset, end);
			return;
		}
		s->pending += spool_wanted(s, r.sequence);
		spool_seen_add(&s->seen, (struct hash128){ r.hash_lo, r.hash_hi },
			       r.received_unix_ns);
		if (r.sequence >= seg->end_sequence)
			seg->end_sequence = r.sequence + 1;
		offset = next;
	}
}

static bool open_segments(struct spool *s, struct err *err)
{
	for (uint32_t i = 0; i < s->segment_count; i++) {
		struct spool_segment *seg = &s->segments[i];
		AUTO(fd_close) int fd = -1;
		struct stat st;
		char name[32];

		spool_segment_name(seg->first_sequence, name);
		fd = openat(s->dir_fd, name, O_RDWR | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			return err_set_errno(err, "cannot open %s/%s", s->path, name);
		seg->bytes = (uint64_t)st.st_size;
		scan_segment(s, i, fd);
		charge(s, seg);
		/* What cannot be read at all keeps its name to itself. */
		if (seg->bytes && seg->end_sequence == seg->first_sequence)
			seg->end_sequence++;
		if (seg->end_sequence > s->next_sequence)
			s->next_sequence = seg->end_sequence;
	}
	return true;
}

/* Made, and then we died before the first record was in it: the next one would have the same name,
 * and deleting the empty one would take the other's records along. */
static void drop_empty_segments(struct spool *s)
{
	for (uint32_t i = s->segment_count; i-- > 0;)
		if (s->segments[i].bytes == 0)
			segment_delete(s, i);
}

static void load_cursor(struct spool *s)
{
	struct spool_cursor c = { 0 };
	bool damaged;

	if (spool_cursor_read(s->dir_fd, &c, &damaged)) {
		s->repeat_below = c.next;
		s->repeat = c.unfinished;
		s->repeat_count = c.count;
	} else if (damaged) {
		LOG(LOG_WARN, "The spool's cursor is damaged: all that is kept is sent again",
		    LOG_S("spool", s->path));
	}
	s->next_sequence = s->repeat_below ? s->repeat_below : 1;
	s->next_given = s->next_sequence;
}

static struct metric *event(struct spool *s, const char *name)
{
	static const char *const labels[] = { "exporter", "event", NULL };
	struct str values[] = { str_cstr(s->o.id), str_cstr(name) };

	return metric_get(
		metrics_family(
			s->o.metrics, METRIC_COUNTER, "flametap_spool_records_total",
			"Records of a spool by what happened to them: appended, done, "
			"repeated (given out again after a crash), set_aside (damaged), torn "
			"(cut off), duplicate (a repeated request, not taken again), "
			"refused_full, refused_io.",
			labels, 0),
		values);
}

static void metrics_init(struct spool *s)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str id = str_cstr(s->o.id);

	s->metrics = (struct spool_metrics){
		.appended = event(s, "appended"),
		.done = event(s, "done"),
		.set_aside = event(s, "set_aside"),
		.torn = event(s, "torn"),
		.repeated = event(s, "repeated"),
		.duplicate = event(s, "duplicate"),
		.refused_full = event(s, "refused_full"),
		.refused_io = event(s, "refused_io"),
		.bytes = metric_get(
			metrics_family(s->o.metrics, METRIC_GAUGE, "flametap_spool_bytes",
				       "Bytes of a spool's segments on disk.", labels, 0),
			&id),
	};
}

/* Records of the cursor's list that are in no segment any more will never come. */
static void forget_lost_repeats(struct spool *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->repeat_count; i++) {
		bool there = false;

		for (uint32_t k = 0; k < s->segment_count; k++)
			there = there || (s->repeat[i] >= s->segments[k].first_sequence &&
					  s->repeat[i] < s->segments[k].end_sequence);
		if (there)
			s->repeat[kept++] = s->repeat[i];
	}
	s->repeat_count = kept;
}

static bool spool_load(struct spool *s, struct err *err)
{
	bool retargeted;

	s->dir_fd = spool_dir_open(s->path, err);
	if (s->dir_fd < 0)
		return false;
	s->lock_fd = spool_dir_lock(s->dir_fd, s->path, err);
	if (s->lock_fd < 0)
		return false;
	load_cursor(s);
	if (!list_segments(s, err) || !open_segments(s, err))
		return false;
	drop_empty_segments(s);
	forget_lost_repeats(s);
	report_bytes(s);
	retargeted = s->o.destination && spool_dir_retarget(s->dir_fd, s->o.destination);
	if (s->pending && retargeted)
		LOG(LOG_WARN,
		    "Requests wait in the spool that were taken for another endpoint or database: "
		    "they go to the one that is configured now",
		    LOG_S("spool", s->path), LOG_U("requests", s->pending),
		    LOG_U("bytes", s->bytes));
	else if (s->pending)
		LOG(LOG_INFO, "Requests wait in the spool from before", LOG_S("spool", s->path),
		    LOG_U("requests", s->pending), LOG_U("bytes", s->bytes));
	return true;
}

struct spool *spool_open(const struct spool_options *options, struct err *err)
{
	struct spool *s = calloc(1, sizeof(*s));

	assert(s);
	s->o = *options;
	if (!s->o.segment_bytes)
		s->o.segment_bytes = segment_bytes_usual;
	s->path = strdup(options->path);
	assert(s->path);
	s->dir_fd = s->lock_fd = s->write_fd = s->read_fd = s->cursor_fd = -1;
	buf_init(&s->staged, 0);
	s->packing = true;
	spool_seen_init(&s->seen, s->o.dedup_window_ns);
	metrics_init(s);
	if (spool_load(s, err))
		return s;
	spool_close(s);
	return NULL;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	if (s->lock_fd >= 0) {
		spool_settle(s);
		delete_done_segments(s, true);
		if (s->o.fsync != SPOOL_FSYNC_NEVER)
			sync_now(s);
	}
	for (uint32_t i = 0; s->o.budget && i < s->segment_count; i++)
		budget_give(s->o.budget, s->segments[i].charged);
	fd_close(&s->write_fd);
	fd_close(&s->read_fd);
	fd_close(&s->cursor_fd);
	fd_close(&s->lock_fd);
	fd_close(&s->dir_fd);
	buf_release(&s->staged);
	spool_seen_release(&s->seen);
	free(s->segments);
	free(s->repeat);
	free(s->unfinished);
	free(s->path);
	free(s);
}
