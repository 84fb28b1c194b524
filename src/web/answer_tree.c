/* answer_tree.c - flame graphs, diffs and sandwiches. */
#include <string.h>

#include "web/internal.h"
#include "web/tree.h"

enum { NODES_DEFAULT = 16384, PATH_MOST = 4096 };

static bool path_param(struct web_ask *a, struct query_tree_options *o, struct err *err)
{
	struct str rest = params_get(&a->params, "root"), one;
	uint64_t *path;

	if (rest.len == 0)
		return true;
	path = arena_alloc_array(&a->arena, PATH_MOST, sizeof(*path));
	while (str_split(&rest, '.', &one)) {
		if (o->path_count == PATH_MOST)
			return err_set(err, ERR_LIMIT, "root has more than %d frames", PATH_MOST);
		if (!web_key_parse(one, &path[o->path_count++], err))
			return false;
	}
	o->path = path;
	return true;
}

static bool tree_options(struct web_ask *a, struct query_tree_options *o, struct err *err)
{
	memset(o, 0, sizeof(*o));
	o->inverted = params_has(&a->params, "inverted");
	o->search = params_get(&a->params, "search");
	o->group_by = a->group_by = params_get(&a->params, "group");
	return params_u32(&a->params, "max_nodes", 1, QUERY_NODES_MOST, NODES_DEFAULT,
			  &o->nodes_most, err) &&
	       path_param(a, o, err);
}

bool web_key_parse(struct str text, uint64_t *out, struct err *err)
{
	uint64_t v = 0;

	for (size_t i = 0; i < text.len && text.len <= 16; i++) {
		char c = text.ptr[i];
		uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
				 : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
							: 16;

		if (digit == 16)
			return err_set(err, ERR_INVALID, "\"%.*s\" is not a frame key (hex)",
				       STR_ARG(text));
		v = v << 4 | digit;
	}
	if (text.len == 0 || text.len > 16)
		return err_set(err, ERR_INVALID, "a frame key has 1 to 16 hex digits, this %zu",
			       text.len);
	*out = v;
	return true;
}

static bool covered_seconds(struct query *q, double *out, struct err *err)
{
	uint64_t ns;

	if (!query_covered(q, &ns, err))
		return false;
	*out = (double)ns / 1e9;
	return true;
}

/* What was lost on either side: the page's foot speaks of all that is shown. */
static bool add_losses(struct web_ask *a, struct query *q, struct query_losses *sum,
		       struct err *err)
{
	struct query_losses more;
	struct query_loss *all;

	if (!query_losses(q, &more, err))
		return false;
	all = arena_alloc_array(&a->arena, sum->count + more.count + 1, sizeof(*all));
	for (uint32_t i = 0; i < sum->count; i++)
		all[i] = sum->ptr[i];
	for (uint32_t i = 0; i < more.count; i++) {
		uint32_t at = 0;

		while (at < sum->count && !str_equal(all[at].reason, more.ptr[i].reason))
			at++;
		if (at < sum->count)
			all[at].n += more.ptr[i].n;
		else
			all[sum->count++] = more.ptr[i];
	}
	sum->ptr = all;
	return true;
}

/* `right`: NULL where there is one side. */
static bool write_tree(struct web_ask *a, struct query *q, struct query *right,
		       const struct query_tree *tree, const double seconds[QUERY_SIDES],
		       struct err *err)
{
	struct tree_out out = {
		.tree = tree,
		.facts = query_facts(q),
		.by = web_by(a),
		.sides = right ? 2 : 1,
		.searched = params_get(&a->params, "search").len > 0,
		.seconds = { seconds[0], seconds[1] },
	};

	if (!query_losses(q, &out.losses, err) ||
	    (right && !add_losses(a, right, &out.losses, err)))
		return false;
	if (right) {
		struct query_facts f = query_facts(right);

		out.samples2 = f.events;
		out.processes2 = f.processes;
	}
	out.unit = out.facts.type.unit;
	tree_write(&out, &a->arena, &a->body);
	a->content_type = "application/vnd.flametap.tree";
	return true;
}

bool web_answer_flamegraph(struct web_ask *a, struct err *err)
{
	struct query_tree_options o;
	double seconds[QUERY_SIDES] = { 0 };
	struct query_tree tree;
	struct query *q;
	bool ok;

	if (!tree_options(a, &o, err) || !(q = web_begin(a, 0, err)))
		return false;
	ok = query_flamegraph(q, &o, &tree, err) && covered_seconds(q, &seconds[0], err);
	ok = ok && write_tree(a, q, NULL, &tree, seconds, err);
	query_end(q);
	return ok;
}

bool web_answer_diff(struct web_ask *a, struct err *err)
{
	struct query *left = NULL, *right = NULL;
	double seconds[QUERY_SIDES] = { 0 };
	struct query_tree_options o;
	struct query_tree tree;
	bool ok;

	ok = tree_options(a, &o, err) && (left = web_begin(a, 0, err)) &&
	     (right = web_begin(a, 1, err)) && query_diff(left, right, &o, &tree, err) &&
	     covered_seconds(left, &seconds[0], err) && covered_seconds(right, &seconds[1], err);
	ok = ok && write_tree(a, left, right, &tree, seconds, err);
	query_end(right);
	query_end(left);
	return ok;
}

bool web_answer_sandwich(struct web_ask *a, struct err *err)
{
	struct str side = params_get(&a->params, "side");
	bool callers = str_is(side, "callers");
	double seconds[QUERY_SIDES] = { 0 };
	struct query_tree_options o;
	struct query_sandwich s;
	struct query *q = NULL;
	uint64_t key;
	bool ok;

	if (!callers && !str_is(side, "callees"))
		return err_set(err, ERR_INVALID, "side is \"%.*s\"; expected callers or callees",
			       (int)(side.len < 40 ? side.len : 40), side.ptr);
	ok = web_key_parse(params_get(&a->params, "key"), &key, err) && tree_options(a, &o, err) &&
	     (q = web_begin(a, 0, err)) && query_sandwich(q, key, &o, &s, err) &&
	     covered_seconds(q, &seconds[0], err);
	if (ok && !s.found)
		ok = err_set(err, ERR_NOT_FOUND, "no stack of this selection holds that function");
	ok = ok && write_tree(a, q, NULL, callers ? &s.callers : &s.callees, seconds, err);
	query_end(q);
	return ok;
}

/* What a search finds, over all stacks. */
bool web_answer_search(struct web_ask *a, struct err *err)
{
	struct query_tree_options o;
	struct query_tree tree;
	struct query *q = NULL;
	bool ok;

	ok = tree_options(a, &o, err);
	o.nodes_most = 1;
	ok = ok && (q = web_begin(a, 0, err)) && query_flamegraph(q, &o, &tree, err);
	if (ok) {
		buf_printf(&a->body,
			   "{\"matched\":%lld,\"total\":%lld,\"unit\":", (long long)tree.matched[0],
			   (long long)tree.total[0]);
		buf_json_string(&a->body, query_facts(q).type.unit);
		buf_lit(&a->body, ",\"partial\":");
		buf_json_string(&a->body,
				str_cstr(query_facts(q).partial ? query_facts(q).reason : ""));
		buf_lit(&a->body, "}\n");
	}
	query_end(q);
	return ok;
}
