/* dot_write.c - the calls between functions, for Graphviz: `dot -Tsvg`. */
#include "query/dot.h"
#include "query/formats/drawn.h"

enum { TREE_NODES = QUERY_NODES_MOST };

static bool draw(struct query *q, const struct export_options *o, struct buf *out, struct err *err)
{
	struct query_tree_options tree = { .nodes_most = TREE_NODES };
	struct dot_options dot = { .unit = query_facts(q).type.unit,
				   .title = o ? o->title : (struct str){ 0 },
				   .nodes_most = o ? o->nodes_most : 0 };
	struct query_tree t;

	if (!query_flamegraph(q, &tree, &t, err))
		return false;
	dot_append_tree(out, &t, &dot);
	return true;
}

bool dot_write(const struct profiles *p, const struct export_options *o, struct buf *out,
	       struct err *err)
{
	return drawn_write(p, o, "dot", draw, out, err);
}
