/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "device.h"
#include "devices_impl.h"
#include "events.h"
#include "links.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/log.h"

__attribute__((format(printf, 2, 3))) static void set_unused(struct host_device *dev,
							     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(dev->why, sizeof(dev->why), format, args);
	va_end(args);
	dev->stage = HOST_UNUSED;
	event_log(
		DEVICE_UNUSED,
		LOG_FACTS(LOG_TEXT("SHUNT_DEVICE", dev->name), LOG_TEXT("SHUNT_REASON", dev->why)),
		"RDMA device %s is not used: %s", dev->name, dev->why);
}

static void on_control(struct source *source, uint32_t events)
{
	struct host_device *dev = container_of(source, struct host_device, control_source);

	(void)events;
	control_reap(&dev->control);
	if (dev->has_cm && dev->cm.is_removed)
		host_device_go(dev, "the kernel removes it");
	if (dev->stage == HOST_GOING)
		host_device_settle(dev);
	/* The last thing that the thread had to do: only now nothing refers to the object. */
	if (dev->is_closed && control_is_idle(&dev->control)) {
		loop_remove(&dev->control_source);
		control_deinit(&dev->control);
		devices_device_gone(dev->owner, dev);
		free(dev);
	}
}

/* Acknowledged at once: whoever destroys what it is about would wait for that. */
static void on_event(struct source *source, uint32_t events)
{
	struct host_device *dev = container_of(source, struct host_device, event_source);
	struct ibv_async_event event;
	bool is_fatal = false;

	(void)events;
	while (device_event(dev->device, &event) > 0) {
		log_debug("%s: event %s", dev->name, ibv_event_type_str(event.event_type));
		is_fatal |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	if (is_fatal)
		host_device_go(dev, "the device failed or was removed");
	else
		host_device_look(dev);
}

static void open_run(struct control_job *job)
{
	struct host_device *dev = container_of(job, struct host_device, open_job);
	int rc = device_open_name(dev->name, &dev->device);

	if (rc == 0) {
		rc = cq_set_init(&dev->cqs, dev->device);
		if (rc < 0)
			dev->device = device_close(dev->device);
	}
	if (rc == 0) {
		host_look_init(dev);
		host_look_run(&dev->look);
	}
	dev->open_error = rc;
}

static const char *open_remedy(int error)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
		return "; the daemon's user needs access to /dev/infiniband/uverbs*";
	case -ENOMEM:
		return "; memory, or the limit of locked memory (ulimit -l), does not suffice";
	default:
		return "";
	}
}

static void open_done(struct control_job *job)
{
	struct host_device *dev = container_of(job, struct host_device, open_job);
	int rc;

	dev->is_opening = false;
	if (dev->stage == HOST_GOING || job->cancelled) {
		host_device_settle(dev);
		return;
	}
	rc = dev->open_error;
	if (rc == 0)
		rc = loop_add(dev->owner->loop, &dev->event_source, device_event_fd(dev->device),
			      EPOLLIN, on_event);
	if (rc < 0) {
		set_unused(dev, "it can't be opened: %s%s", strerror(-rc), open_remedy(rc));
		dev->retry_at_ns = clock_now_ns() + HOST_RETRY_NS;
		return;
	}
	if (dev->look.error == 0)
		host_look_apply(dev);
	host_probe_start(dev, false);
}

static void host_open(struct host_device *dev)
{
	dev->stage = HOST_OPENING;
	dev->retry_at_ns = 0;
	dev->open_job = (struct control_job){.run = open_run, .done = open_done};
	dev->is_opening = control_submit(&dev->control, &dev->open_job) == 0;
	if (!dev->is_opening)
		dev->retry_at_ns = clock_now_ns() + HOST_RETRY_NS;
}

/* The device does not do what its report says: another probe, but not one after the other. */
static void on_refused(struct qp_pool *pool)
{
	struct host_device *dev = container_of(pool->config.budget, struct host_device, budget);
	uint64_t now = clock_now_ns();

	dev->refusals++;
	if (dev->probed_at_ns + HOST_RETRY_NS > now && !dev->report.is_cached) {
		dev->retry_at_ns = dev->probed_at_ns + HOST_RETRY_NS;
		return;
	}
	log_notice("RDMA device %s no longer grants %u bytes inline at depth %u: probing it again",
		   dev->name, dev->report.used, dev->report.shape.send_wr);
	host_probe_start(dev, true);
}

