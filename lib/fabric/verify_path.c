/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fabric/verify_path.h"

/* Attributes of the connection. Chosen for a path that never leaves the adapter: what is lost there
 * is lost for good, and the deadline is ours. 14: 67 ms each time. */
#define ACK_TIMEOUT 14
#define RETRIES 5
#define RNR_TIMER 12 /* 0.64 ms */
#define HOP_LIMIT 64

static uint32_t packet_sequence(const struct ibv_qp *qp)
{
	return qp->qp_num & 0xffffff;
}

/* A GID table with the link-local default only is good enough for talking to oneself. */
static int best_gid(const struct device *device, const struct port *port, struct gid *ret_gid)
{
	AUTO_FREE struct gid *gids = calloc(GID_LIST_MAX, sizeof(*gids));
	ssize_t n, best;

	if (!gids)
		return -ENOMEM;
	n = gid_list(device, port->number, gids, GID_LIST_MAX);
	if (n < 0)
		return (int)n;
	best = gid_choose(gids, (size_t)n);
	if (best < 0 || (port->transport == FABRIC_IWARP && gids[best].scope == GID_SCOPE_NONE))
		return -EADDRNOTAVAIL;
	*ret_gid = gids[best];
	return 0;
}

int verify_path_find(const struct device *device, struct verify_path *ret_path, char *detail)
{
	int rc;

	snprintf(detail, VERIFY_DETAIL_BYTES, "the device has no port");
	for (uint32_t i = 1; i <= device->info.ports; i++) {
		struct verify_path path = {0};

		rc = device_port(device, i, &path.port);
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0) {
			snprintf(detail, VERIFY_DETAIL_BYTES, "port %u gives no answer: %s", i,
				 strerror(-rc));
			continue;
		}
		if (path.port.state != IBV_PORT_ACTIVE) {
			snprintf(detail, VERIFY_DETAIL_BYTES, "port %u is %s", i,
				 port_state_name(path.port.state));
			continue;
		}
		rc = best_gid(device, &path.port, &path.gid);
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0) {
			snprintf(detail, VERIFY_DETAIL_BYTES, "port %u has no address", i);
			continue;
		}
		*ret_path = path;
		return 0;
	}
	return -ENETDOWN;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int rc = ibv_modify_qp(qp, attr, mask);

	return rc < 0 ? rc : -rc;
}

static int to_init(struct ibv_qp *qp, const struct verify_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)path->port.number,
	};

	return modify(qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer, const struct verify_path *path)
{
	enum ibv_mtu mtu = IBV_MTU_256;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = peer->qp_num,
		.rq_psn = packet_sequence(peer),
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr =
			{
				.dlid = path->port.lid,
				.port_num = (uint8_t)path->port.number,
				/* RoCE has no other address; InfiniBand needs it without LID. */
				.is_global =
					path->port.transport != FABRIC_IB || path->port.lid == 0,
				.grh =
					{
						.dgid = path->gid.raw,
						.sgid_index = (uint8_t)path->gid.index,
						.hop_limit = HOP_LIMIT,
					},
			},
	};

	while (mtu < IBV_MTU_4096 && (128u << mtu) < path->port.mtu_bytes)
		mtu++;
	attr.path_mtu = mtu;
	return modify(qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = packet_sequence(qp),
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = 1,
	};

	return modify(qp, &attr,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int verify_connect(const struct verify_pair *pair, const struct verify_path *path, char *detail)
{
	struct ibv_qp *const ends[2] = {pair->receiver, pair->sender};
	const char *state = "INIT";
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0; i++)
		rc = to_init(ends[i], path);
	for (int i = 0; i < 2 && rc == 0; i++) {
		state = "RTR";
		rc = to_rtr(ends[i], ends[!i], path);
	}
	for (int i = 0; i < 2 && rc == 0; i++) {
		state = "RTS";
		rc = to_rts(ends[i]);
	}
	if (rc < 0)
		snprintf(detail, VERIFY_DETAIL_BYTES, "port %u: a queue pair can't become %s: %s",
			 path->port.number, state, strerror(-rc));
	return rc;
}
