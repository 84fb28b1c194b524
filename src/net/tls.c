#include "net/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/tls_internal.h"
#include "net/tls_lib.h"

enum { PEM_BYTES_MOST = 4 * 1024 * 1024 };

struct tls_context {
	const struct tls_lib *lib;
	struct tls_options options; /* its strings are copies */
	pthread_mutex_t lock;       /* guards ctx */
	SSL_CTX *ctx;               /* counted by OpenSSL: each session holds one */
	_Atomic uint64_t reload_ns; /* monotonic: when the files are due again; 0 = never */
};

struct tls_session {
	const struct tls_lib *lib;
	SSL *ssl;
	BIO *in, *out; /* memory; owned by ssl */
};

/* What OpenSSL says of its last failure, in one line. */
static const char *reason(const struct tls_lib *lib)
{
	unsigned long code = lib->ERR_peek_last_error();
	const char *text = code ? lib->ERR_reason_error_string(code) : NULL;

	lib->ERR_clear_error();
	return text ? text : "no reason given";
}

/* Certificates and keys: from a file or from text, told apart in messages. */

struct pem {
	const char *what;   /* "certificate" */
	const char *source; /* the file's name, or "the configuration" */
	struct buf text;
};

static bool file_append(int fd, struct buf *out)
{
	for (;;) {
		char *to = buf_reserve(out, 4096);
		ssize_t n;

		if (!to) {
			errno = EFBIG;
			return false;
		}
		n = read(fd, to, 4096);
		if (n < 0)
			return false;
		if (n == 0)
			return true;
		buf_advance(out, (size_t)n);
	}
}

static bool pem_load(struct pem *p, const char *what, const char *file, const char *text,
		     struct err *err)
{
	AUTO(fd_close) int fd = -1;

	p->what = what;
	p->source = text ? "the configuration" : file;
	buf_init(&p->text, PEM_BYTES_MOST);
	if (text) {
		buf_str(&p->text, str_cstr(text));
		return true;
	}
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !file_append(fd, &p->text))
		return err_set_errno(err, "TLS: cannot read the %s %s", what, file);
	return true;
}

static bool pem_bad(const struct tls_lib *lib, const struct pem *p, struct err *err)
{
	return err_set(err, ERR_INVALID, "TLS: no usable %s in %s: %s", p->what, p->source,
		       reason(lib));
}

static BIO *pem_bio(const struct tls_lib *lib, const struct pem *p)
{
	BIO *bio = lib->BIO_new_mem_buf(p->text.ptr ? p->text.ptr : "", (int)p->text.len);

	assert(bio);
	lib->ERR_clear_error();
	return bio;
}

