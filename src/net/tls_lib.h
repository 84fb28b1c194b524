/*
 * tls_lib.h - libssl and libcrypto as a table of functions, loaded on first use.
 *
 * Linked, they would cost every process 3.5 MB of memory. The prototypes are OpenSSL's own (3.x),
 * so a call through the table is checked by the compiler as a direct one would be.
 */
#pragma once
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include "base/err.h"

/* clang-format off */
#define TLS_SSL_FUNCTIONS(X)                                                                      \
	X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_set_options)                     \
	X(SSL_CTX_set_alpn_protos) X(SSL_CTX_set_alpn_select_cb) X(SSL_select_next_proto)         \
	X(SSL_CTX_use_certificate) X(SSL_CTX_use_PrivateKey) X(SSL_CTX_check_private_key)         \
	X(SSL_CTX_set_verify) X(SSL_CTX_set_default_verify_paths) X(SSL_CTX_get_cert_store)       \
	X(SSL_CTX_add_client_CA) X(SSL_CTX_set_session_id_context)                                \
	X(TLS_server_method) X(TLS_client_method)                                                 \
	X(SSL_new) X(SSL_free) X(SSL_ctrl) X(SSL_set_bio) X(SSL_set_accept_state)                 \
	X(SSL_set_connect_state) X(SSL_do_handshake) X(SSL_read) X(SSL_write) X(SSL_get_error)    \
	X(SSL_shutdown) X(SSL_get0_alpn_selected) X(SSL_get0_param) X(SSL_set1_host)              \
	X(SSL_get_verify_result) X(SSL_is_init_finished)

#define TLS_CRYPTO_FUNCTIONS(X)                                                                   \
	X(BIO_new) X(BIO_s_mem) X(BIO_new_mem_buf) X(BIO_free) X(BIO_read) X(BIO_write)           \
	X(ERR_peek_last_error) X(ERR_clear_error) X(ERR_reason_error_string)                      \
	X(PEM_read_bio_X509) X(PEM_read_bio_PrivateKey) X(X509_free) X(EVP_PKEY_free)             \
	X(X509_STORE_add_cert) X(X509_verify_cert_error_string) X(X509_VERIFY_PARAM_set1_ip_asc)
/* clang-format on */

struct tls_lib {
#define X(name) __typeof__(&name) name;
	TLS_SSL_FUNCTIONS(X)
	TLS_CRYPTO_FUNCTIONS(X)
#undef X
};

/* NULL when the libraries or one of the functions are missing. Any thread. */
const struct tls_lib *tls_lib_load(struct err *err);