static void pools_start(struct host_device *dev, const struct qp_spec *spec)
{
	const struct conf *conf = dev->owner->conf;
	struct qp_pool_config config = {
		.device = dev->device,
		.control = &dev->control,
		.cqs = &dev->cqs,
		.budget = &dev->budget,
		.min = (uint32_t)conf->pool_min,
		.max = (uint32_t)conf->pool_max,
		.on_refused = on_refused,
	};

	dev->budget = (struct pool_budget){
		.device_max = dev->device->info.max_qp,
		.config_max = (uint32_t)conf->qps_per_device,
		.memory_max = conf->queue_bytes_per_device,
	};
	dev->mrs = (struct mr_budget){.max = conf->pinned_bytes_per_device};
	for (uint32_t i = 0; i < dev->n_ports; i++) {
		struct host_port *port = &dev->ports[i];

		port->has_pool = port->facts.port.transport != FABRIC_UNKNOWN;
		if (port->has_pool)
			qp_pool_init(&port->pool, &config, spec, clock_now_ns());
	}
	mr_store_init(&dev->store, dev->device, &dev->control, &dev->mrs, conf->ring_bytes,
		      MR_KEEP);
	dev->has_pools = true;
}

void host_device_probed(struct host_device *dev)
{
	char cause[PROBE_CAUSE_BYTES];
	struct qp_spec spec;

	dev->report = dev->probe.report;
	dev->has_report = true;
	if (!probe_is_usable(&dev->report)) {
		probe_cause(&dev->device->info, &dev->report, cause);
		set_unused(dev, "%s%s%s", inline_reason_text(dev->report.reason),
			   cause[0] ? " " : "", cause);
		dev->retry_at_ns = dev->report.error ? clock_now_ns() + HOST_RETRY_NS : 0;
		return;
	}
	spec = host_probe_spec(&dev->report);
	dev->budget.qp_bytes =
		pool_qp_bytes(spec.send_wr, spec.recv_wr, spec.send_sge, spec.inline_bytes);
	if (!dev->has_pools) {
		pools_start(dev, &spec);
		dev->budget.qp_bytes =
			pool_qp_bytes(spec.send_wr, spec.recv_wr, spec.send_sge, spec.inline_bytes);
	}
	dev->stage = HOST_READY;
	dev->why[0] = '\0';
	event_log(DEVICE_READY,
		  LOG_FACTS(LOG_TEXT("SHUNT_DEVICE", dev->name),
			    LOG_TEXT("SHUNT_DRIVER", dev->device->info.driver),
			    LOG_NUMBER("SHUNT_INLINE_BYTES", spec.inline_bytes)),
		  "RDMA device %s (%s, %s): %u bytes inline at depth %u: %s", dev->name,
		  dev->device->info.driver, fabric_transport_name(dev->device->info.transport),
		  spec.inline_bytes, spec.send_wr, inline_reason_text(dev->report.reason));
	for (uint32_t i = 0; i < dev->n_ports; i++) {
		if (dev->ports[i].has_pool)
			qp_pool_set_spec(&dev->ports[i].pool, &spec);
	}
	mr_store_tick(&dev->store);
	host_worker_start(dev);
	links_look_again(dev->owner->links);
	host_frontier_start(dev);
}

struct host_device *host_device_new(struct devices *owner, const char *name)
{
	struct host_device *dev = calloc(1, sizeof(*dev));
	int rc = dev ? 0 : -ENOMEM;

	if (rc == 0)
		rc = control_init(&dev->control, name);
	if (rc == 0) {
		rc = loop_add(owner->loop, &dev->control_source, control_fd(&dev->control), EPOLLIN,
			      on_control);
		if (rc < 0)
			control_deinit(&dev->control);
	}
	if (rc < 0) {
		log_error("RDMA device %s is not used: %s", name, strerror(-rc));
		free(dev);
		return NULL;
	}
	list_init(&dev->link);
	dev->owner = owner;
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	host_open(dev);
	return dev;
}

void host_device_look(struct host_device *dev)
{
	if (dev->stage != HOST_GOING && !dev->is_opening && dev->device)
		host_look_start(dev);
}

/* Everything that the device has, in the order in which it depends on each other. */
static void release(struct host_device *dev)
{
	dev->worker = worker_free(dev->worker);
	cm_close(&dev->cm);
	for (uint32_t i = 0; i < dev->n_ports && dev->has_pools; i++) {
		if (dev->ports[i].has_pool)
			qp_pool_deinit(&dev->ports[i].pool);
	}
	if (dev->has_pools)
		mr_store_deinit(&dev->store);
	cq_set_deinit(&dev->cqs);
	dev->device = device_close(dev->device);
}

static void close_run(struct control_job *job)
{
	release(container_of(job, struct host_device, close_job));
}

static void close_done(struct control_job *job)
{
	struct host_device *dev = container_of(job, struct host_device, close_job);

	if (job->cancelled)
		release(dev);
	dev->is_closed = true;
	control_stop(&dev->control);
}

