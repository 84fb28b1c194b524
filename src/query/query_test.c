/* The answers of one selection agree with each other and with what can be counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "query/big_for_tests.h"

static void the_total_is_events_times_period(void **state)
{
	struct query *q = ask("");

	(void)state;
	assert_int_equal(total_of(q), EVENTS * PERIOD);
	assert_int_equal(query_facts(q).events, EVENTS);
	assert_int_equal(query_facts(q).processes, 24);
	assert_true(str_is(query_facts(q).type.id, "cpu:cpu:nanoseconds:cpu:nanoseconds") ||
		    str_is(query_facts(q).type.id, "process_cpu:cpu:nanoseconds:cpu:nanoseconds"));
	query_end(q);
}

/* ---- searches ---- */

enum { FEW_NODES = 40 };

/* What stacks of the tree hold a found frame, looked for in a tree that has them all. */
static int64_t found_in(const struct query_tree *t, unsigned side)
{
	uint32_t under = UINT32_MAX; /* depth of the found node that this one is below */
	int64_t sum = 0;

	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct query_node *n = &t->nodes[i];

		if (n->depth > under)
			continue;
		under = UINT32_MAX;
		if (n->frame < t->frames.count && t->frames.ptr[n->frame].found) {
			sum += n->total[side];
			under = n->depth;
		}
	}
	return sum;
}

static bool tree_has_found(const struct query_tree *t)
{
	for (uint32_t i = 0; i < t->node_count; i++)
		if (t->nodes[i].frame < t->frames.count && t->frames.ptr[t->nodes[i].frame].found)
			return true;
	return false;
}

/* Children and own are what a node is, kept paths or not. */
static void check_sums(const struct query_tree *t)
{
	for (uint32_t i = 0; i < t->node_count; i++) {
		int64_t sum = t->nodes[i].self[0];

		for (uint32_t k = i + 1; k < t->node_count && t->nodes[k].depth > t->nodes[i].depth;
		     k++)
			if (t->nodes[k].depth == t->nodes[i].depth + 1)
				sum += t->nodes[k].total[0];
		assert_int_equal(sum, t->nodes[i].total[0]);
	}
}

static struct query_tree_options searching(char pattern[200], struct str name, uint32_t nodes)
{
	snprintf(pattern, 200, "^\\Q%.*s\\E$", STR_ARG(name));
	return (struct query_tree_options){ .nodes_most = nodes, .search = str_cstr(pattern) };
}

/* The lightest frames that have a name of their own. */
static struct str light_name(const struct query_top *top, uint32_t i)
{
	const struct query_top_row *r = &top->rows[top->row_count - 1 - i];
	struct str name = top->frames.ptr[r->frame].function;

	return name.len < 150 ? name : (struct str){ 0 };
}

static void what_is_found_is_in_the_tree_however_light(void **state)
{
	struct query *q = ask("");
	uint32_t hidden = 0, looked = 0;
	struct query_top top;

	(void)state;
	MUST(query_top(q, &top, &err));
	for (uint32_t i = 0; i < 60 && i < top.row_count; i++) {
		struct str name = light_name(&top, i);
		struct query_tree_options o, plain = { .nodes_most = FEW_NODES };
		struct query_tree few, without, all;
		char pattern[200];

		if (!name.len)
			continue;
		o = searching(pattern, name, FEW_NODES);
		MUST(query_flamegraph(q, &o, &few, &err));
		o.nodes_most = QUERY_NODES_MOST;
		MUST(query_flamegraph(q, &o, &all, &err));
		assert_true(few.matched[0] > 0);
		assert_int_equal(few.matched[0], all.matched[0]);
		assert_int_equal(all.matched[0], found_in(&all, 0));
		assert_int_equal(few.total[0], EVENTS * PERIOD);
		check_sums(&few);
		assert_true(few.node_count <= 2 * FEW_NODES);
		MUST(query_flamegraph(q, &plain, &without, &err));
		looked += tree_has_found(&few);
		hidden += !tree_has_found(&without);
	}
	/* A path of more than a quarter of the nodes is too long to be kept for it. */
	assert_true(looked > 5);
	assert_true(hidden > 5);
	query_end(q);
}

