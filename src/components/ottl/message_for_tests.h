/*
 * message_for_tests.h - one small message with something of everything that conditions and
 * statements speak of: a resource, a scope, a profile and four samples.
 *
 *     sample   value   thread.name   stack, leaf first
 *     0        10      worker-17     work_inlined (inlined in work), main
 *     1        20      idle          poll, main
 *     2        30                    none; has a link
 *     3        40      idle          sysret (kernel, vmlinux), main
 */
#pragma once
#include <assert.h>
#include "base/buf.h"
#include "model/builder.h"

enum { TEST_SAMPLES = 4 };

static inline struct any_value test_text(const char *s)
{
	return (struct any_value){ .kind = ANY_STRING, .string = str_cstr(s) };
}

static inline struct attribute_index test_attribute(struct builder *b, const char *key,
						    const char *value)
{
	return builder_attribute(b, &(struct attribute){ .key = builder_string(b, str_cstr(key)),
							 .value = test_text(value) });
}

static inline struct line test_line(struct builder *b, const char *name, const char *file)
{
	return (struct line){
		.line = 1,
		.function = builder_function(
			b, &(struct function){ .name = builder_string(b, str_cstr(name)),
					       .filename = builder_string(b, str_cstr(file)) }),
	};
}

static inline struct location_index test_location(struct builder *b, const char *binary,
						  const char *kind, const struct line *lines,
						  uint32_t count)
{
	struct attribute_index type = test_attribute(b, "profile.frame.type", kind);
	struct mapping_index m = builder_mapping(
		b, &(struct mapping){ .filename = builder_string(b, str_cstr(binary)) }, NULL, 0);

	return builder_location(b, &(struct location){ .mapping = m }, lines, count, &type, 1);
}

static inline void test_resource(struct builder *b)
{
	static const struct any_value list[] = {
		{ .kind = ANY_STRING, .string = { "a", 1 } },
		{ .kind = ANY_STRING, .string = { "b", 1 } },
	};
	static const struct key_value map[] = {
		{ .key = { "k", 1 }, .value = { .kind = ANY_INT, .integer = 1 } },
	};
	const struct key_value pairs[] = {
		{ .key = STR("service.name"), .value = test_text("shop") },
		{ .key = STR("on"), .value = { .kind = ANY_BOOL, .boolean = true } },
		{ .key = STR("list"), .value = { .kind = ANY_ARRAY, .array = { list, 2 } } },
		{ .key = STR("map"), .value = { .kind = ANY_KVLIST, .kvlist = { map, 1 } } },
		{ .key = STR("replicas"), .value = { .kind = ANY_INT, .integer = 3 } },
	};

	builder_begin_resource(b)->attributes = builder_key_values(b, pairs, 5);
}

static inline void test_scope(struct builder *b)
{
	const struct key_value lib = { .key = STR("lib"),
				       .value = { .kind = ANY_BYTES, .string = STR("\x00\xff") } };
	struct scope_profiles *scope = builder_begin_scope(b);

	scope->name = STR("io.test");
	scope->version = STR("1.2");
	scope->attributes = builder_key_values(b, &lib, 1);
}

static inline void test_profile(struct builder *b)
{
	struct attribute_index team = test_attribute(b, "team", "core");
	struct profile *profile = builder_begin_profile(b);

	profile->sample_type.type = builder_string(b, STR("cpu"));
	profile->sample_type.unit = builder_string(b, STR("nanoseconds"));
	profile->period = 50000000;
	profile->time_unix_nano = 1000;
	profile->duration_nano = 5;
	profile->profile_id[0] = 1;
	profile->profile_id[1] = 2;
	builder_profile_attributes(b, &team, 1);
}

static inline void test_sample(struct builder *b, const struct location_index *stack,
			       uint32_t count, const char *thread, struct link_index link,
			       int64_t value)
{
	struct attribute_index a =
		thread ? test_attribute(b, "thread.name", thread) : (struct attribute_index){ 0 };

	builder_sample(b, builder_stack(b, stack, count), link, &a, thread != NULL, &value, 1, NULL,
		       0);
}

