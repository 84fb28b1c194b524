/* filesystem_test.c - the exporter in its four formats, and what it leaves when the disk is full.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "components/exporters/exporters.h"
#include "components/exporters/fixtures_for_tests.h"
#include "components/exporters/component_for_tests.h"
#include "components/exporters/temp_dir_for_tests.h"
#include "support/metric_text.h"

#define BODY      "v1.11.0-synthetic-offcpu-links"
#define CONTAINER "b1eba9dfaeba29d8b80532a574a03ea3cac29384327f339c26da13649e2120df"

/* of v1.4.0-oncpu-start */
#define CGROUP "/docker-6b906c3a972f6d8f9d2c4598e3b5f961df557ee64f62baf49144bbfda22f0c1e.scope"

#define UNWRITTEN "flametap_filesystem_unwritten_samples_total{exporter=\"filesystem\",reason=\""

static struct batch *make_batch(const char *name, uint8_t wire_version)
{
	struct blob *body = fixture_body(name);
	struct err err = { 0 };
	struct batch *b = batch_new(fixture_profiles(name), body, NULL, &err);

	assert_non_null(b);
	blob_unref(body);
	b->encoding = BATCH_BODY_PROTOBUF;
	b->wire_version = wire_version;
	return b;
}

static void start(struct test_component *c, const char *dir, const char *more)
{
	char yaml[1024];

	snprintf(yaml, sizeof(yaml), "dir: %s\n%s", dir, more);
	test_component_start(c, &filesystem_exporter, yaml);
}

static void keep(struct test_component *c, const char *name)
{
	struct outcome o = test_consume(c, make_batch(name, WIRE_NEWEST));

	if (o.kind != OUTCOME_OK)
		fail_msg("%s", o.err.msg);
}

/* What Go's json.MarshalIndent writes for the reference's struct. */
static const char third_sample[] = "{\n"
				   "  \"container_id\": \"" CONTAINER "\",\n"
				   "  \"profile_id\": \"00000000000000000000000000000000\",\n"
				   "  \"sample_type\": \"samples\",\n"
				   "  \"timestamps_unix_nano\": [\n"
				   "    1767225600250000000,\n"
				   "    1767225600300000000\n"
				   "  ],\n"
				   "  \"attributes\": {\n"
				   "    \"cpu.logical_number\": \"1\",\n"
				   "    \"process.context.label.endpoint\": \"/pay\",\n"
				   "    \"process.context.label.tenant\": \"blue\",\n"
				   "    \"thread.id\": \"4243\",\n"
				   "    \"thread.name\": \"checkout\"\n"
				   "  },\n"
				   "  \"frames\": [\n"
				   "    {\n"
				   "      \"type\": \"kernel\",\n"
				   "      \"function\": \"copy_user_generic\"\n"
				   "    },\n"
				   "    {\n"
				   "      \"type\": \"kernel\",\n"
				   "      \"function\": \"do_syscall_64\"\n"
				   "    },\n"
				   "    {\n"
				   "      \"type\": \"native\",\n"
				   "      \"address\": \"0x9a0c0\",\n"
				   "      \"mapping\": \"libc.so.6\"\n"
				   "    },\n"
				   "    {\n"
				   "      \"type\": \"native\",\n"
				   "      \"address\": \"0xfac\",\n"
				   "      \"mapping\": \"\\u003cunknown\\u003e\"\n"
				   "    },\n"
				   "    {\n"
				   "      \"type\": \"native\",\n"
				   "      \"address\": \"0x401110\",\n"
				   "      \"mapping\": \"checkout\"\n"
				   "    }\n"
				   "  ]\n"
				   "}";

