/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"

/* What of librdmacm is not there: says so, and fails. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define UNSUPPORTED(name, ...)                                                                     \
	DBL_API int name(__VA_ARGS__)                                                              \
	{                                                                                          \
		return cm_return(dbl_unsupported(#name));                                          \
	}                                                                                          \
	_Static_assert(1, "")

UNSUPPORTED(rdma_create_ep, struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
	    struct ibv_qp_init_attr *attr);
UNSUPPORTED(rdma_get_request, struct rdma_cm_id *listen, struct rdma_cm_id **id);
UNSUPPORTED(rdma_create_srq, struct rdma_cm_id *id, struct ibv_pd *pd,
	    struct ibv_srq_init_attr *attr);
UNSUPPORTED(rdma_create_srq_ex, struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
UNSUPPORTED(rdma_migrate_id, struct rdma_cm_id *id, struct rdma_event_channel *channel);
UNSUPPORTED(rdma_getaddrinfo, const char *node, const char *service,
	    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res);
UNSUPPORTED(rdma_join_multicast, struct rdma_cm_id *id, struct sockaddr *addr, void *context);
UNSUPPORTED(rdma_join_multicast_ex, struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
	    void *context);
UNSUPPORTED(rdma_leave_multicast, struct rdma_cm_id *id, struct sockaddr *addr);
UNSUPPORTED(rdma_set_local_ece, struct rdma_cm_id *id, struct ibv_ece *ece);
UNSUPPORTED(rdma_get_remote_ece, struct rdma_cm_id *id, struct ibv_ece *ece);

DBL_API void rdma_destroy_ep(struct rdma_cm_id *id)
{
	dbl_unsupported("rdma_destroy_ep");
}

DBL_API void rdma_destroy_srq(struct rdma_cm_id *id)
{
	dbl_unsupported("rdma_destroy_srq");
}

DBL_API void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	dbl_unsupported("rdma_freeaddrinfo");
}
