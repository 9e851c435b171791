/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>

#include "cm_hooks.h"
#include "double.h"
#include "fabric.h"

/*
 * librdmacm of the double. What is the library's and what the kernel's on real hosts is together in
 * one structure here: the kernel's part is under dbl_lock and driven by messages and timers in the
 * engine; the library's runs in the caller's thread, partly when an event is fetched, as there.
 *
 * Times that are shorter than in reality, so that tests need not wait: a lost message is repeated
 * after CM_REPEAT_NS and given up after CM_GIVE_UP_NS (real: about 4 s, more than a minute);
 * TIMEWAIT_EXIT comes after CM_TIMEWAIT_NS.
 */
#define CM_REPEAT_NS 250000000u
#define CM_GIVE_UP_NS 2000000000u
#define CM_TIMEWAIT_NS 100000000u

/* How often rxe's CM says that the peer isn't reachable: as seen. */
#define CM_NAG_NS 3000000000u

/* Private data on InfiniBand and RoCE: fixed lengths, padded with zeros; iWARP: what was given. */
#define CM_REQ_PRIVATE_BYTES 56
#define CM_REP_PRIVATE_BYTES 196
#define CM_REJ_PRIVATE_BYTES 148
#define CM_PRIVATE_MAX 256

/* The most of responder resources and initiator depth. */
#define CM_RD_ATOMIC_MAX 16

/* Reject reasons (IB specification 12.6.7.2). */
#define CM_REJ_INVALID_SERVICE_ID 8
#define CM_REJ_CONSUMER 28

enum cm_kind {
	CM_REQ = 1,
	CM_REP,
	CM_RTU,
	CM_REJ,
	CM_DREQ,
	CM_DREP,
};

/* Behind a struct wire of type WIRE_CM. */
struct cm_payload {
	uint64_t dst_id, src_id;
	uint64_t src_guid;
	uint8_t src_ip[16], dst_ip[16], src_gid[16];
	uint16_t src_port, dst_port, status;
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry, srq;
	uint8_t mtu, private_bytes, is_iwarp;
	char socket[FABRIC_SOCKET_MAX];
	uint8_t private_data[CM_PRIVATE_MAX];
};

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_LISTEN,
	CM_ADDR_QUERY,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_REQ_SENT, /* active: waits for REP */
	CM_REP_RCVD, /* active: waits for the program */
	CM_REQ_RCVD, /* passive: waits for the program */
	CM_REP_SENT, /* passive: waits for RTU */
	CM_CONNECTED,
	CM_DREQ_SENT, /* waits for DREP */
	CM_DREQ_RCVD, /* waits for the program's rdma_disconnect() */
	CM_TIMEWAIT,
	CM_DONE,
	CM_REMOVED, /* the device went */
};

/* librdmacm's view of a device (cm_device.c). */
struct cm_device {
	struct ibv_device *ibv;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	unsigned refs;
	bool is_dead;
	struct list link;
};

struct cm_channel {
	struct rdma_event_channel ibv; /* first */
	struct list events;
};

struct cm_id {
	struct rdma_cm_id id; /* first */

	/* The library's. */
	struct cm_device *device;
	unsigned events_reported, events_completed;
	pthread_mutex_t mutex;
	pthread_cond_t cond;

	/* The kernel's. */
	uint64_t handle;
	enum cm_state state;
	bool active, published, is_iwarp, timeout_set;
	char device_name[STATE_NAME_MAX]; /* "" if bound to none */
	uint64_t guid;
	uint8_t port, ack_timeout, mtu;
	uint8_t src_ip[16], dst_ip[16], src_gid[16], dst_gid[16];
	uint16_t src_port, dst_port;
	uint32_t local_qpn, remote_qpn, local_psn, remote_psn;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry;
	uint64_t peer_id, peer_guid;
	char peer_socket[FABRIC_SOCKET_MAX];
	struct conn *conn;
	int backlog;
	unsigned pending;
	struct cm_id *listener; /* of a request that nobody has fetched yet */

	/* The message that is repeated, and until when. */
	enum cm_kind sent_kind;
	struct cm_payload sent;
	uint64_t repeat_ns, give_up_ns;
	uint64_t timer_ns; /* of the state: address query, time wait */
	uint64_t nag_ns;   /* when to look after the peer's port */
	struct list link;
};

struct cm_event {
	struct rdma_cm_event event; /* first */
	struct cm_id *owner;	    /* whose acknowledgement it is */
	uint8_t private_data[CM_PRIVATE_MAX];
	struct list link;
};

static inline struct cm_id *cm_id(struct rdma_cm_id *id)
{
	return (struct cm_id *)id;
}

/* An errno value as functions of librdmacm return it: -1, with errno set; 0 as 0. */
int cm_return(int error);

/* cm_device.c, not under dbl_lock. */
int cm_devices_init(void);
/* Bind @id to librdmacm's context of its device: verbs, pd, port. 0 or an errno value. */
int cm_device_get(struct cm_id *id);
void cm_device_put(struct cm_id *id);

/* cm_event.c, under dbl_lock. */
void cm_raise(struct cm_id *id, enum rdma_cm_event_type type, int status,
	      const struct cm_payload *payload);
/* Drop queued events of @id; requests among them are rejected. */
void cm_discard(struct cm_id *id);

/* cm_id.c, under dbl_lock. */
extern struct list cm_ids;
struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context,
			 enum rdma_port_space ps);
struct cm_id *cm_id_find(uint64_t handle);
/* Free what was never given to the program. */
void cm_id_free(struct cm_id *id);
void cm_id_fill_addresses(struct cm_id *id);
/* The place @place, which is on this host, becomes the id's own end. */
void cm_id_take_source(struct cm_id *id, const struct fabric_place *place);

/* cm_addr.c: sockets' addresses and plain ones. */
int cm_addr_parse(const struct sockaddr *addr, uint8_t ret_ip[16], uint16_t *ret_port);
void cm_addr_print(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *ret_addr);

/* cm_timer.c: what the engine calls. */
extern const struct dbl_cm_hooks cm_conn_hooks;

/* cm_conn.c, under dbl_lock: the protocol. */
void cm_conn_message(const struct wire *wire, const uint8_t *bytes);
void cm_conn_transmit(struct cm_id *id, enum cm_kind kind, const struct cm_payload *payload);
/* Both are done with each other; the event of that comes later. */
void cm_conn_enter_timewait(struct cm_id *id);
void cm_conn_send(struct cm_id *id, enum cm_kind kind, const void *private_data,
		  uint8_t private_bytes, uint16_t status);
/* End whatever the id is in: reject, disconnect, forget; before it is destroyed. */
void cm_conn_end(struct cm_id *id);
/* Close the program's QP and tell the peer. */
void cm_conn_disconnect(struct cm_id *id);

/* iWARP, in libibverbs (cm_iwarp.c): the kernel moves the QP. 0 or an errno value. */
int transport_connect_iwarp(const char *device, uint32_t qpn, uint64_t peer_guid, uint32_t peer_qpn,
			    bool is_passive);
void transport_close_iwarp(const char *device, uint32_t qpn);
