/* Requests of Pyroscope's query API, as protobuf and as JSON: read or refused; what came from JSON
 * is readable. */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "web/pyro.h"

static void read_as(const struct connect_method *m, struct str text)
{
	struct buf protobuf = { 0 }, json = { 0 };
	struct pyro_request r;
	struct err err;

	if (!pyro_request_read(m->request, text, &r, &err) && err.kind == ERR_NONE)
		abort();
	if (proto_to_json(m->response, text, &json, &err)) {
		/* JSON of our own can be read, but for numbers that JSON has in 32 bits or no enum
		 * has. */
		if (!proto_from_json(m->response, buf_view(&json), &protobuf, &err) &&
		    err.kind == ERR_NONE)
			abort();
	}
	buf_release(&protobuf);
	buf_init(&protobuf, 1 << 20);
	if (proto_from_json(m->request, text, &protobuf, &err) &&
	    !pyro_request_read(m->request, buf_view(&protobuf), &r, &err) &&
	    err.kind != ERR_LIMIT && err.kind != ERR_INVALID)
		abort();
	buf_release(&protobuf);
	buf_release(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_from(data, size);

	if (size > 0)
		read_as(&pyro_methods[data[0] % PYRO_METHODS], str_skip(text, 1));
	return 0;
}
