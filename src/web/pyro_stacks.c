/* pyro_stacks.c - answers about stacks: SelectMergeStacktraces, SelectMergeSpanProfile,
 * SelectMergeProfile, Diff. */
#include "formats/go_pgo.h"
#include "model/profiles.h"
#include "query/draw/dot.h"
#include "web/pyro.h"
#include "wire/pb_writer.h"

static const size_t PPROF_BYTES_MOST = 64 << 20;

/* ---- the tree ---- */

static uint32_t nodes_most(int64_t asked)
{
	if (asked < 0 || asked > QUERY_NODES_MOST)
		return QUERY_NODES_MOST;
	return asked ? (uint32_t)asked : PYRO_NODES_DEFAULT;
}

bool pyro_flamegraph(struct web_ask *a, struct query *q, int64_t max_nodes, struct pyro_tree *out,
		     struct err *err)
{
	struct query_tree_options o = { .nodes_most = nodes_most(max_nodes) };
	struct query_tree tree;

	if (!query_flamegraph(q, &o, &tree, err))
		return false;
	pyro_tree_make(&tree, &a->arena, out);
	return true;
}

bool pyro_dot(struct query *q, int64_t max_nodes, struct buf *out, struct err *err)
{
	struct query_tree_options o = { .nodes_most = QUERY_NODES_MOST };
	struct dot_options dot = { .unit = query_facts(q).type.unit,
				   .nodes_most = max_nodes > 0 ? nodes_most(max_nodes) : 0 };
	struct query_tree tree;

	if (!query_flamegraph(q, &o, &tree, err))
		return false;
	dot_append_tree(out, &tree, &dot);
	return true;
}

bool pyro_diff(struct web_ask *a, struct query *left, struct query *right, int64_t max_nodes,
	       struct pyro_tree *out, struct err *err)
{
	struct query_tree_options o = { .nodes_most = nodes_most(max_nodes) };
	struct query_tree tree;

	if (!query_diff(left, right, &o, &tree, err))
		return false;
	pyro_tree_make(&tree, &a->arena, out);
	return true;
}

static void put_levels(struct pb_writer *w, const struct pyro_levels *l)
{
	for (uint32_t i = l->count; i-- > 0;) {
		size_t mark = pw_mark(w);

		pw_packed_i64(w, 1, l->levels[i].values, l->levels[i].count);
		pw_message(w, 2, mark);
	}
}

static void put_names(struct pb_writer *w, const struct pyro_tree *t)
{
	for (uint32_t i = t->name_count; i-- > 0;)
		pw_bytes_present(w, 1, t->names[i]);
}

/* FlameGraph, or with two sides FlameGraphDiff, as field 1 of the answer. */
static bool put_flamegraph(struct web_ask *a, const struct pyro_tree *t, int sides, struct err *err)
{
	const struct pyro_node *root = &t->nodes[0];
	struct pyro_levels levels;
	struct pb_writer w;
	size_t mark;

	pyro_levels_make(t, sides, &a->arena, &levels);
	pw_begin(&w, &a->body, t->node_count * 16);
	mark = pw_mark(&w);
	if (sides == 2) {
		pw_int(&w, 6, root->total[1]);
		pw_int(&w, 5, root->total[0]);
	}
	pw_int(&w, 4, levels.max_self);
	pw_int(&w, 3, sides == 2 ? root->total[0] + root->total[1] : root->total[0]);
	put_levels(&w, &levels);
	put_names(&w, t);
	pw_message(&w, 1, mark);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the flame graph is too large");
}

static bool put_text(struct web_ask *a, uint32_t number, struct str text, struct err *err)
{
	struct pb_writer w;

	pw_begin(&w, &a->body, text.len + PW_FIELD_MOST);
	pw_bytes(&w, number, text);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the answer is too large");
}

/* ---- pprof ---- */

/* As StackTraceSelector.go_pgo asks for, where it does. */
static bool for_pgo(const struct pyro_request *r, struct profiles **p, struct err *err)
{
	struct go_pgo_options options;
	struct profiles *made;
	bool asked;

	if (!pyro_pgo_read(r, &options, &asked, err))
		return false;
	if (!asked)
		return true;
	made = go_pgo_make(*p, &options, err);
	profiles_free(*p);
	*p = made;
	return made != NULL;
}

static bool make_pprof(const struct pyro_request *r, struct query *q, struct buf *out,
		       struct err *err)
{
	struct export_options o = { .without_timestamps = true, .one_column = true };
	struct profiles *p = NULL;
	bool ok;

	ok = query_collect_merged(q, &p, err) && for_pgo(r, &p, err) &&
	     formats[FORMAT_PPROF].write(p, &o, out, err);
	profiles_free(p);
	return ok;
}

static bool put_pprof(struct web_ask *a, const struct pyro_request *r, struct query *q,
		      struct err *err)
{
	struct buf pprof;
	bool ok;

	buf_init(&pprof, PPROF_BYTES_MOST);
	ok = make_pprof(r, q, &pprof, err) && put_text(a, 5, buf_view(&pprof), err);
	buf_release(&pprof);
	return ok;
}

/* ---- answers ---- */

/* A tree of no nodes: what a selection that matches nothing has. */
static void no_tree(struct pyro_tree *t)
{
	static struct pyro_node root;
	static struct str total = { "total", 5 };

	*t = (struct pyro_tree){ &root, &total, 1, 1 };
}

