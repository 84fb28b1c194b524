/* Side-band records, written here field by field as perf_event.h has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "agent/sample/side_band.h"

struct writer {
	uint8_t bytes[512];
	size_t len;
};

static void put(struct writer *w, const void *data, size_t n)
{
	memcpy(w->bytes + w->len, data, n);
	w->len += n;
}

static void put32(struct writer *w, uint32_t v)
{
	put(w, &v, sizeof(v));
}

static void put64(struct writer *w, uint64_t v)
{
	put(w, &v, sizeof(v));
}

static void put_name(struct writer *w, const char *name)
{
	static const char zeros[8];
	size_t n = strlen(name) + 1;

	put(w, name, n);
	put(w, zeros, (8 - n % 8) % 8);
}

static void begin(struct writer *w, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = { .type = type, .misc = misc };

	w->len = 0;
	put(w, &h, sizeof(h));
}

/* Trailer and size. */
static struct str end(struct writer *w, uint64_t time)
{
	uint16_t size;

	put32(w, 11);
	put32(w, 12);
	put64(w, time);
	size = (uint16_t)w->len;
	memcpy(w->bytes + offsetof(struct perf_event_header, size), &size, sizeof(size));
	return str_from(w->bytes, w->len);
}

static struct str make_mmap(struct writer *w, uint16_t misc, uint8_t id_bytes, uint32_t prot)
{
	begin(w, PERF_RECORD_MMAP2, misc);
	put32(w, 100);
	put32(w, 101);
	put64(w, 0x7f0000001000);
	put64(w, 0x3000);
	put64(w, 0x2000);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		uint8_t id[24] = { id_bytes };

		for (int i = 0; i < 20; i++)
			id[4 + i] = (uint8_t)(i + 1);
		put(w, id, sizeof(id));
	} else {
		put32(w, 8);
		put32(w, 1);
		put64(w, 777);
		put64(w, 5);
	}
	put32(w, prot);
	put32(w, 2);
	put_name(w, "/usr/lib/x y.so");
	return end(w, 1234);
}

static void test_mmap(void **state)
{
	struct side_record r;
	struct writer w;

	(void)state;
	assert_true(side_record_parse(make_mmap(&w, 0, 0, 5), &r));
	assert_int_equal(r.kind, SIDE_MMAP);
	assert_int_equal(r.time_ns, 1234);
	assert_int_equal(r.pid, 100);
	assert_int_equal(r.start, 0x7f0000001000);
	assert_int_equal(r.length, 0x3000);
	assert_int_equal(r.file_offset, 0x2000);
	assert_int_equal(r.inode, 777);
	assert_int_equal(r.device, makedev(8, 1));
	assert_int_equal(r.build_id_bytes, 0);
	assert_true(r.executable);
	assert_true(str_is(r.name, "/usr/lib/x y.so"));

	assert_true(side_record_parse(make_mmap(&w, 0, 0, 3), &r));
	assert_false(r.executable);

	assert_true(side_record_parse(make_mmap(&w, PERF_RECORD_MISC_MMAP_BUILD_ID, 20, 5), &r));
	assert_int_equal(r.build_id_bytes, 20);
	assert_int_equal(r.build_id[19], 20);
	assert_int_equal(r.inode, 0);

	assert_false(side_record_parse(make_mmap(&w, PERF_RECORD_MISC_MMAP_BUILD_ID, 21, 5), &r));
}

static void test_tasks(void **state)
{
	static const struct {
		uint32_t type;
		enum side_kind want;
	} cases[] = { { PERF_RECORD_FORK, SIDE_FORK }, { PERF_RECORD_EXIT, SIDE_EXIT } };
	struct side_record r;
	struct writer w;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		begin(&w, cases[i].type, 0);
		put32(&w, 50); /* pid */
		put32(&w, 40); /* ppid */
		put32(&w, 51); /* tid */
		put32(&w, 41); /* ptid */
		put64(&w, 99);
		assert_true(side_record_parse(end(&w, 99), &r));
		assert_int_equal(r.kind, cases[i].want);
		assert_int_equal(r.pid, 50);
		assert_int_equal(r.ppid, 40);
		assert_int_equal(r.tid, 51);
	}
}

static void test_comm_and_others(void **state)
{
	struct side_record r;
	struct writer w;

	(void)state;
	begin(&w, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put32(&w, 7);
	put32(&w, 8);
	put_name(&w, "bash");
	assert_true(side_record_parse(end(&w, 1), &r));
	assert_int_equal(r.kind, SIDE_EXEC);
	assert_true(str_is(r.name, "bash"));

	begin(&w, PERF_RECORD_COMM, 0);
	put32(&w, 7);
	put32(&w, 8);
	put_name(&w, "worker-1");
	assert_true(side_record_parse(end(&w, 1), &r));
	assert_int_equal(r.kind, SIDE_COMM);

	begin(&w, PERF_RECORD_LOST, 0);
	put64(&w, 3);
	put64(&w, 17);
	assert_true(side_record_parse(end(&w, 1), &r));
	assert_int_equal(r.kind, SIDE_LOST);
	assert_int_equal(r.lost, 17);

	begin(&w, PERF_RECORD_KSYMBOL, 0);
	put64(&w, 0xffffffffc0000000);
	put32(&w, 512);
	put32(&w, 1u << 16 | 1);
	put_name(&w, "bpf_prog_x");
	assert_true(side_record_parse(end(&w, 1), &r));
	assert_int_equal(r.kind, SIDE_KSYMBOL);
	assert_true(r.unregistered);
	assert_int_equal(r.length, 512);

	begin(&w, 4711, 0); /* of a newer kernel */
	put64(&w, 1);
	assert_true(side_record_parse(end(&w, 1), &r));
	assert_int_equal(r.kind, SIDE_OTHER);
}

/* Each cut and each flipped byte of each kind: some answer, and no access outside. */
static void test_damaged(void **state)
{
	static const uint32_t types[] = { PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_FORK,
					  PERF_RECORD_LOST, PERF_RECORD_KSYMBOL };
	struct side_record r;
	struct writer w;

	(void)state;
	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
		struct str whole = make_mmap(&w, PERF_RECORD_MISC_MMAP_BUILD_ID, 20, 5);

		memcpy(w.bytes, &types[t], sizeof(types[t]));
		for (size_t len = 0; len <= whole.len; len++) {
			char *cut = malloc(len + 1); /* so that ASan sees each byte too far */
			bool ok;

			memcpy(cut, whole.ptr, len);
			ok = side_record_parse(str_from(cut, len), &r);
			if (len < sizeof(struct perf_event_header) + 16)
				assert_false(ok);
			for (size_t i = 0; ok && i < len; i++) {
				cut[i] = (char)(cut[i] ^ 0xff);
				if (side_record_parse(str_from(cut, len), &r))
					assert_true(r.name.len <= len);
				cut[i] = (char)(cut[i] ^ 0xff);
			}
			free(cut);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mmap),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_comm_and_others),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
