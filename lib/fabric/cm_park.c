/* SPDX-License-Identifier: MIT */
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "base/util.h"
#include "fabric/cm.h"
#include "fabric/cm_context.h"
#include "fabric/cm_park.h"
#include "fabric/link.h"
#include "os/log.h"

/* @from, an address of an id, with port 0: a place to ask from. */
static union gid_address without_port(const struct sockaddr *from)
{
	union gid_address address = {.any = {.sa_family = AF_UNSPEC}};

	if (from->sa_family == AF_INET6) {
		address.in6 = *(const struct sockaddr_in6 *)(const void *)from;
		address.in6.sin6_port = 0;
	} else if (from->sa_family == AF_INET) {
		address.in = *(const struct sockaddr_in *)(const void *)from;
		address.in.sin_port = 0;
	}
	return address;
}

/* Whether the kernel knows a route: the question who has the address is asked behind that. */
static bool has_route(const struct cm *cm, struct rdma_cm_id *id)
{
	union gid_address source = without_port(rdma_get_local_addr(id));
	struct rdma_cm_id *probe;
	int rc;

	if (rdma_create_id(cm->channel, &probe, NULL, RDMA_PS_TCP))
		return true;
	rc = rdma_resolve_addr(probe, &source.any, rdma_get_peer_addr(id), LINK_RESOLVE_MS);
	cm_context_note(probe);
	rdma_destroy_id(probe);
	return rc == 0;
}

static bool has_way(const struct cm *cm, struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	if (ibv_query_port(cm->device->verbs, id->port_num, &port) == 0 &&
	    port.state != IBV_PORT_ACTIVE)
		return false;
	return has_route(cm, id);
}

bool cm_park(struct cm *cm, struct rdma_cm_id *id)
{
	struct cm_parked *parked;

	if (cm->device->info.transport != FABRIC_ROCE || has_way(cm, id))
		return false;
	parked = calloc(1, sizeof(*parked));
	if (!parked)
		return false;
	id->context = NULL;
	parked->id = id;
	list_push_back(&cm->parked, &parked->link);
	log_debug("%s: no way leads to the other end of a link: it is told later",
		  cm->device->info.name);
	return true;
}

static void release(struct cm_parked *parked)
{
	rdma_destroy_id(parked->id);
	list_unlink(&parked->link);
	free(parked);
}

uint32_t cm_park_look(struct cm *cm)
{
	struct list *node, *next;
	uint32_t n = 0;

	list_for_each_safe (node, next, &cm->parked) {
		struct cm_parked *parked = list_entry(node, struct cm_parked, link);

		if (!has_way(cm, parked->id))
			continue;
		release(parked);
		n++;
	}
	return n;
}

void cm_park_clear(struct cm *cm)
{
	struct list *node, *next;

	list_for_each_safe (node, next, &cm->parked)
		release(list_entry(node, struct cm_parked, link));
}
