/* Labels of goroutines: read from memory made up here in the shapes of Go, with the code that BPF
 * runs (bpf/go_labels.h), and taken apart on our side. */
#include "agent/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cleanup.h"

/* ---- a process's memory: pieces at addresses, and some that is not present ---- */

enum { MEMORY_BYTES = 1 << 16 };
#define BASE   UINT64_C(0xc000000000)
#define ABSENT UINT64_C(0xdead00000000)

static struct {
	uint8_t bytes[MEMORY_BYTES];
	uint64_t used;
} memory;

static bool env_read(struct unwind_cursor *c, void *to, __u32 bytes, __u64 address)
{
	(void)c;
	if (address < BASE || address - BASE > sizeof(memory.bytes) ||
	    bytes > sizeof(memory.bytes) - (address - BASE))
		return false;
	memcpy(to, memory.bytes + (address - BASE), bytes);
	return true;
}

#include "bpf/go_labels.h"

static uint64_t place(const void *what, size_t bytes)
{
	uint64_t at = BASE + memory.used;

	assert_true(memory.used + bytes <= sizeof(memory.bytes));
	if (bytes)
		memcpy(memory.bytes + memory.used, what, bytes);
	memory.used += (bytes + 15) & ~(size_t)15;
	return at;
}

static void poke(uint64_t address, uint64_t word)
{
	memcpy(memory.bytes + (address - BASE), &word, sizeof(word));
}

struct pair {
	const char *key, *value; /* NULL key: its text is not present */
};

static struct go_label string_pair(const struct pair *p)
{
	struct go_label l = { ABSENT, 3, 0, strlen(p->value) };

	if (p->key) {
		l.key_bytes = strlen(p->key);
		l.key = place(p->key, l.key_bytes);
	}
	l.value = l.value_bytes ? place(p->value, l.value_bytes) : 0; /* "" has no address */
	return l;
}

/* From 1.24 on. */
static uint64_t place_list(const struct pair *pairs, uint32_t count)
{
	struct go_label list[64];

	for (uint32_t i = 0; i < count; i++)
		list[i] = string_pair(&pairs[i]);
	return place((const uint64_t[]){ place(list, count * sizeof(*list)), count, count }, 24);
}

struct bucket {
	uint8_t tops[8];
	uint64_t keys[8][2], values[8][2];
	uint64_t overflow;
};
_Static_assert(sizeof(struct bucket) == GO_BUCKET_BYTES, "a bucket of map[string]string");

static void fill(struct bucket *b, uint32_t slot, const struct pair *pair)
{
	struct go_label l = string_pair(pair);

	b->tops[slot] = (uint8_t)(5 + slot * 31);
	b->keys[slot][0] = l.key;
	b->keys[slot][1] = l.key_bytes;
	b->values[slot][0] = l.value;
	b->values[slot][1] = l.value_bytes;
}

/* Up to 1.23, as a map grows: 8 to a bucket at most, spread over the buckets; what does not fit
 * overflows. Slots that were given free stay empty in between. */
static uint64_t place_map(const struct pair *pairs, uint32_t count, uint32_t log)
{
	struct bucket buckets[16] = { 0 }, more[16] = { 0 };
	uint32_t used[16] = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		uint32_t b = (i * 7) & ((1u << log) - 1), slot = used[b]++;

		if (slot < 7) {
			fill(&buckets[b], slot + (slot > 2), &pairs[i]); /* slot 3 is empty */
			if (slot > 2)
				buckets[b].tops[3] = 1;
		} else {
			fill(&more[b], slot - 7, &pairs[i]);
		}
	}
	for (uint32_t b = 0; b < 1u << log; b++)
		if (used[b] > 7)
			buckets[b].overflow = place(&more[b], sizeof(more[b]));
	/* hmap, and what points to it: a map is a pointer */
	const uint64_t head[] = { count,
				  (uint64_t)log << 8 | UINT64_C(0x8badf00d) << 32,
				  place(buckets, sizeof(*buckets) << log),
				  0,
				  0,
				  0 };
	const uint64_t map = place(head, sizeof(head));

	return place(&map, sizeof(map));
}

