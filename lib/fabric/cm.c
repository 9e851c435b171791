/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/cm.h"
#include "fabric/cm_context.h"
#include "fabric/cm_park.h"
#include "fabric/link.h"
#include "os/log.h"
#include "os/sys.h"

/* Requests that the kernel keeps while we are busy. Chosen. */
#define BACKLOG 64

int cm_result(int rc)
{
	if (rc == 0)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

int cm_open(struct cm *cm, const struct device *device, struct control *control)
{
	int flags;

	memset(cm, 0, sizeof(*cm));
	cm->device = device;
	cm->control = control;
	list_init(&cm->listeners);
	list_init(&cm->parked);
	list_init(&cm->links);
	errno = 0;
	cm->channel = rdma_create_event_channel();
	if (!cm->channel)
		return cm_result(-1);
	flags = sys_fcntl(cm->channel->fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys_fcntl(cm->channel->fd, F_SETFL, flags | O_NONBLOCK);
	if (flags >= 0)
		flags = sys_fcntl(cm->channel->fd, F_SETFD, FD_CLOEXEC);
	if (flags < 0) {
		rdma_destroy_event_channel(cm->channel);
		cm->channel = NULL;
	}
	return flags < 0 ? flags : 0;
}

void cm_set_admit(struct cm *cm, cm_admit_fn *admit, void *ctx)
{
	cm->admit = admit;
	cm->admit_ctx = ctx;
}

int cm_fd(const struct cm *cm)
{
	return cm->channel ? cm->channel->fd : -1;
}

/* Control thread: turn a request away. */
static void refuse(struct rdma_cm_id *id, enum link_reject why)
{
	const struct link_hello hello = {
		.version = LINK_HELLO_VERSION, .kind = LINK_REJECTION, .reject = why};
	uint8_t bytes[LINK_HELLO_BYTES];

	link_hello_encode(&hello, bytes);
	rdma_reject(id, bytes, LINK_HELLO_BYTES);
	rdma_destroy_id(id);
}

static void copy_event(const struct rdma_cm_event *event, struct cm_event *ret_event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	const struct sockaddr *from;

	*ret_event = (struct cm_event){
		.type = event->event,
		.status = event->status,
		.id = event->id,
	};
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		cm_context_note(event->id);
		event->id->context = NULL; /* it has the listener's */
		from = rdma_get_peer_addr(event->id);
		if (from)
			memcpy(&ret_event->from, from,
			       from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							   : sizeof(struct sockaddr_in));
	} else {
		ret_event->link = event->id->context;
	}
	if (param->private_data && param->private_data_len) {
		ret_event->private_len = param->private_data_len;
		memcpy(ret_event->private_data, param->private_data, param->private_data_len);
	}
}

/* Private data comes with these only; in others the field is not to be read. */
static bool has_private(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
	       type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED;
}

static void poll_run(struct control_job *job)
{
	struct cm *cm = container_of(job, struct cm, poll.job);
	struct rdma_cm_event *event;

	for (uint32_t i = 0; i < cm->poll.n_refusals; i++)
		refuse(cm->poll.refusals[i].id, cm->poll.refusals[i].why);
	cm->poll.n_refusals = 0;
	cm->poll.n = 0;
	while (cm->poll.n < CM_EVENTS && rdma_get_cm_event(cm->channel, &event) == 0) {
		if (!has_private(event->event))
			event->param.conn.private_data_len = 0;
		copy_event(event, &cm->poll.events[cm->poll.n++]);
		rdma_ack_cm_event(event);
	}
	cm->poll.n_told = cm->poll.look ? cm_park_look(cm) : 0;
}

static int judge_request(struct cm *cm, const struct cm_event *event, struct link **ret_link)
{
	struct link_hello hello;

	if (cm->is_stopped)
		return LINK_REJECT_GOING;
	switch (link_hello_decode(event->private_data, event->private_len, &hello)) {
	case LINK_HELLO_OK:
		break;
	case LINK_HELLO_VERSION_BAD:
		return LINK_REJECT_VERSION;
	default:
		return LINK_REJECT_MALFORMED;
	}
	if (hello.kind != LINK_REQUEST)
		return LINK_REJECT_MALFORMED;
	if (cm->n_pending >= CM_PENDING_MAX)
		return LINK_REJECT_BUSY;
	if (!cm->admit)
		return LINK_REJECT_NONCE;
	return cm->admit(cm->admit_ctx, &hello, (const struct sockaddr *)&event->from, ret_link);
}

static void on_request(struct cm *cm, const struct cm_event *event)
{
	struct link_hello hello;
	struct link *link = NULL;
	int why = judge_request(cm, event, &link);

	cm->counts.requests++;
	if (why == 0) {
		link_hello_decode(event->private_data, event->private_len, &hello);
		link_accept(link, event->id, &hello);
		return;
	}
	cm->counts.rejected_here++;
	log_debug("%s: a request is turned away: %s", cm->device->info.name, link_reject_text(why));
	cm->poll.refusals[cm->poll.n_refusals++] = (struct cm_refusal){event->id, why};
}

static void poll_done(struct control_job *job)
{
	struct cm *cm = container_of(job, struct cm, poll.job);
	uint32_t n = cm->poll.n;

	cm->poll.in_flight = false;
	cm->poll.look = false;
	if (job->cancelled)
		return;
	cm->n_parked -= cm->poll.n_told;
	for (uint32_t i = 0; i < n; i++) {
		const struct cm_event *event = &cm->poll.events[i];

		cm->is_removed |= event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
			on_request(cm, event);
		else if (event->link)
			link_event(event->link, event);
	}
	cm->poll.n = 0;
	if (n == CM_EVENTS || cm->poll.n_refusals || cm->poll.again)
		cm_poll(cm);
}

void cm_poll(struct cm *cm)
{
	if (cm->poll.in_flight) {
		cm->poll.again = true;
		return;
	}
	cm->poll.job = (struct control_job){.run = poll_run, .done = poll_done};
	cm->poll.in_flight = control_submit(cm->control, &cm->poll.job) == 0;
	/* A full queue: the tick tries again. */
	cm->poll.again = !cm->poll.in_flight;
}

/* How much of an address decides. */
static size_t address_bytes(const union gid_address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->in6) : sizeof(address->in);
}

