#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "pipeline/spool_batch.h"
#include "pipeline/spool_record.h"
#include "support/metric_text.h"
#include "support/pipeline_fakes.h"

struct fixture {
	char dir[64], path[80];
	struct metrics *metrics;
	struct budget budget;
	struct spool *spool;
	struct spool_options options;
};

static void setup(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	snprintf(f->dir, sizeof(f->dir), "/tmp/flametap-spool-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/a/b", f->dir);
	f->metrics = metrics_new();
	budget_init(&f->budget, 64 << 20);
	f->options = (struct spool_options){ .path = f->path,
					     .id = "far",
					     .segment_bytes = 4096,
					     .budget = &f->budget,
					     .metrics = f->metrics };
}

static void reopen(struct fixture *f)
{
	struct err err = { 0 };

	spool_close(f->spool);
	f->spool = spool_open(&f->options, &err);
	if (!f->spool)
		fail_msg("%s", err.msg);
}

static void teardown(struct fixture *f)
{
	char command[128];

	spool_close(f->spool);
	assert_int_equal(budget_used(&f->budget), 0);
	metrics_free(f->metrics);
	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	assert_int_equal(system(command), 0);
}

static int64_t events(struct fixture *f, const char *event)
{
	char series[128];

	snprintf(series, sizeof(series),
		 "flametap_spool_records_total{exporter=\"far\",event=\"%s\"}", event);
	return metric_value(f->metrics, series);
}

static uint64_t put(struct fixture *f, uint32_t samples, uint32_t seed)
{
	struct batch *batch = fake_batch(samples, seed, NULL);
	struct err err = { 0 };
	uint64_t sequence;

	if (!spool_stage(f->spool, batch, &sequence, &err) || !spool_commit(f->spool, &err))
		fail_msg("%s", err.msg);
	batch_unref(batch);
	return sequence;
}

static struct hash128 hash_of(uint32_t samples, uint32_t seed)
{
	struct batch *batch = fake_batch(samples, seed, NULL);
	struct hash128 hash = batch_request_hash(batch);

	batch_unref(batch);
	return hash;
}

/* Takes the next record, which must be that of `seed`; done or left unfinished. */
static void take(struct fixture *f, uint32_t samples, uint32_t seed, bool done)
{
	struct hash128 want = hash_of(samples, seed);
	struct spool_entry e;
	struct batch *batch;
	struct err err;

	assert_true(spool_next(f->spool, &e));
	assert_memory_equal(&e.request_hash, &want, sizeof(want));
	assert_int_equal(e.sample_count, samples);
	batch = spool_entry_batch(&e, NULL, &err);
	assert_non_null(batch);
	assert_int_equal(batch_sample_count(batch), samples);
	batch_unref(batch);
	blob_unref(e.body);
	if (done)
		spool_done(f->spool, e.sequence);
}

static void take_none(struct fixture *f)
{
	struct spool_entry e;

	assert_false(spool_next(f->spool, &e));
}

static uint32_t segments(struct fixture *f)
{
	DIR *dir = opendir(f->path);
	const struct dirent *e;
	uint32_t count = 0;

	while ((e = readdir(dir)))
		count += strstr(e->d_name, ".seg") != NULL;
	closedir(dir);
	return count;
}

static void test_order(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	reopen(&f);
	for (uint32_t i = 0; i < 100; i++)
		put(&f, 1 + i % 5, i);
	assert_int_equal(spool_pending(f.spool), 100);
	assert_true(segments(&f) > 2);
	for (uint32_t i = 0; i < 100; i++) {
		take(&f, 1 + i % 5, i, true);
		spool_settle(f.spool);
	}
	take_none(&f);
	assert_int_equal(spool_pending(f.spool), 0);
	assert_int_equal(segments(&f), 1); /* segments go when all in them is done */
	put(&f, 3, 1000);
	take(&f, 3, 1000, true);
	assert_int_equal(events(&f, "appended"), 101);
	assert_int_equal(events(&f, "done"), 101);
	teardown(&f);
}

static int open_first_segment(struct fixture *f, uint64_t *size)
{
	DIR *dir = opendir(f->path);
	const struct dirent *e;
	char path[512] = "";
	struct stat st;
	int fd;

	while ((e = readdir(dir)))
		if (strstr(e->d_name, ".seg") &&
		    (!*path || strcmp(e->d_name, strrchr(path, '/') + 1) < 0))
			snprintf(path, sizeof(path), "%s/%s", f->path, e->d_name);
	closedir(dir);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	fstat(fd, &st);
	*size = (uint64_t)st.st_size;
	return fd;
}

