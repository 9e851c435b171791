/* SPDX-License-Identifier: MIT */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>

#include "os/sys.h"
#include "os/tcp.h"
#include "os/tcp_info.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

#define TCP_ULP_NAME_BYTES 16 /* TCP_ULP_NAME_MAX, include/net/tcp.h */

int tcp_info_read(int fd, struct tcp_info *ret_info)
{
	socklen_t len = sizeof(*ret_info);
	int ret;

	memset(ret_info, 0, sizeof(*ret_info));
	ret = sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret_info, &len);
	if (ret < 0)
		return ret;
	if (len < offsetof(struct tcp_info, tcpi_dsack_dups))
		return -EOPNOTSUPP;
	return 0;
}

static int tcp_queue_read(int fd, unsigned long req, uint64_t *ret_bytes)
{
	int bytes = 0;
	int ret;

	ret = sys_ioctl(fd, req, &bytes);
	if (ret < 0)
		return ret;
	if (bytes < 0)
		return -EPROTO;
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

static int tcp_opt_int(int fd, int opt, int *ret_val)
{
	socklen_t len = sizeof(*ret_val);

	return sys_getsockopt(fd, SOL_SOCKET, opt, ret_val, &len);
}

int tcp_check(int fd)
{
	int domain, type, protocol;
	int ret;

	ret = tcp_opt_int(fd, SO_DOMAIN, &domain);
	if (ret < 0)
		return ret;
	if (domain != AF_INET && domain != AF_INET6)
		return -EPROTOTYPE;
	ret = tcp_opt_int(fd, SO_TYPE, &type);
	if (ret < 0)
		return ret;
	ret = tcp_opt_int(fd, SO_PROTOCOL, &protocol);
	if (ret < 0)
		return ret;
	return type == SOCK_STREAM && protocol == IPPROTO_TCP ? 0 : -EPROTOTYPE;
}

int tcp_check_accepted(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);
	int rc = sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);

	return rc ? rc : protocol == IPPROTO_TCP ? 0 : -EPROTOTYPE;
}

int tcp_state_read(int fd, enum tcp_state *ret_state)
{
	struct tcp_info info;
	int ret;

	ret = tcp_info_read(fd, &info);
	if (ret < 0)
		return ret;
	*ret_state = info.tcpi_state;
	return 0;
}

/*
 * Whether the counts of the bytes written mean something in @state: a FIN of ours takes a sequence
 * number, and a dead connection keeps no account. @state is that of the second reading, which the
 * kernel loads before the counts of it: a FIN sent later is not in what was queued before, and if
 * it is acknowledged already, the two readings differ.
 */
static int tcp_check_tx(unsigned int state)
{
	switch (state) {
	case TCP_STATE_ESTABLISHED:
	case TCP_STATE_CLOSE_WAIT:
		return 0;
	case TCP_STATE_FIN_WAIT1:
	case TCP_STATE_FIN_WAIT2:
	case TCP_STATE_CLOSING:
	case TCP_STATE_LAST_ACK:
		return -ESHUTDOWN;
	default:
		return -ENOTCONN;
	}
}

/* Sequence numbers that a FIN of the peer has taken in @state, or -ENOTCONN. */
static int tcp_fins_received(unsigned int state)
{
	switch (state) {
	case TCP_STATE_ESTABLISHED:
	case TCP_STATE_FIN_WAIT1:
	case TCP_STATE_FIN_WAIT2:
		return 0;
	case TCP_STATE_CLOSE_WAIT:
	case TCP_STATE_CLOSING:
	case TCP_STATE_LAST_ACK:
		return 1;
	default:
		return -ENOTCONN;
	}
}

int tcp_written(int fd, unsigned int syn_bias, uint64_t *ret_bytes)
{
	struct tcp_info before, after;
	uint64_t queued;
	int ret;

	ret = tcp_info_read(fd, &after);
	for (unsigned int i = 0; ret == 0 && i < TCP_READS_MAX; i++) {
		before = after;
		ret = tcp_queue_read(fd, SIOCOUTQ, &queued);
		if (ret < 0)
			break;
		ret = tcp_info_read(fd, &after);
		if (ret < 0 || after.tcpi_bytes_acked != before.tcpi_bytes_acked)
			continue;
		ret = tcp_check_tx(after.tcpi_state);
		if (ret < 0)
			return ret;
		if (after.tcpi_bytes_acked + queued < syn_bias)
			return -EPROTO;
		*ret_bytes = after.tcpi_bytes_acked + queued - syn_bias;
		return 0;
	}
	return ret < 0 ? ret : -EAGAIN;
}