/* ---- a thread ---- */

static const struct go_runtime LIST = { -8, 48, 352, 184, GO_LABELS_LIST, 0 };
static const struct go_runtime MAP = { -8, 48, 344, 192, GO_LABELS_MAP, 0 };

struct thread {
	uint64_t tls, g, m, goroutine;
	struct unwind_cursor cursor;
};

/* A thread on its scheduler's stack, or a goroutine's own. */
static struct thread make_thread(const struct go_runtime *r, uint64_t labels, bool on_g0)
{
	static const uint8_t zero[512];
	struct thread t = { .tls = place(zero, 16), .g = place(zero, 512), .m = place(zero, 512) };

	t.goroutine = on_g0 ? place(zero, 512) : t.g;
	poke(t.tls + 8, t.g);
	t.cursor.tp = t.tls + 16;
	poke(t.g + r->g_m, t.m);
	poke(t.m + r->m_curg, t.goroutine);
	poke(t.goroutine + r->g_m, t.m);
	poke(t.goroutine + r->g_labels, labels);
	return t;
}

static struct go_labels sent;

/* As bpf/sample.bpf.c does it. */
static enum go_labels_found read_labels(struct thread *t, const struct go_runtime *r)
{
	enum go_labels_found found;

	memset(&sent, 0xa5, sizeof(sent)); /* as another sample has left it */
	found = go_labels_begin(&sent, &t->cursor, r);
	if (found != GO_LABELS_SOME)
		return found;
	for (int i = 0; i < GO_LABELS_STEPS_MOST && go_labels_step(&sent, &t->cursor); i++)
		;
	sent.record.kind = RECORD_LABELS;
	return found;
}

static struct str sent_record(void)
{
	return str_from(&sent.record, sizeof(sent.record) + sent.record.bytes);
}

/* "k=v,k=v" */
static void describe(struct str text, char *out, size_t cap)
{
	struct str key, value;
	size_t at = 0;

	out[0] = 0;
	while (labels_next(&text, &key, &value)) {
		int n = snprintf(out + at, cap - at, "%s%.*s=%.*s", at ? "," : "", STR_ARG(key),
				 STR_ARG(value));

		assert_in_range(n, 1, cap - at - 1);
		at += (size_t)n;
	}
	assert_int_equal(text.len, 0);
}

static char seventy[71], three_hundred[301], cut_inside[260];

static void test_sets(void **state)
{
	static const struct {
		const char *what;
		struct pair pairs[12];
		uint32_t count;
		const char *want; /* sorted by key */
		uint64_t lost[LABEL_LOSSES];
	} cases[] = {
		{ "one", { { "endpoint", "/x" } }, 1, "endpoint=/x", { 0 } },
		{ "sorted, and empty ones",
		  { { "b", "2" }, { "a", "" }, { "", "nothing" }, { "aa", "3" } },
		  4,
		  "=nothing,a=,aa=3,b=2",
		  { 0 } },
		{ "a text that is not present",
		  { { "a", "1" }, { NULL, "x" }, { "c", "3" } },
		  3,
		  "a=1,c=3",
		  { [LABEL_LOST_UNREADABLE] = 1 } },
		{ "more than one bucket holds",
		  { { "a", "1" },
		    { "b", "2" },
		    { "c", "3" },
		    { "d", "4" },
		    { "e", "5" },
		    { "f", "6" },
		    { "g", "7" },
		    { "h", "8" },
		    { "i", "9" },
		    { "j", "10" } },
		  10,
		  "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9,j=10",
		  { 0 } },
		{ "too long",
		  { { seventy, three_hundred }, { "z", cut_inside } },
		  2,
		  NULL,
		  { [LABEL_LOST_CUT] = 2 } },
	};
	char want[2048], got[2048];

	(void)state;
	memset(seventy, 'k', 70);
	memset(three_hundred, 'v', 300);
	memset(cut_inside, 'x', 255);
	cut_inside[255] = (char)0xc3;
	cut_inside[256] = (char)0xa9;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int form = 0; form < 5; form++) { /* a list, and maps of 1 to 8 buckets */
			const struct go_runtime *r = form ? &MAP : &LIST;
			struct labels l = { 0 };
			struct thread t;
			struct str text;

			memory.used = 0;
			t = make_thread(
				r,
				form ? place_map(cases[i].pairs, cases[i].count, (uint32_t)form - 1)
				     : place_list(cases[i].pairs, cases[i].count),
				form & 1);
			assert_int_equal(read_labels(&t, r), GO_LABELS_SOME);
			assert_true(labels_take(&l, sent_record(), &text));
			describe(text, got, sizeof(got));
			snprintf(want, sizeof(want), "%.64s=%.256s,z=%.255s", seventy,
				 three_hundred, cut_inside);
			if (strcmp(got, cases[i].want ? cases[i].want : want) != 0)
				fail_msg("%s, form %d: %s", cases[i].what, form, got);
			for (int k = 0; k < LABEL_LOSSES; k++)
				if (l.lost[k] != cases[i].lost[k])
					fail_msg("%s, form %d: loss %d is %llu", cases[i].what,
						 form, k, (unsigned long long)l.lost[k]);
		}
	}
}