static void test_files(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct buf got;

	(void)state;
	buf_init(&got, 0);
	start(&c, dir, "");
	keep(&c, BODY);
	assert_int_equal(temp_dir_count(dir, ""), 2);
	assert_int_equal(temp_dir_count(dir, CONTAINER), 3);
	assert_int_equal(temp_dir_count(dir, CONTAINER "/events"), 1);
	assert_int_equal(temp_dir_count(dir, CONTAINER "/off_cpu"), 2);
	assert_int_equal(temp_dir_count(dir, CONTAINER "/samples"), 4);
	assert_int_equal(temp_dir_count(dir, "unknown/samples"), 2);
	temp_file_read(&got, dir, CONTAINER "/samples/3.json");
	assert_text_equal(buf_view(&got), str_cstr(third_sample));
	test_component_stop(&c);
	buf_release(&got);
	temp_dir_remove(dir);
}

/* A small body can ask for any number of large files: the limit is of all that one request writes.
 */
static void test_limit_of_all_files(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct outcome o;

	(void)state;
	start(&c, dir, "max_text_mib: 1");
	o = test_consume(&c, make_batch("v1.11.0-oncpu-big", WIRE_NEWEST));
	assert_int_equal(o.kind, OUTCOME_PERMANENT);
	assert_int_equal(o.err.kind, ERR_LIMIT);
	assert_non_null(strstr(o.err.msg, "1048576"));
	assert_true(temp_dir_count(dir, "unknown/samples") <= 0);
	assert_int_equal(metric_value(c.metrics, UNWRITTEN "too_long\"}"), 1200);
	keep(&c, BODY);
	assert_int_equal(temp_dir_count(dir, "unknown/samples"), 2);
	test_component_stop(&c);
	temp_dir_remove(dir);
}

static void test_files_of_one_container(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;

	(void)state;
	start(&c, dir, "container_id: " CONTAINER "\nsample_types: [samples]");
	keep(&c, BODY);
	keep(&c, BODY);
	assert_int_equal(temp_dir_count(dir, ""), 1);
	assert_int_equal(temp_dir_count(dir, CONTAINER), 1);
	assert_int_equal(temp_dir_count(dir, CONTAINER "/samples"), 8);
	test_component_stop(&c);
	temp_dir_remove(dir);
}

/* Up to OTLP 1.4 the one resource is the host, and container.id stands on the sample. */
static void test_container_of_the_sample(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct buf got;

	(void)state;
	buf_init(&got, 0);
	start(&c, dir, "format: jsonl\ncontainer_id: " CGROUP);
	keep(&c, "v1.4.0-oncpu-start");
	temp_file_read(&got, dir, "profiles.jsonl");
	assert_true(str_search(buf_view(&got), STR("\"container.id\":\"" CGROUP "\"")) > 0);
	assert_true(str_search(buf_view(&got), STR("\"container.id\":\"/\"")) < 0);
	test_component_stop(&c);

	start(&c, dir, "ignore_profiles_without_container_id: true");
	keep(&c, "v1.4.0-oncpu-start");
	assert_int_equal(temp_dir_count(dir, "unknown"), -1);
	test_component_stop(&c);
	buf_release(&got);
	temp_dir_remove(dir);
}

static size_t count_lines(struct str s)
{
	struct str line;
	size_t n = 0;

	while (str_split(&s, '\n', &line))
		n += line.len > 0;
	return n;
}

static const struct {
	const char *yaml, *file;
	size_t lines_per_request;
} growing[] = {
	{ "format: jsonl", "profiles.jsonl", 4 },
	{ "format: jsonl\nsample_types: off_cpu", "profiles.jsonl", 1 },
	{ "format: jsonl\nignore_profiles_without_container_id: true", "profiles.jsonl", 3 },
	{ "format: otlp-json\nfsync: true", "profiles.otlp.jsonl", 1 },
};

