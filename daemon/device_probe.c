/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "device.h"
#include "devices_impl.h"
#include "fabric/frontier.h"
#include "os/clock.h"
#include "os/log.h"

static void keep(struct host_probe *probe)
{
	if (!probe_is_lasting(&probe->report))
		return;
	probe->cache_result = probe_cache_store(&probe->cache, &probe->device->info, &probe->order,
						&probe->report);
}

static void find_frontier(struct host_probe *probe)
{
	struct probe_report *report = &probe->report;

	frontier_find(probe->device, &report->shape, report->used, &report->frontier);
	keep(probe);
}

/* What is remembered, else what the device shows. */
static void probe_job_run(struct control_job *job)
{
	struct host_probe *probe = container_of(job, struct host_probe, job);

	if (probe->only_frontier) {
		find_frontier(probe);
		return;
	}
	if (probe->fresh)
		probe->cache_result =
			probe_cache_drop(&probe->cache, &probe->device->info, &probe->order);
	else
		probe->cache_result = probe_cache_find(&probe->cache, &probe->device->info,
						       &probe->order, &probe->report);
	if (!probe->fresh && probe->cache_result == PROBE_CACHE_HIT)
		return;
	probe_run(probe->device, &probe->order, &probe->report);
	keep(probe);
}

/* Once for all devices: they have one folder. */
static void tell_cache(struct host_device *dev)
{
	struct probe_cache *common = &dev->owner->cache;
	const struct host_probe *probe = &dev->probe;

	if (common->is_told || !probe->cache.problem[0])
		return;
	common->is_told = true;
	log_warning("what was learned of RDMA devices is not kept: %s; they are probed again at "
		    "the next start",
		    probe->cache.problem);
}

static void probe_job_done(struct control_job *job)
{
	struct host_probe *probe = container_of(job, struct host_probe, job);
	struct host_device *dev = container_of(probe, struct host_device, probe);

	probe->in_flight = false;
	if (dev->stage == HOST_GOING || job->cancelled) {
		host_device_settle(dev);
		return;
	}
	tell_cache(dev);
	if (probe->only_frontier) {
		dev->report.frontier = probe->report.frontier;
		return;
	}
	dev->probed_at_ns = clock_now_ns();
	host_device_probed(dev);
}

static bool submit(struct host_device *dev)
{
	struct host_probe *probe = &dev->probe;

	probe->job = (struct control_job){.run = probe_job_run, .done = probe_job_done};
	probe->device = dev->device;
	probe->cache = dev->owner->cache;
	probe->cache.problem[0] = '\0';
	probe->in_flight = control_submit(&dev->control, &probe->job) == 0;
	return probe->in_flight;
}

void host_probe_start(struct host_device *dev, bool fresh)
{
	const struct conf *conf = dev->owner->conf;
	const struct probe_settings settings = {
		.depth = (uint32_t)conf->rdma_depth,
		.sges = (uint32_t)conf->rdma_sges,
		.ask = (uint32_t)conf->inline_ask,
		.floor = (uint32_t)conf->inline_floor,
		.devices = &conf->devices,
	};

	if (dev->probe.in_flight) {
		dev->retry_at_ns = clock_now_ns(); /* behind the one that runs */
		return;
	}
	memset(&dev->probe, 0, sizeof(dev->probe));
	dev->probe.fresh = fresh;
	probe_order_init(&dev->probe.order, &dev->device->info, &settings);
	if (submit(dev))
		dev->stage = HOST_PROBING;
	else
		dev->retry_at_ns = clock_now_ns(); /* the next tick */
}

void host_frontier_start(struct host_device *dev)
{
	const struct frontier *known = &dev->report.frontier;

	if (dev->probe.in_flight || known->n || known->creations || !probe_is_lasting(&dev->report))
		return;
	dev->probe.only_frontier = true;
	dev->probe.report = dev->report;
	submit(dev);
}

struct qp_spec host_probe_spec(const struct probe_report *report)
{
	return (struct qp_spec){
		.send_wr = report->shape.send_wr,
		.recv_wr = report->shape.recv_wr,
		.send_sge = report->shape.send_sge,
		.recv_sge = report->shape.recv_sge,
		.inline_bytes = report->used,
	};
}
