/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/peer_msg.h"
#include "lib/shuntd.h"

/*
 * Daemons of "two hosts" on two loopback addresses, connections between these, and a peer that
 * speaks the protocol by hand, as well or as badly as a test wants.
 */

/* By how much a daemon may grow and not leak: a sanitizer keeps what was freed. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEPT_KIB (512L << 10)
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KEPT_KIB (512L << 10)
#endif
#ifndef KEPT_KIB
#define KEPT_KIB 0L
#endif

/* Addresses of this test program alone, so that several can run side by side. */
const char *peer_ip(unsigned int host);

/* A file with a key, new at each call of a new @which; removed at exit. */
const char *peer_key_file(unsigned int which);

/*
 * Settings of the daemon of @host that knows @other, with key @key (0: none), and @more settings.
 * Static storage.
 */
const char *peer_conf_text(unsigned int host, unsigned int other, unsigned int key,
			   const char *more);

/* Start both daemons of hosts 0 and 1, each knows the other, both with key 1. */
bool peer_pair_start(struct shuntd daemons[2], const char *more);
void peer_pair_stop(struct shuntd daemons[2]);

/* A connection from host @from to host @to: [0] connected, [1] accepted. 0, or -errno. */
int peer_connect(unsigned int from, unsigned int to, int ret_fds[2]);

/* What `shunt peers` shows; to be released. NULL and the case has failed. */
json_t *peer_query(const struct shuntd *daemon);

/* A number of it: of the first peer's counts if @peers, else at the top or in "refused". */
long peer_count(const struct shuntd *daemon, const char *key);

/* Wait until peer_count() is at least @want. */
bool peer_await(const struct shuntd *daemon, const char *key, long want);

/* Sum of @key over the counts of all sessions there are and were. */
long peer_total(const struct shuntd *daemon, const char *key);
bool peer_await_total(const struct shuntd *daemon, const char *key, long want);

/* A peer by hand. */
struct hand {
	int fd;
	void *session, *credentials;
	bool by_key;
	uint8_t in[4 * PEER_FRAME_MAX];
	size_t in_len;
};

/* Connect from host @from to the daemon of host @to. The socket, or -errno. */
int hand_connect(unsigned int from, unsigned int to);

/* Connect, and do TLS with key @key (0: by trust). False: refused; nothing is left to close. */
bool hand_open(struct hand *hand, unsigned int from, unsigned int to, unsigned int key);
void hand_close(struct hand *hand);

/* Send bytes. False: the session is gone. */
bool hand_write(struct hand *hand, const void *bytes, size_t len);
bool hand_send(struct hand *hand, const struct peer_msg *msg);

/* Receive within @wait_ms: 0; -ETIMEDOUT; -EPIPE: the session is gone. */
int hand_recv(struct hand *hand, struct peer_msg *ret_msg, int wait_ms);

/* Await a message of @type; PINGs are answered, HELLOs dropped. */
bool hand_expect(struct hand *hand, enum peer_type type, struct peer_msg *ret_msg);

/* Await the end; what comes before it is dropped but for a BYE, which is the result (0: none). */
int hand_expect_end(struct hand *hand);

/* Exchange hellos, with a UUID made of @who. */
bool hand_hello(struct hand *hand, unsigned int who);
struct peer_msg hand_hello_msg(unsigned int who);

/* An offer of a connection from @local (host number) to @remote with these ports. */
struct peer_msg hand_offer(uint64_t id, unsigned int local, unsigned int local_port,
			   unsigned int remote, unsigned int remote_port);
