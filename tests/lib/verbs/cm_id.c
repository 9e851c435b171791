/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cm.h"
#include "conn.h"
#include "device.h"
#include "engine.h"
#include "fault.h"

/* Ports given out by chance: those of the dynamic range (RFC 6335). */
#define PORT_FIRST 49152u
#define PORT_COUNT 16384u
#define PORT_TRIES 64

struct list cm_ids = LIST_INIT(cm_ids);

static const uint8_t any_ip[16];

static bool is_any(const uint8_t ip[16])
{
	return memcmp(ip, any_ip, 16) == 0;
}

static uint64_t random_u64(void)
{
	uint64_t value = 0;

	(void)!getrandom(&value, sizeof(value), 0);
	return value;
}

struct cm_id *cm_id_find(uint64_t handle)
{
	struct list *node;

	list_for_each (node, &cm_ids) {
		struct cm_id *id = list_entry(node, struct cm_id, link);

		if (id->handle == handle)
			return id;
	}
	return NULL;
}

struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = IBV_QPT_RC;
	id->handle = random_u64();
	id->local_psn = (uint32_t)random_u64() & 0xffffff;
	pthread_mutex_init(&id->mutex, NULL);
	pthread_cond_init(&id->cond, NULL);
	list_push_back(&cm_ids, &id->link);
	return id;
}

void cm_id_free(struct cm_id *id)
{
	list_unlink(&id->link);
	conn_put(id->conn);
	pthread_mutex_destroy(&id->mutex);
	pthread_cond_destroy(&id->cond);
	free(id->id.route.path_rec);
	free(id);
}

void cm_id_fill_addresses(struct cm_id *id)
{
	struct rdma_addr *addr = &id->id.route.addr;

	cm_addr_print(id->src_ip, id->src_port, &addr->src_storage);
	if (id->state != CM_LISTEN && id->state != CM_BOUND)
		cm_addr_print(id->dst_ip, id->dst_port, &addr->dst_storage);
	memcpy(addr->addr.ibaddr.sgid.raw, id->src_gid, 16);
	memcpy(addr->addr.ibaddr.dgid.raw, id->dst_gid, 16);
	addr->addr.ibaddr.pkey = htons(0xffff);
}

/* The GID that traffic of an address goes by: its own, where there is one, else the port's last. */
static void pick_gid(const struct fabric_place *place, const uint8_t ip[16], uint8_t ret_gid[16])
{
	for (unsigned i = 0; i < STATE_GIDS_MAX; i++) {
		const struct state_gid *gid = &place->facts.gids[i];

		if (!gid->valid)
			continue;
		memcpy(ret_gid, gid->raw, 16);
		if (memcmp(gid->raw, ip, 16) == 0)
			return;
	}
}

void cm_id_take_source(struct cm_id *id, const struct fabric_place *place)
{
	struct dbl_device *device = device_by_name(place->device);

	memcpy(id->device_name, place->device, sizeof(id->device_name));
	id->guid = place->guid;
	id->port = (uint8_t)place->port;
	id->mtu = (uint8_t)place->facts.mtu;
	id->is_iwarp = device && device->p->net == NET_IWARP;
	pick_gid(place, id->src_ip, id->src_gid);
}

/* A free port of this host for @id, published for others to find. 0 or an errno value. */
static int publish(struct cm_id *id)
{
	int rc = -EADDRINUSE;

	if (id->src_port)
		rc = fabric_publish_cm(id->src_ip, id->src_port, engine_socket());
	for (unsigned i = 0; !id->src_port && rc == -EADDRINUSE && i < PORT_TRIES; i++) {
		uint16_t port = (uint16_t)(PORT_FIRST + random_u64() % PORT_COUNT);

		rc = fabric_publish_cm(id->src_ip, port, engine_socket());
		if (rc == 0)
			id->src_port = port;
	}
	id->published = rc == 0;
	return -rc;
}

/* Bind to an address of this host, or to any. 0 or an errno value. */
static int bind_source(struct cm_id *id, const struct sockaddr *addr)
{
	struct fabric_place place;
	uint8_t ip[16];
	uint16_t port;
	int rc = cm_addr_parse(addr, ip, &port);

	if (rc)
		return rc;
	if (!is_any(ip) && (fabric_find_ip(ip, &place) != 0 || place.host != fabric_own_host()))
		return ENODEV;
	memcpy(id->src_ip, ip, 16);
	id->src_port = port;
	rc = publish(id);
	if (rc == 0 && !is_any(ip))
		cm_id_take_source(id, &place);
	return rc;
}