int tcp_consumed(int fd, uint64_t *ret_bytes)
{
	struct tcp_info before, after;
	uint64_t queued;
	int ret, fins;

	ret = tcp_info_read(fd, &after);
	for (unsigned int i = 0; ret == 0 && i < TCP_READS_MAX; i++) {
		before = after;
		ret = tcp_queue_read(fd, SIOCINQ, &queued);
		if (ret < 0)
			break;
		ret = tcp_info_read(fd, &after);
		if (ret < 0 || after.tcpi_bytes_received != before.tcpi_bytes_received)
			continue;
		/* A FIN moves both under one lock: with equal counts, this state fits them. */
		fins = tcp_fins_received(after.tcpi_state);
		if (fins < 0)
			return fins;
		if (after.tcpi_bytes_received < queued + (uint64_t)fins)
			return -EPROTO;
		*ret_bytes = after.tcpi_bytes_received - queued - (uint64_t)fins;
		return 0;
	}
	return ret < 0 ? ret : -EAGAIN;
}

/* Bytes that went out once, and those that wait to: what was written, without any SYN. */
static uint64_t tcp_payload_written(const struct tcp_info *info)
{
	return info->tcpi_bytes_sent - info->tcpi_bytes_retrans + info->tcpi_notsent_bytes;
}

int tcp_syn_bias(int fd, unsigned int *ret_bias)
{
	struct tcp_info before, after;
	uint64_t queued;
	int ret;

	ret = tcp_info_read(fd, &after);
	for (unsigned int i = 0; ret == 0 && i < TCP_READS_MAX; i++) {
		uint64_t bias;

		before = after;
		ret = tcp_queue_read(fd, SIOCOUTQ, &queued);
		if (ret < 0)
			break;
		ret = tcp_info_read(fd, &after);
		/* Both terms must be at rest: another thread may be writing. */
		if (ret < 0 || after.tcpi_bytes_acked != before.tcpi_bytes_acked ||
		    tcp_payload_written(&after) != tcp_payload_written(&before))
			continue;
		ret = tcp_check_tx(after.tcpi_state);
		if (ret < 0)
			return ret;
		bias = after.tcpi_bytes_acked + queued - tcp_payload_written(&after);
		if (bias > 1)
			return -EPROTO;
		*ret_bias = (unsigned int)bias;
		return 0;
	}
	return ret < 0 ? ret : -EAGAIN;
}

int tcp_end_from(const struct sockaddr_storage *addr, struct tcp_end *ret_end)
{
	struct tcp_end end = {0};

	if (addr->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

		end.family = AF_INET;
		end.port = ntohs(in->sin_port);
		memcpy(end.addr, &in->sin_addr, sizeof(in->sin_addr));
	} else if (addr->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

		end.port = ntohs(in6->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
			end.family = AF_INET;
			memcpy(end.addr, &in6->sin6_addr.s6_addr[12], sizeof(struct in_addr));
		} else {
			end.family = AF_INET6;
			end.scope_id = in6->sin6_scope_id;
			memcpy(end.addr, &in6->sin6_addr, sizeof(end.addr));
		}
	} else {
		return -EAFNOSUPPORT;
	}
	*ret_end = end;
	return 0;
}

struct tcp_name tcp_name_mirror(const struct tcp_name *name)
{
	return (struct tcp_name){.local = name->peer, .peer = name->local};
}

bool tcp_name_is_self(const struct tcp_name *name)
{
	return memcmp(&name->local, &name->peer, sizeof(name->local)) == 0;
}

static int tcp_addrs_read(int fd, struct tcp_facts *facts)
{
	socklen_t len = sizeof(facts->local);
	int ret;

	ret = sys_getsockname(fd, (struct sockaddr *)&facts->local, &len);
	if (ret < 0)
		return ret;
	len = sizeof(facts->peer);
	ret = sys_getpeername(fd, (struct sockaddr *)&facts->peer, &len);
	if (ret < 0)
		return ret;
	ret = tcp_end_from(&facts->local, &facts->name.local);
	if (ret < 0)
		return ret;
	return tcp_end_from(&facts->peer, &facts->name.peer);
}

