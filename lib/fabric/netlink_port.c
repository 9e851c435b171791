/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/netlink.h"

/* Longest wait for one answer. Chosen: the kernel answers at once, or has none. */
#define ANSWER_S 1

/* The type of a message of rdma netlink's device interface. */
#define DEVICE_MSG(command) (RDMA_NL_NLDEV << 10 | (command))

CLEANUP_DEFINE(nl_sock, struct nl_sock *, NULL, nl_socket_free);
#define AUTO_NL_SOCK CLEANUP(cleanup_nl_sock)
CLEANUP_DEFINE(nl_msg, struct nl_msg *, NULL, nlmsg_free);
#define AUTO_NL_MSG CLEANUP(cleanup_nl_msg)

struct search {
	const char *name;
	uint32_t index, ifindex;
	bool found;
};

/* Types of what is read, so that a shorter attribute is refused rather than read beyond. */
static struct nla_policy policy[RDMA_NLDEV_ATTR_MAX] = {
	[RDMA_NLDEV_ATTR_DEV_INDEX] = {.type = NLA_U32},
	[RDMA_NLDEV_ATTR_DEV_NAME] = {.type = NLA_NUL_STRING},
	[RDMA_NLDEV_ATTR_NDEV_INDEX] = {.type = NLA_U32},
};

static int parse(struct nl_msg *msg, struct nlattr *attrs[RDMA_NLDEV_ATTR_MAX])
{
	return nlmsg_parse(nlmsg_hdr(msg), 0, attrs, RDMA_NLDEV_ATTR_MAX - 1, policy);
}

static int on_device(struct nl_msg *msg, void *arg)
{
	struct nlattr *attrs[RDMA_NLDEV_ATTR_MAX];
	struct search *search = arg;

	if (parse(msg, attrs) == 0 && attrs[RDMA_NLDEV_ATTR_DEV_INDEX] &&
	    attrs[RDMA_NLDEV_ATTR_DEV_NAME] &&
	    strcmp(nla_get_string(attrs[RDMA_NLDEV_ATTR_DEV_NAME]), search->name) == 0) {
		search->index = nla_get_u32(attrs[RDMA_NLDEV_ATTR_DEV_INDEX]);
		search->found = true;
	}
	return NL_OK;
}

static int on_port(struct nl_msg *msg, void *arg)
{
	struct nlattr *attrs[RDMA_NLDEV_ATTR_MAX];
	struct search *search = arg;

	if (parse(msg, attrs) == 0 && attrs[RDMA_NLDEV_ATTR_NDEV_INDEX])
		search->ifindex = nla_get_u32(attrs[RDMA_NLDEV_ATTR_NDEV_INDEX]);
	return NL_OK;
}

static int error_of(int nl_error)
{
	if (nl_error >= 0)
		return 0;
	switch (-nl_error) {
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_PERM:
		return -EPERM;
	case NLE_AGAIN:
		return -ETIMEDOUT;
	default:
		return -ENODEV;
	}
}

/* Send @msg, give every answer to @fn. */
static int ask(struct nl_sock *sock, struct nl_msg *msg, nl_recvmsg_msg_cb_t fn,
	       struct search *search)
{
	int rc = nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, fn, search);

	if (rc == 0)
		rc = nl_send_auto(sock, msg);
	if (rc >= 0)
		rc = nl_recvmsgs_default(sock);
	/* A dump is behind its answers; a single answer is followed by an acknowledgement. */
	if (rc >= 0 && !(nlmsg_hdr(msg)->nlmsg_flags & NLM_F_DUMP))
		rc = nl_wait_for_ack(sock);
	return error_of(rc);
}

static int find_device(struct nl_sock *sock, struct search *search)
{
	AUTO_NL_MSG struct nl_msg *msg =
		nlmsg_alloc_simple(DEVICE_MSG(RDMA_NLDEV_CMD_GET), NLM_F_REQUEST | NLM_F_DUMP);
	int rc;

	if (!msg)
		return -ENOMEM;
	rc = ask(sock, msg, on_device, search);
	return rc == 0 && !search->found ? -ENODEV : rc;
}

static int find_netdev(struct nl_sock *sock, uint32_t port, struct search *search)
{
	AUTO_NL_MSG struct nl_msg *msg =
		nlmsg_alloc_simple(DEVICE_MSG(RDMA_NLDEV_CMD_PORT_GET), NLM_F_REQUEST | NLM_F_ACK);
	int rc;

	if (!msg || nla_put_u32(msg, RDMA_NLDEV_ATTR_DEV_INDEX, search->index) < 0 ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_PORT_INDEX, port) < 0)
		return -ENOMEM;
	rc = ask(sock, msg, on_port, search);
	return rc == 0 && search->ifindex == 0 ? -ENODEV : rc;
}

int netlink_port_netdev(const char *name, uint32_t port, uint32_t *ret_ifindex)
{
	AUTO_NL_SOCK struct nl_sock *sock = nl_socket_alloc();
	const struct timeval limit = {.tv_sec = ANSWER_S};
	struct search search = {.name = name};
	int rc;

	if (!sock)
		return -ENOMEM;
	errno = 0;
	rc = nl_connect(sock, NETLINK_RDMA);
	if (rc < 0)
		return errno > 0 ? -errno : error_of(rc);
	setsockopt(nl_socket_get_fd(sock), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	rc = find_device(sock, &search);
	if (rc == 0)
		rc = find_netdev(sock, port, &search);
	if (rc == 0)
		*ret_ifindex = search.ifindex;
	return rc;
}
