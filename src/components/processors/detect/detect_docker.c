/* docker: the engine's /info, for collectors that run in a container of it. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "components/processors/detect/detect.h"

static bool detect_docker(const struct detect_options *o, struct detected *out, struct err *err)
{
	const char *host = getenv("DOCKER_HOST");
	struct detect_request r = { .unix_socket = "/var/run/docker.sock",
				    .url = "http://docker/info",
				    .deadline_ns = o->deadline_ns };
	struct str type;
	struct buf body;
	bool ok;

	if (host && strncmp(host, "unix://", 7) == 0)
		r.unix_socket = host + 7;
	buf_init(&body, 0);
	ok = detect_http(&r, &body, err);
	if (ok) {
		detected_add(out, "host.name", detect_json(out->arena, buf_view(&body), "Name"));
		type = detect_json(out->arena, buf_view(&body), "OSType");
		detected_add(out, "os.type", type);
	}
	buf_release(&body);
	return ok;
}

static const struct detect_attribute attributes[] = {
	{ "host.name", true },
	{ "os.type", true },
	{ NULL, false },
};

const struct detector detector_docker = { "docker", attributes, detect_docker };
