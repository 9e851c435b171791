/* SPDX-License-Identifier: MIT */
/*
 * What a device does with inline data, by plain verbs and without any of Shunt's code, so that a
 * test can compare it with what Shunt finds.
 *
 *	inline-limit DEVICE ADDRESS
 *
 * Prints one line each:
 *
 *	zero N			the grant for a request of 0
 *	accepted N granted M	the largest request that is accepted, and its grant
 *	refused N ERROR		the smallest that is refused; absent if none to REQUEST_MAX is
 *	reference OUTCOME	a message by reference over a connection to ADDRESS, the own one
 *	inline OUTCOME		one of M bytes, inline, with an lkey that does not exist; absent
 *				if M is 0
 *
 * OUTCOME is "arrived" or "failed"; then why is on standard error. Exit status 0 if all lines could
 * be printed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "loop.h"

#define REQUEST_MAX 1100
#define DEPTH 64
#define BOGUS_LKEY 0x5a5a5a5aU

static struct ibv_qp_cap wanted(uint32_t inline_bytes)
{
	return (struct ibv_qp_cap){
		.max_send_wr = DEPTH,
		.max_recv_wr = DEPTH,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = inline_bytes,
	};
}

/* The grant for a request of @inline_bytes, or -errno. */
static int grant(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = wanted(inline_bytes)};
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(pd, &attr);
	if (!qp)
		return errno ? -errno : -ENODATA;
	if (ibv_destroy_qp(qp) != 0)
		return -EBUSY;
	return (int)attr.cap.max_inline_data;
}

/* Every request from 0 on. Returns the grant for the largest that is accepted, or -1. */
static int creations(struct ibv_pd *pd, struct ibv_cq *cq)
{
	int accepted = -1, granted = -1, refused = 0, error = 0;

	for (int ask = 0; ask <= REQUEST_MAX; ask++) {
		int got = grant(pd, cq, (uint32_t)ask);

		if (ask == 0)
			printf("zero %d\n", got);
		if (got >= 0) {
			accepted = ask;
			granted = got;
		} else if (!error) {
			refused = ask;
			error = -got;
		}
	}
	printf("accepted %d granted %d\n", accepted, granted);
	if (error)
		printf("refused %d %s\n", refused, strerrorname_np(error));
	return granted;
}

static int limits(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	int found = -1;

	for (int i = 0; list && list[i] && !context; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!context)
		return loop_fail(name);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	if (pd && cq)
		found = creations(pd, cq);
	else
		loop_fail("protection domain and completion queue");
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return found;
}

/* Send @bytes from a to b. Returns NULL if they arrived, else what went wrong. */
static const char *failure(struct loop *loop, uint32_t bytes, uint32_t lkey, unsigned int flags)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < bytes; i++)
		loop->a.data[i] = (uint8_t)(i * 7 + flags);
	memset(loop->b.data, 0, sizeof(loop->b.data));
	if (loop_receive(&loop->b, LOOP_BYTES) != 0)
		return "no receive could be posted";
	if (loop_send(&loop->a, bytes, lkey, flags) != 0)
		return "refused by ibv_post_send";
	if (!loop_completion(loop->a.sent, &wc))
		return "no completion";
	if (wc.status != IBV_WC_SUCCESS)
		return ibv_wc_status_str(wc.status);
	if (!loop_completion(loop->b.received, &wc) || wc.status != IBV_WC_SUCCESS)
		return "sent but not received";
	if (wc.byte_len != bytes || memcmp(loop->a.data, loop->b.data, bytes) != 0)
		return "received something else";
	return NULL;
}

static void try_send(const char *name, struct loop *loop, uint32_t bytes, uint32_t lkey,
		     unsigned int flags)
{
	const char *why = failure(loop, bytes, lkey, flags);

	printf("%s %s\n", name, why ? "failed" : "arrived");
	if (why)
		fprintf(stderr, "inline-limit: %s: %s\n", name, why);
}

int main(int argc, char **argv)
{
	static struct loop loop;
	struct ibv_qp_cap cap;
	int limit;

	if (argc != 3) {
		fputs("usage: inline-limit DEVICE ADDRESS\n", stderr);
		return 2;
	}
	limit = limits(argv[1]);
	if (limit < 0 || limit > (int)LOOP_BYTES)
		return 1;
	cap = wanted((uint32_t)limit);
	if (loop_open(&loop, argv[2]) != 0 || loop_join(&loop, &cap) != 0)
		return 1;
	try_send("reference", &loop, cap.max_inline_data ? cap.max_inline_data : 1, loop.a.mr->lkey,
		 0);
	if (limit)
		try_send("inline", &loop, cap.max_inline_data, BOGUS_LKEY, IBV_SEND_INLINE);
	loop_part(&loop);
	loop_close(&loop);
	return 0;
}
