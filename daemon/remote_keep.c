/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/util.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/sys.h"
#include "os/tcp.h"
#include "remote_lane.h"
#include "server.h"

/*
 * A lane outlives its daemon by what its client holds. A client that makes no call, or is stopped,
 * brings that to nobody, and one that is dead can't: so the service manager keeps a copy, and
 * passes it to the successor, which then replays for all of them.
 *
 * What the client has done with its connection since is not known then. It does no harm: a client
 * uses TCP in a direction only when nothing is left to be replayed there, which stands in the
 * halves.
 */

/* How long a lane lives before it is kept. Chosen: what is over sooner is not worth two messages to
 * the manager, and has a client that is awake. */
#define KEEP_AFTER_MS 500u

/* Of the record. */
#define KEEP_VERSION 1u

struct record {
	uint32_t version;
	uint32_t epoch;
	uint32_t uid; /* who is charged */
	uint32_t unused;
};

static uint32_t n_kept;
static bool is_ending;
static struct log_limit not_kept = {.burst = 1, .interval_ns = 60000000000u};

void remote_keep(struct remote_lane *lane, int half, int fed)
{
	const struct record record = {KEEP_VERSION, lane->epoch, lane->user->uid, 0};
	const int fds[BROUGHT] = {
		[BROUGHT_SOCKET] = lane->r.sock,
		[BROUGHT_HALF] = half,
		[BROUGHT_FED] = fed,
		[BROUGHT_BELL] = lane->bell,
		[BROUGHT_EAR] = lane->hangup.fd,
	};
	unsigned int withheld;
	int rc;

	if (!manager_is_there() || lane->kept[0] || n_kept >= MANAGER_KEPT_MAX)
		return;
	rc = manager_keep(&record, sizeof(record), fds, BROUGHT, lane->kept);
	if (rc == 0)
		n_kept++;
	else if (log_limit_pass(&not_kept, loop_now(&lane->server->loop), &withheld))
		log_warning("the service manager can't keep a lane (nor %u others): %s", withheld,
			    strerror(-rc));
}

static void on_keep(struct timer *timer)
{
	struct remote_lane *lane = container_of(timer, struct remote_lane, keep);

	if (lane->r.sock >= 0 && !lane->r.drained && lane->fed.half)
		remote_keep(lane, lane->half, lane->fed.half->fd);
	fd_close(TAKE(lane->half, -1));
}

void remote_keep_later(struct remote_lane *lane)
{
	timer_init(&lane->keep, on_keep);
	loop_set_timer(&lane->server->loop, &lane->keep, manager_is_there() ? KEEP_AFTER_MS : 0);
}

void remote_unkeep(struct remote_lane *lane)
{
	timer_clear(&lane->server->loop.timers, &lane->keep);
	if (is_ending || !lane->kept[0])
		return;
	manager_forget(lane->kept);
	lane->kept[0] = '\0';
	n_kept--;
}

void remote_keep_all(void)
{
	is_ending = true;
}

/* One that was kept. */
static enum reason restore(struct server *server, int kept)
{
	struct remote_adoption from = {.server = server};
	struct remote_lane *lane;
	struct record record;
	struct tcp_name name;
	struct fd_bag bag;
	AUTO_FD int sock = -1;
	enum reason reason = REASON_PROTOCOL;

	if (fd_recv(kept, &record, sizeof(record), BROUGHT, &bag) != sizeof(record))
		return REASON_PROTOCOL;
	if (record.version == KEEP_VERSION && bag.n == BROUGHT) {
		sock = fd_bag_take(&bag, BROUGHT_SOCKET);
		from.user = quota_user_get(&server->quota, record.uid);
		from.epoch = record.epoch;
		from.name = &name;
		reason = REASON_NOT_CONNECTED;
		if (from.user && tcp_name_read(sock, &name) == 0)
			reason = remote_adopt_make(&from, &sock, &bag, &lane);
		quota_user_put(&server->quota, from.user);
	}
	fd_bag_close(&bag);
	return reason;
}

void remote_restore(struct server *server, struct manager_fds *passed)
{
	size_t n = 0;

	for (size_t i = 0; i < passed->n_kept; i++) {
		struct manager_kept *kept = &passed->kept[i];
		enum reason reason = restore(server, kept->fd);

		n += reason == REASON_NONE;
		if (reason != REASON_NONE)
			log_notice("a lane that the service manager had kept is of no use: %s",
				   reason_text(reason));
		/* Behind it: the manager has it under the name that we have given. */
		manager_forget(kept->name);
	}
	if (n)
		log_notice("%zu lanes to other hosts are taken over from a predecessor", n);
}
