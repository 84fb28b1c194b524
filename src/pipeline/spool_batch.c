#include "pipeline/spool_batch.h"

#include "wire/otlp.h"
#include "wire/otlp_json.h"

struct batch *spool_entry_batch(const struct spool_entry *entry, struct budget *budget,
				struct err *err)
{
	struct otlp_decode_options options = {
		.version = (enum wire_version)entry->wire_version,
		.strict = entry->strict,
	};
	struct otlp_decode_report report;
	struct profiles *profiles;
	struct batch *batch;
	bool ok;

	if (entry->encoding == BATCH_BODY_JSON)
		ok = otlp_json_decode(entry->body, &options, &profiles, &report, err);
	else
		ok = otlp_decode(entry->body, &options, &profiles, &report, NULL, err);
	if (!ok)
		return NULL;
	batch = batch_new(profiles, entry->body, budget, err);
	if (!batch) {
		profiles_free(profiles);
		return NULL;
	}
	batch->encoding = entry->encoding;
	batch->wire_version = entry->wire_version;
	batch->received_unix_ns = entry->received_unix_ns;
	batch->transport = "spool";
	batch_set_request_hash(batch, entry->request_hash);
	return batch;
}
