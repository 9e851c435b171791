/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "devices_impl.h"
#include "links_impl.h"
#include "peers_impl.h"
#include "server.h"

struct host_port *link_port(const struct links *links, const struct peer_rdma *own,
			    struct host_device **ret_dev)
{
	struct list *node;

	list_for_each (node, &links->server->devices->all) {
		struct host_device *dev = list_entry(node, struct host_device, link);

		for (uint32_t i = 0; i < dev->n_ports && dev->stage == HOST_READY; i++) {
			struct host_port *port = &dev->ports[i];

			if (dev->worker && port->has_pool && port->facts.has_gid &&
			    port->facts.port.state == IBV_PORT_ACTIVE &&
			    memcmp(port->facts.gid.raw.raw, own->gid, sizeof(own->gid)) == 0) {
				*ret_dev = dev;
				return port;
			}
		}
	}
	return NULL;
}

static bool same_subnet(const struct peer_rdma *a, const struct peer_rdma *b)
{
	uint32_t bits = a->prefix && b->prefix ? (uint32_t)u64_min(a->prefix, b->prefix) : 0;

	for (uint32_t i = 0; i < bits; i++) {
		if ((a->address.addr[i / 8] ^ b->address.addr[i / 8]) & (0x80u >> i % 8))
			return false;
	}
	return true;
}

/* Whether the settings name addresses for @session's peer, and @theirs is none of them. */
static bool is_ruled_out(const struct peer_session *session, const struct peer_rdma *theirs)
{
	const struct peer_rule *rule = peer_session_rule(session);

	for (uint32_t i = 0; rule && i < rule->n_rdma; i++) {
		if (peer_address_same(&rule->rdma[i], &theirs->address))
			return false;
	}
	return rule && rule->n_rdma;
}

static bool can_reach(const struct peer_session *session, const struct peer_rdma *own,
		      const struct peer_rdma *theirs)
{
	const struct peer_rule *rule = peer_session_rule(session);

	return own->address.family && own->address.family == theirs->address.family &&
	       own->transport == theirs->transport && theirs->address.port &&
	       !is_ruled_out(session, theirs) &&
	       ((rule && rule->n_rdma) || same_subnet(own, theirs));
}

uint64_t link_path_name(const struct link_peer *peer, uint16_t own, uint16_t theirs)
{
	return link_peer_we_are_lower(peer) ? (uint64_t)own << 16 | theirs
					    : (uint64_t)theirs << 16 | own;
}

bool link_choose_path(const struct link_peer *peer, struct link_ask *ret_ask)
{
	const struct peers *peers = peer->links->server->peers;
	const struct peer_hello *hello = peer_session_hello(peer->session);
	bool is_lower = link_peer_we_are_lower(peer);
	uint16_t n_outer = is_lower ? peers->n_rdma : hello->n_rdma;
	uint16_t n_inner = is_lower ? hello->n_rdma : peers->n_rdma;
	struct host_device *dev;

	for (uint16_t i = 0; i < n_outer; i++) {
		for (uint16_t j = 0; j < n_inner; j++) {
			uint16_t own = is_lower ? i : j, theirs = is_lower ? j : i;

			if (!can_reach(peer->session, &peers->rdma[own], &hello->rdma[theirs]) ||
			    !link_port(peer->links, &peers->rdma[own], &dev))
				continue;
			ret_ask->from = own;
			ret_ask->to = theirs;
			ret_ask->path = link_path_name(peer, own, theirs);
			return true;
		}
	}
	return false;
}
