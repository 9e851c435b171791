/* SPDX-License-Identifier: MIT */
#include <sys/random.h>
#include <sys/socket.h>

#include "base/util.h"
#include "events.h"
#include "links.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/syswait.h"
#include "server.h"
#include "session.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* since Linux 5.14 */
#endif

/* Clients let in before others get their turn, and the pause when no descriptor is left. */
#define ACCEPT_BUDGET 32
#define ACCEPT_PAUSE_MS 100

/* How often is looked whether the last lane between hosts is gone. Chosen: nobody notices. */
#define ENDING_LOOK_MS 5u

static void on_idle(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, idle);

	event_log(DAEMON_STOPPING, LOG_FACTS(LOG_TEXT("SHUNT_REASON", "idle")),
		  "no client for %u s: the daemon ends", server->exit_idle_s);
	server_end(server);
}

static void on_ending(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, ending);
	bool is_late = loop_now(&server->loop) >= server->end_by_ns;

	if (!is_late && links_have_lanes(server->links)) {
		loop_set_timer(&server->loop, &server->ending, ENDING_LOOK_MS);
		return;
	}
	if (is_late && links_have_lanes(server->links))
		log_notice("lanes between hosts are left after %llu ms (stop_wait_ms): a daemon "
			   "that is started within %llu s goes on with them",
			   (unsigned long long)server->conf.stop_wait_ms,
			   (unsigned long long)server->conf.resume_timeout_s);
	loop_stop(&server->loop, 0);
}

void server_end(struct server *server)
{
	if (server->end_by_ns || !links_retire(server->links)) {
		loop_stop(&server->loop, 0);
		return;
	}
	server->end_by_ns = loop_now(&server->loop) + server->conf.stop_wait_ms * 1000000u + 1;
	loop_set_timer(&server->loop, &server->ending, ENDING_LOOK_MS);
}

static void await_clients(struct server *server)
{
	if (server->exit_idle_s && server->session_count == 0)
		loop_set_timer(&server->loop, &server->idle, server->exit_idle_s * 1000ull);
}

static void on_listener(struct source *source, uint32_t events)
{
	struct server *server = container_of(source, struct server, listener);

	(void)events;
	for (int i = 0; i < ACCEPT_BUDGET; i++) {
		int fd = sys_accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			timer_clear(&server->loop.timers, &server->idle);
			session_accept(server, fd);
			await_clients(server); /* if it was turned away */
		} else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			/* Level-triggered: without a pause this would spin. */
			loop_change(source, 0);
			loop_set_timer(&server->loop, &server->relisten, ACCEPT_PAUSE_MS);
			return;
		} else if (fd != -ECONNABORTED && fd != -EINTR) {
			return;
		}
	}
}

static void on_relisten(struct timer *timer)
{
	struct server *server = container_of(timer, struct server, relisten);

	loop_change(&server->listener, EPOLLIN);
}

void server_session_gone(struct server *server)
{
	server->session_count--;
	await_clients(server);
}

static int own_netns(uint64_t *ret_cookie)
{
	AUTO_FD int fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*ret_cookie);

	if (fd == -EAFNOSUPPORT)
		fd = sys_socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	return sys_getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, ret_cookie, &len);
}

/* As many descriptors as we may have, less a reserve: a client costs three, a running lane none. */
static int raise_fd_limit(struct server *server)
{
	struct rlimit limit;
	int rc = sys_prlimit(0, RLIMIT_NOFILE, NULL, &limit);

	if (rc < 0)
		return rc;
	limit.rlim_cur = limit.rlim_max;
	sys_prlimit(0, RLIMIT_NOFILE, &limit, NULL);
	rc = sys_prlimit(0, RLIMIT_NOFILE, NULL, &limit);
	if (rc < 0)
		return rc;
	server->fd_limit = (int)u64_min(limit.rlim_cur, INT32_MAX) - SERVER_FD_RESERVE;
	return server->fd_limit > SERVER_FD_RESERVE ? 0 : -EMFILE;
}

static bool check_rule(void)
{
	int rc = tcp_rule_selfcheck();

	if (rc == TCP_RULE_HOLDS)
		return true;
	if (rc < 0)
		event_log(KERNEL_UNFIT, LOG_FACTS(LOG_NUMBER("SHUNT_ERROR", -rc)),
			  "the TCP counting rule could not be checked (error %d): every connection "
			  "stays on TCP",
			  -rc);
	else
		event_log(KERNEL_UNFIT, LOG_FACTS(LOG_TEXT("SHUNT_REASON", "wrong counts")),
			  "this kernel's TCP counters break the counting rule: every connection "
			  "stays on TCP");
	return false;
}

static int server_init_parts(struct server *server)
{
	uint64_t key;
	int rc;

	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	rc = loop_init(&server->loop);
	if (rc < 0)
		return rc;
	rc = board_init(&server->board, (uint32_t)server->conf.max_sessions);
	if (rc < 0) {
		loop_deinit(&server->loop);
		return rc;
	}
	quota_init(&server->quota, &server->conf, key);
	registry_init(&server->registry, key);
	return 0;
}

static void server_deinit_parts(struct server *server)
{
	registry_deinit(&server->registry);
	quota_deinit(&server->quota);
	board_deinit(&server->board);
	loop_deinit(&server->loop);
}

int server_init(struct server *server, int listen_fd, uint32_t exit_idle_s)
{
	int rc;

	list_init(&server->sessions);
	list_init(&server->couplings);
	timer_init(&server->relisten, on_relisten);
	timer_init(&server->idle, on_idle);
	timer_init(&server->ending, on_ending);
	server->turned_away = (struct log_limit){.burst = 3, .interval_ns = 10000000000u};
	server->exit_idle_s = exit_idle_s;
	server->uid = sys_geteuid();
	server->started_ns = clock_now_ns();
	server->rule_holds = check_rule();
	rc = raise_fd_limit(server);
	if (rc < 0)
		return rc;
	rc = own_netns(&server->netns_cookie);
	if (rc < 0)
		return rc;
	rc = server_init_parts(server);
	if (rc < 0)
		return rc;
	rc = loop_add(&server->loop, &server->listener, listen_fd, EPOLLIN, on_listener);
	if (rc < 0) {
		server_deinit_parts(server);
		return rc;
	}
	server->listen_fd = listen_fd;
	server->devices = devices_start(&server->loop, &server->conf);
	server->peers = peers_start(server);
	server->links = links_start(server);
	await_clients(server);
	return 0;
}

void server_deinit(struct server *server)
{
	server->peers = peers_stop(server->peers);
	session_destroy_all(server);
	server->links = links_stop(server->links);
	server->devices = devices_stop(server->devices);
	loop_remove(&server->listener);
	fd_close(server->listen_fd);
	timer_clear(&server->loop.timers, &server->idle);
	timer_clear(&server->loop.timers, &server->relisten);
	timer_clear(&server->loop.timers, &server->ending);
	server_deinit_parts(server);
}
