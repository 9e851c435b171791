/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "state.h"

/*
 * How a provider behaves, as data: one row of the table in personality.c for each. A new provider,
 * or a new model of a known one, is one more row; only a way of sizing send queues that no row has
 * yet needs code (rules.c).
 *
 * A row says what a program can observe from outside: what an inline ask gets, what errno says
 * about it, what an oversized post returns, and how connections and removal behave.
 */

/* What a QP is sized by: the row, with what the host file overrides. */
struct sizing {
	const struct personality *p;
	uint32_t limit;	    /* most inline bytes */
	uint32_t max_qp_wr; /* most work requests of a queue */
	uint32_t wqebb;	    /* rule's own: most send queue blocks, bytes or quanta */
};

/* A rule's answer that is no errno: NULL from create_qp, with errno as it was. */
#define RULE_UNTOUCHED (-1)

/*
 * Size a send queue: @cap holds the request, and the grant on return (max_inline_data, max_send_wr;
 * sometimes max_send_sge). Returns 0, an errno value, or RULE_UNTOUCHED.
 */
typedef int (*personality_rule)(const struct sizing *sizing, struct ibv_qp_cap *cap);

/* The rules, each with its source in rules.c. */
int rule_echo(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_zero(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_blind(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_sge_floor(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_mlx5(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_mlx5_enospc(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_mlx4(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_mthca(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_ionic(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_irdma_gen1(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_irdma(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_hns(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_bnxt_static(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_bnxt_variable(const struct sizing *sizing, struct ibv_qp_cap *cap);
int rule_efa(const struct sizing *sizing, struct ibv_qp_cap *cap);

/* The network under a device. */
enum personality_net {
	NET_IB,	   /* LIDs, GIDs of type IB */
	NET_ROCE,  /* GIDs from IP addresses */
	NET_IWARP, /* over TCP: the CM moves the QP; no PSNs, no acknowledgements, no RNR */
	NET_OTHER, /* neither, nothing to connect with verbs alone (EFA) */
};

/* What is peculiar, beside sizes. */
enum personality_quirk {
	QUIRK_NO_RC = 1u << 0,		  /* no reliable connected QPs */
	QUIRK_INLINE_IGNORED = 1u << 1,	  /* IBV_SEND_INLINE has no effect: the lkey is used */
	QUIRK_INLINE_MTU = 1u << 2,	  /* an inline post may not exceed the path MTU either */
	QUIRK_POST_CONST = 1u << 3,	  /* a post is measured by the provider's constant, not by
					     what the QP was granted */
	QUIRK_QUERY_CONST = 1u << 4,	  /* ibv_query_qp always tells the provider's constant */
	QUIRK_NO_IMM = 1u << 5,		  /* no immediate data */
	QUIRK_EARLY_COMPLETION = 1u << 6, /* a send completes before it is delivered */
	QUIRK_NO_FLUSH = 1u << 7,	  /* sends outstanding at an error are never completed */
	QUIRK_RETRY7_FOREVER = 1u << 8,	  /* retry_cnt 7 is infinite */
	QUIRK_LOCAL_DOWN_FLUSH = 1u << 9, /* a post on a down port: flush error, QP in ERR */
	QUIRK_REMOVAL_FATAL = 1u << 10,	  /* removal raises DEVICE_FATAL and takes the device from
					     under the program; else removal waits for closing */
	QUIRK_KERNEL_QUEUES = 1u << 11,	  /* queues are the kernel's memory: no memlock for them */
	QUIRK_NO_LATE_FLUSH = 1u << 12,	  /* receives posted in ERR are never completed */
	QUIRK_RXE_ERRORS = 1u << 13,	  /* a bad lkey: flush error; a receive that is too small:
					     remote operation error, local QP operation error */
	QUIRK_SIW_ERRORS = 1u << 14,	  /* a bad lkey: local QP operation error */
	QUIRK_FRAGILE_CM = 1u << 15,	  /* a CM message while the port is down ends the CM of the
					     device until it is plugged in again (GSI QP in ERR) */
	QUIRK_STALE_CQES = 1u << 17,	  /* completions outlive their destroyed QP */
	QUIRK_CM_NAGS = 1u << 16, /* a peer's port that is down: UNREACHABLE on the established
				     id, again and again */
};

struct personality {
	const char *name;
	const char *driver;
	enum personality_net net;
	uint32_t vendor_id, part_id;
	const char *fw;
	unsigned quirks;

	/* Send queue and inline. */
	personality_rule rule;
	uint32_t limit; /* most inline bytes of an RC QP */
	int oversize;	/* what an oversized inline post returns; all errors of a post have its sign
			 */
	uint32_t max_qp_wr; /* as ibv_query_device says */
	uint32_t wqebb;	    /* see struct sizing; 0 if the rule needs none */
	uint32_t max_sge;

	/* Objects of a device. */
	uint32_t max_qp, max_cq, max_cqe, max_mr;
};

/* The row of that name, or NULL. */
const struct personality *personality_find(const char *name);

/* Row @index of the table, or NULL behind the last. */
const struct personality *personality_at(unsigned index);

/* What @device's QPs are sized by. */
struct sizing personality_sizing(const struct personality *p, const struct state_device *device);

/* Bytes of host memory that a queue of @wr requests of @sge elements and @inline_bytes takes. */
uint64_t personality_queue_bytes(const struct personality *p, const struct ibv_qp_cap *cap);
