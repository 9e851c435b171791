/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/inline_probe.h"
#include "fabric/qp.h"
#include "os/log.h"

int qp_create(const struct device *device, struct cq_set *cqs, const struct qp_spec *spec,
	      struct qp **ret_qp)
{
	struct ibv_qp_init_attr attr = {
		.cap =
			{
				.max_send_wr = spec->send_wr,
				.max_recv_wr = spec->recv_wr,
				.max_send_sge = spec->send_sge,
				.max_recv_sge = spec->recv_sge,
				.max_inline_data = spec->inline_bytes,
			},
		.qp_type = IBV_QPT_RC,
	};
	uint32_t entries = spec->send_wr + spec->recv_wr;
	struct qp *qp = calloc(1, sizeof(*qp));
	int rc;

	if (!qp)
		return -ENOMEM;
	rc = cq_set_take(cqs, entries, &qp->cq);
	if (rc < 0) {
		free(qp);
		return rc;
	}
	list_init(&qp->link);
	qp->cq_entries = entries;
	qp->spec = *spec;
	attr.send_cq = attr.recv_cq = qp->cq->verbs;
	errno = 0;
	qp->verbs = ibv_create_qp(device->pd, &attr);
	if (!qp->verbs) {
		rc = inline_is_refusal(errno) ? QP_REFUSED : -errno;
		log_debug("%s: a queue pair of %u + %u entries, %u inline: error %d",
			  device->info.name, spec->send_wr, spec->recv_wr, spec->inline_bytes,
			  errno);
	} else if (attr.cap.max_inline_data < spec->inline_bytes ||
		   attr.cap.max_send_wr < spec->send_wr || attr.cap.max_recv_wr < spec->recv_wr) {
		log_debug("%s: asked for %u inline at depth %u, got %u at depth %u",
			  device->info.name, spec->inline_bytes, spec->send_wr,
			  attr.cap.max_inline_data, attr.cap.max_send_wr);
		rc = QP_REFUSED;
	}
	if (rc) {
		qp_destroy(cqs, qp);
		return rc;
	}
	qp->inline_max = spec->inline_bytes;
	qp->send_wr_max = spec->send_wr;
	*ret_qp = qp;
	return 0;
}

struct qp *qp_destroy(struct cq_set *cqs, struct qp *qp)
{
	int rc;

	if (!qp)
		return NULL;
	assert(!list_is_linked(&qp->link));
	if (qp->verbs) {
		rc = ibv_destroy_qp(qp->verbs);
		if (rc)
			log_debug("%s: a queue pair stays: error %d", cqs->device->info.name, rc);
	}
	cq_set_give(cqs, qp->cq, qp->cq_entries);
	free(qp);
	return NULL;
}
