#include "net/http1_parser.h"
#include "base/hex.h"

enum { CHUNK_OVERHEAD_MOST = 16 * 1024, CHUNK_DIGITS_MOST = 15 };

/* RFC 9110, 5.6.2 */
static bool is_token_char(unsigned char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!is_token_char((unsigned char)s.ptr[i]))
			return false;
	return s.len > 0;
}

/* RFC 9110, 5.5: visible characters, spaces, tabs and bytes from 0x80. */
static bool is_field_value(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static bool is_target(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c <= ' ' || c == 0x7f)
			return false;
	}
	return s.len > 0;
}

static enum http1_result bad(const char **why, const char *text)
{
	*why = text;
	return HTTP1_BAD;
}

/* The line before the next LF, without its CR; a lone CR inside is caught by the checks of the
 * fields. */
static bool take_line(struct str *in, struct str *line)
{
	ptrdiff_t lf = str_find(*in, '\n');

	if (lf < 0)
		return false;
	*line = str_head(*in, (size_t)lf);
	*in = str_skip(*in, (size_t)lf + 1);
	if (line->len && line->ptr[line->len - 1] == '\r')
		line->len--;
	return true;
}

static enum http1_result parse_request_line(struct str line, struct http1_head *head,
					    const char **why)
{
	ptrdiff_t first = str_find(line, ' '), second;
	struct str rest, version;

	if (first < 0)
		return bad(why, "malformed request line");
	head->method = str_head(line, (size_t)first);
	rest = str_skip(line, (size_t)first + 1);
	second = str_find(rest, ' ');
	if (second < 0)
		return bad(why, "malformed request line");
	head->target = str_head(rest, (size_t)second);
	version = str_skip(rest, (size_t)second + 1);
	if (!is_token(head->method) || !is_target(head->target))
		return bad(why, "malformed request line");
	if (version.len != 8 || !str_has_prefix(version, STR("HTTP/")) || version.ptr[6] != '.')
		return bad(why, "malformed HTTP version");
	if (version.ptr[5] != '1' || (version.ptr[7] != '0' && version.ptr[7] != '1')) {
		*why = "HTTP version not supported";
		return HTTP1_BAD_VERSION;
	}
	head->minor = (unsigned)(version.ptr[7] - '0');
	return HTTP1_OK;
}

static enum http1_result parse_field(struct str line, struct http1_head *head, const char **why)
{
	ptrdiff_t colon = str_find(line, ':');
	struct http1_header *h;

	if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
		return bad(why, "folded header lines are not accepted");
	if (colon < 0)
		return bad(why, "malformed header line");
	if (head->header_count == HTTP1_HEADERS_MOST) {
		*why = "too many header lines";
		return HTTP1_TOO_LARGE;
	}
	h = &head->headers[head->header_count];
	h->name = str_head(line, (size_t)colon);
	h->value = str_skip(line, (size_t)colon + 1);
	if (!is_token(h->name))
		return bad(why, "malformed header name");
	if (!is_field_value(h->value))
		return bad(why, "malformed header value");
	h->value = str_trim(h->value);
	head->header_count++;
	return HTTP1_OK;
}

static bool list_has(struct str list, const char *word)
{
	struct str item;

	while (str_split(&list, ',', &item))
		if (str_equal_nocase(str_trim(item), str_cstr(word)))
			return true;
	return false;
}

/* RFC 9112, 6.3: a Content-Length list of equal values would be allowed; we take exactly one
 * number. */
static enum http1_result note_length(struct http1_head *head, struct str value, const char **why)
{
	uint64_t n;

	if (!str_to_u64(value, &n) || value.len > 19)
		return bad(why, "malformed Content-Length");
	if (head->has_length && head->content_length != n)
		return bad(why, "two different Content-Length headers");
	head->has_length = true;
	head->content_length = n;
	return HTTP1_OK;
}

static enum http1_result note_coding(struct http1_head *head, struct str value, const char **why)
{
	if (head->chunked)
		return bad(why, "two Transfer-Encoding headers");
	if (!str_equal_nocase(value, STR("chunked"))) {
		*why = "only the transfer coding \"chunked\" is supported";
		return HTTP1_UNKNOWN_CODING;
	}
	head->chunked = true;
	return HTTP1_OK;
}

