/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "devices.h"
#include "devices_impl.h"
#include "fabric/cm_context.h"
#include "fabric/worker.h"
#include "os/clock.h"
#include "os/log.h"

/* Queues of one queue pair of the least pool; a high estimate of the memory that they lock. */
#define MEMLOCK_QP_BYTES (256u << 10)

static void rescan(struct devices *devices);

static struct host_device *find(const struct devices *devices, const char *name)
{
	struct list *node;

	list_for_each (node, &devices->all) {
		struct host_device *dev = list_entry(node, struct host_device, link);

		if (strcmp(dev->name, name) == 0)
			return dev;
	}
	return NULL;
}

static void scan_run(struct control_job *job)
{
	struct devices_scan *scan = container_of(job, struct devices_scan, job);
	const char *listed[DEVICES_MAX];
	struct preflight_config config = {.root = "", .listed = listed};
	struct device_list list = {0};

	scan->n = 0;
	scan->error = device_list_get(&list);
	if (scan->error == 0) {
		for (size_t i = 0; i < list.n && scan->n < DEVICES_MAX; i++) {
			strncpy(scan->names[scan->n], device_list_name(&list, i),
				IBV_SYSFS_NAME_MAX - 1);
			listed[scan->n] = scan->names[scan->n];
			scan->n++;
		}
		device_list_free(&list);
	}
	config.n_listed = scan->n;
	config.list_error = scan->error;
	config.memlock_bytes = scan->memlock_bytes;
	preflight_memlock(&config.memlock_limit, &config.may_lock);
	preflight_check(&config, &scan->preflight);
	/* One that nobody here had. Without any device left its context is taken from librdmacm
	 * under its hands: not while a device that is going may still use it. */
	if ((scan->n > 0 || scan->has_none) && cm_context_holds_other(listed, scan->n))
		cm_context_drop_gone();
}

static bool same_line(const struct preflight *preflight, const struct preflight_line *line)
{
	for (size_t i = 0; i < preflight->n; i++) {
		if (strcmp(preflight->lines[i].text, line->text) == 0)
			return true;
	}
	return false;
}

/* Each line once: when it begins to be so. */
static void tell_preflight(struct devices *devices, const struct preflight *now)
{
	for (size_t i = 0; i < now->n; i++) {
		if (same_line(&devices->preflight, &now->lines[i]))
			continue;
		log_at(now->lines[i].what == PREFLIGHT_NO_DEVICE ? LOG_LEVEL_INFO
								 : LOG_LEVEL_WARNING,
		       "%s", now->lines[i].text);
	}
	devices->preflight = *now;
}

static bool is_in_scan(const struct devices_scan *scan, const char *name)
{
	for (size_t i = 0; i < scan->n; i++) {
		if (strcmp(scan->names[i], name) == 0)
			return true;
	}
	return false;
}

static void compare(struct devices *devices)
{
	const struct devices_scan *scan = &devices->scan;
	struct list *node, *next;

	list_for_each_safe (node, next, &devices->all) {
		struct host_device *dev = list_entry(node, struct host_device, link);

		if (!is_in_scan(scan, dev->name))
			host_device_go(dev, "the host has it no longer");
	}
	for (size_t i = 0; i < scan->n; i++) {
		struct host_device *dev;

		/* One that is still going is taken up again when it has gone; one whose node is
		 * closed, when it is open. */
		if (find(devices, scan->names[i]) ||
		    preflight_is_closed(&scan->preflight, scan->names[i]))
			continue;
		dev = host_device_new(devices, scan->names[i]);
		if (!dev)
			continue;
		if (list_is_empty(&devices->all))
			loop_set_timer(devices->loop, &devices->tick, DEVICES_TICK_MS);
		list_push_back(&devices->all, &dev->link);
	}
}