static void check_diff_matches(struct query *left, struct query *right, struct query_tree_options o)
{
	struct query_tree diff, one;

	MUST(query_diff(left, right, &o, &diff, &err));
	assert_int_equal(diff.matched[0], found_in(&diff, 0));
	assert_int_equal(diff.matched[1], found_in(&diff, 1));
	MUST(query_flamegraph(right, &o, &one, &err));
	assert_int_equal(diff.matched[1], one.matched[0]);
	o.nodes_most = FEW_NODES;
	MUST(query_diff(left, right, &o, &diff, &err));
	assert_int_equal(diff.matched[1], one.matched[0]);
}

static void a_sandwich_and_a_diff_say_what_is_found(void **state)
{
	struct query_tree_options whole = { .nodes_most = QUERY_NODES_MOST };
	struct query *q = ask(""), *left = ask("{thread.name=~\"[a-m].*\"}"),
		     *right = ask("{thread.name!~\"[a-m].*\"}");
	struct query_sandwich plain = { 0 }, few, all;
	struct query_top top;
	uint64_t key = 0;

	(void)state;
	MUST(query_top(q, &top, &err));
	for (uint32_t i = 0; plain.callers.node_count < 30 && i < top.row_count; i++) {
		key = top.frames.ptr[top.rows[i].frame].key;
		MUST(query_sandwich(q, key, &whole, &plain, &err));
	}
	assert_true(plain.callers.node_count >= 30);
	for (uint32_t i = 1; i < plain.callers.node_count; i += plain.callers.node_count / 9) {
		uint32_t frame = plain.callers.nodes[i].frame;
		struct query_tree_options o;
		char pattern[200];
		struct str name = plain.callers.frames.ptr[frame].function;

		if (!name.len || name.len > 150)
			continue;
		o = searching(pattern, name, FEW_NODES);
		MUST(query_sandwich(q, key, &o, &few, &err));
		o.nodes_most = QUERY_NODES_MOST;
		MUST(query_sandwich(q, key, &o, &all, &err));
		assert_true(few.callers.matched[0] >= plain.callers.nodes[i].total[0]);
		assert_int_equal(few.callers.matched[0], found_in(&all.callers, 0));
		assert_int_equal(few.callees.matched[0], found_in(&all.callees, 0));
		if (i == 1)
			assert_int_equal(few.callers.matched[0], few.callers.total[0]);
		check_sums(&few.callers);
		check_diff_matches(left, right, o);
	}
	query_end(q);
	query_end(left);
	query_end(right);
}

