/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/util.h"
#include "lib/tap.h"
#include "lib/verbs/host.h"
#include "pair.h"

/* Several threads, while the host changes under them. */

#define WAIT_MS 20000
#define THREADS 4
#define ROUNDS 4
#define MESSAGES 50

static atomic_uint wrong;

/* A conversation: each message is answered by one with the same bytes. */
static void converse(struct end ends[2], unsigned seed)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		unsigned from = i & 1, bytes = 1 + (seed * 31 + i * 7) % 2000;
		struct ibv_wc wc;

		memset(ends[from].memory, (int)(seed + i), bytes);
		wrong += pair_recv(&ends[!from], 4096, 4096) != 0;
		wrong += pair_send(&ends[from], 0, bytes, IBV_SEND_SIGNALED) != 0;
		wrong += !pair_poll(&ends[!from], &wc, WAIT_MS) || wc.byte_len != bytes;
		wrong += memcmp(ends[from].memory, ends[!from].memory + 4096, bytes) != 0;
		wrong += !pair_poll(&ends[from], &wc, WAIT_MS) || wc.status != IBV_WC_SUCCESS;
	}
}

static void *work(void *arg)
{
	unsigned seed = *(const unsigned *)arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		/* For ever, nearly: this is not about time. */
		const struct pair_patience patience = {18, 6, 7};
		struct end_name names[2];
		struct end ends[2];

		for (unsigned i = 0; i < 2; i++) {
			if (pair_end(&ends[i], seed & 1 ? "a" : "b", 16, 0) < 0) {
				wrong++;
				return NULL;
			}
			pair_name(&ends[i], &names[i]);
		}
		wrong += pair_connect(&ends[0], &names[1], patience) != 0;
		wrong += pair_connect(&ends[1], &names[0], patience) != 0;
		converse(ends, seed + round);
		pair_close(&ends[0]);
		pair_close(&ends[1]);
	}
	return NULL;
}

TAP_CASE(threads_do_not_mind_each_other)
{
	struct verbs_host *host = verbs_host_new();
	unsigned seeds[THREADS];
	pthread_t threads[THREADS];

	verbs_host_add(host, "a", "mlx5", "10.77.0.1");
	verbs_host_add(host, "b", "rxe", "10.77.0.2");
	verbs_host_enter(host);
	wrong = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		seeds[i] = i;
		REQUIRE(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
	}
	/* A third device comes and goes, and everybody is told. */
	for (unsigned i = 0; i < 20; i++) {
		struct ibv_device **list;
		int count = 0;

		verbs_host_add(host, "c", "siw", "10.77.0.3");
		list = ibv_get_device_list(&count);
		CHECK_EQ(count, 3);
		ibv_free_device_list(list);
		verbs_host_remove(host, "c");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(wrong, 0);
	verbs_host_free(host);
}

static void *wait_for_event(void *arg)
{
	struct end *end = arg;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(end->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
	else
		wrong++;
	return NULL;
}

/* A thread that sleeps in ibv_get_cq_event() is woken by another's message. */
TAP_CASE(a_sleeper_is_woken)
{
	struct verbs_host *host = verbs_host_new();
	struct end_name peer;
	struct end ends[2];
	pthread_t thread;
	struct ibv_wc wc;

	verbs_host_add(host, "a", "rxe", "10.77.0.1");
	verbs_host_enter(host);
	REQUIRE(pair_make(ends, "a", "a") == 0);
	pair_name(&ends[1], &peer);
	wrong = 0;
	for (unsigned i = 0; i < 20; i++) {
		CHECK_EQ(ibv_req_notify_cq(ends[0].cq, 0), 0);
		REQUIRE(pthread_create(&thread, NULL, wait_for_event, &ends[0]) == 0);
		CHECK_EQ(pair_write(&ends[0], &peer, 8, IBV_SEND_SIGNALED), 0);
		pthread_join(thread, NULL);
		CHECK_EQ(ibv_poll_cq(ends[0].cq, 1, &wc), 1);
	}
	CHECK_EQ(wrong, 0);
	pair_close(&ends[0]);
	pair_close(&ends[1]);
	verbs_host_free(host);
}
