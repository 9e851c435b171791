/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/inline_probe.h"

/*
 * What every provider must come out as. The numbers are worked out by hand from the providers'
 * sources (rdma-core, and the kernel's drivers where they have the last word), not taken from the
 * double: the two have to agree.
 */
struct probe_row {
	const char *personality;
	uint32_t depth;
	bool shipped; /* with the caps and hints of the shipped settings; else with none */
	uint32_t ask;
	uint32_t used;
	enum inline_reason reason;
	uint32_t creations; /* exactly so many; 0: any number within the budget */
};

static const struct probe_row probe_rows[] = {
	/* mlx5: 192 bytes of segments, then 4 + data rounded up to 16, all rounded up to 64, at
	 * most 1024: 236 → 448 → 252 granted; 256 → 512 → 316; the most is 1024 - 196 = 828. */
	{"mlx5", 256, true, 256, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5", 256, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5", 256, false, 256, 316, INLINE_USABLE_ASKED, 2},
	{"mlx5", 256, false, 1024, 828, INLINE_USABLE, 0},
	{"mlx5-ib", 256, true, 256, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5-ib", 256, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	/* 32768 blocks of 64 bytes in all. 4096 deep: 512 each, 512 - 196 = 316. 8192 deep: 256
	 * each, 60. */
	{"mlx5", 4096, false, 1024, 316, INLINE_USABLE, 0},
	{"mlx5", 4096, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5", 8192, true, 256, 60, INLINE_USABLE, 0},
	{"mlx5", 8192, true, 1024, 60, INLINE_USABLE, 0},
	/* The same with 8192 blocks, and ENOSPC for an answer. */
	{"mlx5-cx4lx", 256, true, 256, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5-cx4lx", 256, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx5-cx4lx", 1024, false, 1024, 316, INLINE_USABLE, 0},
	{"mlx5-cx4lx", 2048, true, 256, 60, INLINE_USABLE, 0},
	/* mlx4: 32 bytes, then data in pieces of 60 + 4, to a power of two: 256 → 512, of which
	 * 480 - 8 × 4 = 448 hold data; 1024 → 992 - 16 × 4 = 928. */
	{"mlx4", 256, true, 256, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx4", 256, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	{"mlx4", 256, false, 256, 448, INLINE_USABLE_ASKED, 2},
	{"mlx4", 256, false, 1024, 928, INLINE_USABLE, 0},
	/* irdma: the device's constants, proven by one byte more; or found by halving. */
	{"irdma-x722", 256, true, 256, 48, INLINE_USABLE, 6},
	{"irdma-x722", 256, true, 1024, 48, INLINE_USABLE, 6},
	{"irdma-x722", 256, false, 256, 48, INLINE_USABLE, 0},
	{"irdma-e810", 256, true, 256, 101, INLINE_USABLE, 5},
	{"irdma-e810", 256, true, 1024, 101, INLINE_USABLE, 5},
	{"irdma-e810", 256, false, 1024, 101, INLINE_USABLE, 0},
	{"irdma-gen3", 256, true, 256, 216, INLINE_USABLE, 4},
	{"irdma-gen3", 256, true, 1024, 216, INLINE_USABLE, 4},
	{"irdma-gen3", 256, false, 256, 216, INLINE_USABLE, 0},
	/* 32768 quanta of 32 bytes, 258 of them kept, a power of two: so deep that 8 for each are
	 * too many, and 4 (101 bytes) are not. */
	{"irdma-gen3", 4096, true, 256, 101, INLINE_USABLE, 5},
	{"irdma-gen3", 8126, true, 256, 101, INLINE_USABLE, 5},
	/* erdma: ERDMA_MAX_INLINE. */
	{"erdma", 256, true, 256, 96, INLINE_USABLE, 4},
	{"erdma", 256, true, 1024, 96, INLINE_USABLE, 4},
	{"erdma", 256, false, 256, 96, INLINE_USABLE, 0},
	/* bnxt_re: 96 for any ask but 0; or 16 for each of 13 pieces. errno is left alone. */
	{"bnxt-static", 256, true, 256, 96, INLINE_USABLE, 0},
	{"bnxt-static", 256, true, 1024, 96, INLINE_USABLE, 0},
	{"bnxt-variable", 256, true, 256, 208, INLINE_USABLE, 0},
	{"bnxt-variable", 256, true, 1024, 208, INLINE_USABLE, 0},
	/* efa: datagrams only. */
	{"efa", 256, true, 256, 0, INLINE_NO_RC, 0},
	{"efa", 256, true, 1024, 0, INLINE_NO_RC, 0},
	{"efa-wide", 256, true, 256, 0, INLINE_NO_RC, 0},
	{"efa-wide", 256, true, 1024, 0, INLINE_NO_RC, 0},
	/* hns: clamped without a word, to 32 or 1024. */
	{"hns-hip08", 256, true, 256, 32, INLINE_USABLE, 2},
	{"hns-hip08", 256, true, 1024, 32, INLINE_USABLE, 2},
	{"hns-hip09", 256, true, 256, 256, INLINE_USABLE_ASKED, 2},
	{"hns-hip09", 256, true, 1024, 1024, INLINE_USABLE_ASKED, 2},
	/* cxgb4: 5 × 64 - 40. */
	{"cxgb4", 256, true, 256, 256, INLINE_USABLE_ASKED, 2},
	{"cxgb4", 256, true, 1024, 280, INLINE_USABLE, 0},
	{"qedr", 256, true, 256, 256, INLINE_USABLE_ASKED, 2},
	{"qedr", 256, true, 1024, 256, INLINE_USABLE, 0},
	{"qedr-old", 256, true, 256, 128, INLINE_USABLE, 0},
	{"qedr-old", 256, true, 1024, 128, INLINE_USABLE, 0},
	/* ocrdma: 256 less a header and one piece of 16. */
	{"ocrdma", 256, true, 256, 224, INLINE_USABLE, 0},
	{"ocrdma", 256, true, 1024, 224, INLINE_USABLE, 0},
	/* Success, and nothing; or success, and the flag is ignored. */
	{"pvrdma", 256, true, 256, 0, INLINE_NOT_GRANTED, 2},
	{"pvrdma", 256, true, 1024, 0, INLINE_NOT_GRANTED, 2},
	{"mana", 256, true, 256, 0, INLINE_IGNORED, 2},
	{"mana", 256, true, 1024, 0, INLINE_IGNORED, 2},
	{"hfi1", 256, true, 256, 0, INLINE_NOT_GRANTED, 2},
	{"hfi1", 256, true, 1024, 0, INLINE_NOT_GRANTED, 2},
	{"qib", 256, true, 256, 0, INLINE_NOT_GRANTED, 2},
	{"qib", 256, true, 1024, 0, INLINE_NOT_GRANTED, 2},
	/* rxe: RXE_MAX_INLINE, 512 and earlier 400. siw: SIW_MAX_INLINE. */
	{"rxe", 256, true, 256, 256, INLINE_USABLE_ASKED, 2},
	{"rxe", 256, true, 1024, 512, INLINE_USABLE, 0},
	{"rxe-old", 256, true, 256, 256, INLINE_USABLE_ASKED, 2},
	{"rxe-old", 256, true, 1024, 400, INLINE_USABLE, 0},
	{"siw", 256, true, 256, 80, INLINE_USABLE, 0},
	{"siw", 256, true, 1024, 80, INLINE_USABLE, 0},
	/* mthca: 32 bytes and 4, to a power of two, at most 1008: 256 → 512 - 36 = 476; the most
	 * is 1008 - 36 = 972. */
	{"mthca", 256, true, 256, 236, INLINE_USABLE_CAPPED, 2},
	{"mthca", 256, true, 1024, 236, INLINE_USABLE_CAPPED, 2},
	{"mthca", 256, false, 256, 476, INLINE_USABLE_ASKED, 2},
	{"mthca", 256, false, 1024, 972, INLINE_USABLE, 0},
	/* ionic: 32 bytes, to a power of two, at most 512: 256 → 512 - 32 = 480. */
	{"ionic", 256, true, 256, 480, INLINE_USABLE_ASKED, 2},
	{"ionic", 256, true, 1024, 480, INLINE_USABLE, 0},
};
