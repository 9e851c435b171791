/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/util.h"

#include "lib/tap.h"
#include "stage.h"

/* The link of a stage: as the daemon makes one, with the worker in it. */

const char *const stage_addresses[] = {"10.77.0.1", "10.77.0.2"};

static int prepare(struct link *link, struct qp *qp)
{
	struct stage *stage = container_of(link, struct stage, link);

	if (stage->conf.watch)
		stage->conf.watch(qp->verbs);
	return worker_link_make(stage->worker, qp, stage->conf.credits, stage, &stage->worker_link);
}

static void on_up(struct link *link)
{
	struct stage *stage = container_of(link, struct stage, link);
	const struct worker_link_setup setup = {
		.peer_credits = link->peer.credits,
		.is_dialer = link->is_dialer,
	};

	/* The worker's from now on. */
	stage->qp = TAKE(link->qp, NULL);
	CHECK_EQ(worker_link_up(stage->worker_link, &setup), 0);
	stage->is_up = true;
}

static void on_down(struct link *link, const char *why)
{
	struct stage *stage = container_of(link, struct stage, link);

	if (stage->worker_link)
		worker_link_end(stage->worker_link, why);
}

static void on_closed(struct link *link)
{
	container_of(link, struct stage, link)->link_is_closed = true;
}

static const struct link_ops link_ops = {
	.prepare = prepare, .up = on_up, .down = on_down, .closed = on_closed};

static const uint8_t nonce[LINK_NONCE_BYTES] = {1, 2, 3};

static int admit(void *ctx, __attribute__((unused)) const struct link_hello *hello,
		 __attribute__((unused)) const struct sockaddr *from, struct link **ret_link)
{
	struct stage *stage = ctx;

	link_init(&stage->link, &stage->cm, &stage->pool, &link_ops);
	link_set_hello(&stage->link, nonce, stage->conf.credits, 1);
	*ret_link = &stage->link;
	return 0;
}

static union gid_address address_of(int side, uint16_t port)
{
	union gid_address address = {{0}};

	address.in.sin_family = AF_INET;
	address.in.sin_port = htons(port);
	inet_pton(AF_INET, stage_addresses[side], &address.in.sin_addr);
	return address;
}

struct opening {
	struct control_job job;
	struct stage *stage;
	uint16_t port;
	int result;
	bool is_done;
};

static void open_run(struct control_job *job)
{
	struct opening *opening = container_of(job, struct opening, job);
	struct stage *stage = opening->stage;
	union gid_address address = address_of(stage->side, 0);

	opening->result = cm_open(&stage->cm, stage->rig.device, &stage->rig.control);
	if (opening->result == 0 && stage->side == 1)
		opening->result = cm_listen(&stage->cm, &address, &opening->port);
}

static void open_done(struct control_job *job)
{
	container_of(job, struct opening, job)->is_done = true;
}

bool stage_open_link(struct stage *stage)
{
	struct opening opening = {.job = {.run = open_run, .done = open_done}, .stage = stage};
	union gid_address from, to;

	CHECK_EQ(control_submit(&stage->rig.control, &opening.job), 0);
	RIG_AWAIT(&stage->rig, opening.is_done);
	if (!CHECK_OK(opening.result))
		return false;
	stage->rig.has_cm = true;
	cm_set_admit(&stage->cm, admit, stage);
	if (stage->side == 1)
		return CHECK_EQ(send(stage->sock, &opening.port, sizeof(opening.port), 0),
				sizeof(opening.port));
	CHECK_EQ(recv(stage->sock, &opening.port, sizeof(opening.port), 0), sizeof(opening.port));
	from = address_of(0, 0);
	to = address_of(1, opening.port);
	link_init(&stage->link, &stage->cm, &stage->pool, &link_ops);
	link_set_hello(&stage->link, nonce, stage->conf.credits, 1);
	return CHECK_OK(link_dial(&stage->link, &from, &to));
}
