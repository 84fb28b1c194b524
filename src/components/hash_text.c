#include "components/hash_text.h"

#include <sha2.h>

void hash_text_sha256(struct buf *out, struct str s)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	if (s.len)
		SHA256Update(&ctx, (const uint8_t *)s.ptr, s.len);
	SHA256Final(digest, &ctx);
	buf_hex(out, digest, sizeof(digest));
}
