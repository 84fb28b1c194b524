#include "net/compress_torn.h"

#include <assert.h>
#include <zstd.h>

#include "net/compress_internal.h"
#include "net/compress_zlib.h"

enum { ROOM_AT_ONCE = 64 * 1024 };

static size_t room_left(const struct inflated *o)
{
	return o->blob->cap - o->blob->len;
}

static bool make_room(struct inflated *o, struct err *fault)
{
	size_t left = o->limit_bytes - o->blob->len;

	if (room_left(o))
		return true;
	if (!left)
		return inflated_too_big(o, fault);
	return inflated_reserve(o, left < ROOM_AT_ONCE ? left : ROOM_AT_ONCE, fault);
}

static bool cut_short(struct str in, const struct inflated *o, const char *kind, struct err *fault)
{
	return err_set(fault, ERR_INVALID,
		       "%s data is cut short: its %zu bytes give the first %zu bytes of output",
		       kind, in.len, o->blob->len);
}

/* One call of inflate(). False at the end of the data and at a fault. */
static bool gunzip_step(const struct zlib *z, z_stream *s, struct str in, struct inflated *o,
			struct err *fault)
{
	size_t at = (size_t)((const char *)s->next_in - in.ptr);
	size_t feed = in.len - at, room;
	int rc;

	if (!make_room(o, fault))
		return false;
	room = room_left(o) < ROOM_AT_ONCE ? room_left(o) : ROOM_AT_ONCE;
	s->avail_in = feed < ROOM_AT_ONCE ? (uInt)feed : ROOM_AT_ONCE;
	s->next_out = (Bytef *)o->blob->ptr + o->blob->len;
	s->avail_out = (uInt)room;
	rc = z->step(s, Z_NO_FLUSH);
	o->blob->len += room - s->avail_out;
	at = (size_t)((const char *)s->next_in - in.ptr);
	if (rc == Z_STREAM_END) /* the next member? */
		return compression_sniff(str_skip(in, at)) == COMPRESSION_GZIP &&
		       z->reset(s) == Z_OK;
	if (rc == Z_OK)
		return true;
	if (rc == Z_BUF_ERROR && at == in.len)
		return cut_short(in, o, "gzip", fault);
	return err_set(fault, ERR_INVALID,
		       "bad gzip data at byte %zu, after %zu bytes of output: %s", at, o->blob->len,
		       s->msg ? s->msg : "no reason given");
}

static void gunzip(struct str in, struct inflated *o, size_t *used, struct err *fault)
{
	z_stream s = { .next_in = (const Bytef *)in.ptr };
	struct zlib z = { 0 };

	if (!zlib_open(&z, fault))
		return;
	if (zlib_begin_gzip(&z, &s)) {
		while (gunzip_step(&z, &s, in, o, fault))
			;
		*used = (size_t)((const char *)s.next_in - in.ptr);
		z.end(&s);
	} else {
		err_set(fault, ERR_UNSUPPORTED, "libz.so.1 is not the version we were built for");
	}
	zlib_close(&z);
}

/* Another frame, or one to be skipped (RFC 8878, 3.1.2). */
static bool begins_frame(struct str s)
{
	return compression_sniff(s) == COMPRESSION_ZSTD ||
	       (s.len >= 4 && ((unsigned char)s.ptr[0] & 0xf0) == 0x50 &&
		str_has_prefix(str_skip(s, 1), STR("\x2a\x4d\x18")));
}

static void unzstd(struct str in, struct inflated *o, size_t *used, struct err *fault)
{
	ZSTD_DStream *d = ZSTD_createDStream();
	ZSTD_inBuffer from = { in.ptr, 0, 0 };
	size_t rc = ZSTD_initDStream(d), before;

	assert(d);
	for (;;) {
		ZSTD_outBuffer to;

		if (!make_room(o, fault))
			break;
		/* Block by block, as `rc` asks: a call that fails gives nothing of the blocks
		 * before. */
		if (from.pos == from.size)
			from.size += rc && rc < in.len - from.pos ? rc : in.len - from.pos;
		to = (ZSTD_outBuffer){ o->blob->ptr, o->blob->cap, o->blob->len };
		before = from.pos;
		rc = ZSTD_decompressStream(d, &to, &from);
		if (ZSTD_isError(rc)) {
			err_set(fault, ERR_INVALID,
				"bad zstd data at byte %zu, after %zu bytes of output: %s", before,
				o->blob->len, ZSTD_getErrorName(rc));
			break;
		}
		o->blob->len = to.pos;
		if (rc == 0 && !begins_frame(str_skip(in, from.pos)))
			break;
		if (from.pos == in.len && to.pos < to.size) {
			if (rc)
				cut_short(in, o, "zstd", fault);
			break;
		}
	}
	*used = from.pos;
	ZSTD_freeDStream(d);
}

struct blob *decompress_torn(enum compression c, struct str in, size_t limit_bytes, size_t *used,
			     struct err *fault)
{
	struct inflated o = { .blob = blob_new(0), .limit_bytes = limit_bytes };

	*fault = (struct err){ 0 };
	*used = in.len;
	if (c == COMPRESSION_GZIP)
		gunzip(in, &o, used, fault);
	else if (c == COMPRESSION_ZSTD)
		unzstd(in, &o, used, fault);
	else
		err_set(fault, ERR_UNSUPPORTED, "%s has no parts to be read", compression_name(c));
	if (fault->kind != ERR_NONE)
		*used = in.len;
	if (o.blob->len || fault->kind == ERR_NONE)
		return o.blob;
	blob_unref(o.blob);
	return NULL;
}