/* The gauge says what lies on the disk, after a restart too. */
static void test_bytes(void **state)
{
	static const char series[] = "flametap_spool_bytes{exporter=\"far\"}";
	struct fixture f;
	uint64_t size;

	(void)state;
	setup(&f);
	f.options.segment_bytes = 1 << 20;
	reopen(&f);
	assert_int_equal(metric_value(f.metrics, series), 0);
	put(&f, 100, 1);
	put(&f, 100, 2);
	close(open_first_segment(&f, &size));
	assert_true(size > 0);
	assert_int_equal(metric_value(f.metrics, series), size);
	reopen(&f);
	assert_int_equal(metric_value(f.metrics, series), size);
	teardown(&f);
}

/* Packed or not, a body comes back, after a restart too. */
static void test_packing(void **state)
{
	struct fixture f;
	uint64_t plain, both;

	(void)state;
	setup(&f);
	reopen(&f);
	spool_set_packing(f.spool, false);
	put(&f, 2000, 1);
	close(open_first_segment(&f, &plain));
	spool_set_packing(f.spool, true);
	put(&f, 2000, 2);
	close(open_first_segment(&f, &both));
	assert_true(both - plain < plain / 2);
	take(&f, 2000, 1, false);
	reopen(&f);
	assert_int_equal(spool_next_sequence(f.spool), 1);
	take(&f, 2000, 1, true);
	assert_int_equal(spool_next_sequence(f.spool), 2);
	take(&f, 2000, 2, true);
	take_none(&f);
	teardown(&f);
}

/* Out of order: what is done stays done over a restart, what is not comes again. */
static void test_restart(void **state)
{
	struct spool_entry e[6];
	struct fixture f;

	(void)state;
	setup(&f);
	reopen(&f);
	for (uint32_t i = 0; i < 10; i++)
		put(&f, 200, i);
	for (size_t i = 0; i < 6; i++) {
		assert_true(spool_next(f.spool, &e[i]));
		blob_unref(e[i].body);
	}
	spool_done(f.spool, e[5].sequence);
	spool_done(f.spool, e[0].sequence);
	spool_done(f.spool, e[3].sequence);
	reopen(&f);
	assert_int_equal(spool_pending(f.spool), 7);
	for (uint32_t i = 0; i < 10; i++)
		if (i != 5 && i != 0 && i != 3)
			take(&f, 200, i, true);
	take_none(&f);
	assert_int_equal(events(&f, "repeated"), 3);
	reopen(&f);
	assert_int_equal(spool_pending(f.spool), 0);
	take_none(&f);
	assert_int_equal(put(&f, 1, 77), 11); /* numbers are not used twice */
	teardown(&f);
}

static void test_from_memory(void **state)
{
	struct fixture f;
	struct spool_entry e;
	uint64_t a, b;

	(void)state;
	setup(&f);
	reopen(&f);
	a = put(&f, 3, 1);
	assert_true(spool_take_if_next(f.spool, a));
	b = put(&f, 3, 2);
	put(&f, 3, 3);
	assert_false(spool_take_if_next(f.spool, b + 1)); /* 2 goes before 3 */
	assert_true(spool_take_if_next(f.spool, b));
	spool_done(f.spool, a);
	spool_done(f.spool, b);
	assert_true(spool_next(f.spool, &e));
	assert_int_equal(e.sequence, b + 1);
	blob_unref(e.body);
	spool_put_back(f.spool, e.sequence);
	take(&f, 3, 3, true);
	take_none(&f);
	teardown(&f);
}

static void test_full(void **state)
{
	struct fixture f;
	struct batch *batch = fake_batch(3000, 1, NULL);
	uint64_t sequence, count = 0;
	struct err err;

	(void)state;
	setup(&f);
	budget_init(&f.budget, 20000);
	reopen(&f);
	while (spool_stage(f.spool, batch, &sequence, &err)) {
		assert_true(spool_commit(f.spool, &err));
		assert_true(++count < 1000);
	}
	assert_int_equal(err.kind, ERR_BUSY);
	assert_non_null(strstr(err.msg, "the spool is full: "));
	assert_int_equal(events(&f, "refused_full"), 1);
	for (uint64_t i = 0; i < count; i++)
		take(&f, 3000, 1, true);
	spool_settle(f.spool);
	assert_true(spool_stage(f.spool, batch, &sequence, &err)); /* there is room again */
	assert_true(spool_commit(f.spool, &err));
	batch_unref(batch);
	teardown(&f);
}

