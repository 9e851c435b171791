/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "device.h"
#include "devices_impl.h"
#include "events.h"
#include "fabric/netlink.h"
#include "links.h"
#include "os/log.h"

/* The GID to use, and the network device: that of the GID, else what the kernel says. */
static void look_at_gids(const struct device *device, struct host_facts *facts)
{
	AUTO_FREE struct gid *gids = calloc(GID_LIST_MAX, sizeof(*gids));
	uint32_t ifindex = 0;
	ssize_t n, best;

	if (!gids)
		return;
	n = gid_list(device, facts->port.number, gids, GID_LIST_MAX);
	best = n > 0 ? gid_choose(gids, (size_t)n) : -1;
	if (best >= 0) {
		facts->has_gid = true;
		facts->gid = gids[best];
		memcpy(facts->netdev, facts->gid.netdev, sizeof(facts->netdev));
	}
	if (facts->netdev[0] == '\0' && facts->port.transport != FABRIC_IB &&
	    netlink_port_netdev(device->info.name, facts->port.number, &ifindex) == 0 &&
	    !if_indextoname(ifindex, facts->netdev))
		facts->netdev[0] = '\0';
}

/* Links may come in on every address that a port has, be it up or down just now. */
static void listen_on_all(struct host_look *look)
{
	union gid_address kept[HOST_PORTS_MAX];
	size_t n = 0;

	if (!look->cm->channel)
		look->cm_error = cm_open(look->cm, look->device, look->control);
	for (uint32_t i = 0; i < look->n; i++) {
		struct host_facts *facts = &look->facts[i];

		if (!facts->has_gid || facts->gid.address.any.sa_family == AF_UNSPEC)
			continue;
		facts->cm_error = look->cm_error;
		if (look->cm_error == 0)
			facts->cm_error = cm_listen(look->cm, &facts->gid.address, &facts->cm_port);
		kept[n++] = facts->gid.address;
	}
	if (look->cm_error == 0)
		cm_unlisten(look->cm, kept, n);
}

void host_look_init(struct host_device *dev)
{
	dev->look.device = dev->device;
	dev->look.cm = &dev->cm;
	dev->look.control = &dev->control;
}

void host_look_run(struct host_look *look)
{
	uint32_t ports = (uint32_t)u64_min(look->device->info.ports, HOST_PORTS_MAX);

	look->error = 0;
	look->n = 0;
	for (uint32_t i = 0; i < ports; i++) {
		struct host_facts *facts = &look->facts[i];
		int rc;

		memset(facts, 0, sizeof(*facts));
		rc = device_port(look->device, i + 1, &facts->port);
		if (rc < 0) {
			look->error = rc;
			return;
		}
		look_at_gids(look->device, facts);
		look->n++;
	}
	if (look->device->info.rc)
		listen_on_all(look);
}

static bool same_gid(const struct host_facts *a, const struct host_facts *b)
{
	return a->has_gid == b->has_gid &&
	       (!a->has_gid || (a->gid.type == b->gid.type && a->gid.index == b->gid.index &&
				memcmp(&a->gid.raw, &b->gid.raw, sizeof(a->gid.raw)) == 0));
}

/* Once, when it begins. */
static void tell_listener(const struct host_device *dev, const struct host_facts *old,
			  const struct host_facts *now)
{
	if (now->cm_error && now->cm_error != old->cm_error)
		log_warning("RDMA device %s: no link can come in on port %u: %s", dev->name,
			    now->port.number, strerror(-now->cm_error));
}

static void tell_state(const struct host_device *dev, const struct host_facts *facts)
{
	char text[GID_TEXT_BYTES] = "no address";

	if (facts->has_gid)
		gid_text(&facts->gid, text);
	event_log(PORT_CHANGED,
		  LOG_FACTS(LOG_TEXT("SHUNT_DEVICE", dev->name),
			    LOG_NUMBER("SHUNT_PORT", facts->port.number),
			    LOG_TEXT("SHUNT_STATE", port_state_name(facts->port.state)),
			    LOG_TEXT("SHUNT_ADDRESS", facts->has_gid ? text : "")),
		  "RDMA device %s: port %u is %s (%s, %s%s%s)", dev->name, facts->port.number,
		  port_state_name(facts->port.state), fabric_transport_name(facts->port.transport),
		  text, facts->netdev[0] ? " on " : "", facts->netdev);
}

static void on_cm(struct source *source, uint32_t events)
{
	(void)events;
	cm_poll(&container_of(source, struct host_device, cm_source)->cm);
}

bool host_look_apply(struct host_device *dev)
{
	const struct host_look *look = &dev->look;
	bool is_first = dev->n_ports == 0, better = false;

	for (uint32_t i = 0; i < look->n; i++) {
		struct host_facts *old = &dev->ports[i].facts;
		const struct host_facts *now = &look->facts[i];
		bool up = now->port.state == IBV_PORT_ACTIVE;
		bool moved = !same_gid(old, now);

		if (is_first || old->port.state != now->port.state || moved)
			tell_state(dev, now);
		tell_listener(dev, old, now);
		better |= up && (old->port.state != IBV_PORT_ACTIVE || moved);
		*old = *now;
	}
	dev->n_ports = look->n;
	if (!dev->has_cm && dev->owner->links)
		cm_set_admit(&dev->cm, dev->owner->admit, dev);
	if (!dev->has_cm && look->cm_error == 0 && cm_fd(&dev->cm) >= 0)
		dev->has_cm = loop_add(dev->owner->loop, &dev->cm_source, cm_fd(&dev->cm),
				       EPOLLIN | EPOLLET, on_cm) == 0;
	return better;
}

static void look_run(struct control_job *job)
{
	host_look_run(container_of(job, struct host_look, job));
}

static void look_done(struct control_job *job)
{
	struct host_look *look = container_of(job, struct host_look, job);
	struct host_device *dev = container_of(look, struct host_device, look);
	bool again = look->again, better = false;

	look->in_flight = look->again = false;
	if (dev->stage == HOST_GOING || job->cancelled) {
		host_device_settle(dev);
		return;
	}
	if (look->error == 0)
		better = host_look_apply(dev);
	else
		log_debug("%s: its ports can't be queried: error %d", dev->name, -look->error);
	if (better && dev->stage == HOST_READY)
		links_look_again(dev->owner->links);
	/* What could not be proved for want of a path may be now. */
	if (better && dev->has_report && dev->report.reason == INLINE_UNVERIFIED)
		host_probe_start(dev, false);
	if (again)
		host_look_start(dev);
}

void host_look_start(struct host_device *dev)
{
	struct host_look *look = &dev->look;

	if (look->in_flight) {
		look->again = true;
		return;
	}
	look->job = (struct control_job){.run = look_run, .done = look_done};
	host_look_init(dev);
	look->in_flight = control_submit(&dev->control, &look->job) == 0;
}
