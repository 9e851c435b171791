/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "personality.h"

#define SOFT (QUIRK_KERNEL_QUEUES | QUIRK_NO_LATE_FLUSH)
#define RXE                                                                                        \
	(SOFT | QUIRK_RETRY7_FOREVER | QUIRK_LOCAL_DOWN_FLUSH | QUIRK_RXE_ERRORS |                 \
	 QUIRK_FRAGILE_CM | QUIRK_CM_NAGS | QUIRK_STALE_CQES)
/* What every iWARP device shares. */
#define IWARP (QUIRK_NO_IMM | QUIRK_EARLY_COMPLETION)

/*
 * The rows. Object counts are those that the devices report, or near; they only have to be there.
 * File names are those of rdma-core's providers/ folder (2026-08); "kernel" is drivers/infiniband.
 *
 * Columns: name, driver, network, vendor, part, firmware, quirks; rule, most inline bytes, what an
 * oversized post returns, max_qp_wr, what the rule limits beside, SGEs; QPs, CQs, CQEs, MRs.
 * A new row is also to be expected in tests/double: test_verbs_limits.c, probe_rows.h.
 */
static const struct personality rows[] = {
	/* mlx5/verbs.c, mlx5_calc_send_wqe(), mlx5_calc_sq_size(): RC up to 828, in 64 B steps. */
	{"mlx5", "mlx5_core", NET_ROCE, 0x02c9, 4125, "22.41.1000", QUIRK_REMOVAL_FATAL, rule_mlx5,
	 828, ENOMEM, 32768, 32768, 30, 131072, 16777216, 4194303, 16777216},
	{"mlx5-ib", "mlx5_core", NET_IB, 0x02c9, 4129, "28.41.1000", QUIRK_REMOVAL_FATAL, rule_mlx5,
	 828, ENOMEM, 32768, 32768, 30, 131072, 16777216, 4194303, 16777216},
	/* The same provider on a ConnectX-4 Lx VF: ENOSPC for depth × inline, as seen there. */
	{"mlx5-cx4lx", "mlx5_core", NET_ROCE, 0x02c9, 4118, "14.32.1010", QUIRK_REMOVAL_FATAL,
	 rule_mlx5_enospc, 828, ENOMEM, 32768, 8192, 30, 4096, 65536, 4194303, 1048576},
	/* mlx4/qp.c, mlx4_calc_sq_wqe_size(), mlx4_set_sq_sizes(); kernel: stride up to 1024. */
	{"mlx4", "mlx4_core", NET_IB, 0x02c9, 4103, "2.42.5000", QUIRK_REMOVAL_FATAL, rule_mlx4,
	 928, ENOMEM, 16351, 16384, 32, 65536, 65408, 4194303, 524032},
	/* irdma/uk.c, irdma_get_wqe_shift(), uverbs.c: X722 (i40iw_hw.h: 48), E810, gen 3. */
	{"irdma-x722", "irdma", NET_IWARP, 0x8086, 0x37d2, "1.0", QUIRK_REMOVAL_FATAL | IWARP,
	 rule_irdma_gen1, 48, EINVAL, 1790, 2048, 3, 16384, 32768, 1048575, 65536},
	{"irdma-e810", "irdma", NET_ROCE, 0x8086, 0x1592, "1.71", QUIRK_REMOVAL_FATAL, rule_irdma,
	 101, EINVAL, 8126, 32768, 13, 65536, 131072, 1048574, 2097152},
	{"irdma-gen3", "irdma", NET_ROCE, 0x8086, 0x145c, "2.0", QUIRK_REMOVAL_FATAL, rule_irdma,
	 216, EINVAL, 8126, 32768, 13, 65536, 131072, 1048574, 2097152},
	/* erdma/erdma_hw.h: ERDMA_MAX_INLINE; a post is measured by it, and fails negative. */
	{"erdma", "erdma", NET_IWARP, 0x1ded, 0x107f, "0.2.0", QUIRK_POST_CONST | IWARP, rule_echo,
	 96, -EINVAL, 8192, 0, 6, 131072, 262144, 1048576, 524288},
	/* bnxt_re/verbs.c, bnxt_re_get_sq_slots(); static: kernel reports 96 for any ask but 0. */
	{"bnxt-static", "bnxt_re", NET_ROCE, 0x14e4, 0x1751, "227.0.131.0", QUIRK_REMOVAL_FATAL,
	 rule_bnxt_static, 96, ENOMEM, 65407, 0, 6, 65537, 65536, 8388607, 262144},
	/* Variable-sized requests: 16 bytes for each of the device's 13 SGEs. */
	{"bnxt-variable", "bnxt_re", NET_ROCE, 0x14e4, 0x1760, "231.0.162.0", QUIRK_REMOVAL_FATAL,
	 rule_bnxt_variable, 208, ENOMEM, 65407, 0, 13, 65537, 65536, 8388607, 262144},
	/* efa/verbs.c, efa_check_qp_limits(): no RC; 32 or, of the newer devices, 80 bytes. */
	{"efa", "efa", NET_OTHER, 0x1d0f, 0xefa1, "0.0.0.0", QUIRK_NO_RC, rule_efa, 32, EINVAL,
	 4096, 262144, 2, 256, 512, 32768, 262144},
	{"efa-wide", "efa", NET_OTHER, 0x1d0f, 0xefa3, "0.0.0.0", QUIRK_NO_RC, rule_efa, 80, EINVAL,
	 4096, 262144, 2, 256, 512, 32768, 262144},
	/* hns/hns_roce_u_verbs.c, get_max_inline_data(): clamped; _hw_v2.c: also by the MTU. */
	{"hns-hip08", "hns_roce", NET_ROCE, 0x19e5, 0xa222, "1.0", QUIRK_INLINE_MTU, rule_hns, 32,
	 EINVAL, 32768, 0, 64, 1048576, 1048576, 4194303, 1048576},
	{"hns-hip09", "hns_roce", NET_ROCE, 0x19e5, 0xa223, "2.0", QUIRK_INLINE_MTU, rule_hns, 1024,
	 EINVAL, 32768, 0, 64, 1048576, 1048576, 4194303, 1048576},
	/* cxgb4/t4.h: T4_MAX_SEND_INLINE = 5 × 64 - 40; qp.c returns -EMSGSIZE. */
	{"cxgb4", "iw_cxgb4", NET_IWARP, 0x1425, 0x6410, "1.27.5.0",
	 QUIRK_REMOVAL_FATAL | QUIRK_POST_CONST | IWARP, rule_echo, 280, -EMSGSIZE, 1973, 0, 4,
	 65536, 65536, 4194303, 131072},
	/* qedr/qelr_verbs.c, qelr_can_post_send(): 256; 128 before. */
	{"qedr", "qedr", NET_ROCE, 0x1077, 0x8090, "8.59.1.0",
	 QUIRK_REMOVAL_FATAL | QUIRK_POST_CONST, rule_echo, 256, -EINVAL, 32767, 0, 4, 8128, 8192,
	 8388607, 131070},
	{"qedr-old", "qedr", NET_ROCE, 0x1077, 0x1634, "8.15.0.0",
	 QUIRK_REMOVAL_FATAL | QUIRK_POST_CONST, rule_echo, 128, -EINVAL, 32767, 0, 4, 8128, 8192,
	 8388607, 131070},
	/* ocrdma/ocrdma_verbs.c; kernel: request size 256 less its header and one SGE of 16 each.
	 */
	{"ocrdma", "ocrdma", NET_ROCE, 0x10df, 0x0e20, "10.2.470.0", QUIRK_REMOVAL_FATAL, rule_echo,
	 224, EINVAL, 4096, 0, 4, 2048, 4096, 16384, 65536},
	/* vmw_pvrdma/qp.c: takes any ask, grants none, knows no inline. */
	{"pvrdma", "vmw_pvrdma", NET_ROCE, 0x15ad, 0x0820, "3.0.000", QUIRK_INLINE_IGNORED,
	 rule_zero, 0, 0, 16384, 0, 16, 16384, 16384, 65535, 65536},
	/* mana/qp.c, wr.c: max_inline_data and the flag are read by no one. */
	{"mana", "mana", NET_ROCE, 0x1414, 0x00ba, "1.0", QUIRK_INLINE_IGNORED, rule_blind, 0, 0,
	 16384, 0, 30, 16384, 16384, 65535, 65536},
	/* rxe/rxe.c, validate_send_wr(); kernel rxe_qp.c: room = max(16 × SGEs, ask); 512, once
	   400. */
	{"rxe", "rdma_rxe", NET_ROCE, 0xffffff, 0, "0.0.0", RXE, rule_sge_floor, 512, EINVAL,
	 1048576, 0, 32, 1048560, 1048576, 32767, 524287},
	{"rxe-old", "rdma_rxe", NET_ROCE, 0xffffff, 0, "0.0.0", RXE, rule_sge_floor, 400, EINVAL,
	 1048576, 0, 32, 65520, 1048576, 32767, 262144},
	/* siw/siw.c: SIW_MAX_INLINE; no flush after a break (seen), query tells the constant. */
	{"siw", "siw", NET_IWARP, 0x626d74, 1, "1.0.0",
	 SOFT | IWARP | QUIRK_POST_CONST | QUIRK_QUERY_CONST | QUIRK_NO_FLUSH | QUIRK_SIW_ERRORS |
		 QUIRK_STALE_CQES,
	 rule_echo, 80, -EINVAL, 32768, 0, 6, 102400, 102400, 1638400, 1024000},
	/* mthca/verbs.c: NULL without errno over 1024; kernel mthca_qp.c: descriptors up to 1008.
	 */
	{"mthca", "ib_mthca", NET_IB, 0x02c9, 25208, "5.3.0", QUIRK_REMOVAL_FATAL, rule_mthca, 972,
	 ENOMEM, 16384, 0, 59, 64512, 65408, 131071, 131056},
	/* kernel sw/rdmavt/qp.c: grants 0 whatever was asked. */
	{"hfi1", "hfi1", NET_IB, 0x1175, 0x24f0, "1.27.0", SOFT | QUIRK_INLINE_IGNORED, rule_zero,
	 0, 0, 16383, 0, 96, 16384, 131071, 2000000, 65535},
	{"qib", "ib_qib", NET_IB, 0x1175, 0x7322, "1.11", SOFT | QUIRK_INLINE_IGNORED, rule_zero, 0,
	 0, 16383, 0, 96, 16384, 131071, 196607, 65535},
	/* ionic/ionic_fw.h, ionic_v1_send_wqe_max_data(): stride up to 2^9, payload at 32. */
	{"ionic", "ionic_rdma", NET_ROCE, 0x1dd8, 0x1002, "1.100.0", QUIRK_REMOVAL_FATAL,
	 rule_ionic, 480, EINVAL, 65535, 0, 30, 16384, 32768, 65535, 131072},
};

const struct personality *personality_at(unsigned index)
{
	return index < sizeof(rows) / sizeof(*rows) ? &rows[index] : NULL;
}

const struct personality *personality_find(const char *name)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

static uint32_t either(long override, uint32_t own)
{
	return override == STATE_UNSET ? own : (uint32_t) override;
}

struct sizing personality_sizing(const struct personality *p, const struct state_device *device)
{
	return (struct sizing){
		.p = p,
		.limit = either(device->inline_limit, p->limit),
		.max_qp_wr = either(device->max_qp_wr, p->max_qp_wr),
		.wqebb = either(device->wqebb, p->wqebb),
	};
}

uint64_t personality_queue_bytes(const struct personality *p, const struct ibv_qp_cap *cap)
{
	/* A header of 64 bytes and 16 for each SGE: near enough to any of them. */
	uint64_t send = 64 + 16ull * cap->max_send_sge, recv = 16ull * cap->max_recv_sge;

	if (p->quirks & QUIRK_KERNEL_QUEUES)
		return 0;
	if (send < 64ull + cap->max_inline_data)
		send = 64ull + cap->max_inline_data;
	return send * cap->max_send_wr + recv * cap->max_recv_wr;
}