static void test_locked(void **state)
{
	struct fixture f;
	struct err err;
	char want[64];

	(void)state;
	setup(&f);
	reopen(&f);
	assert_null(spool_open(&f.options, &err));
	snprintf(want, sizeof(want), "in use by process %d", (int)getpid());
	assert_non_null(strstr(err.msg, want));
	teardown(&f);
}

/* The disk is full in the middle of a record: nothing of it counts, what was there stays. */
static void test_disk_full(void **state)
{
	struct rlimit limit = { 3000, RLIM_INFINITY }, old;
	struct batch *batch = fake_batch(3000, 9, NULL);
	struct fixture f;
	uint64_t sequence;
	struct err err;

	(void)state;
	setup(&f);
	f.options.segment_bytes = 1 << 20;
	reopen(&f);
	put(&f, 100, 1);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	limit.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_true(spool_stage(f.spool, batch, &sequence, &err));
	assert_false(spool_commit(f.spool, &err));
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(err.kind, ERR_IO);
	assert_int_equal(events(&f, "refused_io"), 1);
	assert_int_equal(spool_pending(f.spool), 1);
	put(&f, 100, 2);
	reopen(&f);
	assert_int_equal(events(&f, "torn"), 0);
	take(&f, 100, 1, true);
	take(&f, 100, 2, true);
	take_none(&f);
	batch_unref(batch);
	teardown(&f);
}

/* Cut at any byte: all whole records are there, the spool goes on. */
static void test_torn(void **state)
{
	uint64_t size = 1;

	(void)state;
	for (uint64_t cut = 1; cut < size; cut += 37) {
		struct fixture f;
		uint64_t ends[3];
		uint32_t whole = 0;
		int fd;

		setup(&f);
		f.options.segment_bytes = 1 << 20;
		reopen(&f);
		for (uint32_t i = 0; i < 3; i++) {
			put(&f, 20, i);
			fd = open_first_segment(&f, &ends[i]);
			close(fd);
		}
		spool_close(f.spool);
		f.spool = NULL;
		fd = open_first_segment(&f, &size);
		assert_int_equal(ftruncate(fd, (off_t)(size - cut)), 0);
		close(fd);
		reopen(&f);
		for (uint32_t i = 0; i < 3; i++)
			whole += ends[i] <= size - cut;
		for (uint32_t i = 0; i < whole; i++)
			take(&f, 20, i, true);
		take_none(&f);
		assert_int_equal(events(&f, "torn"),
				 size - cut > 0 && size - cut != (whole ? ends[whole - 1] : 0));
		put(&f, 5, 50);
		take(&f, 5, 50, true);
		teardown(&f);
	}
}

/* Any byte flipped: only the record it is in is lost, that is counted, and its bytes are kept
 * aside. */
static void test_flipped(void **state)
{
	uint64_t size = 1;

	(void)state;
	for (uint64_t at = 0; at < size; at += 29) {
		struct spool_entry e;
		struct fixture f;
		char byte, path[128];
		uint32_t read = 0;
		struct stat st;
		int fd;

		setup(&f);
		f.options.segment_bytes = 1 << 20;
		reopen(&f);
		for (uint32_t i = 0; i < 4; i++)
			put(&f, 20, i);
		spool_close(f.spool);
		f.spool = NULL;
		fd = open_first_segment(&f, &size);
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		close(fd);
		reopen(&f);
		while (spool_next(f.spool, &e)) {
			struct hash128 want = hash_of(20, (uint32_t)e.sequence - 1);

			assert_memory_equal(&e.request_hash, &want, sizeof(want));
			blob_unref(e.body);
			spool_done(f.spool, e.sequence);
			read++;
		}
		if (read != 3 || events(&f, "set_aside") + events(&f, "torn") != 1)
			fail_msg("byte %llu: %u records read", (unsigned long long)at, read);
		snprintf(path, sizeof(path), "%s/corrupt", f.path);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(spool_pending(f.spool), 0);
		put(&f, 5, 50);
		take(&f, 5, 50, true);
		teardown(&f);
	}
}