static enum http1_result note_field(struct http1_head *head, const struct http1_header *h,
				    const char **why)
{
	if (str_equal_nocase(h->name, STR("content-length")))
		return note_length(head, h->value, why);
	if (str_equal_nocase(h->name, STR("transfer-encoding")))
		return note_coding(head, h->value, why);
	if (str_equal_nocase(h->name, STR("connection"))) {
		if (list_has(h->value, "close"))
			head->keep_alive = false;
		else if (head->minor == 0 && list_has(h->value, "keep-alive"))
			head->keep_alive = true;
	} else if (str_equal_nocase(h->name, STR("expect")) && head->minor == 1) {
		head->expect_continue = str_equal_nocase(h->value, STR("100-continue"));
		head->bad_expect = !head->expect_continue;
	}
	return HTTP1_OK;
}

static enum http1_result check_fields(struct http1_head *head, const char **why)
{
	unsigned hosts = 0;

	head->keep_alive = head->minor == 1;
	for (unsigned i = 0; i < head->header_count; i++) {
		enum http1_result rc = note_field(head, &head->headers[i], why);

		if (rc != HTTP1_OK)
			return rc;
		hosts += str_equal_nocase(head->headers[i].name, STR("host"));
	}
	if (head->chunked && head->has_length)
		return bad(why, "both Transfer-Encoding and Content-Length");
	if (head->chunked && head->minor == 0)
		return bad(why, "Transfer-Encoding in HTTP/1.0");
	if (hosts > 1 || (hosts == 0 && head->minor == 1)) /* RFC 9112, 3.2 */
		return bad(why, "HTTP/1.1 needs exactly one Host header");
	return HTTP1_OK;
}

/* Where the head ends: after an empty line. 0 = not there. The search begins at `from`. */
static size_t head_end(struct str in, size_t from)
{
	const char *p = in.ptr + from, *end = in.ptr + in.len;

	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		if (p < end && *p == '\n')
			return (size_t)(p + 1 - in.ptr);
		if (p + 1 < end && p[0] == '\r' && p[1] == '\n')
			return (size_t)(p + 2 - in.ptr);
	}
	return 0;
}

bool http1_head_is_whole(struct str in, size_t *scanned)
{
	size_t from = *scanned > 3 ? *scanned - 3 : 0; /* an empty line may be cut in two */

	if (in.len > HTTP1_HEAD_BYTES_MOST || head_end(in, from))
		return true;
	*scanned = in.len;
	return false;
}

static enum http1_result parse_lines(struct str text, struct http1_head *head, const char **why)
{
	enum http1_result rc;
	struct str line;

	if (!take_line(&text, &line))
		return bad(why, "malformed request line");
	rc = parse_request_line(line, head, why);
	while (rc == HTTP1_OK && take_line(&text, &line) && line.len)
		rc = parse_field(line, head, why);
	if (rc != HTTP1_OK)
		return rc;
	return check_fields(head, why);
}

enum http1_result http1_parse_head(struct str in, struct http1_head *head, size_t *used,
				   const char **why)
{
	struct str text = in;
	size_t end, skipped;

	while (text.len && (text.ptr[0] == '\n' || str_has_prefix(text, STR("\r\n"))))
		text = str_skip(text, text.ptr[0] == '\n' ? 1 : 2);
	skipped = in.len - text.len;
	end = text.len ? head_end(text, 0) : 0;
	if ((end ? end : text.len) > HTTP1_HEAD_BYTES_MOST || skipped > 64) {
		*why = "request header is larger than 64 KiB";
		return HTTP1_TOO_LARGE;
	}
	if (!end)
		return HTTP1_MORE;
	head->header_count = 0;
	head->has_length = head->chunked = head->expect_continue = head->bad_expect = false;
	head->content_length = 0;
	*used = skipped + end;
	return parse_lines(str_head(text, end), head, why);
}

struct str http1_find_field(struct str head, struct str name)
{
	struct str line;

	while (take_line(&head, &line)) {
		struct str value;

		if (line.len <= name.len || line.ptr[name.len] != ':' ||
		    !str_equal_nocase(str_head(line, name.len), name))
			continue;
		value = str_trim(str_skip(line, name.len + 1));
		return is_field_value(value) ? value : (struct str){ 0 };
	}
	return (struct str){ 0 };
}