static void a_timeline_adds_up(void **state)
{
	static const struct {
		const char *group;
		uint32_t most;
	} cases[] = { { "", 0 }, { "thread.name", 3 }, { "process_executable_name", 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct query_timeline_options o = { .group_by = str_cstr(cases[i].group),
						    .groups_most = cases[i].most };
		struct query *q = ask("");
		struct query_timeline t;
		int64_t sum = 0;

		MUST(query_timeline(q, &o, &t, &err));
		for (uint32_t g = 0; g < t.group_count; g++) {
			int64_t of_group = 0;

			for (uint32_t b = 0; b < t.bucket_count; b++)
				of_group += t.groups[g].values[b];
			assert_int_equal(of_group, t.groups[g].total);
			assert_true(g == 0 || t.groups[g].other ||
				    t.groups[g].total <= t.groups[g - 1].total);
			sum += of_group;
		}
		assert_int_equal(sum, EVENTS * PERIOD);
		if (cases[i].most) {
			assert_int_equal(t.group_count, cases[i].most + 1);
			assert_true(t.groups[cases[i].most].other);
		}
		query_end(q);
	}
}

static void a_heat_map_adds_up(void **state)
{
	struct query *q = ask("{thread.name!=\"\"}");
	struct query_heatmap h;
	int64_t sum = 0, most = 0;

	(void)state;
	MUST(query_heatmap(q, NULL, &h, &err));
	for (uint32_t i = 0; i < h.columns * h.rows; i++) {
		sum += h.values[i];
		most = h.values[i] > most ? h.values[i] : most;
	}
	assert_int_equal(sum, EVENTS * PERIOD);
	assert_int_equal(most, h.most);
	query_end(q);
}

static void label_values_split_the_whole(void **state)
{
	struct query *q = ask("");
	struct query_labels names, values;
	uint64_t events = 0;
	bool seen = false;

	(void)state;
	MUST(query_label_names(q, &names, &err));
	for (uint32_t i = 0; i < names.count; i++)
		seen |= str_is(names.ptr[i].text, "thread.name");
	assert_true(seen);
	MUST(query_label_values(q, &(struct query_values_options){ .key = STR("service_name") },
				&values, &err));
	for (uint32_t i = 0; i < values.count; i++)
		events += values.ptr[i].events;
	assert_int_equal(events, EVENTS); /* everything has a service name */
	assert_true(values.count > 5 && !values.cut);
	MUST(query_label_values(
		q, &(struct query_values_options){ .key = STR("service_name"), .most = 2 }, &values,
		&err));
	assert_true(values.count == 2 && values.cut);
	query_end(q);
}

/* The total of the node that is the child of the root with this name; -1: none. */
static int64_t child_total(const struct query_tree *t, struct str name)
{
	for (uint32_t i = 0; i < t->node_count; i++) {
		struct buf text = { 0 };
		bool found;

		if (t->nodes[i].depth != 1 || t->nodes[i].frame == QUERY_FRAME_OTHER)
			continue;
		query_frame_append_name(&text, &t->frames.ptr[t->nodes[i].frame],
					QUERY_BY_FUNCTION);
		found = str_equal(buf_view(&text), name);
		buf_release(&text);
		if (found)
			return t->nodes[i].total[0];
	}
	return -1;
}

static void groups_are_the_first_frames(void **state)
{
	static const struct {
		const char *label;
		bool inverted;
	} cases[] = { { "thread.name", false }, { "process_executable_name", true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct query_timeline_options by = { .group_by = str_cstr(cases[i].label),
						     .groups_most = 1000 };
		struct query_tree_options o = { .group_by = str_cstr(cases[i].label),
						.inverted = cases[i].inverted,
						.nodes_most = QUERY_NODES_MOST };
		struct query *q = ask("");
		struct query_timeline t;
		struct query_tree tree;
		uint32_t children = 0;
		uint64_t key = 0;

		MUST(query_timeline(q, &by, &t, &err));
		MUST(query_flamegraph(q, &o, &tree, &err));
		assert_int_equal(tree.total[0], EVENTS * PERIOD);
		for (uint32_t n = 0; n < tree.node_count; n++) {
			if (tree.nodes[n].depth == 0)
				continue;
			assert_int_equal(tree.frames.ptr[tree.nodes[n].frame].group,
					 tree.nodes[n].depth == 1);
			if (tree.nodes[n].depth == 1 && !children++)
				key = tree.frames.ptr[tree.nodes[n].frame].key;
		}
		assert_int_equal(children, t.group_count);
		assert_true(children > 3);
		for (uint32_t g = 0; g < t.group_count; g++)
			assert_int_equal(child_total(&tree, t.groups[g].label.len
								    ? t.groups[g].label
								    : STR("(none)")),
					 t.groups[g].total);
		o.path = &key; /* the heaviest one, opened */
		o.path_count = 1;
		MUST(query_flamegraph(q, &o, &tree, &err));
		assert_int_equal(tree.total[0], t.groups[0].total);
		query_end(q);
	}
}

static void pages_hold_every_sample_once(void **state)
{
	struct query_samples_options o = { .page = 97 };
	struct query *q = ask("");
	uint64_t before_time = 0, samples = 0, timestamps = 0;
	int64_t sum = 0;
	struct query_samples page;

	(void)state;
	do {
		MUST(query_samples(q, &o, &page, &err));
		for (uint32_t i = 0; i < page.count; i++) {
			const struct query_sample *s = &page.ptr[i];

			assert_true(s->time >= before_time);
			assert_true(s->frame_count > 0 && s->attributes.count > 0 &&
				    s->resource.count > 0 && s->profile_duration > 0);
			before_time = s->time;
			samples++;
			timestamps += s->timestamp_count;
			sum += s->value;
			o.after_time = s->time;
			o.after_sample = s->sample;
		}
		query_end(q);
		q = ask("");
	} while (page.more);
	query_end(q);
	assert_int_equal(samples, 1200);
	assert_int_equal(timestamps, EVENTS);
	assert_int_equal(sum, EVENTS * PERIOD);
}

static void the_newest_samples_come_first_where_that_is_asked_for(void **state)
{
	struct query_samples_options all = { .page = 10000 };
	struct query_samples_options o = { .page = 97, .newest_first = true };
	struct query *whole = ask(""), *q = ask("");
	struct query_samples old, page;
	uint32_t at;

	(void)state;
	MUST(query_samples(whole, &all, &old, &err));
	at = old.count;
	do {
		MUST(query_samples(q, &o, &page, &err));
		for (uint32_t i = 0; i < page.count; i++) {
			assert_true(at-- > 0);
			assert_int_equal(page.ptr[i].sample, old.ptr[at].sample);
			assert_int_equal(page.ptr[i].time, old.ptr[at].time);
		}
		o.after_time = page.ptr[page.count - 1].time;
		o.after_sample = page.ptr[page.count - 1].sample;
		query_end(q);
		q = ask("");
	} while (page.more);
	assert_int_equal(at, 0);
	query_end(q);
	query_end(whole);
}

static void both_halves_of_a_sandwich_weigh_the_same(void **state)
{
	struct query *q = ask("");
	struct query_top top;

	(void)state;
	MUST(query_top(q, &top, &err));
	for (uint32_t i = 0; i < top.row_count && i < 40; i++) {
		uint64_t key = top.frames.ptr[top.rows[i].frame].key;
		struct query_sandwich s;
		struct query *again = ask("");

		MUST(query_sandwich(again, key, NULL, &s, &err));
		assert_true(s.found);
		assert_int_equal(s.callers.total[0], top.rows[i].total[0]);
		assert_int_equal(s.callees.total[0], top.rows[i].total[0]);
		assert_int_equal(s.callers.nodes[1].total[0], top.rows[i].total[0]);
		assert_int_equal(s.callees.nodes[1].total[0], top.rows[i].total[0]);
		query_end(again);
	}
	query_end(q);
}

/* What is collected answers as what it was collected from. */
static void a_collected_selection_is_the_selection(void **state)
{
	struct query *q = ask("{process.executable.name=~\"p.*\"}");
	struct query_request r = { 0 };
	struct query_top a, b;
	struct profiles *p;
	struct query *again;
	struct err e;

	(void)state;
	MUST(query_top(q, &a, &err));
	MUST(query_collect(q, &p, &err));
	r.source = profiles_source_new(p);
	again = query_begin(&r, &e);
	assert_non_null(again);
	MUST(query_top(again, &b, &err));
	assert_int_equal(a.total[0], b.total[0]);
	assert_int_equal(a.row_count, b.row_count);
	for (uint32_t i = 0; i < a.row_count; i++) {
		assert_int_equal(a.rows[i].self[0], b.rows[i].self[0]);
		assert_int_equal(a.rows[i].total[0], b.rows[i].total[0]);
	}
	assert_int_equal(query_facts(q).events, query_facts(again).events);
	query_end(again);
	source_free(r.source);
	profiles_free(p);
	query_end(q);
}

static void pruning_loses_no_value(void **state)
{
	static const uint32_t most[] = { 1, 2, 10, 100, 1000 };

	(void)state;
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		struct query_tree_options o = { .nodes_most = most[i], .search = STR("libc") };
		struct query *q = ask("");
		struct query_tree t;
		int64_t self = 0;

		MUST(query_flamegraph(q, &o, &t, &err));
		for (uint32_t k = 0; k < t.node_count; k++)
			self += t.nodes[k].self[0];
		assert_int_equal(self, EVENTS * PERIOD);
		assert_true(t.node_count <= most[i] * 2 + 1);
		assert_true(t.matched[0] > 0 && t.matched[0] < EVENTS * PERIOD);
		query_end(q);
	}
}

static int heavier(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x > y ? -1 : x < y;
}

/* Totals of the nodes that are not `other`, heaviest first. */
static uint32_t totals_of(uint32_t most, int64_t *out, uint32_t *pruned)
{
	struct query_tree_options o = { .nodes_most = most };
	struct query *q = ask("");
	struct query_tree t;
	uint32_t count = 0;

	MUST(query_flamegraph(q, &o, &t, &err));
	for (uint32_t i = 0; i < t.node_count; i++)
		if (t.nodes[i].frame != QUERY_FRAME_OTHER)
			out[count++] = t.nodes[i].total[0];
	*pruned = t.pruned_nodes;
	qsort(out, count, sizeof(*out), heavier);
	query_end(q);
	return count;
}

/* Of the whole tree as many of the heaviest nodes stay as were asked for; of those that weigh the
 * same, the nearest to the root. */
static void pruning_keeps_the_heaviest(void **state)
{
	static const uint32_t most[] = { 2, 3, 7, 64, 500 };
	static int64_t all[1 << 16], kept[1 << 16];
	uint32_t pruned, all_count = totals_of(1 << 16, all, &pruned);

	(void)state;
	assert_int_equal(pruned, 0);
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		uint32_t count = totals_of(most[i], kept, &pruned);

		assert_true(all_count > most[i]);
		assert_int_equal(count, most[i]);
		assert_true(pruned > 0 && pruned <= all_count - count);
		assert_memory_equal(kept, all, count * sizeof(*all));
	}
}

