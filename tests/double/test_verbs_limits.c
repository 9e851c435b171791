/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "lib/verbs/personality.h"
#include "pair.h"

/*
 * What each personality grants and refuses. The expected figures are written down here, not
 * computed: they are what the providers do (see rules.c), worked out by hand.
 */

/* errno as it was before the call. */
#define UNTOUCHED 7777
#define DEPTH 64
/* The end of a row's asks. */
#define NO_MORE UINT32_MAX

struct answer {
	uint32_t ask;
	int error;	  /* 0, or errno of the refusal */
	uint32_t granted; /* if it succeeded */
};

struct row {
	const char *personality;
	struct answer answers[8];
	int oversize; /* what posting one byte more than may be posted returns */
};

/* Depth 64, one SGE. The last two good asks before NO_MORE are at the limit and one above. */
static const struct row rows[] = {
	{"mlx5",
	 {{0, 0, 60},
	  {60, 0, 60},
	  {61, 0, 124},
	  {64, 0, 124},
	  {256, 0, 316},
	  {828, 0, 828},
	  {829, EINVAL, 0},
	  {NO_MORE, 0, 0}},
	 ENOMEM},
	{"mlx5-ib", {{0, 0, 60}, {828, 0, 828}, {829, EINVAL, 0}, {NO_MORE, 0, 0}}, ENOMEM},
	{"mlx5-cx4lx", {{0, 0, 60}, {828, 0, 828}, {829, EINVAL, 0}, {NO_MORE, 0, 0}}, ENOMEM},
	{"mlx4",
	 {{0, 0, 28},
	  {28, 0, 28},
	  {29, 0, 88},
	  {256, 0, 448},
	  {928, 0, 928},
	  {929, EINVAL, 0},
	  {1025, EINVAL, 0},
	  {NO_MORE, 0, 0}},
	 ENOMEM},
	{"irdma-x722",
	 {{0, 0, 0}, {47, 0, 47}, {48, 0, 48}, {49, EINVAL, 0}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"irdma-e810",
	 {{0, 0, 0}, {100, 0, 100}, {101, 0, 101}, {102, EINVAL, 0}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"irdma-gen3",
	 {{0, 0, 0}, {101, 0, 101}, {216, 0, 216}, {217, EINVAL, 0}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"erdma", {{0, 0, 0}, {96, 0, 96}, {97, EINVAL, 0}, {NO_MORE, 0, 0}}, -EINVAL},
	{"bnxt-static",
	 {{0, 0, 0},
	  {1, 0, 96},
	  {96, 0, 96},
	  {97, UNTOUCHED, 0},
	  {256, UNTOUCHED, 0},
	  {NO_MORE, 0, 0}},
	 ENOMEM},
	{"bnxt-variable",
	 {{0, 0, 0},
	  {1, 0, 16},
	  {200, 0, 208},
	  {208, 0, 208},
	  {209, UNTOUCHED, 0},
	  {NO_MORE, 0, 0}},
	 ENOMEM},
	{"efa", {{0, EOPNOTSUPP, 0}, {32, EOPNOTSUPP, 0}, {NO_MORE, 0, 0}}, 0},
	{"efa-wide", {{0, EOPNOTSUPP, 0}, {NO_MORE, 0, 0}}, 0},
	{"hns-hip08",
	 {{0, 0, 0}, {5, 0, 8}, {32, 0, 32}, {33, 0, 32}, {1024, 0, 32}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"hns-hip09",
	 {{0, 0, 0}, {33, 0, 64}, {256, 0, 256}, {1024, 0, 1024}, {2000, 0, 1024}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"cxgb4", {{0, 0, 0}, {280, 0, 280}, {281, EINVAL, 0}, {NO_MORE, 0, 0}}, -EMSGSIZE},
	{"qedr", {{0, 0, 0}, {256, 0, 256}, {257, EINVAL, 0}, {NO_MORE, 0, 0}}, -EINVAL},
	{"qedr-old", {{0, 0, 0}, {128, 0, 128}, {129, EINVAL, 0}, {NO_MORE, 0, 0}}, -EINVAL},
	{"ocrdma", {{0, 0, 0}, {224, 0, 224}, {225, EINVAL, 0}, {NO_MORE, 0, 0}}, EINVAL},
	{"pvrdma", {{0, 0, 0}, {64, 0, 0}, {1024, 0, 0}, {NO_MORE, 0, 0}}, 0},
	{"mana", {{0, 0, 0}, {64, 0, 64}, {5000, 0, 5000}, {NO_MORE, 0, 0}}, 0},
	{"rxe",
	 {{0, 0, 16}, {17, 0, 17}, {512, 0, 512}, {513, EINVAL, 0}, {NO_MORE, 0, 0}},
	 EINVAL},
	{"rxe-old", {{0, 0, 16}, {400, 0, 400}, {401, EINVAL, 0}, {NO_MORE, 0, 0}}, EINVAL},
	{"siw", {{0, 0, 0}, {80, 0, 80}, {81, EINVAL, 0}, {NO_MORE, 0, 0}}, -EINVAL},
	{"mthca",
	 {{0, 0, 28},
	  {29, 0, 92},
	  {256, 0, 476},
	  {972, 0, 972},
	  {973, EINVAL, 0},
	  {1024, EINVAL, 0},
	  {1025, UNTOUCHED, 0},
	  {NO_MORE, 0, 0}},
	 ENOMEM},
	{"hfi1", {{0, 0, 0}, {256, 0, 0}, {NO_MORE, 0, 0}}, 0},
	{"qib", {{0, 0, 0}, {256, 0, 0}, {NO_MORE, 0, 0}}, 0},
	{"ionic",
	 {{0, 0, 32}, {33, 0, 96}, {256, 0, 480}, {480, 0, 480}, {481, EINVAL, 0}, {NO_MORE, 0, 0}},
	 EINVAL},
};

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = *cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	errno = UNTOUCHED;
	qp = ibv_create_qp(pd, &init);
	*cap = init.cap;
	return qp;
}

static void check_answer(const char *name, struct ibv_pd *pd, struct ibv_cq *cq,
			 const struct answer *answer)
{
	struct ibv_qp_cap cap = {
		.max_send_wr = DEPTH,
		.max_recv_wr = DEPTH,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = answer->ask,
	};
	struct ibv_qp *qp = create(pd, cq, &cap);
	int error = qp ? 0 : errno;

	tap_check(error == answer->error, __FILE__, __LINE__, "%s: ask %u: errno %d, expected %d",
		  name, answer->ask, error, answer->error);
	if (qp) {
		tap_check(cap.max_inline_data == answer->granted, __FILE__, __LINE__,
			  "%s: ask %u: granted %u, expected %u", name, answer->ask,
			  cap.max_inline_data, answer->granted);
		tap_check(cap.max_send_wr >= DEPTH, __FILE__, __LINE__, "%s: depth %u", name,
			  cap.max_send_wr);
		ibv_destroy_qp(qp);
	} else {
		tap_check(cap.max_inline_data == answer->ask, __FILE__, __LINE__,
			  "%s: a refusal changed the request", name);
	}
}

TAP_CASE(every_personality_grants_as_its_provider)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_enter(host);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_context *context;
		struct ibv_pd *pd;
		struct ibv_cq *cq;

		verbs_host_add(host, "d", rows[i].personality, "10.77.0.1");
		context = pair_open("d");
		REQUIRE(context != NULL);
		pd = ibv_alloc_pd(context);
		cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
		REQUIRE(pd && cq);
		for (const struct answer *a = rows[i].answers; a->ask != NO_MORE; a++)
			check_answer(rows[i].personality, pd, cq, a);
		ibv_destroy_cq(cq);
		ibv_dealloc_pd(pd);
		ibv_close_device(context);
		verbs_host_remove(host, "d");
	}
	verbs_host_free(host);
}

TAP_CASE(every_row_of_the_table_is_expected_here)
{
	unsigned count = 0;

	for (; personality_at(count); count++) {
		const char *name = personality_at(count)->name;
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			found |= strcmp(rows[i].personality, name) == 0;
		tap_check(found, __FILE__, __LINE__, "%s", name);
	}
	CHECK_EQ(count, ARRAY_SIZE(rows));
}

/* The most that may be posted inline on a QP that was asked for @ask. */
static unsigned post_limit(const struct row *row, const struct end *end)
{
	const struct personality *p = personality_find(row->personality);

	return p->quirks & QUIRK_POST_CONST ? p->limit : end->cap.max_inline_data;
}

/* Connected, since some look at the state first; iWARP by the CM alone, so not here. */
TAP_CASE(an_oversized_inline_post_returns_what_the_provider_does)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_enter(host);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct end ends[2];
		int rc;

		if (!row->oversize || personality_find(row->personality)->net == NET_IWARP)
			continue;
		verbs_host_add(host, "d", row->personality, "10.77.0.1");
		rc = pair_make(ends, "d", "d");
		if (!tap_check(rc == 0, __FILE__, __LINE__, "%s: connected", row->personality))
			continue;
		rc = pair_send(&ends[0], 0, post_limit(row, &ends[0]) + 1,
			       IBV_SEND_INLINE | IBV_SEND_SIGNALED);
		tap_check(rc == row->oversize, __FILE__, __LINE__,
			  "%s: oversized post %d, expected %d", row->personality, rc,
			  row->oversize);
		pair_close(&ends[0]);
		pair_close(&ends[1]);
		verbs_host_remove(host, "d");
	}
	verbs_host_free(host);
}