/* Without any device there is nothing to release in time, and uevents tell of the first one. */
static void arm_rescan(struct devices *devices)
{
	uint64_t ms = devices->conf->rdma_rescan_ms;

	if (list_is_empty(&devices->all))
		ms *= DEVICES_RESCAN_NONE;
	loop_set_timer(devices->loop, &devices->rescan, ms);
}

static void scan_done(struct control_job *job)
{
	struct devices_scan *scan = container_of(job, struct devices_scan, job);
	struct devices *devices = container_of(scan, struct devices, scan);
	bool again = scan->again;

	scan->in_flight = scan->again = false;
	if (job->cancelled || devices->is_stopping)
		return;
	devices->has_scanned = true;
	tell_preflight(devices, &scan->preflight);
	/* An error says nothing about the devices; that the kernel knows no RDMA (any more) does.
	 */
	if (scan->error == 0 || scan->error == -ENOSYS)
		compare(devices);
	if (again)
		rescan(devices);
	arm_rescan(devices);
}

static void rescan(struct devices *devices)
{
	struct devices_scan *scan = &devices->scan;

	if (scan->in_flight) {
		scan->again = true;
		return;
	}
	scan->has_none = list_is_empty(&devices->all);
	scan->job = (struct control_job){.run = scan_run, .done = scan_done};
	scan->in_flight = control_submit(&devices->control, &scan->job) == 0;
}

/* librdmacm keeps contexts of its own and lets them go only when it is made to look. */
static void sync_run(struct control_job *job)
{
	(void)job;
	cm_context_drop_gone();
}

static void sync_start(struct devices *devices);

static void sync_done(struct control_job *job)
{
	struct devices *devices = container_of(job, struct devices, sync_job);
	bool again = devices->sync_again;

	devices->is_syncing = devices->sync_again = false;
	if (again)
		sync_start(devices);
}

static void sync_start(struct devices *devices)
{
	if (devices->is_syncing) {
		devices->sync_again = true;
		return;
	}
	devices->sync_job = (struct control_job){.run = sync_run, .done = sync_done};
	devices->is_syncing = control_submit(&devices->control, &devices->sync_job) == 0;
}

void devices_device_gone(struct devices *devices, struct host_device *dev)
{
	log_info("RDMA device %s is released", dev->name);
	list_unlink(&dev->link);
	sync_start(devices);
	devices_look_again(devices); /* it may be back under the same name */
}

void devices_look_again(struct devices *devices)
{
	if (!devices->settle.is_set && !devices->is_stopping)
		loop_set_timer(devices->loop, &devices->settle, DEVICES_SETTLE_MS);
}

static void on_news(struct source *source, uint32_t events)
{
	struct devices_watch *watch = container_of(source, struct devices_watch, source);

	(void)events;
	netlink_read(&watch->devices->netlink, watch->kind, &watch->devices->news);
	if (watch->devices->news.devices || watch->devices->news.ports)
		devices_look_again(watch->devices);
}

static void on_settle(struct timer *timer)
{
	struct devices *devices = container_of(timer, struct devices, settle);
	struct netlink_news news = devices->news;
	struct list *node, *next;

	devices->news = (struct netlink_news){false, false};
	if (news.devices || !news.ports)
		rescan(devices);
	if (!news.ports)
		return;
	list_for_each_safe (node, next, &devices->all)
		host_device_look(list_entry(node, struct host_device, link));
}

static void on_rescan(struct timer *timer)
{
	rescan(container_of(timer, struct devices, rescan));
}

static void on_tick(struct timer *timer)
{
	struct devices *devices = container_of(timer, struct devices, tick);
	struct list *node, *next;

	list_for_each_safe (node, next, &devices->all)
		host_device_tick(list_entry(node, struct host_device, link), clock_now_ns());
	if (!list_is_empty(&devices->all))
		loop_set_timer(devices->loop, &devices->tick, DEVICES_TICK_MS);
}