/* Keys with a passphrase are refused rather than asked for on a terminal. */
static int no_passphrase(char *out, int size, int writing, void *arg)
{
	(void)out;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

/* The first certificate is the context's own, what follows is its chain. */
static bool use_certificates(const struct tls_lib *lib, SSL_CTX *ctx, const struct pem *p,
			     struct err *err)
{
	BIO *bio = pem_bio(lib, p);
	unsigned count = 0;
	bool ok = true;
	X509 *x;

	while (ok && (x = lib->PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
		if (count++ == 0) {
			ok = lib->SSL_CTX_use_certificate(ctx, x) == 1;
			lib->X509_free(x);
		} else {
			ok = lib->SSL_CTX_ctrl(ctx, SSL_CTRL_EXTRA_CHAIN_CERT, 0, x) == 1;
			if (!ok)
				lib->X509_free(x); /* else the context owns it */
		}
	}
	ok = ok && count;
	if (!ok)
		pem_bad(lib, p, err);
	lib->ERR_clear_error(); /* the end of a PEM text is an error to OpenSSL */
	lib->BIO_free(bio);
	return ok;
}

static bool use_key(const struct tls_lib *lib, SSL_CTX *ctx, const struct pem *p, struct err *err)
{
	BIO *bio = pem_bio(lib, p);
	EVP_PKEY *key = lib->PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	bool ok = key != NULL;

	lib->BIO_free(bio);
	if (!ok)
		return pem_bad(lib, p, err);
	ok = lib->SSL_CTX_use_PrivateKey(ctx, key) == 1 && lib->SSL_CTX_check_private_key(ctx) == 1;
	lib->EVP_PKEY_free(key);
	if (!ok)
		return err_set(err, ERR_INVALID,
			       "TLS: the private key in %s does not belong to the certificate: %s",
			       p->source, reason(lib));
	return true;
}

static bool use_roots(const struct tls_lib *lib, SSL_CTX *ctx, const struct pem *p, bool server,
		      struct err *err)
{
	BIO *bio = pem_bio(lib, p);
	X509_STORE *store = lib->SSL_CTX_get_cert_store(ctx);
	unsigned count = 0;
	bool ok = true;
	X509 *x;

	while (ok && (x = lib->PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
		ok = lib->X509_STORE_add_cert(store, x) == 1 &&
		     (!server || lib->SSL_CTX_add_client_CA(ctx, x) == 1);
		lib->X509_free(x);
		count++;
	}
	ok = ok && count;
	if (!ok)
		pem_bad(lib, p, err);
	lib->ERR_clear_error();
	lib->BIO_free(bio);
	return ok;
}

/* A context of OpenSSL's from our options. */

static bool load_identity(const struct tls_context *c, SSL_CTX *ctx, struct err *err)
{
	const struct tls_options *o = &c->options;
	struct pem cert = { 0 }, key = { 0 };
	bool ok;

	if (!o->cert_file && !o->cert_pem && !o->key_file && !o->key_pem && !o->server)
		return true;
	if ((!o->cert_file && !o->cert_pem) || (!o->key_file && !o->key_pem))
		return err_set(err, ERR_INVALID,
			       "TLS configuration must include both certificate and key for %s "
			       "connections",
			       o->server ? "server" : "client");
	ok = pem_load(&cert, "certificate", o->cert_file, o->cert_pem, err) &&
	     pem_load(&key, "private key", o->key_file, o->key_pem, err) &&
	     use_certificates(c->lib, ctx, &cert, err) && use_key(c->lib, ctx, &key, err);
	if (key.text.len)
		explicit_bzero(key.text.ptr, key.text.len);
	buf_release(&cert.text);
	buf_release(&key.text);
	return ok;
}

static bool load_trust(const struct tls_context *c, SSL_CTX *ctx, struct err *err)
{
	const struct tls_options *o = &c->options;
	struct pem roots = { 0 };
	bool ok = true;

	if (o->ca_file || o->ca_pem) {
		ok = pem_load(&roots, "CA certificate", o->ca_file, o->ca_pem, err) &&
		     use_roots(c->lib, ctx, &roots, o->server, err);
		buf_release(&roots.text);
		if (ok && o->server)
			c->lib->SSL_CTX_set_verify(
				ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	} else if (!o->server) {
		c->lib->SSL_CTX_set_default_verify_paths(ctx);
	}
	if (!o->server)
		c->lib->SSL_CTX_set_verify(
			ctx, o->insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	return ok;
}

static bool version_parse(const char *text, int *out, struct err *err)
{
	static const struct {
		const char *text;
		int version;
	} versions[] = {
		{ "1.0", TLS1_VERSION },
		{ "1.1", TLS1_1_VERSION },
		{ "1.2", TLS1_2_VERSION },
		{ "1.3", TLS1_3_VERSION },
	};

	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (!strcmp(text, versions[i].text)) {
			*out = versions[i].version;
			return true;
		}
	return err_set(err, ERR_INVALID, "unsupported TLS version: \"%.20s\" (1.0, 1.1, 1.2, 1.3)",
		       text);
}

static bool limit_versions(const struct tls_context *c, SSL_CTX *ctx, struct err *err)
{
	int least = TLS1_2_VERSION, most = 0; /* 0: the newest there is */

	if (c->options.min_version && !version_parse(c->options.min_version, &least, err))
		return false;
	if (c->options.max_version && !version_parse(c->options.max_version, &most, err))
		return false;
	if (most && most < least)
		return err_set(err, ERR_INVALID, "TLS min_version is above max_version %s",
			       c->options.max_version);
	if (c->lib->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, least, NULL) != 1 ||
	    c->lib->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MAX_PROTO_VERSION, most, NULL) != 1)
		return err_set(err, ERR_UNSUPPORTED,
			       "this OpenSSL does not offer that TLS version");
	return true;
}

/* RFC 7301: names with their length before them, in order of preference. */
static const unsigned char alpn_all[] = "\x02h2\x08http/1.1";
static const unsigned char alpn_h2[] = "\x02h2";

/* A client that offers nothing we speak is refused, as RFC 7301, 3.2 asks. */
static int alpn_select(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *offered, unsigned offered_len, void *arg)
{
	const struct tls_lib *lib = arg;
	unsigned char *chosen;

	(void)ssl;
	if (lib->SSL_select_next_proto(&chosen, out_len, alpn_all, sizeof(alpn_all) - 1, offered,
				       offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static void offer_protocols(const struct tls_context *c, SSL_CTX *ctx)
{
	if (c->options.server)
		c->lib->SSL_CTX_set_alpn_select_cb(ctx, alpn_select, (void *)c->lib);
	else if (c->options.alpn_h2_only)
		c->lib->SSL_CTX_set_alpn_protos(ctx, alpn_h2, sizeof(alpn_h2) - 1);
}

static SSL_CTX *ctx_make(const struct tls_context *c, struct err *err)
{
	const struct tls_lib *lib = c->lib;
	SSL_CTX *ctx = lib->SSL_CTX_new(c->options.server ? lib->TLS_server_method()
							  : lib->TLS_client_method());

	assert(ctx);
	/* Idle connections give their record buffers back: 34 kB each. */
	lib->SSL_CTX_ctrl(ctx, SSL_CTRL_MODE,
			  SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
	/* No renegotiation, no compression, and no session store: tickets suffice. */
	lib->SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					      SSL_OP_CIPHER_SERVER_PREFERENCE);
	lib->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	lib->SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"flametap", 8);
	offer_protocols(c, ctx);
	if (!limit_versions(c, ctx, err) || !load_identity(c, ctx, err) ||
	    !load_trust(c, ctx, err)) {
		lib->SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static const char *copy(const char *text)
{
	char *p = text ? strdup(text) : NULL;

	assert(p || !text);
	return p;
}

static void options_copy(struct tls_options *to, const struct tls_options *from)
{
	*to = *from;
	to->cert_file = copy(from->cert_file);
	to->key_file = copy(from->key_file);
	to->ca_file = copy(from->ca_file);
	to->cert_pem = copy(from->cert_pem);
	to->key_pem = copy(from->key_pem);
	to->ca_pem = copy(from->ca_pem);
	to->server_name = copy(from->server_name);
	to->min_version = copy(from->min_version);
	to->max_version = copy(from->max_version);
}

static void options_free(struct tls_options *o)
{
	free((char *)o->cert_file);
	free((char *)o->key_file);
	free((char *)o->ca_file);
	free((char *)o->cert_pem);
	if (o->key_pem)
		explicit_bzero((char *)o->key_pem, strlen(o->key_pem));
	free((char *)o->key_pem);
	free((char *)o->ca_pem);
	free((char *)o->server_name);
	free((char *)o->min_version);
	free((char *)o->max_version);
}

static void schedule_reload(struct tls_context *c)
{
	if (c->options.reload_interval_ns)
		atomic_store(&c->reload_ns, clock_monotonic_ns() + c->options.reload_interval_ns);
}

struct tls_context *tls_context_new(const struct tls_options *options, struct err *err)
{
	const struct tls_lib *lib = tls_lib_load(err);
	struct tls_context *c;

	if (!lib)
		return NULL;
	c = calloc(1, sizeof(*c));
	assert(c);
	c->lib = lib;
	pthread_mutex_init(&c->lock, NULL);
	options_copy(&c->options, options);
	c->ctx = ctx_make(c, err);
	if (!c->ctx) {
		tls_context_free(c);
		return NULL;
	}
	schedule_reload(c);
	return c;
}

/* At a handshake, as the Collector does it: idle listeners read nothing. One of several threads
 * does; a bad file leaves the old certificate in use until the next time. */
static void reload_when_due(struct tls_context *c)
{
	uint64_t due = atomic_load(&c->reload_ns);
	struct err ignored;

	if (due == 0 || clock_monotonic_ns() < due ||
	    !atomic_compare_exchange_strong(&c->reload_ns, &due, UINT64_MAX))
		return;
	(void)!tls_context_reload(c, &ignored);
	schedule_reload(c);
}

bool tls_context_reload(struct tls_context *c, struct err *err)
{
	SSL_CTX *fresh = ctx_make(c, err), *old;

	if (!fresh)
		return false;
	pthread_mutex_lock(&c->lock);
	old = c->ctx;
	c->ctx = fresh;
	pthread_mutex_unlock(&c->lock);
	c->lib->SSL_CTX_free(old);
	return true;
}

void tls_context_free(struct tls_context *c)
{
	if (!c)
		return;
	if (c->ctx)
		c->lib->SSL_CTX_free(c->ctx);
	pthread_mutex_destroy(&c->lock);
	options_free(&c->options);
	free(c);
}

/* Sessions. */

static bool is_address(const char *name)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Whom the server must be: SNI for names only (RFC 6066, 3), the check for names and addresses. */
static bool expect_server(const struct tls_context *c, struct tls_session *s, const char *name,
			  struct err *err)
{
	bool ok;

	if (!name)
		return err_set(err, ERR_INVALID, "TLS: no server name to check");
	if (is_address(name))
		ok = c->options.insecure_skip_verify ||
		     c->lib->X509_VERIFY_PARAM_set1_ip_asc(c->lib->SSL_get0_param(s->ssl), name);
	else
		ok = c->lib->SSL_ctrl(s->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
				      TLSEXT_NAMETYPE_host_name, (void *)name) == 1 &&
		     (c->options.insecure_skip_verify || c->lib->SSL_set1_host(s->ssl, name));
	if (!ok)
		return err_set(err, ERR_INVALID, "TLS: bad server name \"%s\"", name);
	return true;
}

struct tls_session *tls_session_new(struct tls_context *c, const char *server_name, struct err *err)
{
	const char *name = c->options.server_name ? c->options.server_name : server_name;
	struct tls_session *s = calloc(1, sizeof(*s));

	assert(s);
	reload_when_due(c);
	s->lib = c->lib;
	pthread_mutex_lock(&c->lock);
	s->ssl = c->lib->SSL_new(c->ctx);
	pthread_mutex_unlock(&c->lock);
	s->in = c->lib->BIO_new(c->lib->BIO_s_mem());
	s->out = c->lib->BIO_new(c->lib->BIO_s_mem());
	assert(s->ssl && s->in && s->out);
	c->lib->SSL_set_bio(s->ssl, s->in, s->out);
	if (c->options.server) {
		c->lib->SSL_set_accept_state(s->ssl);
	} else {
		c->lib->SSL_set_connect_state(s->ssl);
		if (!expect_server(c, s, name, err)) {
			tls_session_free(s);
			return NULL;
		}
	}
	return s;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	s->lib->SSL_free(s->ssl);
	free(s);
}

static bool session_failed(struct tls_session *s, const char *what, struct err *err)
{
	long verify = s->lib->SSL_get_verify_result(s->ssl);

	if (verify != X509_V_OK && !s->lib->SSL_is_init_finished(s->ssl)) {
		s->lib->ERR_clear_error();
		return err_set(err, ERR_UNAUTHENTICATED, "TLS %s: certificate refused: %s", what,
			       s->lib->X509_verify_cert_error_string(verify));
	}
	return err_set(err, ERR_UNAVAILABLE, "TLS %s: %s", what, reason(s->lib));
}

bool tls_session_feed(struct tls_session *s, struct str ciphertext, struct err *err)
{
	int n = ciphertext.len ? s->lib->BIO_write(s->in, ciphertext.ptr, (int)ciphertext.len) : 0;

	if (n != (int)ciphertext.len)
		return err_set(err, ERR_INTERNAL, "TLS: %zu bytes not taken", ciphertext.len);
	return true;
}

bool tls_session_handshake(struct tls_session *s, bool *finished, struct err *err)
{
	int rc;

	s->lib->ERR_clear_error();
	rc = s->lib->SSL_do_handshake(s->ssl);
	*finished = rc == 1;
	if (rc == 1)
		return true;
	rc = s->lib->SSL_get_error(s->ssl, rc);
	if (rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE)
		return true;
	return session_failed(s, "handshake", err);
}

bool tls_session_read(struct tls_session *s, char *out, size_t cap, size_t *len, bool *ended,
		      struct err *err)
{
	*len = 0;
	*ended = false;
	s->lib->ERR_clear_error();
	while (*len < cap) {
		int n = s->lib->SSL_read(s->ssl, out + *len, (int)(cap - *len));
		int why;

		if (n > 0) {
			*len += (size_t)n;
			continue;
		}
		why = s->lib->SSL_get_error(s->ssl, n);
		if (why == SSL_ERROR_ZERO_RETURN)
			*ended = true;
		else if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE && !*len)
			return session_failed(s, "connection", err);
		break; /* a failure after some bytes is met again by the next call */
	}
	return true;
}

bool tls_session_write(struct tls_session *s, struct str plain, struct err *err)
{
	s->lib->ERR_clear_error();
	if (plain.len && s->lib->SSL_write(s->ssl, plain.ptr, (int)plain.len) != (int)plain.len)
		return session_failed(s, "connection", err);
	return true;
}

void tls_session_goodbye(struct tls_session *s)
{
	if (s->lib->SSL_is_init_finished(s->ssl))
		s->lib->SSL_shutdown(s->ssl);
	s->lib->ERR_clear_error();
}

size_t tls_session_output(struct tls_session *s, char *out, size_t cap)
{
	int n = s->lib->BIO_read(s->out, out, (int)cap);

	return n > 0 ? (size_t)n : 0;
}

struct str tls_session_alpn(const struct tls_session *s)
{
	const unsigned char *name;
	unsigned len;

	s->lib->SSL_get0_alpn_selected(s->ssl, &name, &len);
	return str_from(name, len);
}