struct known_node {
	uint64_t path; /* a hash of the frames from the root */
	int64_t total, self;
};

static int path_order(const void *a, const void *b)
{
	uint64_t x = ((const struct known_node *)a)->path, y = ((const struct known_node *)b)->path;

	return x < y ? -1 : x > y;
}

/* Those that are not `other`, by path. */
static uint32_t nodes_of(uint32_t most, struct known_node *out)
{
	static uint64_t above[256];
	struct query_tree_options o = { .nodes_most = most };
	struct query *q = ask("");
	struct query_tree t;
	uint32_t count = 0;

	MUST(query_flamegraph(q, &o, &t, &err));
	for (uint32_t i = 0; i < t.node_count; i++) {
		const struct query_node *n = &t.nodes[i];

		if (n->frame == QUERY_FRAME_OTHER)
			continue;
		assert_true(n->depth < 255);
		above[n->depth + 1] = n->depth ? (above[n->depth] + t.frames.ptr[n->frame].key) *
							 UINT64_C(0x9e3779b97f4a7c15)
					       : 0;
		out[count++] = (struct known_node){ above[n->depth + 1], n->total[0], n->self[0] };
	}
	qsort(out, count, sizeof(*out), path_order);
	query_end(q);
	return count;
}

/* However much is left out: a node that is shown is one of the whole tree, with its values. */
static void a_pruned_tree_is_a_part_of_the_whole(void **state)
{
	static struct known_node whole[1 << 16], part[1 << 16];
	uint32_t whole_count = nodes_of(1 << 16, whole);

	(void)state;
	for (uint32_t most = 2; most < 500; most += 1 + most / 3) {
		uint32_t count = nodes_of(most, part);

		for (uint32_t i = 0; i < count; i++) {
			const struct known_node *n =
				bsearch(&part[i], whole, whole_count, sizeof(*whole), path_order);

			if (!n || n->total != part[i].total || n->self != part[i].self)
				fail_msg("of %u nodes one is not in the whole tree", most);
			assert_true(i == 0 || part[i].path != part[i - 1].path);
		}
	}
}

