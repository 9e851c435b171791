/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "tls.h"
#include "tls_impl.h"

/*
 * The key exchange of a channel is decided by its priorities: with TLS_BY_KEY nothing but the
 * pre-shared key can end a handshake well, whatever the other end offers; the hash that goes with
 * such a key is SHA-256, hence the ciphers.
 */
#define PRIORITY_KEY                                                                               \
	"NONE:+VERS-TLS1.3:+AES-128-GCM:+CHACHA20-POLY1305:+AEAD:+SHA256:+ECDHE-PSK:"              \
	"+GROUP-X25519:+GROUP-SECP256R1:+SIGN-ALL:+COMP-NULL"
#define PRIORITY_CERT "NORMAL:-VERS-ALL:+VERS-TLS1.3"

#define IDENTITY "shunt"

/* Longest message of a handshake. Chosen: a chain of four certificates fits. */
#define HANDSHAKE_BYTES 32768u
/* Largest file of certificates. Chosen. */
#define FILE_BYTES 262144u
/* Of the certificate of our own that nobody checks. */
#define TRUST_DAYS 3650

struct tls_store {
	gnutls_priority_t priority_key, priority_cert;
	gnutls_psk_server_credentials_t psk_server;
	gnutls_certificate_credentials_t cert;	 /* TLS_BY_CERT; NULL: not set up */
	gnutls_certificate_credentials_t trust;	 /* TLS_BY_TRUST */
	gnutls_certificate_credentials_t former; /* cert before the last reload: in use, perhaps */
};

struct tls {
	gnutls_session_t session;
	gnutls_psk_client_credentials_t psk_client;
	const struct tls_key *key;
	size_t pending; /* bytes that the last write has taken but not sent */
	char why[160];
};

static int key_of_client(gnutls_session_t session, const char *username, gnutls_datum_t *key)
{
	const struct tls *tls = gnutls_session_get_ptr(session);

	if (!username || strcmp(username, IDENTITY) != 0 || !tls->key)
		return -1;
	key->data = gnutls_malloc(tls->key->len);
	if (!key->data)
		return -1;
	memcpy(key->data, tls->key->bytes, tls->key->len);
	key->size = (unsigned int)tls->key->len;
	return 0;
}

static int fail(struct tls_error *error, const char *what, int rc)
{
	snprintf(error->text, sizeof(error->text), "%s: %s", what, gnutls_strerror(rc));
	return rc;
}

static int load(const char *path, bool is_secret, char *text, gnutls_datum_t *ret_datum,
		struct tls_error *error)
{
	ssize_t len = tls_file_read(path, is_secret, text, FILE_BYTES, error);

	if (len < 0)
		return (int)len;
	ret_datum->data = (unsigned char *)text;
	ret_datum->size = (unsigned int)len;
	return 0;
}

static int load_certificates(struct tls_store *store, const struct tls_files *files,
			     struct tls_error *error)
{
	AUTO_FREE char *text = malloc(FILE_BYTES);
	AUTO_FREE char *secret = malloc(FILE_BYTES);
	gnutls_datum_t datum, key;
	int rc;

	if (!text || !secret || gnutls_certificate_allocate_credentials(&store->cert) < 0)
		return fail(error, "certificates", GNUTLS_E_MEMORY_ERROR);
	rc = load(files->ca, false, text, &datum, error);
	if (rc < 0)
		return rc;
	rc = gnutls_certificate_set_x509_trust_mem(store->cert, &datum, GNUTLS_X509_FMT_PEM);
	if (rc <= 0)
		return fail(error, files->ca, rc < 0 ? rc : GNUTLS_E_NO_CERTIFICATE_FOUND);
	rc = load(files->cert, false, text, &datum, error);
	if (rc == 0)
		rc = load(files->cert_key, true, secret, &key, error);
	if (rc < 0)
		return rc;
	rc = gnutls_certificate_set_x509_key_mem(store->cert, &datum, &key, GNUTLS_X509_FMT_PEM);
	explicit_bzero(secret, FILE_BYTES);
	return rc < 0 ? fail(error, files->cert, rc) : 0;
}

