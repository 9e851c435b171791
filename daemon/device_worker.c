/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <string.h>

#include "base/util.h"
#include "device.h"
#include "devices_impl.h"
#include "links_impl.h"
#include "os/log.h"
#include "os/syswait.h"

/* Longest wait of devices_turn(). Chosen: what a thread does may have no descriptor to tell it. */
#define TURN_MS 10

static void on_worker(struct source *source, uint32_t events)
{
	struct host_device *dev = container_of(source, struct host_device, worker_source);

	(void)events;
	worker_reap(dev->worker);
}

void host_worker_start(struct host_device *dev)
{
	const struct worker_config config = {
		.device = dev->device,
		.channel = dev->cqs.channel,
		.ops = &links_worker_ops,
		.name = dev->name,
		/* Who sets it to 0 wants nobody to spin. */
		.spin_ns = u64_min(WORKER_SPIN_NS, dev->owner->conf->spin_us * 1000),
		.lanes_max = LINKS_LANES_MAX,
		.user = dev,
	};
	int rc;

	if (dev->worker || !dev->owner->links)
		return;
	rc = worker_new(&config, &dev->worker);
	if (rc == 0) {
		rc = loop_add(dev->owner->loop, &dev->worker_source, worker_fd(dev->worker),
			      EPOLLIN, on_worker);
		if (rc < 0)
			dev->worker = worker_free(dev->worker);
	}
	if (rc < 0)
		log_warning("RDMA device %s: no links are made over it: its thread: %s", dev->name,
			    strerror(-rc));
}

void host_worker_stop(struct host_device *dev)
{
	if (dev->worker)
		worker_stop(dev->worker);
}

void devices_set_links(struct devices *devices, struct links *links, cm_admit_fn *admit)
{
	devices->links = links;
	devices->admit = admit;
}

static void turn(struct host_device *dev)
{
	struct pollfd fds[] = {
		{.fd = control_fd(&dev->control), .events = POLLIN},
		{.fd = dev->worker ? worker_fd(dev->worker) : -1, .events = POLLIN},
	};

	if (sys_poll(fds, ARRAY_SIZE(fds), TURN_MS) <= 0)
		return;
	if (fds[0].revents)
		control_reap(&dev->control);
	if (fds[1].revents)
		worker_reap(dev->worker);
}

void devices_turn(struct devices *devices)
{
	struct list *node;

	list_for_each (node, &devices->all)
		turn(list_entry(node, struct host_device, link));
}
