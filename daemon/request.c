/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/util.h"
#include "coupling.h"
#include "os/fd.h"
#include "pair.h"
#include "remote_ops.h"
#include "request.h"
#include "ruling.h"
#include "server.h"
#include "session.h"
#include "status.h"

/* Queries per second and user. Chosen: people and monitors ask, programs in a loop must not. */
#define QUERIES_PER_S 50

static void welcome(struct session *session, int ear)
{
	const int fds[2] = {session->server->board.fd, ear};
	const struct conf *conf = &session->server->conf;
	const struct ctl_msg msg = {
		.type = CTL_WELCOME,
		.u.welcome =
			{
				.version = CTL_VERSION,
				.slot = session->slot,
				.spin_us = (uint32_t)conf->spin_us,
				.promote_after = (uint32_t)conf->promote_after,
				.demote_wait_ms = (uint32_t)conf->demote_wait_ms,
				.resume_timeout_s = (uint32_t)conf->resume_timeout_s,
				.backoff_min_ms = (uint32_t)conf->backoff_min_ms,
				.backoff_max_ms = (uint32_t)conf->backoff_max_ms,
				.ring_bytes = conf->ring_bytes,
			},
	};

	session_send(session, &msg, fds, ARRAY_SIZE(fds));
}

static void on_hello(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct server *server = session->server;
	AUTO_FD int ear = -1;
	AUTO_FD int exe = bag->n ? fd_bag_take(bag, 0) : -1;
	int rc;

	if (msg->token != 0) {
		session_cut(session, "greeted with a token");
		return;
	}
	if (msg->u.hello.version != CTL_VERSION) {
		session_refuse(session, 0, REASON_VERSION, 0);
		session_cut(session, "speaks version %u, we speak %u",
			    (unsigned int)msg->u.hello.version, CTL_VERSION);
		return;
	}
	rc = session_watch_process(session);
	if (rc < 0) {
		session_cut(session, "its process can't be watched (error %d)", -rc);
		return;
	}
	ear = session_make_kick(session);
	if (ear < 0) {
		session_refuse(session, 0, REASON_NO_DESCRIPTORS, 1000);
		session_cut(session, "no descriptor is left for it (error %d)", -ear);
		return;
	}
	session->slot = board_take(&server->board);
	timer_clear(&server->loop.timers, &session->timer);
	session->phase = msg->u.hello.flags & CTL_HELLO_TOOL ? SESSION_TOOL : SESSION_CLIENT;
	if (session->phase == SESSION_CLIENT)
		ruling_learn(session, exe);
	welcome(session, ear);
}

static struct end *find_end(struct session *session, uint64_t token)
{
	struct end *end = registry_by_token(&session->server->registry, session, token);

	if (!end)
		session->server->tally.strays++;
	return end;
}

static void judge(struct session *session, const struct ctl_msg *msg, enum coupling_verdict verdict)
{
	if (verdict == COUPLING_LATE)
		session->server->tally.strays++;
	else if (verdict == COUPLING_WRONG)
		session_cut(session, "sent %s out of order", ctl_type_name(msg->type));
}

static void on_cancel(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct end *end = find_end(session, msg->token);

	(void)bag;
	if (end)
		pair_cancel(end);
}

static void on_mapped(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct end *end = find_end(session, msg->token);

	(void)bag;
	if (end)
		judge(session, msg,
		      end->remote ? session->server->remote->mapped(end, msg->u.mapped.epoch)
				  : coupling_mapped(end, msg->u.mapped.epoch));
}

static void on_drained(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct end *end = find_end(session, msg->token);
	enum coupling_verdict verdict;

	(void)bag;
	if (!end)
		return;
	end_set_totals(end, &msg->u.drained.totals);
	if (end->remote)
		verdict = session->server->remote->drained(end, msg->u.drained.epoch,
							   msg->u.drained.reason);
	else
		verdict = coupling_drained(end, msg->u.drained.epoch, msg->u.drained.reason);
	if (verdict == COUPLING_OK)
		session->server->tally.demotions[msg->u.drained.reason]++;
	judge(session, msg, verdict);
}