static void test_growing_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(growing); i++) {
		char *dir = temp_dir_make();
		struct test_component c;
		struct buf got;

		print_message("%s\n", growing[i].yaml);
		buf_init(&got, 0);
		start(&c, dir, growing[i].yaml);
		keep(&c, BODY);
		keep(&c, BODY);
		temp_file_read(&got, dir, growing[i].file);
		assert_int_equal(got.ptr[got.len - 1], '\n');
		assert_int_equal(count_lines(buf_view(&got)), 2 * growing[i].lines_per_request);
		test_component_stop(&c);
		start(&c, dir, growing[i].yaml); /* and on, after a restart */
		keep(&c, BODY);
		temp_file_read(&got, dir, growing[i].file);
		assert_int_equal(count_lines(buf_view(&got)), 3 * growing[i].lines_per_request);
		test_component_stop(&c);
		buf_release(&got);
		temp_dir_remove(dir);
	}
}

/* The newest version's bodies are kept as they came; older ones are encoded anew, unless asked not
 * to. */
static void test_otlp_records(void **state)
{
	char *dir = temp_dir_make();
	struct blob *body = fixture_body(BODY), *old = fixture_body("v1.8.0-synthetic-transcoded");
	struct test_component c;
	struct buf got;
	struct str rest;

	(void)state;
	buf_init(&got, 0);
	start(&c, dir, "format: otlp");
	keep(&c, BODY);
	assert_int_equal(
		test_consume(&c, make_batch("v1.8.0-synthetic-transcoded", WIRE_V1_8)).kind,
		OUTCOME_OK);
	test_component_stop(&c);
	temp_file_read(&got, dir, "profiles.otlp");
	rest = buf_view(&got);
	assert_int_equal((unsigned char)rest.ptr[2] << 8 | (unsigned char)rest.ptr[3], body->len);
	assert_memory_equal(rest.ptr + 4, body->ptr, body->len);
	rest = str_skip(rest, 4 + body->len);
	assert_int_equal(((unsigned char)rest.ptr[2] << 8 | (unsigned char)rest.ptr[3]) + 4,
			 rest.len);
	assert_true(rest.len - 4 != old->len || memcmp(rest.ptr + 4, old->ptr, old->len) != 0);

	start(&c, dir, "format: otlp\notlp_version: original");
	assert_int_equal(
		test_consume(&c, make_batch("v1.8.0-synthetic-transcoded", WIRE_V1_8)).kind,
		OUTCOME_OK);
	test_component_stop(&c);
	temp_file_read(&got, dir, "profiles.otlp");
	assert_memory_equal(got.ptr + got.len - old->len, old->ptr, old->len);
	buf_release(&got);
	blob_unref(body);
	blob_unref(old);
	temp_dir_remove(dir);
}

static void test_rotation(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;

	(void)state;
	start(&c, dir, "format: jsonl\nmax_mib: 1\nmax_backups: 2");
	for (int i = 0; i < 10; i++)
		keep(&c, "v1.11.0-oncpu-big"); /* two of them are less than a MiB, three more */
	assert_int_equal(
		metric_value(c.metrics,
			     "flametap_filesystem_deleted_files_total{exporter=\"filesystem\"}"),
		2); /* five files were begun, one grows and two stay behind it */
	test_component_stop(&c);
	assert_int_equal(temp_dir_count(dir, ""), 3);
	temp_dir_remove(dir);
}

/* What a crash left of a record is cut off, and counted in bytes. */
static void test_torn_record_is_counted(void **state)
{
	static const char series[] =
		"flametap_filesystem_torn_bytes_total{exporter=\"filesystem\"}";
	char *dir = temp_dir_make();
	struct test_component c;

	(void)state;
	temp_file_write(dir, "profiles.jsonl", STR("{}\n{\"half\":"));
	start(&c, dir, "format: jsonl");
	keep(&c, BODY);
	assert_int_equal(metric_value(c.metrics, series), 8);
	keep(&c, BODY);
	assert_int_equal(metric_value(c.metrics, series), 8); /* once */
	test_component_stop(&c);
	temp_dir_remove(dir);
}