int tcp_name_read(int fd, struct tcp_name *ret_name)
{
	struct tcp_facts facts;
	int ret;

	ret = tcp_check(fd);
	if (ret < 0)
		return ret;
	memset(&facts, 0, sizeof(facts));
	ret = tcp_addrs_read(fd, &facts);
	if (ret < 0)
		return ret;
	*ret_name = facts.name;
	return 0;
}

/* What does not change while the connection lives, device and protocol layers aside. */
static int tcp_identity_read(int fd, struct tcp_facts *facts)
{
	char ulp[TCP_ULP_NAME_BYTES] = "";
	socklen_t len = sizeof(facts->cookie);
	int ret;

	ret = sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &facts->cookie, &len);
	if (ret < 0)
		return ret;
	len = sizeof(facts->netns_cookie);
	ret = sys_getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &facts->netns_cookie, &len);
	if (ret < 0)
		return ret;
	len = sizeof(facts->device);
	ret = sys_getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, facts->device, &len);
	if (ret < 0)
		return ret;
	len = sizeof(ulp);
	ret = sys_getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &len);
	if (ret < 0)
		return ret;
	facts->has_ulp = ulp[0] != '\0';
	return 0;
}

static void tcp_state_note(const struct tcp_info *info, struct tcp_facts *facts)
{
	facts->state = info->tcpi_state;
	facts->fin_sent = facts->fin_received = false;
	switch (facts->state) {
	case TCP_STATE_FIN_WAIT1:
	case TCP_STATE_FIN_WAIT2:
		facts->fin_sent = true;
		break;
	case TCP_STATE_CLOSE_WAIT:
		facts->fin_received = true;
		break;
	case TCP_STATE_CLOSING:
	case TCP_STATE_LAST_ACK:
	case TCP_STATE_TIME_WAIT:
		facts->fin_sent = facts->fin_received = true;
		break;
	default:
		break;
	}
}

/* @before: a reading of the state that called for this one. */
static int tcp_counts_read(int fd, const struct tcp_info *before, struct tcp_facts *facts)
{
	struct tcp_info info;
	int ret;

	ret = tcp_syn_bias(fd, &facts->syn_bias);
	if (ret == 0)
		ret = tcp_written(fd, facts->syn_bias, &facts->written_bytes);
	if (ret == 0)
		ret = tcp_consumed(fd, &facts->consumed_bytes);
	/* Closed just now: the state tells. */
	if (ret < 0 && ret != -ESHUTDOWN && ret != -ENOTCONN)
		return ret;
	ret = tcp_info_read(fd, &info);
	if (ret < 0)
		return ret;
	/* Counts only grow, and more is written than acknowledged, more received than consumed:
	 * the smaller of two is read first. */
	facts->acked_bytes = before->tcpi_bytes_acked - facts->syn_bias;
	facts->received_bytes = info.tcpi_bytes_received;
	/* Once more, since the kernel loads the state before the counts of the same reading. */
	ret = tcp_info_read(fd, &info);
	if (ret < 0)
		return ret;
	tcp_state_note(&info, facts);
	return 0;
}

int tcp_facts_read(int fd, struct tcp_facts *ret_facts)
{
	struct tcp_facts facts;
	struct tcp_info info;
	int ret;

	ret = tcp_check(fd);
	if (ret < 0)
		return ret;
	memset(&facts, 0, sizeof(facts));
	ret = tcp_addrs_read(fd, &facts);
	if (ret < 0)
		return ret;
	ret = tcp_identity_read(fd, &facts);
	if (ret < 0)
		return ret;
	ret = tcp_info_read(fd, &info);
	if (ret < 0)
		return ret;
	tcp_state_note(&info, &facts);
	if (facts.state == TCP_STATE_ESTABLISHED) {
		ret = tcp_counts_read(fd, &info, &facts);
		if (ret < 0)
			return ret;
	}
	/* The state was read again behind the counts: a FIN in between has spoilt them. */
	if (facts.state != TCP_STATE_ESTABLISHED) {
		facts.written_bytes = facts.consumed_bytes = 0;
		facts.acked_bytes = facts.received_bytes = 0;
		facts.syn_bias = 0;
	}
	*ret_facts = facts;
	return 0;
}
