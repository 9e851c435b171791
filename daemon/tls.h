/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * TLS 1.3, and nothing older, over a non-blocking TCP socket, by GnuTLS. Three ways to know who is
 * at the other end:
 *
 *	TLS_BY_KEY    both have the same key (a pre-shared key with ephemeral ECDH)
 *	TLS_BY_CERT   both show a certificate from one authority
 *	TLS_BY_TRUST  not at all: encrypted between two that trust the network about addresses
 *
 * No resumption, no early data: nothing can be replayed. All from one thread; nothing blocks, and a
 * handshake costs about a millisecond of computing.
 */

enum tls_way { TLS_BY_KEY, TLS_BY_CERT, TLS_BY_TRUST };

/* Verdicts of tls_handshake(). */
#define TLS_WANT_READ 1
#define TLS_WANT_WRITE 2

/* 16 bytes at least, as many as a cipher's key. */
#define TLS_KEY_MIN 16u
#define TLS_KEY_MAX 64u
#define TLS_ERROR_BYTES 320u

struct tls_key {
	size_t len; /* 0: none */
	uint8_t bytes[TLS_KEY_MAX];
};

/* What is wrong with a file, for people, with the file and the remedy. */
struct tls_error {
	char text[TLS_ERROR_BYTES];
};

struct tls_store;
struct tls;

/*
 * Read a key: hexadecimal digits, 32 to 128 of them, in one line.
 * @path: a full path; or a name without a slash: a credential in $CREDENTIALS_DIRECTORY. The file
 * must be a regular one of root or ours, that nobody else may read or write.
 * 0; -errno; -EPERM for its owner or mode, -EINVAL for its content. @ret_error: set unless 0.
 */
int tls_key_load(const char *path, struct tls_key *ret_key, struct tls_error *ret_error);

/* Whether the credential @name is there. */
bool tls_credential_exists(const char *name);

/* Overwrite the key in memory. */
void tls_key_forget(struct tls_key *key);

/* Files of certificates, as paths like those of keys. */
struct tls_files {
	const char *ca, *cert, *cert_key;
};

/*
 * Prepare. @files: NULL if no certificates are used. NULL with @ret_error set if that fails.
 */
struct tls_store *tls_store_new(const struct tls_files *files, struct tls_error *ret_error);

/*
 * Read certificates again, for all handshakes that begin from now on; those under way may fail.
 * 0, or negative with @ret_error set: then there are none.
 */
int tls_store_reload(struct tls_store *store, const struct tls_files *files,
		     struct tls_error *ret_error);

/* Release it, after all its channels. NULL is ignored. Returns NULL. */
struct tls_store *tls_store_free(struct tls_store *store);

/*
 * A channel over @fd, connected or being so, non-blocking; it stays the caller's.
 * @key: for TLS_BY_KEY, else ignored; outlives the channel. NULL without memory.
 */
struct tls *tls_new(struct tls_store *store, int fd, bool is_server, enum tls_way way,
		    const struct tls_key *key);

/* Say goodbye if the socket takes it at once, and release. NULL is ignored. Returns NULL. */
struct tls *tls_free(struct tls *tls);

/*
 * Go on with the handshake. 0: done; TLS_WANT_READ, TLS_WANT_WRITE: again when the socket is ready
 * for that; -EACCES: the other end is not who it must be, or says so of us; -EPROTO: it speaks no
 * TLS 1.3; -ECONNRESET: it went away; -ENOMEM. tls_why() has the details.
 */
int tls_handshake(struct tls *tls);

/* Why the last call failed; static or the channel's. */
const char *tls_why(const struct tls *tls);

/*
 * Whether the certificate that the other end of @tls (by TLS_BY_CERT, its handshake done) has shown
 * is one that the authority in @store vouches for now.
 */
bool tls_is_vouched_for(struct tls *tls, struct tls_store *store);

/*
 * Read. Bytes read; 0 at the end; -EAGAIN; -ECONNRESET, -EPROTO. Until -EAGAIN there may be
 * something left that epoll does not know of.
 */
ssize_t tls_read(struct tls *tls, void *bytes, size_t len);

/*
 * Write. Bytes taken (at most 16 KiB at a time); -EAGAIN: call again, with the same bytes first,
 * when the socket can be written; -ECONNRESET, -EPROTO.
 */
ssize_t tls_write(struct tls *tls, const void *bytes, size_t len);