DBL_API int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id,
			   void *context, enum rdma_port_space ps)
{
	struct cm_id *id;
	int rc = cm_devices_init();

	if (rc)
		return cm_return(rc);
	if (!channel)
		return cm_return(dbl_unsupported("an id without an event channel"));
	if (ps != RDMA_PS_TCP)
		return cm_return(dbl_unsupported("a port space other than RDMA_PS_TCP"));
	pthread_mutex_lock(&dbl_lock);
	id = cm_id_make(channel, context, ps);
	pthread_mutex_unlock(&dbl_lock);
	if (!id)
		return cm_return(ENOMEM);
	*ret_id = &id->id;
	return 0;
}

DBL_API int rdma_destroy_id(struct rdma_cm_id *ibv)
{
	struct cm_id *id = cm_id(ibv);
	unsigned reported;

	pthread_mutex_lock(&dbl_lock);
	cm_conn_end(id);
	cm_discard(id);
	if (id->published)
		fabric_forget_cm(id->src_ip, id->src_port);
	reported = id->events_reported;
	pthread_mutex_unlock(&dbl_lock);
	/* As the real one: waits for all events that were fetched to be acknowledged. */
	pthread_mutex_lock(&id->mutex);
	while (id->events_completed < reported)
		pthread_cond_wait(&id->cond, &id->mutex);
	pthread_mutex_unlock(&id->mutex);
	cm_device_put(id);
	pthread_mutex_lock(&dbl_lock);
	cm_id_free(id);
	pthread_mutex_unlock(&dbl_lock);
	return 0;
}

DBL_API int rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *addr)
{
	struct cm_id *id = cm_id(ibv);
	int rc;

	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = id->state == CM_IDLE ? bind_source(id, addr) : EINVAL;
	if (rc == 0) {
		id->state = CM_BOUND;
		cm_id_fill_addresses(id);
	}
	pthread_mutex_unlock(&dbl_lock);
	/* A bound address binds to its device, and so opens librdmacm's context of it. */
	return cm_return(rc ? rc : cm_device_get(id));
}

DBL_API int rdma_listen(struct rdma_cm_id *ibv, int backlog)
{
	struct cm_id *id = cm_id(ibv);
	int rc;

	pthread_mutex_lock(&dbl_lock);
	rc = fault_errno("listen", id->device_name);
	if (rc == 0 && id->state == CM_IDLE) {
		rc = publish(id);
		id->state = rc ? CM_IDLE : CM_BOUND;
	}
	if (rc == 0 && id->state != CM_BOUND)
		rc = EINVAL;
	if (rc == 0) {
		id->state = CM_LISTEN;
		id->backlog = backlog > 0 ? backlog : 1024;
		cm_id_fill_addresses(id);
	}
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

/* How many leading bytes two addresses share: stands for what the route table says. */
static unsigned likeness(const uint8_t a[16], const uint8_t b[16])
{
	unsigned count = 0;

	while (count < 16 && a[count] == b[count])
		count++;
	return count;
}

/* The address of this host that a packet to @dst would leave from. 0, or ENETUNREACH. */
static int route_from(const uint8_t dst[16], uint8_t ret_ip[16])
{
	struct state_host *host = calloc(1, sizeof(*host));
	unsigned best = 0;

	if (!host || state_read(dbl_dir(), host) < 0)
		host = host ? (host->count = 0, host) : NULL;
	for (unsigned i = 0; host && i < host->count * STATE_PORTS_MAX; i++) {
		const struct state_port *port =
			&host->devices[i / STATE_PORTS_MAX].ports[i % STATE_PORTS_MAX];

		for (unsigned j = 0; port->state == IBV_PORT_ACTIVE && j < port->addr_count; j++) {
			unsigned like = 1 + likeness(port->addrs[j], dst);

			if (like <= best)
				continue;
			best = like;
			memcpy(ret_ip, port->addrs[j], 16);
		}
	}
	free(host);
	return best ? 0 : ENETUNREACH;
}

/* The source of a dial: as bound, as given, or as routed. */
static int choose_source(struct cm_id *id, const struct sockaddr *src)
{
	struct sockaddr_storage routed;
	uint8_t ip[16];
	int rc;

	if (id->state == CM_IDLE && src) {
		rc = bind_source(id, src);
		if (rc)
			return rc;
	}
	if (!is_any(id->src_ip))
		return device_port_is_up(device_by_name(id->device_name), id->port) ? 0
										    : ENETUNREACH;
	rc = route_from(id->dst_ip, ip);
	if (rc)
		return rc;
	cm_addr_print(ip, id->src_port, &routed);
	if (id->published)
		fabric_forget_cm(id->src_ip, id->src_port);
	id->published = false;
	return bind_source(id, (struct sockaddr *)&routed);
}

static void resolve_destination(struct cm_id *id, int timeout_ms)
{
	struct fabric_place place;
	struct fault fault;

	if (fault_take("resolve_addr", id->device_name, 0, NULL, &fault) && fault.has_event) {
		id->state = CM_BOUND;
		cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -fault.event_errno, NULL);
		return;
	}
	/* Nobody answers the question who has that address. */
	if (fabric_find_ip(id->dst_ip, &place) != 0 || place.facts.state != IBV_PORT_ACTIVE) {
		id->state = CM_ADDR_QUERY;
		id->timer_ns = dbl_now_ns() + (uint64_t)timeout_ms * 1000000u;
		engine_wake();
		return;
	}
	pick_gid(&place, id->dst_ip, id->dst_gid);
	id->peer_guid = place.guid;
	id->state = CM_ADDR_RESOLVED;
	cm_id_fill_addresses(id);
	cm_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
}