static bool is_busy(const struct host_device *dev)
{
	if (dev->is_opening || dev->look.in_flight || dev->probe.in_flight)
		return true;
	if (dev->n_links || (dev->has_cm && !cm_is_quiet(&dev->cm)))
		return true;
	for (uint32_t i = 0; i < dev->n_ports && dev->has_pools; i++) {
		if (dev->ports[i].has_pool && !qp_pool_is_quiet(&dev->ports[i].pool))
			return true;
	}
	return dev->has_pools && !mr_store_is_quiet(&dev->store);
}

/* The loop's share: nobody listens to the device any more, no event stays unacknowledged. */
static void detach(struct host_device *dev)
{
	struct ibv_async_event event;

	loop_remove(&dev->cm_source);
	loop_remove(&dev->worker_source);
	if (!dev->event_source.loop)
		return;
	loop_remove(&dev->event_source);
	while (device_event(dev->device, &event) > 0)
		ibv_ack_async_event(&event);
}

void host_device_settle(struct host_device *dev)
{
	if (dev->stage != HOST_GOING || dev->is_closing || is_busy(dev))
		return;
	detach(dev);
	dev->close_job = (struct control_job){.run = close_run, .done = close_done};
	/* A full queue empties: the next tick tries again. */
	dev->is_closing = control_submit(&dev->control, &dev->close_job) == 0;
}

static void stop_all(struct host_device *dev)
{
	/* Its links give their queue pairs back to the pools, which take them also when stopped. */
	if (dev->has_cm)
		cm_stop(&dev->cm);
	host_worker_stop(dev);
	for (uint32_t i = 0; i < dev->n_ports && dev->has_pools; i++) {
		if (dev->ports[i].has_pool)
			qp_pool_stop(&dev->ports[i].pool);
	}
	if (dev->has_pools)
		mr_store_stop(&dev->store);
}

void host_device_go(struct host_device *dev, const char *why)
{
	if (dev->stage == HOST_GOING)
		return;
	event_log(DEVICE_GONE,
		  LOG_FACTS(LOG_TEXT("SHUNT_DEVICE", dev->name), LOG_TEXT("SHUNT_REASON", why)),
		  "RDMA device %s: %s: releasing it", dev->name, why);
	dev->stage = HOST_GOING;
	snprintf(dev->why, sizeof(dev->why), "%s", why);
	stop_all(dev);
	host_device_settle(dev);
}

static int find_trouble(const struct host_device *dev, const char **ret_what)
{
	for (uint32_t i = 0; i < dev->n_ports; i++) {
		if (dev->ports[i].has_pool && dev->ports[i].pool.error < 0) {
			*ret_what = "queue pairs can't be created";
			return dev->ports[i].pool.error;
		}
	}
	*ret_what = "rings can't be registered";
	return dev->store.error;
}

/* Once, when it begins, and once when it ends: it is tried again all the time. */
static void tell_trouble(struct host_device *dev)
{
	const char *what = "";
	int error = dev->has_pools ? find_trouble(dev, &what) : 0;

	if (error == dev->told_error)
		return;
	dev->told_error = error;
	if (error)
		log_warning("RDMA device %s: %s: %s%s; what needs them stays on TCP", dev->name,
			    what, strerror(-error),
			    error == -ENOMEM ? " (see the limit of locked memory: ulimit -l)" : "");
	else
		log_info("RDMA device %s: queue pairs and rings are to be had again", dev->name);
}

void host_device_tick(struct host_device *dev, uint64_t now_ns)
{
	bool is_due = dev->retry_at_ns && now_ns >= dev->retry_at_ns;

	if (dev->stage == HOST_GOING) {
		host_device_settle(dev);
		return;
	}
	if (is_due) {
		dev->retry_at_ns = 0;
		if (dev->device)
			host_probe_start(dev, true);
		else
			host_open(dev);
	}
	if (dev->has_cm)
		cm_tick(&dev->cm, now_ns);
	for (uint32_t i = 0; i < dev->n_ports && dev->has_pools; i++) {
		if (dev->ports[i].has_pool)
			qp_pool_tick(&dev->ports[i].pool, now_ns);
	}
	if (dev->has_pools)
		mr_store_tick(&dev->store);
	tell_trouble(dev);
}

void host_device_free_now(struct host_device *dev)
{
	dev->stage = HOST_GOING;
	stop_all(dev);
	loop_remove(&dev->control_source);
	control_deinit(&dev->control);
	if (!dev->is_closed) {
		detach(dev);
		release(dev);
	}
	free(dev);
}

const char *host_stage_name(enum host_stage stage)
{
	static const char *const names[HOST_STAGES] = {
		[HOST_OPENING] = "opening", [HOST_PROBING] = "probing", [HOST_READY] = "ready",
		[HOST_UNUSED] = "unused",   [HOST_GOING] = "going",
	};

	return (unsigned int)stage < HOST_STAGES ? names[stage] : "invalid";
}
