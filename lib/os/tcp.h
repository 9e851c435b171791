/* SPDX-License-Identifier: MIT */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * What the kernel knows about a TCP connection, read from any descriptor of it.
 *
 * Payload counts. `written` is how many bytes have been handed to the kernel on this end since the
 * connection began, `consumed` how many have been read from it:
 *
 *	written  = tcpi_bytes_acked + SIOCOUTQ - SYN bias
 *	consumed = tcpi_bytes_received - SIOCINQ
 *
 * bytes_acked counts the SYN of the end that sent one (the bias: 1 on the end that connected, 0 on
 * the end that accepted). The two terms are two system calls, so they are read again until the
 * first is the same before and after the second. A FIN takes a sequence number: `written` can't be
 * told once this end has sent one, `consumed` allows for the peer's. SIOCINQ stops at an urgent
 * mark: nothing is true of a connection that ever used urgent data. All counts concern an instant
 * at which other holders of the socket may move them on.
 *
 * Any thread, async-signal-safe, never blocks, errno left alone.
 */

/* Most readings of one count before -EAGAIN. Chosen: 5 were needed at most in 176,000 readings
 * under load on Linux 6.12 and 6.18. */
#define TCP_READS_MAX 64u

/* TCP states, numbered as the kernel does; <linux/tcp.h> has no names for them and <netinet/tcp.h>
 * can not be included beside it. */
enum tcp_state {
	TCP_STATE_ESTABLISHED = 1,
	TCP_STATE_SYN_SENT,
	TCP_STATE_SYN_RECV,
	TCP_STATE_FIN_WAIT1,
	TCP_STATE_FIN_WAIT2,
	TCP_STATE_TIME_WAIT,
	TCP_STATE_CLOSE,
	TCP_STATE_CLOSE_WAIT,
	TCP_STATE_LAST_ACK,
	TCP_STATE_LISTEN,
	TCP_STATE_CLOSING,
};

/* One end's address in a form that compares byte by byte: v4-mapped IPv6 is IPv4. */
struct tcp_end {
	uint16_t family;   /* AF_INET or AF_INET6 */
	uint16_t port;	   /* host byte order */
	uint32_t scope_id; /* of a link-local IPv6 address, else 0 */
	uint8_t addr[16];  /* network byte order; IPv4 in the first four bytes, rest 0 */
};

/* A connection as one end sees it: hash and compare it as bytes. */
struct tcp_name {
	struct tcp_end local, peer;
};

_Static_assert(sizeof(struct tcp_name) == 48, "no padding: compared and hashed as bytes");

struct tcp_facts {
	struct sockaddr_storage local, peer; /* as getsockname(2) and getpeername(2) tell */
	struct tcp_name name;
	uint64_t cookie;       /* SO_COOKIE: one per socket, never reused while the host is up */
	uint64_t netns_cookie; /* SO_NETNS_COOKIE: one per network namespace */
	uint64_t written_bytes, consumed_bytes;
	uint64_t acked_bytes;	 /* of those written, acknowledged by the peer's kernel: no more */
	uint64_t received_bytes; /* received by this kernel, consumed or not: no fewer */
	unsigned int syn_bias;	 /* 0 or 1, for tcp_written() */
	enum tcp_state state;
	bool fin_sent, fin_received; /* as the state tells: a reset one shows TCP_STATE_CLOSE */
	bool has_ulp;		     /* an upper layer protocol, such as kTLS, sits on it */
	char device[IFNAMSIZ]; /* bound to it, or to a VRF; link-local IPv6 always is; else "" */
};

/* Verdicts of tcp_rule_selfcheck(). */
enum tcp_rule {
	TCP_RULE_HOLDS = 0,
	TCP_RULE_BROKEN = 1, /* a count differed from the truth: promote nothing on this kernel */
};

/*
 * Whether @fd is a TCP stream socket over IPv4 or IPv6: 0; -EPROTOTYPE for any other socket (UDP,
 * unix, MPTCP, SCTP…); -ENOTSOCK; -EBADF.
 */
int tcp_check(int fd);

/* The same for a socket that accept(2) gave, in one system call: of those only TCP says so. */
int tcp_check_accepted(int fd);

/*
 * All facts of @fd. 0; the errors of tcp_check(); -ENOTCONN when it has no peer (yet, or any more);
 * -EAGAIN when a count did not come to rest in TCP_READS_MAX readings; -EPROTO when the SYN bias is
 * neither 0 nor 1, so that this connection can not be counted; -EOPNOTSUPP, -ENOPROTOOPT on a
 * kernel that is too old. The counts and the bias are filled in only in state ESTABLISHED, in
 * which no FIN went either way, else they are 0.
 */
int tcp_facts_read(int fd, struct tcp_facts *ret_facts);

/* The name only (cheap); 0, the errors of tcp_check(), -ENOTCONN. */
int tcp_name_read(int fd, struct tcp_name *ret_name);

/*
 * Whether bytes_acked counts a SYN here: compares acknowledged and queued bytes with
 * tcpi_bytes_sent - tcpi_bytes_retrans + tcpi_notsent_bytes, which never count one. Constant for a
 * connection. 0; -EAGAIN, -EPROTO, -EOPNOTSUPP as above; -ESHUTDOWN after a FIN of this end;
 * -ENOTCONN. Of two ends on one host that know each
 * other exactly one has a bias (unless both connected), which a caller with both can check.
 */
int tcp_syn_bias(int fd, unsigned int *ret_bias);

/*
 * Bytes written to / consumed from @fd since the connection began; @syn_bias from tcp_syn_bias().
 * 0; -EAGAIN; -EOPNOTSUPP; -EPROTO when the kernel's numbers contradict each other; -ENOTCONN once
 * the connection is over (after a reset or after both FINs: bytes may still lie there to be read,
 * but the kernel no longer says whether it counted a FIN); tcp_written() alone: -ESHUTDOWN after a
 * FIN of this end.
 */
int tcp_written(int fd, unsigned int syn_bias, uint64_t *ret_bytes);
int tcp_consumed(int fd, uint64_t *ret_bytes);

/* The TCP state of @fd. 0; -EOPNOTSUPP, getsockopt(2)'s errors. */
int tcp_state_read(int fd, enum tcp_state *ret_state);

/* Fold a socket address into the canonical form; -EAFNOSUPPORT unless IPv4 or IPv6. */
int tcp_end_from(const struct sockaddr_storage *addr, struct tcp_end *ret_end);

/* The same connection as its other end sees it. */
struct tcp_name tcp_name_mirror(const struct tcp_name *name);

/* A connection from a socket to itself. */
bool tcp_name_is_self(const struct tcp_name *name);

/*
 * Check the counting rule on a loopback connection of our own: both ends, acknowledged, queued,
 * unread and partly read bytes. Takes well under a millisecond, opens and closes three descriptors,
 * waits at most TCP_SELFCHECK_MS in all if loopback drops packets. Returns a verdict, or -errno
 * when it could not be carried out (no loopback, no descriptors, -ETIMEDOUT).
 */
#define TCP_SELFCHECK_MS 1000
int tcp_rule_selfcheck(void);