/* Chunked bodies (RFC 9112, 7.1), a byte at a time except for the data. */

static enum http1_result chunk_size_char(struct http1_chunked *c, unsigned char ch,
					 const char **why)
{
	int digit = hex_value((char)ch);

	if (digit >= 0) {
		if (++c->digits > CHUNK_DIGITS_MOST)
			return bad(why, "chunk size is too large");
		c->left = c->left << 4 | (unsigned)digit;
		return HTTP1_MORE;
	}
	if (!c->digits)
		return bad(why, "malformed chunk size");
	if (ch == '\r')
		c->state = CHUNK_SIZE_LF;
	else if (ch == ';')
		c->state = CHUNK_EXTENSION;
	else
		return bad(why, "malformed chunk size");
	return HTTP1_MORE;
}

static enum http1_result chunk_overhead(struct http1_chunked *c, const char **why)
{
	if (++c->overhead_bytes <= CHUNK_OVERHEAD_MOST)
		return HTTP1_MORE;
	*why = "chunk extensions and trailers are larger than 16 KiB";
	return HTTP1_TOO_LARGE;
}

static enum http1_result expect_char(struct http1_chunked *c, unsigned char ch, unsigned char want,
				     int next, const char **why)
{
	if (ch != want)
		return bad(why, "malformed end of a chunk");
	c->state = (__typeof__(c->state))next;
	return next == CHUNK_DONE ? HTTP1_OK : HTTP1_MORE;
}

static enum http1_result chunk_size_ended(struct http1_chunked *c, unsigned char ch,
					  const char **why)
{
	c->digits = 0;
	return expect_char(c, ch, '\n', c->left ? CHUNK_DATA : CHUNK_TRAILER_START, why);
}

static enum http1_result chunk_char(struct http1_chunked *c, unsigned char ch, const char **why)
{
	switch (c->state) {
	case CHUNK_SIZE:
		return chunk_size_char(c, ch, why);
	case CHUNK_EXTENSION:
		if (ch == '\n')
			return bad(why, "malformed chunk extension");
		if (ch == '\r')
			c->state = CHUNK_SIZE_LF;
		return chunk_overhead(c, why);
	case CHUNK_SIZE_LF:
		return chunk_size_ended(c, ch, why);
	case CHUNK_DATA_CR:
		return expect_char(c, ch, '\r', CHUNK_DATA_LF, why);
	case CHUNK_DATA_LF:
		return expect_char(c, ch, '\n', CHUNK_SIZE, why);
	case CHUNK_TRAILER_START: /* trailers are read and dropped */
		c->state = ch == '\r' ? CHUNK_END_LF : CHUNK_TRAILER;
		return ch == '\n' ? bad(why, "malformed trailer") : chunk_overhead(c, why);
	case CHUNK_TRAILER:
		if (ch == '\n')
			return bad(why, "malformed trailer");
		if (ch == '\r')
			c->state = CHUNK_TRAILER_LF;
		return chunk_overhead(c, why);
	case CHUNK_TRAILER_LF:
		return expect_char(c, ch, '\n', CHUNK_TRAILER_START, why);
	case CHUNK_END_LF:
		return expect_char(c, ch, '\n', CHUNK_DONE, why);
	case CHUNK_DATA:
	case CHUNK_DONE:
		break;
	}
	return HTTP1_OK;
}

enum http1_result http1_chunked_next(struct http1_chunked *c, struct str *in, struct str *data,
				     const char **why)
{
	enum http1_result rc = c->state == CHUNK_DONE ? HTTP1_OK : HTTP1_MORE;

	*data = str_from(in->ptr, 0);
	while (rc == HTTP1_MORE && in->len) {
		if (c->state == CHUNK_DATA) {
			*data = str_head(*in, c->left < in->len ? (size_t)c->left : in->len);
			*in = str_skip(*in, data->len);
			c->left -= data->len;
			if (!c->left)
				c->state = CHUNK_DATA_CR;
			return HTTP1_MORE;
		}
		rc = chunk_char(c, (unsigned char)in->ptr[0], why);
		*in = str_skip(*in, 1);
	}
	return rc;
}