/* One creation, on a fresh device; errno, or 0 and the grant. */
struct request {
	const char *personality;
	uint32_t depth, inline_bytes, sges;
};

static int try_create(const struct request *request, struct ibv_qp_cap *ret_cap)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int error;

	verbs_host_add(host, "d", request->personality, "10.77.0.1");
	verbs_host_enter(host);
	context = pair_open("d");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	*ret_cap = (struct ibv_qp_cap){
		.max_send_wr = request->depth,
		.max_recv_wr = 1,
		.max_send_sge = request->sges,
		.max_recv_sge = 1,
		.max_inline_data = request->inline_bytes,
	};
	qp = create(pd, cq, ret_cap);
	error = qp ? 0 : errno;
	if (qp)
		ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	verbs_host_free(host);
	return error;
}

TAP_CASE(inline_trades_against_depth)
{
	static const struct {
		struct request request;
		int error;
		uint32_t wr, inline_bytes;
	} cases[] = {
		/* 64 B × 4 = 256 B a request: 8192 × 256 / 64 = 32768 blocks, just so. */
		{{"mlx5", 8192, 60, 1}, 0, 8192, 60},
		{{"mlx5", 8193, 60, 1}, EINVAL, 0, 0},
		{{"mlx5", 8192, 61, 1}, EINVAL, 0, 0},
		{{"mlx5", 32768, 0, 1}, EINVAL, 0, 0},
		{{"mlx5", 100, 0, 1}, 0, 128, 60},
		/* 672 B for 30 SGEs, 704 B a request: 65536 B hold 93. */
		{{"mlx5", 64, 0, 30}, 0, 93, 508},
		/* The other firmware has a quarter of the blocks, and another word for it. */
		{{"mlx5-cx4lx", 2048, 60, 1}, 0, 2048, 60},
		{{"mlx5-cx4lx", 2048, 61, 1}, ENOSPC, 0, 0},
		{{"mlx5-cx4lx", 4096, 0, 1}, ENOSPC, 0, 0},
		/* 64 B stride: 33 spare entries. 1024 B: 3. */
		{{"mlx4", 64, 0, 1}, 0, 95, 28},
		{{"mlx4", 64, 928, 1}, 0, 125, 928},
		{{"mlx4", 16351, 0, 1}, 0, 16351, 28},
		{{"mlx4", 16352, 0, 1}, EINVAL, 0, 0},
		/* Quanta: 1, 2, 4 and 8 a request, 258 in reserve, at most 32768. */
		{{"irdma-e810", 8126, 8, 1}, 0, 16126, 8},
		{{"irdma-e810", 8126, 39, 1}, 0, 16255, 39},
		{{"irdma-e810", 8062, 101, 1}, 0, 8127, 101},
		{{"irdma-gen3", 4063, 102, 1}, 0, 4063, 102},
		{{"irdma-gen3", 4064, 102, 1}, EINVAL, 0, 0},
		{{"irdma-x722", 895, 48, 1}, 0, 895, 48},
		{{"irdma-x722", 896, 48, 1}, EINVAL, 0, 0},
		{{"hns-hip09", 100, 33, 1}, 0, 128, 64},
		{{"rxe", 64, 0, 32}, 0, 64, 512},
		{{"bnxt-variable", 64, 1, 13}, 0, 64, 208},
		{{"ionic", 64, 0, 1}, 0, 127, 32},
		{{"mthca", 100, 0, 1}, 0, 128, 28},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct request *request = &cases[i].request;
		struct ibv_qp_cap cap;
		int error = try_create(request, &cap);

		tap_check(error == cases[i].error, __FILE__, __LINE__,
			  "%s, %u × %u B, %u SGEs: errno %d, expected %d", request->personality,
			  request->depth, request->inline_bytes, request->sges, error,
			  cases[i].error);
		if (error)
			continue;
		tap_check(cap.max_send_wr == cases[i].wr &&
				  cap.max_inline_data == cases[i].inline_bytes,
			  __FILE__, __LINE__,
			  "%s, %u × %u B, %u SGEs: granted %u × %u, expected %u × %u",
			  request->personality, request->depth, request->inline_bytes,
			  request->sges, cap.max_send_wr, cap.max_inline_data, cases[i].wr,
			  cases[i].inline_bytes);
	}
}