static void test_cursor_damaged(void **state)
{
	struct fixture f;
	char path[128];
	int fd;

	(void)state;
	setup(&f);
	reopen(&f);
	put(&f, 5, 1);
	put(&f, 5, 2);
	take(&f, 5, 1, true);
	spool_close(f.spool);
	f.spool = NULL;
	snprintf(path, sizeof(path), "%s/cursor", f.path);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 9), 1);
	close(fd);
	reopen(&f);
	take(&f, 5, 1, true); /* again: better twice than never */
	take(&f, 5, 2, true);
	take_none(&f);
	teardown(&f);
}

/* A body that is whole but no message is set aside, and the rest goes on. */
static void test_unreadable_body(void **state)
{
	struct blob *body = blob_copy(STR("\x0a\xff\xff"));
	struct batch *batch = fake_batch(1, 1, NULL);
	struct spool_entry e;
	struct fixture f;
	uint64_t sequence;
	struct err err;

	(void)state;
	setup(&f);
	reopen(&f);
	batch->body = body;
	batch->encoding = BATCH_BODY_PROTOBUF;
	assert_true(spool_stage(f.spool, batch, &sequence, &err));
	assert_true(spool_commit(f.spool, &err));
	batch_unref(batch);
	put(&f, 5, 2);
	assert_true(spool_next(f.spool, &e));
	assert_null(spool_entry_batch(&e, NULL, &err));
	assert_false(err_retryable(err.kind));
	spool_set_aside(f.spool, &e, err.msg);
	blob_unref(e.body);
	take(&f, 5, 2, true);
	assert_int_equal(events(&f, "set_aside"), 1);
	teardown(&f);
}

/* ---- kill -9 ---- */

/* Killed between making a segment and writing its first record: the empty file has the name of the
 * next one. */
static void test_empty_segment(void **state)
{
	char path[128];
	struct fixture f;

	(void)state;
	setup(&f);
	reopen(&f);
	spool_close(f.spool);
	f.spool = NULL;
	snprintf(path, sizeof(path), "%s/%020d.seg", f.path, 1);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	reopen(&f);
	put(&f, 3, 1);
	put(&f, 3, 2);
	take(&f, 3, 1, false);
	spool_settle(f.spool);
	reopen(&f);
	take(&f, 3, 1, true);
	take(&f, 3, 2, true);
	take_none(&f);
	teardown(&f);
}

/* What the child says: a step that is under way when it dies may have happened or not. */
enum step { ACKED, FINISHING, DONE };

struct report {
	uint32_t seed;
	uint32_t step; /* enum step */
};

static void tell(int fd, uint32_t seed, enum step step)
{
	struct report r = { seed, step };

	if (write(fd, &r, sizeof(r)) < 0)
		_exit(6);
}

/* Appends and now and then takes, telling the parent of each step that counts, until it is killed.
 */
static void child(struct fixture *f, uint32_t seed, int pipe_fd)
{
	struct spool_entry given[8];
	uint32_t given_count = 0, random = seed * 2654435761u | 1;
	struct err err;

	f->spool = spool_open(&f->options, &err);
	if (!f->spool)
		_exit(1);
	for (uint32_t i = 0;; i++) {
		struct report acked[4] = { { 0 } };
		uint32_t count = 0;
		uint64_t sequence;

		random = random * 1664525 + 1013904223;
		for (; count < 1 + (random >> 16) % 4; count++) {
			struct batch *batch = fake_batch(1 + seed % 7, seed, NULL);

			acked[count].seed = seed++;
			if (!spool_stage(f->spool, batch, &sequence, &err))
				_exit(2);
			batch_unref(batch);
		}
		if (!spool_commit(f->spool, &err))
			_exit(3);
		if (write(pipe_fd, acked, count * sizeof(acked[0])) < 0)
			_exit(4);
		while (given_count < (random >> 8) % 8 && spool_next(f->spool, &given[given_count]))
			given_count++;
		while (given_count > (random >> 4) % 8) {
			struct spool_entry *e = &given[random % given_count];
			struct batch *batch = spool_entry_batch(e, NULL, &err);
			uint32_t taken;

			if (!batch)
				_exit(5);
			taken = (uint32_t)batch->profiles->values[0];
			batch_unref(batch);
			blob_unref(e->body);
			tell(pipe_fd, taken, FINISHING);
			spool_done(f->spool, e->sequence);
			spool_settle(f->spool);
			tell(pipe_fd, taken, DONE);
			*e = given[--given_count];
		}
	}
}