DBL_API int rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *src, struct sockaddr *dst,
			      int timeout_ms)
{
	struct cm_id *id = cm_id(ibv);
	int rc;

	pthread_mutex_lock(&dbl_lock);
	device_refresh();
	rc = id->state == CM_IDLE || id->state == CM_BOUND ? 0 : EINVAL;
	if (rc == 0)
		rc = cm_addr_parse(dst, id->dst_ip, &id->dst_port);
	if (rc == 0)
		rc = choose_source(id, src);
	if (rc == 0) {
		id->active = true;
		resolve_destination(id, timeout_ms);
	}
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

DBL_API int rdma_resolve_route(struct rdma_cm_id *ibv, int timeout_ms)
{
	struct cm_id *id = cm_id(ibv);
	struct fault fault;
	int rc = 0;

	(void)timeout_ms;
	pthread_mutex_lock(&dbl_lock);
	if (id->state != CM_ADDR_RESOLVED) {
		rc = EINVAL;
	} else if (fault_take("resolve_route", id->device_name, 0, NULL, &fault)) {
		rc = fault.errno_value;
		if (fault.has_event)
			cm_raise(id, RDMA_CM_EVENT_ROUTE_ERROR, -fault.event_errno, NULL);
	} else {
		id->state = CM_ROUTE_RESOLVED;
		if (!ibv->route.path_rec)
			ibv->route.path_rec = calloc(1, sizeof(*ibv->route.path_rec));
		ibv->route.num_paths = ibv->route.path_rec ? 1 : 0;
		cm_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	}
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

static int set_id_option(struct cm_id *id, int name, const void *value, size_t bytes)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		return bytes == 1 ? 0 : EINVAL;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		return bytes == sizeof(int) ? 0 : EINVAL;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (bytes != 1)
			return EINVAL;
		id->ack_timeout = *(const uint8_t *)value & 31;
		id->timeout_set = true;
		return 0;
	default:
		return ENOSYS;
	}
}

DBL_API int rdma_set_option(struct rdma_cm_id *ibv, int level, int name, void *value, size_t bytes)
{
	int rc;

	if (level != RDMA_OPTION_ID)
		return cm_return(ENOSYS);
	pthread_mutex_lock(&dbl_lock);
	rc = set_id_option(cm_id(ibv), name, value, bytes);
	pthread_mutex_unlock(&dbl_lock);
	return cm_return(rc);
}

static __be16 port_of(const struct sockaddr *addr)
{
	uint8_t ip[16];
	uint16_t port;

	return cm_addr_parse(addr, ip, &port) == 0 ? htons(port) : 0;
}

DBL_API __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

DBL_API __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}