/* Sets past the limits: as many as fit, and all others counted. */
static void test_limits(void **state)
{
	static const struct {
		uint32_t count;
		size_t value_bytes;
		uint32_t want;
	} cases[] = {
		{ 32, 10, 32 },
		{ 33, 10, 32 },
		{ 50, 1, 32 },
		{ 32, 256, 16 }, /* of 272 bytes each: those that begin below 4,096 */
	};
	char keys[64][16], value[257] = { 0 };
	struct pair pairs[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int form = 0; form < 2; form++) {
			const struct go_runtime *r = form ? &MAP : &LIST;
			struct labels l = { 0 };
			struct str text, key, got;
			struct thread t;
			uint32_t count = 0;

			memset(value, 0, sizeof(value));
			memset(value, 'v', cases[i].value_bytes);
			for (uint32_t k = 0; k < cases[i].count; k++) {
				snprintf(keys[k], sizeof(keys[k]), "key%04u", k);
				pairs[k] = (struct pair){ keys[k], value };
			}
			memory.used = 0;
			t = make_thread(r,
					form ? place_map(pairs, cases[i].count, 3)
					     : place_list(pairs, cases[i].count),
					false);
			assert_int_equal(read_labels(&t, r), GO_LABELS_SOME);
			assert_true(labels_take(&l, sent_record(), &text));
			while (labels_next(&text, &key, &got)) {
				assert_int_equal(key.len, 7);
				assert_true(str_is(got, value));
				count++;
			}
			if (count != cases[i].want ||
			    l.lost[LABEL_LOST_MANY] != cases[i].count - cases[i].want)
				fail_msg("row %zu, form %d: %u came, %llu were lost", i, form,
					 count, (unsigned long long)l.lost[LABEL_LOST_MANY]);
		}
	}
}

