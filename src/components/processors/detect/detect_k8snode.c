/* k8snode: this node, as the cluster's API has it; it wants `get` on nodes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "components/processors/detect/detect.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

/* The header with the service account's token; it is read each time, as it is renewed. */
static bool authorization(struct arena *arena, const char **out, struct err *err)
{
	char token[8192];
	size_t n;
	FILE *f = fopen(ACCOUNT "token", "re");

	if (!f)
		return err_set_errno(err, "cannot open " ACCOUNT "token");
	n = fread(token, 1, sizeof(token) - 1, f);
	fclose(f);
	while (n && isspace((unsigned char)token[n - 1]))
		n--;
	*out = str_printf(arena, "Authorization: Bearer %.*s", (int)n, token).ptr;
	return true;
}

static bool is_node_name(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.')
			return false;
	return *name;
}

static bool detect_k8snode(const struct detect_options *o, struct detected *out, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	const char *node = getenv(o->node_variable);
	struct detect_request r = { .deadline_ns = o->deadline_ns,
				    .unverified = o->anonymous,
				    .ca_file = o->anonymous ? NULL : ACCOUNT "ca.crt" };
	struct buf body;
	bool ok;

	if (!host || !port)
		return err_set(err, ERR_NOT_FOUND,
			       "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set");
	if (!node || !is_node_name(node))
		return err_set(err, ERR_NOT_FOUND, "the environment variable %s names no node",
			       o->node_variable);
	if (!o->anonymous && !authorization(out->arena, &r.header, err))
		return false;
	r.url = str_printf(out->arena,
			   strchr(host, ':') ? "https://[%s]:%s/api/v1/nodes/%s"
					     : "https://%s:%s/api/v1/nodes/%s",
			   host, port, node)
			.ptr;
	buf_init(&body, 0);
	ok = detect_http(&r, &body, err);
	if (ok) {
		detected_add(out, "k8s.node.name", str_cstr(node));
		detected_add(out, "k8s.node.uid",
			     detect_json(out->arena, buf_view(&body), "metadata/uid"));
	}
	buf_release(&body);
	return ok;
}

static const struct detect_attribute attributes[] = {
	{ "k8s.node.name", true },
	{ "k8s.node.uid", true },
	{ NULL, false },
};

const struct detector detector_k8snode = { "k8snode", attributes, detect_k8snode };