TAP_CASE(efa_halves_its_depth_above_32_bytes)
{
	static const struct {
		uint32_t depth, inline_bytes;
		int error;
	} cases[] = {
		{4096, 32, 0},	    {4097, 0, EINVAL}, {2048, 33, 0},
		{2049, 33, EINVAL}, {64, 81, EINVAL},
	};
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	verbs_host_add(host, "d", "efa-wide", "10.77.0.1");
	verbs_host_enter(host);
	context = pair_open("d");
	REQUIRE(context != NULL);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		/* UD: the only kind of QP that verbs without extensions make there. */
		struct ibv_qp_init_attr init = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = {.max_send_wr = cases[i].depth,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = cases[i].inline_bytes},
			.qp_type = IBV_QPT_UD,
		};
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		CHECK_EQ(qp ? 0 : errno, cases[i].error);
		if (qp)
			ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	verbs_host_free(host);
}

TAP_CASE(siw_tells_its_constant_when_asked_again)
{
	struct verbs_host *host = verbs_host_new();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end end;

	verbs_host_add(host, "d", "siw", "10.77.0.1");
	verbs_host_enter(host);
	REQUIRE_OK(pair_end(&end, "d", 16, 10));
	CHECK_EQ(end.cap.max_inline_data, 10);
	CHECK_EQ(ibv_query_qp(end.qp, &attr, IBV_QP_CAP, &init), 0);
	CHECK_EQ(init.cap.max_inline_data, 80);
	CHECK_EQ(attr.cap.max_inline_data, 80);
	pair_close(&end);
	verbs_host_free(host);
}