static bool same_host(const union gid_address *a, const union gid_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0 &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

static int listener_bind(struct cm *cm, struct cm_listener *listener)
{
	int rc = cm_result(rdma_create_id(cm->channel, &listener->id, NULL, RDMA_PS_TCP));

	if (rc == 0)
		rc = cm_result(rdma_bind_addr(listener->id, &listener->address.any));
	if (rc == 0)
		cm_context_note(listener->id);
	/* An address that several devices share leads to one of them, and not to ours. */
	if (rc == 0 &&
	    (!listener->id->verbs ||
	     strcmp(ibv_get_device_name(listener->id->verbs->device), cm->device->info.name) != 0))
		rc = -EXDEV;
	return rc < 0 ? rc : cm_result(rdma_listen(listener->id, BACKLOG));
}

static void listener_free(struct cm_listener *listener)
{
	if (listener->id)
		rdma_destroy_id(listener->id);
	if (list_is_linked(&listener->link))
		list_unlink(&listener->link);
	free(listener);
}

int cm_listen(struct cm *cm, const union gid_address *address, uint16_t *ret_port)
{
	struct cm_listener *listener;
	struct list *node;
	int rc;

	list_for_each (node, &cm->listeners) {
		listener = list_entry(node, struct cm_listener, link);
		if (same_host(&listener->address, address)) {
			*ret_port = be16toh(rdma_get_src_port(listener->id));
			return 0;
		}
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	list_init(&listener->link);
	memcpy(&listener->address, address, address_bytes(address));
	errno = 0;
	rc = listener_bind(cm, listener);
	if (rc < 0) {
		listener_free(listener);
		return rc;
	}
	list_push_back(&cm->listeners, &listener->link);
	*ret_port = be16toh(rdma_get_src_port(listener->id));
	return 0;
}

void cm_unlisten(struct cm *cm, const union gid_address *keep, size_t n)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &cm->listeners) {
		struct cm_listener *listener = list_entry(node, struct cm_listener, link);
		bool stays = false;

		for (size_t i = 0; i < n; i++)
			stays |= same_host(&listener->address, &keep[i]);
		if (!stays)
			listener_free(listener);
	}
}

void cm_tick(struct cm *cm, uint64_t now_ns)
{
	struct list *node, *next;

	if (cm->poll.again && !cm->poll.in_flight)
		cm_poll(cm);
	if (cm->n_parked && !cm->poll.in_flight && now_ns - cm->looked_ns > CM_PARK_LOOK_NS) {
		cm->looked_ns = now_ns;
		cm->poll.look = true;
		cm_poll(cm);
	}
	list_for_each_safe (node, next, &cm->links)
		link_tick(list_entry(node, struct link, link), now_ns);
}

void cm_stop(struct cm *cm)
{
	struct list *node, *next;

	cm->is_stopped = true;
	list_for_each_safe (node, next, &cm->links) {
		struct link *link = list_entry(node, struct link, link);

		if (link->state < LINK_CLOSING) {
			link->ops->down(link, "the device is released");
			link_close(link, "the device is released");
		}
	}
}

bool cm_is_quiet(const struct cm *cm)
{
	return !cm->poll.in_flight && list_is_empty(&cm->links);
}

/* Requests that came and were never looked at have ids, too: they go with their events. */
static void drain(struct cm *cm)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	while (rdma_get_cm_event(cm->channel, &event) == 0) {
		id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
		rdma_ack_cm_event(event);
		if (id)
			refuse(id, LINK_REJECT_GOING);
	}
}

void cm_close(struct cm *cm)
{
	struct list *node, *next;

	if (!cm->channel)
		return;
	assert(cm_is_quiet(cm));
	for (uint32_t i = 0; i < cm->poll.n_refusals; i++)
		refuse(cm->poll.refusals[i].id, cm->poll.refusals[i].why);
	cm->poll.n_refusals = 0;
	list_for_each_safe (node, next, &cm->listeners)
		listener_free(list_entry(node, struct cm_listener, link));
	cm_park_clear(cm);
	drain(cm);
	rdma_destroy_event_channel(cm->channel);
	cm->channel = NULL;
}
