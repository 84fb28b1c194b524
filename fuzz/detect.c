/* Telling versions apart: any bytes get an answer, and forcing the version that was told decodes as
 * the bytes alone do. */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "wire/otlp.h"

static bool decode(struct blob *body, enum wire_version version, enum wire_version *told)
{
	struct otlp_decode_options options = { .version = version, .memory_limit_bytes = 64 << 20 };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct err err;
	bool ok = otlp_decode(body, &options, &p, &report, NULL, &err);

	*told = report.version;
	profiles_free(p);
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob *body = blob_copy(str_from(data, size));
	enum wire_version version, told, forced;
	bool ambiguous;
	char evidence[320];
	struct err err;

	if (otlp_detect(blob_view(body), WIRE_HINT_NONE, &version, &ambiguous, evidence, &err)) {
		if (version < WIRE_V1_3 || version > WIRE_NEWEST || !evidence[0])
			abort();
		if (decode(body, WIRE_AUTO, &told) != decode(body, told, &forced) || told != forced)
			abort();
	} else if (decode(body, WIRE_AUTO, &told)) {
		abort();
	}
	blob_unref(body);
	return 0;
}