TAP_CASE(a_figure_of_the_host_file_overrides_the_provider)
{
	static const struct answer answers[] = {
		{101, 0, 101}, {102, EINVAL, 0}, {512, EINVAL, 0}, {NO_MORE, 0, 0}};
	struct verbs_host *host = verbs_host_new();
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	verbs_host_add(host, "d", "rxe", "10.77.0.1");
	verbs_host_set(host, "d", "inline", "101");
	verbs_host_set(host, "d", "max_qp_wr", "128");
	verbs_host_set(host, "d", "fw", "9.9");
	verbs_host_enter(host);
	context = pair_open("d");
	REQUIRE(context != NULL);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	for (const struct answer *a = answers; a->ask != NO_MORE; a++)
		check_answer("rxe at 101", pd, cq, a);
	CHECK_EQ(ibv_query_device(context, &attr), 0);
	CHECK_EQ(attr.max_qp_wr, 128);
	CHECK_STR(attr.fw_ver, "9.9");
	CHECK_EQ(attr.vendor_id, 0xffffff);
	/* At run time, too. */
	verbs_host_set(host, "d", "inline", "48");
	ibv_query_device(context, &attr);
	check_answer("rxe at 48", pd, cq, &(struct answer){101, EINVAL, 0});
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	verbs_host_free(host);
}
