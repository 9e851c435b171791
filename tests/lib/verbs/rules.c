/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "personality.h"

/*
 * How providers size send queues. Each rule is the arithmetic that a program can observe, restated
 * from the provider's source in rdma-core and, where the kernel has the last word, its driver.
 */

static uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

static uint64_t pow2_up(uint64_t value)
{
	uint64_t power = 1;

	while (power < value)
		power <<= 1;
	return power;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* A plain limit; what is granted is what was asked. */
int rule_echo(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	return cap->max_inline_data > sizing->limit ? EINVAL : 0;
}

/* Accepts any ask and grants nothing (vmw_pvrdma, hfi1, qib). */
int rule_zero(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	(void)sizing;
	cap->max_inline_data = 0;
	return 0;
}

/* Accepts any ask and leaves it as it was: nobody looked at it (mana). */
int rule_blind(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	(void)sizing;
	(void)cap;
	return 0;
}

/* rxe: inline data and SGEs share the room behind the header, and all of the room is granted. */
int rule_sge_floor(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	cap->max_inline_data = larger(cap->max_inline_data, 16 * cap->max_send_sge);
	return 0;
}

/*
 * mlx5, RC: 192 bytes of segments (room for a UMR), then SGEs of 16 bytes or a 4-byte header and
 * the inline data; at most 1024 bytes, in blocks of 64. The queue's bytes are rounded up to a power
 * of two, whose blocks are limited. Returns the blocks in *@ret_blocks.
 */
static int mlx5_size(struct ibv_qp_cap *cap, uint64_t *ret_blocks)
{
	const uint64_t overhead = 192, header = 4, block = 64, most = 1024;
	uint64_t size = overhead + 16ull * cap->max_send_sge, with_inline = 0, wqe, bytes;

	if (cap->max_inline_data)
		with_inline = overhead + align_up(header + cap->max_inline_data, 16);
	if (with_inline > size)
		size = with_inline;
	if (size > most)
		return EINVAL;
	*ret_blocks = 0;
	if (!cap->max_send_wr)
		return 0;
	wqe = align_up(size, block);
	bytes = pow2_up(cap->max_send_wr * wqe);
	cap->max_inline_data = (uint32_t)(wqe - overhead - header);
	cap->max_send_wr = (uint32_t)(bytes / wqe);
	*ret_blocks = bytes / block;
	return 0;
}

int rule_mlx5(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap want = *cap;
	uint64_t blocks;
	int rc = cap->max_inline_data > sizing->limit ? EINVAL : mlx5_size(&want, &blocks);

	if (rc)
		return rc;
	if (blocks > sizing->wqebb)
		return EINVAL;
	*cap = want;
	return 0;
}

/* The same arithmetic, but a queue of too many blocks fails in the firmware, as ENOSPC. */
int rule_mlx5_enospc(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap want = *cap;
	uint64_t blocks;
	int rc = cap->max_inline_data > sizing->limit ? EINVAL : mlx5_size(&want, &blocks);

	if (rc)
		return rc;
	if (blocks > sizing->wqebb)
		return ENOSPC;
	*cap = want;
	return 0;
}

/*
 * mlx4, RC: 32 bytes of control and address, then SGEs or inline data, the latter cut by a 4-byte
 * header in each 64 bytes; the stride is a power of two up to 1024. 2 KiB and one more entry of the
 * queue are kept for the prefetcher.
 */
int rule_mlx4(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	uint64_t ask = cap->max_inline_data, pieces, slots, stride, spare, count, room;

	if (ask > sizing->limit)
		return EINVAL;
	pieces = ask ? (ask + 32 + 59) / 60 : 0;
	slots = align_up(ask + 4 * pieces, 16) / 16;
	if (slots < cap->max_send_sge)
		slots = cap->max_send_sge;
	/* An atomic operation must fit: at least 48 bytes behind the control segment. */
	stride = pow2_up(16 + (16 * slots + 16 < 48 ? 48 : 16 * slots + 16));
	if (stride < 64)
		stride = 64;
	if (stride > 1024)
		return EINVAL;
	spare = 2048 / stride + 1;
	count = pow2_up(cap->max_send_wr + spare);
	if (count > sizing->wqebb)
		return EINVAL;
	room = stride - 32;
	cap->max_send_wr = (uint32_t)(count - spare);
	cap->max_send_sge = (uint32_t)(room / 16);
	cap->max_inline_data = (uint32_t)(room - 4 * (align_up(room, 64) / 64));
	return 0;
}

/*
 * mthca, RC: 32 bytes of headers, a 4-byte inline header; a power of two from 64, but never more
 * than the device's largest descriptor, 1008 bytes. The library refuses more than 1024 by NULL and
 * says nothing; the kernel refuses what does not fit by EINVAL.
 */
int rule_mthca(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	const uint64_t headers = 32, inline_header = 4, most = 1008;
	uint64_t payload, size, stride;

	if (cap->max_inline_data > 1024 || cap->max_send_sge > 64)
		return RULE_UNTOUCHED;
	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	payload = align_up(cap->max_inline_data + inline_header, 16);
	if (payload < 16ull * cap->max_send_sge)
		payload = 16ull * cap->max_send_sge;
	size = headers + (payload < 32 ? 32 : payload);
	if (size > most)
		return EINVAL;
	stride = pow2_up(size < 64 ? 64 : size);
	cap->max_send_wr = (uint32_t)pow2_up(cap->max_send_wr);
	cap->max_inline_data =
		(uint32_t)((stride < most ? stride : most) - headers - inline_header);
	return 0;
}

/* ionic: a 32-byte header, then SGEs or data; a power of two from 64 up to limit + 32. */
int rule_ionic(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	const uint64_t header = 32;
	uint64_t size = header + cap->max_inline_data, stride;

	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	if (size < header + 16ull * cap->max_send_sge)
		size = header + 16ull * cap->max_send_sge;
	stride = pow2_up(size < 64 ? 64 : size);
	if (stride > sizing->limit + header)
		return EINVAL;
	cap->max_send_wr = (uint32_t)(pow2_up(cap->max_send_wr + 1ull) - 1);
	cap->max_inline_data = (uint32_t)(stride - header);
	return 0;
}

/*
 * irdma: a request takes 1, 2, 4 or 8 quanta of 32 bytes by its SGEs and inline data; the queue has
 * 258 quanta in reserve, is rounded up to a power of two and is limited in quanta.
 */
static int irdma_size(const struct sizing *sizing, unsigned shift, struct ibv_qp_cap *cap)
{
	const uint64_t reserved = 258;
	uint64_t quanta = pow2_up(((uint64_t)cap->max_send_wr << shift) + reserved);

	if (quanta > sizing->wqebb)
		return EINVAL;
	cap->max_send_wr = (uint32_t)((quanta - reserved) >> shift);
	return 0;
}

int rule_irdma_gen1(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	unsigned shift = 0;

	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	if (cap->max_send_sge > 1 || cap->max_inline_data > 16)
		shift = cap->max_send_sge < 4 && cap->max_inline_data <= 48 ? 1 : 2;
	return irdma_size(sizing, shift, cap);
}

int rule_irdma(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	unsigned shift = 0;

	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	if (cap->max_send_sge > 1 || cap->max_inline_data > 8) {
		if (cap->max_send_sge < 4 && cap->max_inline_data <= 39)
			shift = 1;
		else if (cap->max_send_sge < 8 && cap->max_inline_data <= 101)
			shift = 2;
		else
			shift = 3;
	}
	return irdma_size(sizing, shift, cap);
}

/* hns: rounded up to a power of two, then cut to the limit without a word. */
int rule_hns(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	uint64_t count = pow2_up(cap->max_send_wr), data = 0;

	if (cap->max_inline_data) {
		data = pow2_up(cap->max_inline_data);
		if (data > sizing->limit)
			data = sizing->limit;
	}
	cap->max_inline_data = (uint32_t)data;
	cap->max_send_wr = count < sizing->max_qp_wr ? (uint32_t)count : sizing->max_qp_wr;
	return 0;
}

/* bnxt_re: a request that does not fit fails, and no one sets errno on that way. */
int rule_bnxt_static(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	if (cap->max_inline_data > sizing->limit)
		return RULE_UNTOUCHED;
	if (cap->max_inline_data)
		cap->max_inline_data = sizing->limit;
	return 0;
}

int rule_bnxt_variable(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	uint32_t room = (uint32_t)align_up(cap->max_inline_data, 16);

	if (room > sizing->limit)
		return RULE_UNTOUCHED;
	if (cap->max_inline_data)
		cap->max_inline_data = larger(room, 16 * cap->max_send_sge);
	return 0;
}

/* efa: more than 32 bytes take requests of 128 bytes, and half as many fit the queue's memory. */
int rule_efa(const struct sizing *sizing, struct ibv_qp_cap *cap)
{
	uint32_t bytes = cap->max_inline_data > 32 ? 128 : 64;

	if (cap->max_send_wr > sizing->wqebb / bytes)
		return EINVAL;
	if (cap->max_inline_data > sizing->limit)
		return EINVAL;
	cap->max_send_wr = (uint32_t)pow2_up(cap->max_send_wr);
	return 0;
}