/* `other` opens: the path's keys and the same numbers. */
static void a_path_opens_what_it_leads_to(void **state)
{
	struct query *q = ask("");
	struct query_tree whole, below;
	uint64_t key;
	struct query_tree_options o = { .path = &key, .path_count = 1 };

	(void)state;
	MUST(query_flamegraph(q, NULL, &whole, &err));
	key = whole.frames.ptr[whole.nodes[1].frame].key;
	MUST(query_flamegraph(q, &o, &below, &err));
	assert_int_equal(below.total[0], whole.nodes[1].total[0]);
	assert_false(query_facts(q).partial);
	query_end(q);
}

static void what_is_cancelled_ends(void **state)
{
	atomic_bool cancelled = true;
	struct query_request r = { .source = source, .cancelled = &cancelled };
	struct err err;

	(void)state;
	assert_null(query_begin(&r, &err));
	assert_int_equal(err.kind, ERR_CANCELLED);
	r.cancelled = NULL;
	r.deadline_ns = 1;
	assert_null(query_begin(&r, &err));
	assert_int_equal(err.kind, ERR_TIMEOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_total_is_events_times_period),
		cmocka_unit_test(what_is_found_is_in_the_tree_however_light),
		cmocka_unit_test(a_sandwich_and_a_diff_say_what_is_found),
		cmocka_unit_test(a_timeline_adds_up),
		cmocka_unit_test(a_heat_map_adds_up),
		cmocka_unit_test(label_values_split_the_whole),
		cmocka_unit_test(groups_are_the_first_frames),
		cmocka_unit_test(pages_hold_every_sample_once),
		cmocka_unit_test(the_newest_samples_come_first_where_that_is_asked_for),
		cmocka_unit_test(both_halves_of_a_sandwich_weigh_the_same),
		cmocka_unit_test(a_collected_selection_is_the_selection),
		cmocka_unit_test(pruning_loses_no_value),
		cmocka_unit_test(pruning_keeps_the_heaviest),
		cmocka_unit_test(a_pruned_tree_is_a_part_of_the_whole),
		cmocka_unit_test(a_path_opens_what_it_leads_to),
		cmocka_unit_test(what_is_cancelled_ends),
	};

	return cmocka_run_group_tests(tests, open_big, close_big);
}