static bool put_tree(struct web_ask *a, const struct pyro_request *r, const struct pyro_tree *t,
		     struct err *err)
{
	struct buf text = { 0 };
	bool ok;

	if (r->format != PYRO_TREE)
		return put_flamegraph(a, t, 1, err);
	pyro_tree_bytes(t, &text);
	ok = put_text(a, 2, buf_view(&text), err);
	buf_release(&text);
	return ok;
}

static bool put_dot(struct web_ask *a, const struct pyro_request *r, struct query *q,
		    struct err *err)
{
	struct buf text = { 0 };
	bool ok = true;

	if (q)
		ok = pyro_dot(q, r->max_nodes, &text, err);
	else
		buf_lit(&text, "digraph \"profile\" {\n}\n");
	ok = ok && put_text(a, 3, buf_view(&text), err);
	buf_release(&text);
	return ok;
}

static bool answer_merge(struct web_ask *a, const struct pyro_request *r, struct err *err)
{
	struct query *q = pyro_begin(a, r, r->selector, r->profile_type, err);
	struct pyro_tree t;
	bool ok = true;

	if (!q && err->kind != ERR_NOT_FOUND)
		return false;
	if (r->format == PYRO_DOT || (q && r->format == PYRO_PPROF)) {
		ok = r->format == PYRO_DOT ? put_dot(a, r, q, err) : put_pprof(a, r, q, err);
		query_end(q);
		return ok;
	}
	no_tree(&t);
	if (q)
		ok = pyro_flamegraph(a, q, r->max_nodes, &t, err);
	ok = ok && put_tree(a, r, &t, err);
	query_end(q);
	return ok;
}

bool pyro_answer_merge_stacktraces(struct web_ask *a, struct err *err)
{
	struct pyro_request r;

	return pyro_request_read(pyro_methods[PYRO_MERGE_STACKTRACES].request, a->message, &r,
				 err) &&
	       answer_merge(a, &r, err);
}

bool pyro_answer_merge_span_profile(struct web_ask *a, struct err *err)
{
	struct pyro_request r;

	if (!pyro_request_read(pyro_methods[PYRO_MERGE_SPAN_PROFILE].request, a->message, &r, err))
		return false;
	if (r.spans.count == 0)
		return err_set(err, ERR_INVALID, "span_selector is empty: of which spans?");
	if (r.format == PYRO_DOT || r.format == PYRO_PPROF)
		return err_set(err, ERR_INVALID, "a span's profile is a flame graph or a tree");
	return answer_merge(a, &r, err);
}

bool pyro_answer_merge_profile(struct web_ask *a, struct err *err)
{
	struct pyro_request r;
	struct query *q;
	bool ok;

	if (!pyro_request_read(pyro_methods[PYRO_MERGE_PROFILE].request, a->message, &r, err))
		return false;
	q = pyro_begin(a, &r, r.selector, r.profile_type, err);
	if (!q)
		return err->kind == ERR_NOT_FOUND;
	buf_init(&a->body, PPROF_BYTES_MOST);
	ok = make_pprof(&r, q, &a->body, err);
	query_end(q);
	return ok;
}

/* Of a side whose profile type is not there: nothing, of the other one's type. */
static struct query *begin_nothing(struct web_ask *a, const struct pyro_request *r,
				   struct str profile_type, struct err *err)
{
	return pyro_begin(a, r, STR("{service.name=\"\",service.name!=\"\"}"), profile_type, err);
}

/* Both, as long as one of them has anything. */
static bool begin_sides(struct web_ask *a, const struct pyro_request *diff, struct query **left,
			struct query **right, struct err *err)
{
	const struct proto_message *m = pyro_methods[PYRO_MERGE_STACKTRACES].request;
	struct pyro_request l, r;

	if (!pyro_request_read(m, diff->left, &l, err) ||
	    !pyro_request_read(m, diff->right, &r, err))
		return false;
	*left = pyro_begin(a, &l, l.selector, l.profile_type, err);
	if (!*left && err->kind != ERR_NOT_FOUND)
		return false;
	*right = pyro_begin(a, &r, r.selector, r.profile_type, err);
	if (*left && !*right && err->kind == ERR_NOT_FOUND)
		*right = begin_nothing(a, &r, l.profile_type, err);
	else if (!*left && *right)
		*left = begin_nothing(a, &l, r.profile_type, err);
	return *left && *right;
}

static int64_t larger_side(struct str left, struct str right)
{
	struct pyro_request l, r;
	struct err ignored;

	if (!pyro_request_read(pyro_methods[PYRO_MERGE_STACKTRACES].request, left, &l, &ignored) ||
	    !pyro_request_read(pyro_methods[PYRO_MERGE_STACKTRACES].request, right, &r, &ignored))
		return 0;
	return l.max_nodes > r.max_nodes ? l.max_nodes : r.max_nodes;
}

bool pyro_answer_diff(struct web_ask *a, struct err *err)
{
	struct query *left = NULL, *right = NULL;
	struct pyro_request r;
	struct pyro_tree t;
	bool ok;

	if (!pyro_request_read(pyro_methods[PYRO_DIFF].request, a->message, &r, err))
		return false;
	ok = begin_sides(a, &r, &left, &right, err) &&
	     pyro_diff(a, left, right, larger_side(r.left, r.right), &t, err);
	if (!ok && err->kind == ERR_NOT_FOUND) {
		no_tree(&t);
		ok = true;
	}
	ok = ok && put_flamegraph(a, &t, 2, err);
	query_end(right);
	query_end(left);
	return ok;
}
