/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "cm.h"
#include "device.h"
#include "engine.h"
#include "resource.h"
#include "transport.h"

/* What the kernel's iWARP CM does to a QP by its number. */

static struct dbl_qp *find(const char *device_name, uint32_t qpn)
{
	struct dbl_device *device = device_by_name(device_name);

	return device ? resource_qp(device->desc.guid, qpn) : NULL;
}

DBL_API int transport_connect_iwarp(const char *device, uint32_t qpn, uint64_t peer_guid,
				    uint32_t peer_qpn, bool is_passive)
{
	struct dbl_qp *qp = find(device, qpn);

	if (!qp || qp->attr.qp_state == IBV_QPS_ERR || qp->attr.qp_state == IBV_QPS_RTS)
		return EINVAL;
	/* A QP that was never moved is on the device's first port. */
	if (!qp->attr.port_num)
		qp->attr.port_num = 1;
	qp->peer_guid = peer_guid;
	qp->attr.dest_qp_num = peer_qpn;
	qp->has_peer = true;
	qp->expect_psn = qp->send_psn = 0;
	qp->any_received = qp->settled = qp->told = false;
	qp->must_listen = is_passive;
	qp->attr.qp_state = IBV_QPS_RTS;
	qp->ibv.state = IBV_QPS_RTS;
	engine_wake();
	return 0;
}

DBL_API void transport_close_iwarp(const char *device, uint32_t qpn)
{
	struct dbl_qp *qp = find(device, qpn);

	/* Told already to whoever closes it. */
	if (qp) {
		qp->told = true;
		transport_break(qp);
	}
}
