#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/batch.h"

#include "model/copy.h"
#include "support/pipeline_fakes.h"
#include "wire/otlp_json.h"
#include "wire_fixtures.h"

static struct batch *fixture_batch(const char *name, struct budget *budget, struct blob **body)
{
	const struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p;
	struct batch *b;
	char path[256];
	FILE *f;
	struct err err;

	snprintf(path, sizeof(path), FIXTURE_DIR "%s.pb", name);
	f = fopen(path, "re");
	*body = fixture_drain(f, path);
	fclose(f);
	if (!otlp_decode(*body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	b = batch_new(p, *body, budget, &err);
	assert_non_null(b);
	b->encoding = BATCH_BODY_PROTOBUF;
	return b;
}

static struct buf encoded(const struct profiles *p)
{
	struct buf out;
	struct err err;

	buf_init(&out, 0);
	if (!otlp_encode(p, WIRE_NEWEST, &out, &err))
		fail_msg("%s", err.msg);
	return out;
}

/* The copy of every fixture says the same as the original, and goes on when that is gone. */
static void test_copy(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		struct budget budget;
		struct batch *b, *own;
		struct buf want, got;
		struct hash128 hash, copy_hash;
		struct blob *body;
		struct err err;

		budget_init(&budget, 0);
		b = fixture_batch(wire_fixtures[i], &budget, &body);
		blob_unref(body);
		want = encoded(b->profiles);
		hash = batch_request_hash(b);
		own = batch_make_own(batch_ref(b), &err);
		assert_ptr_not_equal(own, b);
		assert_null(own->body);
		assert_int_equal(own->encoding, BATCH_BODY_NONE);
		assert_int_equal(own->profiles->extra_count, b->profiles->extra_count);
		for (uint32_t k = 0; k < own->profiles->extra_count; k++)
			assert_true(any_value_equal(&own->profiles->extras[k].value,
						    &b->profiles->extras[k].value));
		batch_unref(b);
		got = encoded(own->profiles);
		assert_int_equal(got.len, want.len);
		assert_memory_equal(got.ptr, want.ptr, want.len);
		copy_hash = batch_request_hash(own);
		assert_memory_equal(&copy_hash, &hash, sizeof(hash));
		batch_unref(own);
		buf_release(&want);
		buf_release(&got);
		assert_int_equal(budget_used(&budget), 0);
	}
}

static void test_only_one(void **state)
{
	struct batch *b = fake_batch(3, 1, NULL), *own;
	struct err err;

	(void)state;
	own = batch_make_own(b, &err);
	assert_ptr_equal(own, b); /* nobody else has it: no copy */
	batch_unref(own);
}

static void test_budget(void **state)
{
	struct budget budget;
	struct batch *b, *second;
	struct profiles *p;
	struct err err;

	(void)state;
	budget_init(&budget, 1 << 20);
	b = fake_batch(3, 1, &budget);
	assert_int_equal(budget_used(&budget), b->charged_bytes);
	budget.limit_bytes = budget_used(&budget); /* no room for anything more */
	batch_ref(b);
	assert_null(batch_make_own(b, &err));
	assert_int_equal(err.kind, ERR_BUSY);
	p = profiles_copy(b->profiles);
	second = batch_new(p, NULL, &budget, &err);
	assert_null(second);
	profiles_free(p); /* still ours */
	batch_unref(b);
	batch_unref(b);
	assert_int_equal(budget_used(&budget), 0);
}

/* The same bytes are the same request; without a body its newest encoding is. */
static void test_hash(void **state)
{
	struct batch *a = fake_batch(3, 1, NULL), *b = fake_batch(3, 1, NULL);
	struct batch *c = fake_batch(3, 2, NULL);
	struct hash128 x = batch_request_hash(a), y = batch_request_hash(b);
	struct hash128 z = batch_request_hash(c), set = { 1, 2 };

	(void)state;
	assert_memory_equal(&x, &y, sizeof(x));
	assert_memory_not_equal(&x, &z, sizeof(x));
	batch_set_request_hash(c, set);
	z = batch_request_hash(c);
	assert_memory_equal(&z, &set, sizeof(z));
	batch_unref(a);
	batch_unref(b);
	batch_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_only_one),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
