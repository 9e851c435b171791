/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/util.h"
#include "config.h"
#include "lib/relay/relay.h"
#include "listen.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/syswait.h"

/*
 * relayd: shuntd, with lanes between hosts only (relay.h).
 *
 * Its settings are shuntd's ($SHUNT_CONF, $SHUNT_RUNTIME_DIR), and in the environment RELAY_SEED,
 * RELAY_DELAY_MS, RELAY_LOSS_MS, RELAY_DEATH_MS, RELAY_HALF_BEGUN, RELAY_DEBUG. SIGUSR1 loses every
 * link.
 */

static uint64_t number(const char *name, uint64_t preset)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : preset;
}

static void on_signal(struct source *source, uint32_t events)
{
	struct signalfd_siginfo info;
	struct list *node;

	(void)events;
	if (sys_read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGUSR1) {
		log_notice("%lu links lost, %lu deaths of one host's daemon",
			   (unsigned long)relay.losses, (unsigned long)relay.deaths);
		loop_stop(source->loop, EXIT_SUCCESS);
		return;
	}
	list_for_each (node, &relay.lanes)
		relay_lose(list_entry(node, struct relay_lane, link));
}

static int serve(struct server *server, int listen_fd)
{
	const struct relay_conf conf = {
		.seed = number("RELAY_SEED", 1),
		.delay_ms = number("RELAY_DELAY_MS", 1),
		.loss_ms = number("RELAY_LOSS_MS", 0),
		.death_ms = number("RELAY_DEATH_MS", 0),
		.half_begun = number("RELAY_HALF_BEGUN", 0),
	};
	struct source source = {.fd = -1};
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	rc = server_init(server, listen_fd, 0);
	if (rc < 0)
		return rc;
	relay_start(server, &conf);
	rc = loop_add(&server->loop, &source, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
		      EPOLLIN, on_signal);
	if (rc == 0)
		rc = loop_run(&server->loop);
	loop_remove(&source);
	fd_close(source.fd);
	relay_stop();
	server_deinit(server);
	return rc;
}

int main(void)
{
	static struct server server;
	struct conf_error error;
	struct place place;
	const char *path = getenv("SHUNT_CONF");
	int pid, fd, rc;

	log_init("relayd");
	conf_init(&server.conf);
	if (path && conf_load(&server.conf, path, &error)) {
		log_error("%s", error.text);
		return EXIT_FAILURE;
	}
	server.conf.rdma = CONF_RDMA_OFF;
	if (getenv("RELAY_DEBUG"))
		log_set_level(LOG_LEVEL_DEBUG);
	if (place_choose(&place, NULL) < 0 || place_lock(&place, &pid))
		return EXIT_FAILURE;
	fd = place_listen(&place, false);
	rc = fd < 0 ? fd : serve(&server, fd);
	if (rc < 0)
		log_error("can't serve: %s", strerror(-rc));
	place_leave(&place);
	return rc < 0 ? EXIT_FAILURE : rc;
}
