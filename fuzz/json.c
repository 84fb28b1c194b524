/*
 * OTLP/JSON: whatever comes is refused or read; what is read is written, and that reads back as the
 * same.
 */
#include <stdlib.h>
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "model/equal.h"
#include "wire/otlp_json.h"

static struct profiles *decode(struct str json)
{
	struct otlp_decode_options options = { .memory_limit_bytes = 64 << 20 };
	struct otlp_decode_report report;
	struct blob *body = blob_copy(json);
	struct profiles *p = NULL;
	struct err err;

	if (!otlp_json_decode(body, &options, &p, &report, &err))
		p = NULL;
	blob_unref(body);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profiles *p = decode(str_from(data, size)), *again;
	unsigned flags = EQUAL_IGNORE_EXTRAS | EQUAL_TOTALS | EQUAL_IGNORE_REFERENCES;
	struct buf out;
	struct err err;

	if (!p)
		return 0;
	buf_init(&out, 0);
	if (!otlp_json_encode(p, &out, &err))
		abort();
	again = decode(buf_view(&out));
	if (!again)
		abort(); /* what we write we read */
	/* Bad UTF-8 is replaced on writing; unknown keys may hide what does not come back. */
	if (utf8_valid(str_from(data, size)) && !p->unknown_field_count &&
	    !profiles_equal(p, again, flags, &err))
		abort();
	profiles_free(again);
	profiles_free(p);
	buf_release(&out);
	return 0;
}