static void on_control(struct source *source, uint32_t events)
{
	(void)events;
	control_reap(&container_of(source, struct devices, control_source)->control);
}

static void watch_netlink(struct devices *devices)
{
	netlink_open(&devices->netlink);
	for (enum netlink_kind kind = 0; kind < NETLINK_KINDS; kind++) {
		struct devices_watch *watch = &devices->watches[kind];
		int fd = netlink_fd(&devices->netlink, kind);

		watch->devices = devices;
		watch->kind = kind;
		if (fd < 0 || loop_add(devices->loop, &watch->source, fd, EPOLLIN, on_news) < 0)
			log_debug("no news of RDMA devices by %s (%s): they are looked at every "
				  "%llu ms",
				  netlink_kind_name(kind), strerror(-devices->netlink.errors[kind]),
				  (unsigned long long)devices->conf->rdma_rescan_ms);
	}
}

struct devices *devices_start(struct loop *loop, const struct conf *conf)
{
	struct devices *devices;
	int rc;

	if (conf->rdma == CONF_RDMA_OFF) {
		log_info("RDMA is switched off in the settings");
		return NULL;
	}
	devices = calloc(1, sizeof(*devices));
	rc = devices ? control_init(&devices->control, "devices") : -ENOMEM;
	if (rc == 0) {
		rc = loop_add(loop, &devices->control_source, control_fd(&devices->control),
			      EPOLLIN, on_control);
		if (rc < 0)
			control_deinit(&devices->control);
	}
	if (rc < 0) {
		log_error("RDMA devices can't be looked at: %s", strerror(-rc));
		free(devices);
		return NULL;
	}
	devices->loop = loop;
	devices->conf = conf;
	devices->scan.memlock_bytes =
		conf->pool_min * MEMLOCK_QP_BYTES + MR_KEEP * conf->ring_bytes;
	list_init(&devices->all);
	timer_init(&devices->settle, on_settle);
	timer_init(&devices->rescan, on_rescan);
	timer_init(&devices->tick, on_tick);
	probe_cache_init(&devices->cache);
	watch_netlink(devices);
	rescan(devices);
	return devices;
}

void devices_count(const struct devices *devices, uint32_t *ret_all, uint32_t *ret_ready)
{
	const struct list *node;

	*ret_all = *ret_ready = 0;
	if (!devices)
		return;
	list_for_each (node, &devices->all) {
		++*ret_all;
		*ret_ready += list_entry(node, struct host_device, link)->stage == HOST_READY;
	}
}

bool devices_are_settled(const struct devices *devices)
{
	const struct list *node;

	if (!devices)
		return true;
	list_for_each (node, &devices->all) {
		enum host_stage stage = list_entry(node, struct host_device, link)->stage;

		if (stage == HOST_OPENING || stage == HOST_PROBING)
			return false;
	}
	return devices->has_scanned;
}

bool devices_are_alive(struct devices *devices)
{
	struct list *node;
	bool all = true;

	if (!devices)
		return true;
	list_for_each (node, &devices->all) {
		struct host_device *dev = list_entry(node, struct host_device, link);

		if (dev->worker && !worker_has_answered(dev->worker))
			all = false;
	}
	return all;
}

struct devices *devices_stop(struct devices *devices)
{
	struct list *node;

	if (!devices)
		return NULL;
	devices->is_stopping = true;
	timer_clear(&devices->loop->timers, &devices->settle);
	timer_clear(&devices->loop->timers, &devices->rescan);
	timer_clear(&devices->loop->timers, &devices->tick);
	for (size_t i = 0; i < NETLINK_KINDS; i++)
		loop_remove(&devices->watches[i].source);
	netlink_close(&devices->netlink);
	while ((node = list_pop_front(&devices->all)) != NULL)
		host_device_free_now(list_entry(node, struct host_device, link));
	loop_remove(&devices->control_source);
	control_deinit(&devices->control);
	free(devices);
	return NULL;
}
