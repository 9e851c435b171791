/* SPDX-License-Identifier: MIT */
#pragma once

#include <infiniband/verbs.h>

/* Operations that programs reach through their context, each beside its kin. */
int dbl_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		   size_t attr_bytes);
int dbl_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int dbl_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int dbl_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int dbl_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
