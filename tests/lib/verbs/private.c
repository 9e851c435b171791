/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/*
 * The private interface between libibverbs and its providers. Some programs link provider libraries
 * (perftest: libmlx5, libefa); these must load, and find out that no device is theirs. They
 * register their drivers, which is forgotten, and call nothing else: what is not theirs to call is
 * here in name only.
 */
#define PROVIDER_ONLY(name)                                                                        \
	DBL_API void name(void);                                                                   \
	DBL_API void name(void)                                                                    \
	{                                                                                          \
		fprintf(stderr, "verbs double: a provider called %s\n", #name);                    \
		abort();                                                                           \
	}                                                                                          \
	_Static_assert(1, "")

PROVIDER_ONLY(__verbs_log);
PROVIDER_ONLY(_verbs_init_and_alloc_context);
PROVIDER_ONLY(execute_ioctl);
PROVIDER_ONLY(ibv_cmd_advise_mr);
PROVIDER_ONLY(ibv_cmd_alloc_dm);
PROVIDER_ONLY(ibv_cmd_alloc_mw);
PROVIDER_ONLY(ibv_cmd_alloc_pd);
PROVIDER_ONLY(ibv_cmd_attach_mcast);
PROVIDER_ONLY(ibv_cmd_close_xrcd);
PROVIDER_ONLY(ibv_cmd_create_ah);
PROVIDER_ONLY(ibv_cmd_create_counters);
PROVIDER_ONLY(ibv_cmd_create_cq);
PROVIDER_ONLY(ibv_cmd_create_cq_ex);
PROVIDER_ONLY(ibv_cmd_create_flow);
PROVIDER_ONLY(ibv_cmd_create_flow_action_esp);
PROVIDER_ONLY(ibv_cmd_create_qp_ex);
PROVIDER_ONLY(ibv_cmd_create_qp_ex2);
PROVIDER_ONLY(ibv_cmd_create_rwq_ind_table);
PROVIDER_ONLY(ibv_cmd_create_srq);
PROVIDER_ONLY(ibv_cmd_create_srq_ex);
PROVIDER_ONLY(ibv_cmd_create_wq);
PROVIDER_ONLY(ibv_cmd_dealloc_mw);
PROVIDER_ONLY(ibv_cmd_dealloc_pd);
PROVIDER_ONLY(ibv_cmd_dereg_mr);
PROVIDER_ONLY(ibv_cmd_destroy_ah);
PROVIDER_ONLY(ibv_cmd_destroy_counters);
PROVIDER_ONLY(ibv_cmd_destroy_cq);
PROVIDER_ONLY(ibv_cmd_destroy_flow);
PROVIDER_ONLY(ibv_cmd_destroy_flow_action);
PROVIDER_ONLY(ibv_cmd_destroy_qp);
PROVIDER_ONLY(ibv_cmd_destroy_rwq_ind_table);
PROVIDER_ONLY(ibv_cmd_destroy_srq);
PROVIDER_ONLY(ibv_cmd_destroy_wq);
PROVIDER_ONLY(ibv_cmd_detach_mcast);
PROVIDER_ONLY(ibv_cmd_free_dm);
PROVIDER_ONLY(ibv_cmd_get_context);
PROVIDER_ONLY(ibv_cmd_modify_cq);
PROVIDER_ONLY(ibv_cmd_modify_flow_action_esp);
PROVIDER_ONLY(ibv_cmd_modify_qp);
PROVIDER_ONLY(ibv_cmd_modify_qp_ex);
PROVIDER_ONLY(ibv_cmd_modify_srq);
PROVIDER_ONLY(ibv_cmd_modify_wq);
PROVIDER_ONLY(ibv_cmd_open_qp);
PROVIDER_ONLY(ibv_cmd_open_xrcd);
PROVIDER_ONLY(ibv_cmd_query_context);
PROVIDER_ONLY(ibv_cmd_query_device_any);
PROVIDER_ONLY(ibv_cmd_query_mr);
PROVIDER_ONLY(ibv_cmd_query_port);
PROVIDER_ONLY(ibv_cmd_query_qp);
PROVIDER_ONLY(ibv_cmd_query_srq);
PROVIDER_ONLY(ibv_cmd_read_counters);
PROVIDER_ONLY(ibv_cmd_reg_dm_mr);
PROVIDER_ONLY(ibv_cmd_reg_dmabuf_mr);
PROVIDER_ONLY(ibv_cmd_reg_mr);
PROVIDER_ONLY(ibv_cmd_rereg_mr);
PROVIDER_ONLY(ibv_cmd_resize_cq);
PROVIDER_ONLY(verbs_init_cq);
PROVIDER_ONLY(verbs_open_device);
PROVIDER_ONLY(verbs_set_ops);
PROVIDER_ONLY(verbs_uninit_context);

DBL_API extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;

struct verbs_device_ops;
DBL_API void verbs_register_driver_34(const struct verbs_device_ops *ops);
DBL_API void verbs_register_driver_34(const struct verbs_device_ops *ops)
{
	(void)ops;
}

/* ibv_devinfo uses this one. The type's numbers are those of sysfs: IB and RoCE v1 are one. */
DBL_API int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			       unsigned int *type);
DBL_API int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			       unsigned int *type)
{
	struct ibv_gid_entry entry;
	int rc = ibv_query_gid_ex(context, port_num, index, &entry, 0);

	if (rc && rc != ENODATA) {
		errno = rc;
		return -1;
	}
	*type = rc == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}
