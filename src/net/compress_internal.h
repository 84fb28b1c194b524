/* compress_internal.h - what the codecs' files share: the growing, limited, charged output. */
#pragma once
#include "net/compress.h"

struct inflated {
	struct blob *blob;
	size_t limit_bytes;
	struct budget *budget;
	bool counted; /* what comes out of the rest was counted, and there is room for it */
};
/* Room for `extra` more bytes; ERR_LIMIT past the limit, ERR_BUSY when the budget is spent. */
bool inflated_reserve(struct inflated *o, size_t extra, struct err *err);
bool inflated_too_big(const struct inflated *o, struct err *err);

/* How much gzip or zstd data gives, up to its end or first fault, without keeping it; it stops past
 * `most`. UINT64_MAX: it cannot be counted. */
uint64_t count_inflated(enum compression c, struct str in, uint64_t most);

bool inflate_snappy(struct str in, struct inflated *o, struct err *err);
bool inflate_snappy_framed(struct str in, struct inflated *o, struct err *err);
bool deflate_snappy(struct str in, struct buf *out, struct err *err);
bool deflate_snappy_framed(struct str in, struct buf *out, struct err *err);
