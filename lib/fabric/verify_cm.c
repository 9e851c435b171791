/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "fabric/cm_context.h"
#include "fabric/verify_path.h"
#include "os/clock.h"
#include "os/sys.h"
#include "os/syswait.h"

/* For all steps of connecting. Chosen: a slow machine takes a tenth of it. */
#define CONNECT_DEADLINE_NS (2 * VERIFY_DEADLINE_NS)

/* For librdmacm's own steps; the kernel's answer about ourselves is immediate. Chosen. */
#define RESOLVE_MS 1000

static int cm_error(void)
{
	return errno ? -errno : -EIO;
}

static int say(const struct verify_cm *cm, const char *what, int rc)
{
	snprintf(cm->detail, VERIFY_DETAIL_BYTES, "%s: %s", what, strerror(-rc));
	return rc;
}

/*
 * Wait for the next event. @ret_event is to be acknowledged. 0, -ETIMEDOUT after the deadline, or
 * -errno.
 */
static int next_event(const struct verify_cm *cm, struct rdma_cm_event **ret_event)
{
	struct pollfd poll_fd = {.fd = cm->channel->fd, .events = POLLIN};
	int rc;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		struct timespec wait;

		if (now_ns >= cm->deadline_ns)
			return -ETIMEDOUT;
		wait.tv_sec = (time_t)((cm->deadline_ns - now_ns) / 1000000000);
		wait.tv_nsec = (long)((cm->deadline_ns - now_ns) % 1000000000);
		rc = sys_ppoll(&poll_fd, 1, &wait, NULL);
		if (rc < 0 && rc != -EINTR)
			return rc;
		errno = 0;
		if (rdma_get_cm_event(cm->channel, ret_event) == 0)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return cm_error();
	}
}

/* Wait for @wanted, which is the next event there may be. */
static int expect(const struct verify_cm *cm, enum rdma_cm_event_type wanted, const char *what)
{
	struct rdma_cm_event *event;
	int rc = next_event(cm, &event);

	if (rc < 0)
		return say(cm, what, rc);
	if (event->event != wanted) {
		snprintf(cm->detail, VERIFY_DETAIL_BYTES, "%s: %s (status %d)", what,
			 rdma_event_str(event->event), event->status);
		rc = -ECONNREFUSED;
	}
	rdma_ack_cm_event(event);
	return rc;
}

/* iWARP queue pairs stay in INIT: the kernel moves them when the connection stands. */
static int to_init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int rc, mask = 0;

	errno = 0;
	if (rdma_init_qp_attr(id, &attr, &mask))
		return cm_error();
	rc = ibv_modify_qp(qp, &attr, mask);
	return rc < 0 ? rc : -rc;
}

static struct rdma_conn_param parameters(const struct ibv_qp *qp)
{
	return (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 5,
		.rnr_retry_count = 5,
		.qp_num = qp->qp_num,
	};
}

static int listen_on(struct verify_cm *cm, const union gid_address *address)
{
	union gid_address any_port = *address;

	errno = 0;
	if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(cm->listener, &any_port.any) || rdma_listen(cm->listener, 1))
		return say(cm, "can't listen on the device's address", cm_error());
	cm_context_note(cm->listener);
	return 0;
}

static int resolve(struct verify_cm *cm, const union gid_address *address, const char *name)
{
	union gid_address from = *address, to = *address;
	int rc;

	to.in.sin_port = rdma_get_src_port(cm->listener); /* at the same place in both families */
	errno = 0;
	if (rdma_create_id(cm->channel, &cm->dialer, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(cm->dialer, &from.any, &to.any, RESOLVE_MS))
		return say(cm, "can't resolve the device's address", cm_error());
	rc = expect(cm, RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the device's address");
	if (rc < 0)
		return rc;
	if (!cm->dialer->verbs || strcmp(ibv_get_device_name(cm->dialer->verbs->device), name) != 0)
		return say(cm, "the device's address leads to another device", -EXDEV);
	errno = 0;
	if (rdma_resolve_route(cm->dialer, RESOLVE_MS))
		return say(cm, "can't find a route to the device's address", cm_error());
	return expect(cm, RDMA_CM_EVENT_ROUTE_RESOLVED, "finding a route to itself");
}

static int dial(struct verify_cm *cm)
{
	struct rdma_conn_param param = parameters(cm->pair->sender);
	int rc = to_init(cm->dialer, cm->pair->sender);

	if (rc < 0)
		return say(cm, "a queue pair can't become INIT", rc);
	errno = 0;
	if (rdma_connect(cm->dialer, &param))
		return say(cm, "can't dial", cm_error());
	return 0;
}

static int answer(struct verify_cm *cm, struct rdma_cm_id *acceptor)
{
	struct rdma_conn_param param = parameters(cm->pair->receiver);
	int rc;

	cm->acceptor = acceptor;
	rc = to_init(acceptor, cm->pair->receiver);
	if (rc < 0)
		return say(cm, "a queue pair can't become INIT", rc);
	errno = 0;
	if (rdma_accept(acceptor, &param))
		return say(cm, "can't accept", cm_error());
	return 0;
}

/* From the request on: accept it, until both ends say that they are connected. */
static int establish(struct verify_cm *cm)
{
	int rc, established = 0;

	while (established < 2) {
		struct rdma_cm_event *event;

		rc = next_event(cm, &event);
		if (rc < 0)
			return say(cm, "connecting to itself", rc);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !cm->acceptor) {
			rc = answer(cm, event->id);
		} else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
			established++;
		} else {
			snprintf(cm->detail, VERIFY_DETAIL_BYTES,
				 "connecting to itself: %s (status %d)",
				 rdma_event_str(event->event), event->status);
			rc = -ECONNREFUSED;
		}
		rdma_ack_cm_event(event);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int verify_cm_connect(struct verify_cm *cm, const struct verify_pair *pair,
		      const struct verify_path *path, const char *name, char *detail)
{
	int rc, flags;

	*cm = (struct verify_cm){.deadline_ns = clock_now_ns() + CONNECT_DEADLINE_NS,
				 .detail = detail,
				 .pair = pair};
	errno = 0;
	cm->channel = rdma_create_event_channel();
	if (!cm->channel)
		return say(cm, "no connection manager (is rdma_ucm loaded?)", cm_error());
	flags = sys_fcntl(cm->channel->fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys_fcntl(cm->channel->fd, F_SETFL, flags | O_NONBLOCK);
	if (flags < 0)
		return say(cm, "the connection manager's descriptor", flags);
	rc = listen_on(cm, &path->gid.address);
	if (rc == 0)
		rc = resolve(cm, &path->gid.address, name);
	if (rc == 0)
		rc = dial(cm);
	return rc == 0 ? establish(cm) : rc;
}

void verify_cm_close(struct verify_cm *cm)
{
	if (cm->dialer) {
		rdma_disconnect(cm->dialer);
		rdma_destroy_id(cm->dialer);
	}
	if (cm->acceptor)
		rdma_destroy_id(cm->acceptor);
	if (cm->listener)
		rdma_destroy_id(cm->listener);
	if (cm->channel)
		rdma_destroy_event_channel(cm->channel);
	*cm = (struct verify_cm){.channel = NULL};
}
