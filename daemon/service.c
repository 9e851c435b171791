/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/util.h"
#include "events.h"
#include "manager.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/syswait.h"
#include "server.h"
#include "service.h"
#include "settings.h"

#define STATUS_OF_DEVICES "STATUS=Looking at RDMA devices"

/* --- status and readiness --------------------------------------------------------------------- */

static struct service_facts facts_of(const struct server *server)
{
	struct service_facts facts = {
		.programs = server->session_count,
		.ends = (uint32_t)map_count(&server->registry.by_token),
		.peers = peers_count(server->peers),
	};

	devices_count(server->devices, &facts.devices, &facts.devices_ready);
	return facts;
}

static void tell_status(struct service *service)
{
	const struct service_facts *facts = &service->told;
	char text[256];

	service->told = facts_of(service->server);
	if (!service->is_ready) {
		manager_tell(STATUS_OF_DEVICES);
		return;
	}
	snprintf(text, sizeof(text),
		 "STATUS=Programs: %" PRIu32 ", connection ends: %" PRIu32
		 ", RDMA devices ready: %" PRIu32 " of %" PRIu32 ", other hosts: %" PRIu32,
		 facts->programs, facts->ends, facts->devices_ready, facts->devices, facts->peers);
	manager_tell(text);
}

static void become_ready(struct service *service)
{
	service->is_ready = true;
	timer_clear(&service->server->loop.timers, &service->ready);
	tell_status(service);
	manager_tell("READY=1");
}

static void on_ready_limit(struct timer *timer)
{
	struct service *service = container_of(timer, struct service, ready);

	log_warning("RDMA devices are still being probed after %u s: ready without them",
		    SERVICE_READY_MS / 1000u);
	become_ready(service);
}

static void on_status(struct timer *timer)
{
	tell_status(container_of(timer, struct service, status));
}

/* Behind each batch of events: whatever has changed, it is in there. */
static void on_look(struct task *task)
{
	struct service *service = container_of(task, struct service, look);
	struct server *server = service->server;
	struct service_facts now;

	if (!service->is_ready && devices_are_settled(server->devices))
		become_ready(service);
	if (service->status.is_set)
		return;
	now = facts_of(server);
	if (memcmp(&now, &service->told, sizeof(now)) != 0)
		loop_set_timer(&server->loop, &service->status, SERVICE_STATUS_MS);
}

/* --- watchdog --------------------------------------------------------------------------------- */

static void on_watchdog(struct timer *timer)
{
	struct service *service = container_of(timer, struct service, watchdog);
	bool is_silent = !devices_are_alive(service->server->devices);

	if (!is_silent)
		manager_tell("WATCHDOG=1");
	else if (!service->was_silent)
		log_error("a worker thread has not answered for %" PRIu64
			  " ms: the watchdog is not told that the daemon is well",
			  service->watchdog_ms);
	service->was_silent = is_silent;
	loop_set_timer(&service->server->loop, &service->watchdog, service->watchdog_ms);
}

static void watchdog_start(struct service *service)
{
#ifdef HAVE_SYSTEMD
	uint64_t interval_us = 0;

	if (sd_watchdog_enabled(0, &interval_us) <= 0)
		return;
	service->watchdog_ms = u64_max(interval_us / 2000u, 1);
	loop_set_timer(&service->server->loop, &service->watchdog, service->watchdog_ms);
#else
	(void)service;
#endif
}

/* --- signals ---------------------------------------------------------------------------------- */

static void reload(struct service *service)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 clock_now_ns() / 1000u);
	manager_tell(text);
	settings_reload(service->server, service->config_path);
	manager_tell(service->is_ready ? "READY=1" : STATUS_OF_DEVICES);
}

static void on_signal(struct source *source, uint32_t events)
{
	struct service *service = container_of(source, struct service, signals);
	struct signalfd_siginfo info;

	(void)events;
	if (sys_read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		reload(service);
		return;
	}
	event_log(DAEMON_STOPPING, LOG_FACTS(LOG_TEXT("SHUNT_REASON", "told to")),
		  "signal %u: the daemon ends; lanes within this host go on, those to other hosts "
		  "go back to TCP",
		  info.ssi_signo);
	manager_tell("STOPPING=1");
	server_end(service->server);
}

void service_block_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGHUP);
	sigprocmask(SIG_BLOCK, ret_set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int service_start(struct service *service, struct server *server, const char *config_path,
		  const sigset_t *set)
{
	int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK), rc;

	if (fd < 0)
		return -errno;
	*service = (struct service){.server = server, .config_path = config_path};
	timer_init(&service->ready, on_ready_limit);
	timer_init(&service->status, on_status);
	timer_init(&service->watchdog, on_watchdog);
	task_init(&service->look, on_look);
	rc = loop_add(&server->loop, &service->signals, fd, EPOLLIN, on_signal);
	if (rc < 0) {
		fd_close(fd);
		return rc;
	}
	/* Nobody is to be told: no reason to wake up. */
	if (!manager_is_there())
		return 0;
	server->loop.after = &service->look;
	loop_set_timer(&server->loop, &service->ready, SERVICE_READY_MS);
	watchdog_start(service);
	tell_status(service);
	loop_defer(&server->loop, &service->look);
	return 0;
}

void service_stop(struct service *service)
{
	struct loop *loop = &service->server->loop;

	manager_tell("STOPPING=1"); /* also when nobody asked for it */
	loop->after = NULL;
	timer_clear(&loop->timers, &service->ready);
	timer_clear(&loop->timers, &service->status);
	timer_clear(&loop->timers, &service->watchdog);
	loop_remove(&service->signals);
	fd_close(service->signals.fd);
}
