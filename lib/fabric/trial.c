/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/util.h"
#include "fabric/trial.h"
#include "os/log.h"

int trial_cq_create(const struct device *device, const struct trial_shape *shape,
		    struct ibv_cq **ret_cq)
{
	uint64_t entries = 2 * ((uint64_t)shape->send_wr + shape->recv_wr);
	struct ibv_cq *cq;

	if (device->info.max_cqe > 0)
		entries = u64_min(entries, device->info.max_cqe);
	errno = 0;
	cq = ibv_create_cq(device->verbs, (int)u64_min(entries, INT32_MAX), NULL, NULL, 0);
	if (!cq)
		return errno ? -errno : -EIO;
	*ret_cq = cq;
	return 0;
}

struct ibv_cq *trial_cq_destroy(const struct device *device, struct ibv_cq *cq)
{
	int rc = cq ? ibv_destroy_cq(cq) : 0;

	if (rc)
		log_debug("%s: a completion queue of the probe stays: error %d", device->info.name,
			  rc);
	return NULL;
}

int trial_create(const struct device *device, const struct trial_shape *shape, struct ibv_cq *cq,
		 uint32_t inline_bytes, struct trial *ret_trial)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap =
			{
				.max_send_wr = shape->send_wr,
				.max_recv_wr = shape->recv_wr,
				.max_send_sge = shape->send_sge,
				.max_recv_sge = shape->recv_sge,
				.max_inline_data = inline_bytes,
			},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(device->pd, &attr);
	if (!qp)
		return errno ? -errno : TRIAL_REFUSED;
	*ret_trial = (struct trial){qp, attr.cap};
	return 0;
}

void trial_destroy(const struct device *device, struct trial *trial)
{
	int rc = trial->qp ? ibv_destroy_qp(trial->qp) : 0;

	if (rc)
		log_debug("%s: a queue pair of the probe stays: error %d", device->info.name, rc);
	trial->qp = NULL;
}