static const struct {
	const char *yaml;
	const char *file; /* NULL: nothing may be left but directories */
} full_disks[] = {
	{ "format: json", NULL },
	{ "format: jsonl", "profiles.jsonl" },
	{ "format: otlp", "profiles.otlp" },
	{ "format: otlp-json", "profiles.otlp.jsonl" },
};

static void test_full_disk(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(full_disks); i++) {
		char *dir = temp_dir_make();
		struct test_component c;
		struct rlimit old, small;
		struct outcome o;
		struct buf got;

		print_message("%s\n", full_disks[i].yaml);
		buf_init(&got, 0);
		assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
		small = (struct rlimit){ 400, old.rlim_max };
		start(&c, dir, full_disks[i].yaml);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		o = test_consume(&c, make_batch(BODY, WIRE_NEWEST));
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(o.kind, OUTCOME_RETRY);
		assert_int_equal(o.err.kind, ERR_IO);
		assert_int_equal(metric_value(c.metrics, UNWRITTEN "disk\"}"), 9);
		if (full_disks[i].file)
			assert_int_equal(temp_file_read(&got, dir, full_disks[i].file), 0);
		else
			assert_int_equal(temp_dir_count(dir, CONTAINER "/events"), 0);
		keep(&c, BODY);
		assert_int_equal(metric_value(c.metrics, UNWRITTEN "disk\"}"), 9);
		test_component_stop(&c);
		buf_release(&got);
		temp_dir_remove(dir);
	}
}

/* What an old version said, and the one that is written has no place for. */
static void test_old_fields_are_counted(void **state)
{
	static const char series[] = "flametap_exporter_unwritten_total{exporter=\"filesystem\","
				     "reason=\"old_fields\"}";
	static const struct {
		const char *yaml;
		bool lost;
	} cases[] = {
		{ "format: otlp", true },
		{ "format: otlp-json", true },
		{ "format: otlp\notlp_version: original", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *dir = temp_dir_make();
		struct test_component c;

		print_message("%s\n", cases[i].yaml);
		start(&c, dir, cases[i].yaml);
		assert_int_equal(
			test_consume(&c, make_batch("v1.3.1-experimental-oncpu-a", WIRE_V1_3)).kind,
			OUTCOME_OK);
		assert_int_equal(metric_value(c.metrics, series) > 0, cases[i].lost);
		test_component_stop(&c);
		temp_dir_remove(dir);
	}
}

static void test_refused_options(void **state)
{
	static const char *const cases[] = { "dir: \"\"", "{format: otlp, container_id: x}",
					     "{format: otlp-json, sample_types: a}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct test_component c;
		struct err err = { 0 };

		assert_false(test_component_init(&c, &filesystem_exporter, cases[i], &err));
		assert_int_equal(err.kind, ERR_INVALID);
		test_component_release(&c);
	}
}

/* A file that another process writes is left alone. */
static void test_taken_file(void **state)
{
	char *dir = temp_dir_make(), yaml[512];
	struct test_component a, b;
	struct err err = { 0 };

	(void)state;
	snprintf(yaml, sizeof(yaml), "{dir: %s, format: jsonl}", dir);
	test_component_start(&a, &filesystem_exporter, yaml);
	assert_true(test_component_init(&b, &filesystem_exporter, yaml, &err));
	assert_false(b.ops->start(b.state, &b.host, &err));
	assert_int_equal(err.kind, ERR_BUSY);
	test_component_release(&b);
	test_component_stop(&a);
	temp_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_limit_of_all_files),
		cmocka_unit_test(test_files_of_one_container),
		cmocka_unit_test(test_container_of_the_sample),
		cmocka_unit_test(test_growing_files),
		cmocka_unit_test(test_otlp_records),
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_torn_record_is_counted),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_old_fields_are_counted),
		cmocka_unit_test(test_refused_options),
		cmocka_unit_test(test_taken_file),
	};

	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
