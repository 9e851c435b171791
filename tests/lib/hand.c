/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"

#include "lib/peer.h"
#include "lib/tap.h"

/* The peer by hand of peer.h: a blocking socket, GnuTLS, and the codec. */

#define PRIORITY_KEY "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK"
#define PRIORITY_TRUST "NORMAL:-VERS-ALL:+VERS-TLS1.3"

static bool read_key(unsigned int key, char text[129])
{
	FILE *file = fopen(peer_key_file(key), "re");
	bool ok = file && fgets(text, 129, file);

	if (file)
		fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return ok;
}

static bool set_up(struct hand *hand, unsigned int key)
{
	gnutls_certificate_credentials_t cert;
	gnutls_psk_client_credentials_t psk;
	gnutls_session_t session;
	char text[129] = "";

	if (gnutls_init(&session, GNUTLS_CLIENT) < 0)
		return false;
	hand->session = session;
	hand->by_key = key != 0;
	gnutls_priority_set_direct(session, key ? PRIORITY_KEY : PRIORITY_TRUST, NULL);
	gnutls_transport_set_int(session, hand->fd);
	gnutls_handshake_set_timeout(session, SHUNTD_WAIT_MS);
	if (!key) {
		gnutls_certificate_allocate_credentials(&cert);
		hand->credentials = cert;
		return gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, cert) == 0;
	}
	gnutls_psk_allocate_client_credentials(&psk);
	hand->credentials = psk;
	return read_key(key, text) &&
	       gnutls_psk_set_client_credentials(
		       psk, "shunt", &(gnutls_datum_t){(void *)text, (unsigned int)strlen(text)},
		       GNUTLS_PSK_KEY_HEX) == 0 &&
	       gnutls_credentials_set(session, GNUTLS_CRD_PSK, psk) == 0;
}

static void release(struct hand *hand)
{
	gnutls_deinit(hand->session);
	if (hand->by_key)
		gnutls_psk_free_client_credentials(hand->credentials);
	else
		gnutls_certificate_free_credentials(hand->credentials);
	close(hand->fd);
}

bool hand_open(struct hand *hand, unsigned int from, unsigned int to, unsigned int key)
{
	int rc;

	memset(hand, 0, sizeof(*hand));
	hand->fd = hand_connect(from, to);
	if (!CHECK_OK(hand->fd) || !CHECK(set_up(hand, key)))
		return false;
	do {
		rc = gnutls_handshake(hand->session);
	} while (rc < 0 && !gnutls_error_is_fatal(rc));
	if (rc == 0)
		return true;
	release(hand);
	return false;
}

void hand_close(struct hand *hand)
{
	release(hand);
}

bool hand_write(struct hand *hand, const void *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n =
			gnutls_record_send(hand->session, (const char *)bytes + done, len - done);

		if (n < 0 && n != GNUTLS_E_AGAIN && n != GNUTLS_E_INTERRUPTED)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

bool hand_send(struct hand *hand, const struct peer_msg *msg)
{
	uint8_t bytes[PEER_FRAME_MAX];

	return hand_write(hand, bytes, peer_encode(msg, bytes));
}

static int read_more(struct hand *hand, int wait_ms)
{
	struct pollfd poll_in = {.fd = hand->fd, .events = POLLIN};
	ssize_t n;

	if (gnutls_record_check_pending(hand->session) == 0 && poll(&poll_in, 1, wait_ms) != 1)
		return -ETIMEDOUT;
	n = gnutls_record_recv(hand->session, hand->in + hand->in_len,
			       sizeof(hand->in) - hand->in_len);
	if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
		return 0;
	if (n <= 0)
		return -EPIPE;
	hand->in_len += (size_t)n;
	return 0;
}

int hand_recv(struct hand *hand, struct peer_msg *ret_msg, int wait_ms)
{
	uint64_t limit = clock_now_ns() + (uint64_t)wait_ms * 1000000u;
	enum peer_verdict verdict;
	size_t used;

	for (;;) {
		int rc;

		verdict = peer_decode(hand->in, hand->in_len, ret_msg, &used);
		if (verdict == PEER_OK) {
			hand->in_len -= used;
			memmove(hand->in, hand->in + used, hand->in_len);
			return 0;
		}
		CHECK_EQ(verdict, PEER_MORE);
		if (clock_now_ns() >= limit)
			return -ETIMEDOUT;
		rc = read_more(hand, (int)((limit - clock_now_ns()) / 1000000u) + 1);
		if (rc < 0)
			return rc;
	}
}

bool hand_expect(struct hand *hand, enum peer_type type, struct peer_msg *ret_msg)
{
	struct peer_msg msg, pong = {.type = PEER_PONG};
	int rc;

	for (;;) {
		rc = hand_recv(hand, &msg, SHUNTD_WAIT_MS);
		if (!CHECK_OK(rc))
			return false;
		if (msg.type == type)
			break;
		if (msg.type == PEER_PING && hand_send(hand, &pong))
			continue;
		if (msg.type != PEER_HELLO)
			return CHECK_STR(peer_type_name(msg.type), peer_type_name(type));
	}
	if (ret_msg)
		*ret_msg = msg;
	return true;
}

int hand_expect_end(struct hand *hand)
{
	struct peer_msg msg;
	int rc, why = 0;

	while ((rc = hand_recv(hand, &msg, SHUNTD_WAIT_MS)) == 0) {
		if (msg.type == PEER_BYE)
			why = msg.u.bye.why;
	}
	CHECK_EQ(rc, -EPIPE);
	return why;
}

struct peer_msg hand_hello_msg(unsigned int who)
{
	struct peer_msg msg = {
		.type = PEER_HELLO,
		.u.hello = {.magic = PEER_MAGIC, .version = PEER_VERSION, .software = "by hand"},
	};

	memset(msg.u.hello.uuid, (int)who, PEER_UUID_BYTES);
	return msg;
}

bool hand_hello(struct hand *hand, unsigned int who)
{
	const struct peer_msg msg = hand_hello_msg(who);

	return CHECK(hand_send(hand, &msg)) && hand_expect(hand, PEER_HELLO, NULL);
}

struct peer_msg hand_offer(uint64_t id, unsigned int local, unsigned int local_port,
			   unsigned int remote, unsigned int remote_port)
{
	struct peer_msg msg = {
		.type = PEER_OFFER,
		.u.offer = {.id = id,
			    .local = {.family = 4, .port = (uint16_t)local_port},
			    .remote = {.family = 4, .port = (uint16_t)remote_port},
			    .sent_syn = 1,
			    .ring_bytes = 65536,
			    .epoch = 1},
	};

	inet_pton(AF_INET, peer_ip(local), msg.u.offer.local.addr);
	inet_pton(AF_INET, peer_ip(remote), msg.u.offer.remote.addr);
	return msg;
}