enum { SEEDS_MOST = 1 << 20 };

/* Over all rounds: how often each body is in the spool, and what was said of it. */
struct ledger {
	uint8_t acked[SEEDS_MOST], done[SEEDS_MOST], there[SEEDS_MOST];
};

static void read_reports(struct ledger *l, int fd, uint32_t *next_seed)
{
	struct report r;

	while (read(fd, &r, sizeof(r)) == sizeof(r)) {
		assert_true(r.seed < SEEDS_MOST);
		if (r.step == ACKED)
			l->acked[r.seed] = 1;
		else
			l->done[r.seed] = (uint8_t)r.step;
		if (r.seed >= *next_seed)
			*next_seed = r.seed + 1;
	}
}

/* Every acknowledged body that is not done is there, once; none that is done. */
static void check_ledger(struct fixture *f, struct ledger *l, uint32_t *next_seed)
{
	struct spool_entry e;
	struct err err;

	memset(l->there, 0, sizeof(l->there));
	reopen(f);
	while (spool_next(f->spool, &e)) {
		struct batch *batch = spool_entry_batch(&e, NULL, &err);
		uint32_t seed;

		if (!batch)
			fail_msg("%s", err.msg);
		seed = (uint32_t)batch->profiles->values[0];
		assert_true(seed < SEEDS_MOST);
		l->there[seed]++;
		if (seed >= *next_seed)
			*next_seed = seed + 1;
		l->acked[seed] = 1; /* it was written, so it stays */
		batch_unref(batch);
		blob_unref(e.body);
	}
	for (uint32_t i = 0; i < *next_seed; i++) {
		if (l->done[i] == FINISHING && l->there[i] <= 1)
			l->done[i] = l->there[i] ? 0 : DONE;
		if (l->acked[i] && l->there[i] != !l->done[i])
			fail_msg("body %u: done %d, there %d times", i, l->done[i], l->there[i]);
	}
	spool_close(f->spool); /* nothing is done: all stays for the next round */
	f->spool = NULL;
}

/* Until the child has told so much, however slow it is. */
static void wait_reports(int fd, int count)
{
	int bytes = 0;

	for (int i = 0; i < 60 * 2000 && bytes < count * (int)sizeof(struct report); i++) {
		assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
		usleep(500);
	}
}

static void test_kill(void **state)
{
	const char *whole = getenv("FLAMETAP_LONG");
	int rounds = whole && *whole == '1' ? 100 : 10;
	struct ledger *l = calloc(1, sizeof(*l));
	uint32_t next_seed = 1, acked = 0;
	struct fixture f;

	(void)state;
	setup(&f);
	f.options.segment_bytes = 1 << 14;
	for (int round = 0; round < rounds; round++) {
		int fds[2], status;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
		pid = fork();
		if (pid == 0) {
			close(fds[0]);
			child(&f, next_seed, fds[1]);
		}
		close(fds[1]);
		wait_reports(fds[0], 1 + round * 7919 % 1000);
		usleep((unsigned)(round * 7919 % 3000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSIGNALED(status))
			fail_msg("round %d: the child ended by itself: %d", round,
				 WEXITSTATUS(status));
		read_reports(l, fds[0], &next_seed);
		close(fds[0]);
		check_ledger(&f, l, &next_seed);
	}
	for (uint32_t i = 0; i < next_seed; i++)
		acked += l->acked[i];
	printf("%d kills, %u bodies acknowledged\n", rounds, acked);
	assert_true(acked > (uint32_t)rounds);
	free(l);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),          cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_packing),        cmocka_unit_test(test_restart),
		cmocka_unit_test(test_from_memory),    cmocka_unit_test(test_full),
		cmocka_unit_test(test_locked),         cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_torn),           cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_cursor_damaged), cmocka_unit_test(test_unreadable_body),
		cmocka_unit_test(test_empty_segment),  cmocka_unit_test(test_kill),
	};
	int null = open("/dev/null", O_WRONLY); /* what is lost here on purpose need not be read */

	log_setup(LOG_ERROR, LOG_TEXT, null);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
