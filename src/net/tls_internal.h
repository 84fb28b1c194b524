/*
 * tls_internal.h - one TLS connection as bytes in, bytes out: it knows no socket.
 *
 * Ciphertext from the peer goes in with tls_session_feed(), what is due to the peer comes out of
 * tls_session_output(); both may be due after any other call. Threads: one at a time.
 */
#pragma once
#include <stddef.h>
#include "base/str.h"
#include "net/tls.h"

struct tls_session;

/* server_name: clients without options.server_name; a name or an address, checked against the
 * certificate. */
struct tls_session *tls_session_new(struct tls_context *c, const char *server_name,
				    struct err *err);
void tls_session_free(struct tls_session *s); /* NULL is fine */

/* False: the peer's bytes are not TLS or its certificate is refused; still send the output (an
 * alert), then close. */
bool tls_session_feed(struct tls_session *s, struct str ciphertext, struct err *err);
/* Goes on with the handshake after a feed; clients call it first to have something to send. */
bool tls_session_handshake(struct tls_session *s, bool *finished, struct err *err);
/* Bytes of plain text put to `out`, 0 when more ciphertext is needed or the peer said goodbye
 * (*ended). False: broken. */
bool tls_session_read(struct tls_session *s, char *out, size_t cap, size_t *len, bool *ended,
		      struct err *err);
bool tls_session_write(struct tls_session *s, struct str plain,
		       struct err *err); /* after the handshake */
void tls_session_goodbye(struct tls_session *s);
/* Takes up to cap bytes of ciphertext; 0 = none left. */
size_t tls_session_output(struct tls_session *s, char *out, size_t cap);
/* "h2", "http/1.1" or empty; after the handshake. */
struct str tls_session_alpn(const struct tls_session *s);
