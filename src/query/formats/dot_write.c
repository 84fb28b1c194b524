/* dot_write.c - the calls between functions, for Graphviz: `dot -Tsvg`. */
#include "query/dot.h"
#include "query/formats/formats.h"
#include "query/profiles_source.h"

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
	struct query_request request = { .source = profiles_source_new(p),
					 .profile_type = o ? o->profile_type : (struct str){ 0 },
					 .limit_bytes = 256u << 20 };
	struct query *q = query_begin(&request, err);
	bool ok = q && draw(q, o, out, err);

	query_end(q);
	query_source_free(request.source);
	if (ok && out->failed)
		return err_set(err, ERR_LIMIT, "dot: more than %zu bytes", out->limit_bytes);
	return ok;
}