/* Threads without labels, and memory that is not there. */
static void test_threads(void **state)
{
	static const struct pair one = { "a", "1" };
	enum { TLS, NO_G, G, NO_M, M, NO_CURG, CURG, NO_LABELS, LABELS, EMPTY, COUNT };
	static const enum go_labels_found want[COUNT] = {
		[TLS] = GO_LABELS_UNREADABLE,    [NO_G] = GO_LABELS_NONE,
		[G] = GO_LABELS_UNREADABLE,      [NO_M] = GO_LABELS_NONE,
		[M] = GO_LABELS_UNREADABLE,      [NO_CURG] = GO_LABELS_NONE,
		[CURG] = GO_LABELS_UNREADABLE,   [NO_LABELS] = GO_LABELS_NONE,
		[LABELS] = GO_LABELS_UNREADABLE, [EMPTY] = GO_LABELS_NONE,
	};

	(void)state;
	for (int what = 0; what < COUNT; what++) {
		for (int form = 0; form < 2; form++) {
			const struct go_runtime *r = form ? &MAP : &LIST;
			uint32_t count = what == EMPTY ? 0 : 1;
			struct thread t;
			uint64_t places[COUNT];

			memory.used = 0;
			t = make_thread(r,
					form ? place_map(&one, count, 0) : place_list(&one, count),
					true);
			places[NO_G] = places[G] = t.tls + 8;
			places[NO_M] = places[M] = t.g + r->g_m;
			places[NO_CURG] = places[CURG] = t.m + r->m_curg;
			places[NO_LABELS] = places[LABELS] = t.goroutine + r->g_labels;
			if (what == TLS)
				t.cursor.tp = ABSENT;
			else if (what != EMPTY)
				poke(places[what], want[what] == GO_LABELS_NONE ? 0 : ABSENT);
			if (read_labels(&t, r) != want[what])
				fail_msg("case %d, form %d", what, form);
		}
	}
}

/* Heads that lie: no more is read than the limits say. */
static void test_senseless_heads(void **state)
{
	static const struct pair one = { "a", "1" };
	struct labels l = { 0 };
	struct thread t;
	struct str text;
	uint64_t labels;
	uint32_t steps = 0;
	struct bucket *loop = calloc(1, sizeof(*loop));

	(void)state;
	assert_non_null(loop);
	memory.used = 0;
	labels = place_list(&one, 1);
	poke(labels + 8, UINT64_C(0x123456789)); /* as many labels, of which one is in memory */
	t = make_thread(&LIST, labels, false);
	memory.used = sizeof(memory.bytes);
	assert_int_equal(read_labels(&t, &LIST), GO_LABELS_SOME);
	assert_true(labels_take(&l, sent_record(), &text));
	assert_in_range(sent.record.taken, 1, LABELS_MOST);
	assert_true(l.lost[LABEL_LOST_UNREADABLE] >= 1 && !l.lost[LABEL_LOST_MANY]);

	/* A bucket that overflows into itself. */
	memory.used = 0;
	memset(loop->tops, 1, sizeof(loop->tops));
	loop->overflow = BASE + memory.used;
	place(loop, sizeof(*loop));
	labels = place((const uint64_t[]){ 1, 0, BASE, 0 }, 32);
	labels = place(&labels, sizeof(labels));
	t = make_thread(&MAP, labels, false);
	assert_int_equal(go_labels_begin(&sent, &t.cursor, &MAP), GO_LABELS_SOME);
	while (steps < GO_LABELS_STEPS_MOST && go_labels_step(&sent, &t.cursor))
		steps++;
	assert_int_equal(steps, GO_LABELS_STEPS_MOST);
	free(loop);
}

/* Records that are cut short or count wrong are refused. */
static void test_bad_records(void **state)
{
	static const struct pair pairs[] = { { "key", "value" }, { "more", "text" } };
	struct labels l = { 0 };
	struct thread t;
	struct str whole, text = STR("before");

	(void)state;
	memory.used = 0;
	t = make_thread(&LIST, place_list(pairs, 2), false);
	assert_int_equal(read_labels(&t, &LIST), GO_LABELS_SOME);
	whole = sent_record();
	for (size_t bytes = 0; bytes < whole.len; bytes++)
		assert_false(labels_take(&l, str_head(whole, bytes), &text));
	sent.record.taken = LABELS_MOST + 1;
	assert_false(labels_take(&l, whole, &text));
	sent.record.taken = 3;
	assert_false(labels_take(&l, whole, &text));
	assert_true(str_is(text, "before"));
	sent.record.taken = 2;
	assert_true(labels_take(&l, whole, &text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),        cmocka_unit_test(test_limits),
		cmocka_unit_test(test_threads),     cmocka_unit_test(test_senseless_heads),
		cmocka_unit_test(test_bad_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
