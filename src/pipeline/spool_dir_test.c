/* The cursor: one sector, written over; a file of its own when it is more. And when syncs are due.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "pipeline/spool.h"
#include "pipeline/spool_dir.h"
#include "support/pipeline_fakes.h"

enum { UNFINISHED = 500 };

struct place {
	char path[64];
	int dir_fd, cursor_fd;
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	snprintf(p->path, sizeof(p->path), "/tmp/flametap-spool-dir-XXXXXX");
	assert_non_null(mkdtemp(p->path));
	p->dir_fd = open(p->path, O_RDONLY | O_DIRECTORY);
	p->cursor_fd = -1;
	*state = p;
	return p->dir_fd < 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	char command[96];

	close(p->dir_fd);
	if (p->cursor_fd >= 0)
		close(p->cursor_fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", p->path);
	free(p);
	return system(command);
}

static void write_cursor(struct place *p, uint64_t next, uint32_t count)
{
	uint64_t unfinished[UNFINISHED];
	const struct spool_cursor c = { .next = next, .unfinished = unfinished, .count = count };
	struct err err;

	for (uint32_t i = 0; i < count; i++)
		unfinished[i] = next - 1 - i;
	if (!spool_cursor_write(p->dir_fd, &p->cursor_fd, &c, &err))
		fail_msg("%s", err.msg);
}

static void check_cursor(const struct place *p, uint64_t next, uint32_t count)
{
	struct spool_cursor c;
	bool damaged;

	assert_true(spool_cursor_read(p->dir_fd, &c, &damaged));
	assert_int_equal(c.next, next);
	assert_int_equal(c.count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(c.unfinished[i], next - 1 - i);
	free(c.unfinished);
}

static struct stat cursor_stat(const struct place *p)
{
	struct stat st;

	assert_int_equal(fstatat(p->dir_fd, "cursor", &st, 0), 0);
	return st;
}

static void test_cursor(void **state)
{
	static const struct {
		uint32_t count;
		bool in_place; /* over the one before */
	} steps[] = {
		{ 0, false },  { 0, true },    { 3, true },  { 61, true }, { 62, false },
		{ 62, false }, { 500, false }, { 1, false }, { 60, true }, { 0, true },
	};
	struct place *p = *state;
	ino_t before = 0;

	for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		write_cursor(p, 1000 + i, steps[i].count);
		check_cursor(p, 1000 + i, steps[i].count);
		if ((cursor_stat(p).st_ino == before) != steps[i].in_place)
			fail_msg("step %u", i);
		before = cursor_stat(p).st_ino;
	}
	assert_int_equal(cursor_stat(p).st_size, 512);
}

/* As versions before this one wrote it: 24 bytes and nothing behind. */
static void test_short_cursor(void **state)
{
	struct place *p = *state;
	unsigned char bytes[24] = { 'F', 'T', 'C', '1' };
	uint64_t next = 77, hash;
	int fd = openat(p->dir_fd, "cursor", O_WRONLY | O_CREAT, 0600);

	memcpy(bytes + 8, &next, 8);
	hash = hash64(str_from(bytes, 16));
	memcpy(bytes + 16, &hash, 8);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	check_cursor(p, 77, 0);
	write_cursor(p, 78, 2);
	check_cursor(p, 78, 2);
}

static void flip(const struct place *p, off_t at)
{
	int fd = openat(p->dir_fd, "cursor", O_RDWR);
	char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void test_damage(void **state)
{
	struct place *p = *state;
	struct spool_cursor c;
	bool damaged = true;

	assert_false(spool_cursor_read(p->dir_fd, &c, &damaged));
	assert_false(damaged); /* there is none */
	for (off_t at = 0; at < 40; at++) {
		write_cursor(p, 5, 2);
		flip(p, at);
		assert_false(spool_cursor_read(p->dir_fd, &c, &damaged));
		assert_true(damaged);
	}
	write_cursor(p, 5, 2); /* over the damaged one */
	check_cursor(p, 5, 2);
}

static uint64_t put(struct spool *s)
{
	struct batch *batch = fake_batch(3, 7, NULL);
	uint64_t sequence;
	struct err err;

	if (!spool_stage(s, batch, &sequence, &err) || !spool_commit(s, &err))
		fail_msg("%s", err.msg);
	batch_unref(batch);
	return sequence;
}

/* With fsync: interval a sync is owed from the first write on, and no more when all is done. */
static void test_interval(void **state)
{
	struct place *p = *state;
	struct metrics *metrics = metrics_new();
	const struct spool_options options = { .path = p->path,
					       .id = "far",
					       .fsync = SPOOL_FSYNC_INTERVAL,
					       .fsync_interval_ns = 600 * SECOND_NS,
					       .metrics = metrics };
	uint64_t before, sequence, due;
	struct err err;
	struct spool *s = spool_open(&options, &err);

	assert_non_null(s);
	assert_int_equal(spool_settle_due_ns(s), 0);
	before = clock_monotonic_ns();
	sequence = put(s);
	spool_settle(s);
	due = spool_settle_due_ns(s);
	assert_in_range(due, before + 600 * SECOND_NS, clock_monotonic_ns() + 600 * SECOND_NS);
	put(s);
	assert_int_equal(spool_settle_due_ns(s), due); /* the first one's */
	for (uint64_t q = sequence; q < sequence + 2; q++) {
		assert_int_not_equal(spool_settle_due_ns(s), 0);
		assert_true(spool_take_if_next(s, q));
		spool_done(s, q);
		spool_settle(s);
	}
	assert_int_equal(spool_settle_due_ns(s), 0);
	spool_close(s);
	metrics_free(metrics);
}

/* Whom the requests are for is remembered, and a change is told once. */
static void test_destination(void **state)
{
	struct place *p = *state;

	assert_false(spool_dir_retarget(p->dir_fd, 1)); /* nothing is known of before */
	assert_false(spool_dir_retarget(p->dir_fd, 1));
	assert_true(spool_dir_retarget(p->dir_fd, UINT64_MAX));
	assert_false(spool_dir_retarget(p->dir_fd, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cursor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_cursor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interval, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destination, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
