#include "query/formats/import.h"

#include "wire/otlp_json.h"

bool import_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;

	if (otlp_looks_like_json(blob_view(bytes)))
		return otlp_json_decode(bytes, &options, out, &report, err);
	return otlp_decode(bytes, &options, out, &report, NULL, err);
}