static inline struct profiles *test_message(void)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct link link = { .trace_id = { 0xaa }, .span_id = { 0xbb } };
	struct line work[2], poll, main_line, sysret;
	struct location_index main_at, stack[2];
	struct profiles *p;
	struct err err;

	test_resource(b);
	test_scope(b);
	test_profile(b);
	work[0] = test_line(b, "work_inlined", "work.h");
	work[1] = test_line(b, "work", "work.c");
	poll = test_line(b, "poll", "net.c");
	main_line = test_line(b, "main", "main.c");
	sysret = test_line(b, "sysret", "");
	main_at = test_location(b, "/bin/app", "native", &main_line, 1);
	stack[1] = main_at;
	stack[0] = test_location(b, "/bin/app", "native", work, 2);
	test_sample(b, stack, 2, "worker-17", (struct link_index){ 0 }, 10);
	stack[0] = test_location(b, "/bin/app", "native", &poll, 1);
	test_sample(b, stack, 2, "idle", (struct link_index){ 0 }, 20);
	test_sample(b, NULL, 0, NULL, builder_link(b, &link), 30);
	stack[0] = test_location(b, "vmlinux", "kernel", &sysret, 1);
	test_sample(b, stack, 2, "idle", (struct link_index){ 0 }, 40);
	p = builder_finish(b, &err);
	assert(p);
	return p;
}

/* ---- what differs from it ---- */

struct test_pairs {
	struct str keys[32];
	struct any_value values[32];
	uint32_t count;
};

static inline struct test_pairs test_pairs_of(struct key_values kv)
{
	struct test_pairs out = { .count = kv.count };

	for (uint32_t i = 0; i < kv.count; i++) {
		out.keys[i] = kv.ptr[i].key;
		out.values[i] = kv.ptr[i].value;
	}
	return out;
}

static inline struct test_pairs test_pairs_at(const struct profiles *p, struct range refs)
{
	struct test_pairs out = { .count = refs.count };

	for (uint32_t i = 0; i < refs.count; i++) {
		const struct attribute *a =
			&p->dict.attributes[p->attribute_refs[refs.first + i].v];

		out.keys[i] = profiles_string(p, a->key);
		out.values[i] = a->value;
	}
	return out;
}

static inline int test_pair(const struct test_pairs *l, struct str key)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (str_equal(l->keys[i], key))
			return (int)i;
	return -1;
}

/* " a=1 b=x -gone" behind the name of what has changed. */
static inline void test_describe_pairs(const char *name, const struct test_pairs *was,
				       const struct test_pairs *is, struct buf *out)
{
	struct buf line;

	buf_init(&line, 0);
	for (uint32_t i = 0; i < is->count; i++) {
		int old = test_pair(was, is->keys[i]);

		if (old >= 0 && any_value_equal(&was->values[old], &is->values[i]))
			continue;
		buf_printf(&line, " %.*s=", STR_ARG(is->keys[i]));
		any_value_append_text(&line, &is->values[i]);
	}
	for (uint32_t i = 0; i < was->count; i++)
		if (test_pair(is, was->keys[i]) < 0)
			buf_printf(&line, " -%.*s", STR_ARG(was->keys[i]));
	if (line.len)
		buf_printf(out, "%s%s:%.*s", out->len ? " " : "", name, (int)line.len, line.ptr);
	buf_release(&line);
}

static inline void test_describe_refs(const char *name, const struct profiles *was,
				      struct range was_refs, const struct profiles *is,
				      struct range is_refs, struct buf *out)
{
	struct test_pairs a = test_pairs_at(was, was_refs), b = test_pairs_at(is, is_refs);

	test_describe_pairs(name, &a, &b, out);
}

/* What `p` says that test_message() does not. */
static inline void test_describe_changes(const struct profiles *p, struct buf *out)
{
	struct profiles *was = test_message();
	struct test_pairs a = test_pairs_of(was->resources[0].attributes);
	struct test_pairs b = test_pairs_of(p->resources[0].attributes);
	char name[32];

	test_describe_pairs("resource", &a, &b, out);
	a = test_pairs_of(was->scopes[0].attributes);
	b = test_pairs_of(p->scopes[0].attributes);
	test_describe_pairs("scope", &a, &b, out);
	if (!str_equal(was->scopes[0].name, p->scopes[0].name))
		buf_printf(out, "scope.name %.*s", STR_ARG(p->scopes[0].name));
	test_describe_refs("profile", was, was->profiles[0].attributes, p,
			   p->profiles[0].attributes, out);
	if (!str_is(profiles_string(p, p->profiles[0].sample_type.type), "cpu"))
		buf_printf(out, "sample_type %.*s",
			   STR_ARG(profiles_string(p, p->profiles[0].sample_type.type)));
	if (p->profiles[0].period != was->profiles[0].period)
		buf_printf(out, "period %lld", (long long)p->profiles[0].period);
	if (p->profiles[0].profile_id[0] != 1)
		buf_printf(out, "profile_id %02x", p->profiles[0].profile_id[0]);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		snprintf(name, sizeof(name), "sample %u", i);
		test_describe_refs(name, was, was->samples[i].attributes, p,
				   p->samples[i].attributes, out);
	}
	profiles_free(was);
}