/* Fill in and sign: a certificate that only has to be one. */
static int sign_trust(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	static const char serial[] = {1};
	time_t now = time(NULL);
	int rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
					      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);

	if (rc < 0)
		return rc;
	gnutls_x509_crt_set_version(crt, 3);
	gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	gnutls_x509_crt_set_dn(crt, "CN=shuntd", NULL);
	gnutls_x509_crt_set_activation_time(crt, now - 86400);
	gnutls_x509_crt_set_expiration_time(crt, now + TRUST_DAYS * 86400);
	rc = gnutls_x509_crt_set_key(crt, key);
	return rc < 0 ? rc : gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static int make_trust(struct tls_store *store)
{
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t crt = NULL;
	int rc = gnutls_certificate_allocate_credentials(&store->trust);

	if (rc == 0)
		rc = gnutls_x509_privkey_init(&key);
	if (rc == 0)
		rc = gnutls_x509_crt_init(&crt);
	if (rc == 0)
		rc = sign_trust(crt, key);
	if (rc == 0)
		rc = gnutls_certificate_set_x509_key(store->trust, &crt, 1, key);
	if (crt)
		gnutls_x509_crt_deinit(crt);
	if (key)
		gnutls_x509_privkey_deinit(key);
	return rc < 0 ? rc : 0;
}

struct tls_store *tls_store_new(const struct tls_files *files, struct tls_error *ret_error)
{
	struct tls_store *store = calloc(1, sizeof(*store));
	int rc = store ? gnutls_priority_init(&store->priority_key, PRIORITY_KEY, NULL)
		       : GNUTLS_E_MEMORY_ERROR;

	if (rc == 0)
		rc = gnutls_priority_init(&store->priority_cert, PRIORITY_CERT, NULL);
	if (rc == 0)
		rc = gnutls_psk_allocate_server_credentials(&store->psk_server);
	if (rc == 0)
		rc = make_trust(store);
	if (rc < 0) {
		fail(ret_error, "TLS can't be set up", rc);
		return tls_store_free(store);
	}
	gnutls_psk_set_server_credentials_function(store->psk_server, key_of_client);
	if (files && load_certificates(store, files, ret_error) < 0)
		return tls_store_free(store);
	return store;
}

int tls_store_reload(struct tls_store *store, const struct tls_files *files,
		     struct tls_error *ret_error)
{
	int rc;

	if (store->former)
		gnutls_certificate_free_credentials(store->former);
	store->former = TAKE(store->cert, NULL);
	rc = load_certificates(store, files, ret_error);
	if (rc < 0 && store->cert)
		gnutls_certificate_free_credentials(TAKE(store->cert, NULL));
	return rc < 0 ? -1 : 0;
}

bool tls_is_vouched_for(struct tls *tls, struct tls_store *store)
{
	unsigned int status = 0;

	return store->cert &&
	       gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, store->cert) == 0 &&
	       gnutls_certificate_verify_peers2(tls->session, &status) == 0 && status == 0;
}

struct tls_store *tls_store_free(struct tls_store *store)
{
	if (!store)
		return NULL;
	if (store->cert)
		gnutls_certificate_free_credentials(store->cert);
	if (store->former)
		gnutls_certificate_free_credentials(store->former);
	if (store->trust)
		gnutls_certificate_free_credentials(store->trust);
	if (store->psk_server)
		gnutls_psk_free_server_credentials(store->psk_server);
	if (store->priority_cert)
		gnutls_priority_deinit(store->priority_cert);
	if (store->priority_key)
		gnutls_priority_deinit(store->priority_key);
	free(store);
	return NULL;
}

static int set_key(struct tls_store *store, struct tls *tls, bool is_server)
{
	const gnutls_datum_t key = {(unsigned char *)(uintptr_t)tls->key->bytes,
				    (unsigned int)tls->key->len};
	int rc;

	if (is_server)
		return gnutls_credentials_set(tls->session, GNUTLS_CRD_PSK, store->psk_server);
	rc = gnutls_psk_allocate_client_credentials(&tls->psk_client);
	if (rc == 0)
		rc = gnutls_psk_set_client_credentials(tls->psk_client, IDENTITY, &key,
						       GNUTLS_PSK_KEY_RAW);
	if (rc == 0)
		rc = gnutls_credentials_set(tls->session, GNUTLS_CRD_PSK, tls->psk_client);
	return rc;
}

static int set_certificate(struct tls_store *store, struct tls *tls, bool is_server,
			   enum tls_way way)
{
	if (way == TLS_BY_TRUST)
		return gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, store->trust);
	if (!store->cert)
		return GNUTLS_E_INSUFFICIENT_CREDENTIALS;
	if (is_server)
		gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_REQUIRE);
	/* No name is compared: whoever the authority vouches for is a daemon of ours. */
	gnutls_session_set_verify_cert(tls->session, NULL, 0);
	return gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, store->cert);
}

