/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/socket.h>

#include "double.h"

/*
 * What programs may refer to and the double does not have. Each says so on stderr and fails with
 * EOPNOTSUPP, as on a device that lacks it.
 */
#define NO_POINTER(type, name, ...)                                                                \
	DBL_API type *name(__VA_ARGS__)                                                            \
	{                                                                                          \
		dbl_unsupported(#name);                                                            \
		return NULL;                                                                       \
	}                                                                                          \
	_Static_assert(1, "")
#define NO_INT(name, ...)                                                                          \
	DBL_API int name(__VA_ARGS__)                                                              \
	{                                                                                          \
		return dbl_unsupported(#name);                                                     \
	}                                                                                          \
	_Static_assert(1, "")

#pragma GCC diagnostic ignored "-Wunused-parameter"

NO_POINTER(struct ibv_srq, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
NO_INT(ibv_modify_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
NO_INT(ibv_query_srq, struct ibv_srq *srq, struct ibv_srq_attr *attr);
NO_INT(ibv_destroy_srq, struct ibv_srq *srq);
NO_POINTER(struct ibv_ah, ibv_create_ah, struct ibv_pd *pd, struct ibv_ah_attr *attr);
NO_POINTER(struct ibv_ah, ibv_create_ah_from_wc, struct ibv_pd *pd, struct ibv_wc *wc,
	   struct ibv_grh *grh, uint8_t port);
NO_INT(ibv_init_ah_from_wc, struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
       struct ibv_grh *grh, struct ibv_ah_attr *attr);
NO_INT(ibv_destroy_ah, struct ibv_ah *ah);
NO_INT(ibv_attach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
NO_INT(ibv_detach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
NO_INT(ibv_rereg_mr, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
       int access);
NO_POINTER(struct ibv_mr, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length,
	   uint64_t iova, int fd, int access);
NO_POINTER(struct ibv_context, ibv_import_device, int cmd_fd);
NO_POINTER(struct ibv_pd, ibv_import_pd, struct ibv_context *context, uint32_t handle);
NO_POINTER(struct ibv_mr, ibv_import_mr, struct ibv_pd *pd, uint32_t handle);
NO_POINTER(struct ibv_dm, ibv_import_dm, struct ibv_context *context, uint32_t handle);
NO_INT(ibv_resolve_eth_l2_from_gid, struct ibv_context *context, struct ibv_ah_attr *attr,
       uint8_t mac[6], uint16_t *vid);

DBL_API void ibv_unimport_pd(struct ibv_pd *pd)
{
	dbl_unsupported("ibv_unimport_pd");
}

DBL_API void ibv_unimport_mr(struct ibv_mr *mr)
{
	dbl_unsupported("ibv_unimport_mr");
}

DBL_API void ibv_unimport_dm(struct ibv_dm *dm)
{
	dbl_unsupported("ibv_unimport_dm");
}