static void on_state(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct end *end = find_end(session, msg->token);
	enum reason reason = msg->u.state.reason;

	(void)bag;
	if (!end)
		return;
	if (msg->u.state.state == CTL_STATE_RESET && end->state != CTL_STATE_RESET)
		session->server->tally.resets[reason]++;
	end->fd = msg->u.state.fd;
	end_set_totals(end, &msg->u.state.totals);
	end_set_state(end, msg->u.state.state, reason);
}

static void on_closed(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct end *end = find_end(session, msg->token);

	(void)bag;
	if (!end)
		return;
	end_set_totals(end, &msg->u.closed.totals);
	pair_forget(end, REASON_CLOSED, false);
}

static bool may_see(const struct session *session, const struct session *other)
{
	return session->uid == 0 || session->uid == other->uid;
}

static void answer(struct session *session, uint64_t token, int result, uint32_t count, int fd)
{
	const struct ctl_msg msg = {
		.type = CTL_ANSWER,
		.token = token,
		.u.answer = {.result = result, .count = count},
	};

	session_send(session, &msg, &fd, fd < 0 ? 0 : 1);
}

static void on_query(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct server *server = session->server;
	uint32_t count = 0;
	int fd;

	(void)bag;
	if (bucket_take(&session->user->queries, loop_now(&server->loop), QUERIES_PER_S,
			QUERIES_PER_S)) {
		answer(session, msg->token, -EBUSY, 0, -1);
		return;
	}
	fd = status_make(server, session, &msg->u.query, &count);
	answer(session, msg->token, fd < 0 ? fd : 0, count, fd);
	fd_close(fd);
}

static void on_demote_req(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	const struct ctl_demote_req *req = &msg->u.demote_req;
	struct list *s, *e;
	bool seen = false, denied = false;
	uint32_t count = 0;
	int result = 0;

	(void)bag;
	session->server->demote_serial++;
	list_for_each (s, &session->server->sessions) {
		struct session *other = list_entry(s, struct session, link);

		if (other->pid != req->pid || other->phase != SESSION_CLIENT)
			continue;
		seen = true;
		if (!may_see(session, other)) {
			denied = true;
			continue;
		}
		list_for_each (e, &other->ends) {
			struct end *end = list_entry(e, struct end, link);

			if ((req->fd >= 0 && end->fd != req->fd) ||
			    (!end->coupling && !end->remote))
				continue;
			if (end->remote)
				session->server->remote->ask_demote(end, REASON_REQUESTED);
			else
				coupling_ask_demote(end, REASON_REQUESTED);
			count++;
		}
	}
	if (count == 0)
		result = denied ? -EACCES : seen ? -ENOENT : -ESRCH;
	answer(session, msg->token, result, count, -1);
}

#define IN(phase) (1u << (phase))
#define GREETED (IN(SESSION_CLIENT) | IN(SESSION_TOOL))

static const struct {
	unsigned int phases;
	void (*fn)(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag);
} handlers[] = {
	[CTL_HELLO] = {IN(SESSION_NEW), on_hello},
	[CTL_REGISTER] = {IN(SESSION_CLIENT), pair_register},
	[CTL_CANCEL] = {IN(SESSION_CLIENT), on_cancel},
	[CTL_MAPPED] = {IN(SESSION_CLIENT), on_mapped},
	[CTL_DRAINED] = {IN(SESSION_CLIENT), on_drained},
	[CTL_STATE] = {IN(SESSION_CLIENT), on_state},
	[CTL_ADOPT] = {IN(SESSION_CLIENT), pair_adopt},
	[CTL_CLOSED] = {IN(SESSION_CLIENT), on_closed},
	[CTL_QUERY] = {GREETED, on_query},
	[CTL_DEMOTE_REQ] = {GREETED, on_demote_req},
};

void request_handle(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	if ((size_t)msg->type >= ARRAY_SIZE(handlers) || !handlers[msg->type].fn ||
	    !(handlers[msg->type].phases & IN(session->phase))) {
		session_cut(session, "sent %s out of order", ctl_type_name(msg->type));
		return;
	}
	handlers[msg->type].fn(session, msg, bag);
}