struct tls *tls_new(struct tls_store *store, int fd, bool is_server, enum tls_way way,
		    const struct tls_key *key)
{
	struct tls *tls = calloc(1, sizeof(*tls));
	unsigned int flags = GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS | GNUTLS_NO_SIGNAL;
	int rc;

	if (!tls)
		return NULL;
	tls->key = way == TLS_BY_KEY ? key : NULL;
	rc = gnutls_init(&tls->session, flags | (is_server ? GNUTLS_SERVER : GNUTLS_CLIENT));
	if (rc < 0) {
		free(tls);
		return NULL;
	}
	gnutls_session_set_ptr(tls->session, tls);
	gnutls_transport_set_int(tls->session, fd);
	gnutls_handshake_set_max_packet_length(tls->session, HANDSHAKE_BYTES);
	rc = gnutls_priority_set(tls->session,
				 way == TLS_BY_KEY ? store->priority_key : store->priority_cert);
	if (rc == 0)
		rc = way == TLS_BY_KEY ? set_key(store, tls, is_server)
				       : set_certificate(store, tls, is_server, way);
	return rc < 0 ? tls_free(tls) : tls;
}

struct tls *tls_free(struct tls *tls)
{
	if (!tls)
		return NULL;
	if (!tls->pending)
		gnutls_bye(tls->session, GNUTLS_SHUT_WR);
	gnutls_deinit(tls->session);
	if (tls->psk_client)
		gnutls_psk_free_client_credentials(tls->psk_client);
	free(tls);
	return NULL;
}

const char *tls_why(const struct tls *tls)
{
	return tls->why;
}

/* What a failure means to the caller; the details are kept for people. */
static int explain(struct tls *tls, int rc)
{
	const char *alert = NULL;

	if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED)
		alert = gnutls_alert_get_name(gnutls_alert_get(tls->session));
	snprintf(tls->why, sizeof(tls->why), "%s%s%s", gnutls_strerror(rc), alert ? " Alert: " : "",
		 alert ? alert : "");
	switch (rc) {
	case GNUTLS_E_PULL_ERROR:
	case GNUTLS_E_PUSH_ERROR:
	case GNUTLS_E_PREMATURE_TERMINATION:
	case GNUTLS_E_SESSION_EOF:
		return -ECONNRESET;
	case GNUTLS_E_MEMORY_ERROR:
		return -ENOMEM;
	case GNUTLS_E_FATAL_ALERT_RECEIVED:
	case GNUTLS_E_CERTIFICATE_ERROR:
	case GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR:
	case GNUTLS_E_NO_CERTIFICATE_FOUND:
	case GNUTLS_E_CERTIFICATE_REQUIRED:
	case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
	case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
	case GNUTLS_E_DECRYPTION_FAILED:
		return -EACCES;
	default:
		return -EPROTO;
	}
}

int tls_handshake(struct tls *tls)
{
	int rc;

	do {
		rc = gnutls_handshake(tls->session);
	} while (rc == GNUTLS_E_INTERRUPTED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED);
	if (rc == 0)
		return 0;
	if (rc == GNUTLS_E_AGAIN)
		return gnutls_record_get_direction(tls->session) ? TLS_WANT_WRITE : TLS_WANT_READ;
	/* Tell the other end why, if the socket takes it. */
	gnutls_alert_send_appropriate(tls->session, rc);
	return explain(tls, rc);
}

ssize_t tls_read(struct tls *tls, void *bytes, size_t len)
{
	ssize_t n = gnutls_record_recv(tls->session, bytes, len);

	if (n >= 0)
		return n;
	if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
		return -EAGAIN;
	return explain(tls, (int)n);
}

ssize_t tls_write(struct tls *tls, const void *bytes, size_t len)
{
	ssize_t n;

	if (tls->pending)
		n = gnutls_record_send(tls->session, NULL, 0);
	else
		n = gnutls_record_send(tls->session, bytes, len);
	if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
		if (!tls->pending)
			tls->pending = len < 16384 ? len : 16384;
		return -EAGAIN;
	}
	if (n < 0)
		return explain(tls, (int)n);
	tls->pending = 0;
	return n;
}
