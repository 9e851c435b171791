/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/util.h"
#include "coupling.h"
#include "pair.h"
#include "peers.h"
#include "remote_ops.h"
#include "ruling.h"
#include "server.h"
#include "session.h"

/* When to ask again. Chosen: a moment for what passes at once, a second for what takes its time. */
#define RETRY_SOON_MS 50u
#define RETRY_LATER_MS 1000u
/* Readings of a socket that is brought with a lane. Chosen: each looks many times itself. */
#define READS_MAX 16

static uint32_t retry_ms(enum reason reason)
{
	switch (reason) {
	case REASON_SEVERAL_HOLDERS:
	case REASON_PROMOTE_WAIT:
	case REASON_CANCELLED:
		return RETRY_SOON_MS;
	case REASON_KEPT_BY_RULE:
		return RULING_RETRY_MS;
	default:
		return reason_passes(reason) ? RETRY_LATER_MS : 0;
	}
}

int pair_take(struct end *end)
{
	timer_clear(&end->session->server->loop.timers, &end->timer);
	if (end->offer)
		peers_withdraw(end);
	return TAKE(end->dup, -1);
}

/* Close the duplicate: @end is idle now. */
static void stop_waiting(struct end *end)
{
	fd_close(pair_take(end));
}

void pair_refuse(struct end *end, enum reason reason)
{
	stop_waiting(end);
	end->state = CTL_STATE_TCP;
	end->reason = reason;
	end_note(end, HISTORY_REFUSED, reason, 0);
	session_refuse(end->session, end->token, reason, retry_ms(reason));
}

/* Why the connection with these facts, or the error of reading them, gets no lane; or NONE. */
static enum reason judge_facts(const struct server *server, int rc, const struct tcp_facts *facts)
{
	if (!server->rule_holds)
		return REASON_RULE_UNPROVED;
	switch (rc) {
	case 0:
		break;
	case -EPROTOTYPE:
	case -ENOTSOCK:
	case -EBADF:
		return REASON_NOT_TCP;
	case -ENOTCONN:
		return REASON_NOT_CONNECTED;
	case -EAGAIN:
		return REASON_PROMOTE_WAIT; /* too much going on at this moment */
	default:
		return REASON_RULE_UNPROVED;
	}
	if (facts->fin_sent || facts->fin_received)
		return REASON_FIN_SEEN;
	if (facts->state != TCP_STATE_ESTABLISHED)
		return REASON_NOT_CONNECTED;
	if (facts->netns_cookie != server->netns_cookie)
		return REASON_OTHER_NETNS;
	if (facts->device[0])
		return REASON_BOUND_TO_DEVICE;
	if (facts->has_ulp)
		return REASON_KTLS;
	if (tcp_name_is_self(&facts->name))
		return REASON_SELF_CONNECT;
	return REASON_NONE;
}

enum reason pair_read(const struct end *end, struct tcp_facts *ret_facts)
{
	int rc = tcp_facts_read(end->dup, ret_facts);

	return judge_facts(end->session->server, rc, ret_facts);
}

/*
 * Whether the counters of two ends can be those of one connection. Time passes between readings,
 * and counters only grow: @a was read before @b, @a_after behind it.
 */
static bool counters_fit(const struct tcp_facts *a, const struct tcp_facts *b,
			 const struct tcp_facts *a_after)
{
	return a->acked_bytes <= b->received_bytes && b->received_bytes <= a_after->written_bytes &&
	       b->acked_bytes <= a_after->received_bytes && a->received_bytes <= b->written_bytes &&
	       a->syn_bias + b->syn_bias >= 1; /* at least one side sent a SYN */
}

/* The one pass over both sockets. @ret_guilty: whom the answer concerns; NULL: both. */
static enum reason judge_pair(const struct server *server, struct end *a, struct end *b,
			      struct end **ret_guilty)
{
	struct tcp_facts facts_a, facts_b, after;
	enum reason reason;
	int rc;

	*ret_guilty = a;
	rc = tcp_facts_read(a->dup, &facts_a);
	reason = judge_facts(server, rc, &facts_a);
	if (reason != REASON_NONE)
		return reason;
	*ret_guilty = b;
	rc = tcp_facts_read(b->dup, &facts_b);
	reason = judge_facts(server, rc, &facts_b);
	if (reason != REASON_NONE)
		return reason;
	*ret_guilty = a;
	rc = tcp_facts_read(a->dup, &after);
	reason = judge_facts(server, rc, &after);
	if (reason != REASON_NONE)
		return reason;
	*ret_guilty = NULL;
	return counters_fit(&facts_a, &facts_b, &after) ? REASON_NONE : REASON_STALE_PEER;
}

/* Give @a and @b, which belong together, a lane: they wait no more then. */
static enum reason begin(struct server *server, struct end *a, struct end *b)
{
	bool between_hosts = server->remote && server->remote->pair;
	enum reason reason = REASON_NONE;

	if (between_hosts)
		reason = server->remote->pair(server, a, b);
	if (reason != REASON_NONE)
		return reason;
	stop_waiting(a);
	stop_waiting(b);
	return between_hosts ? reason : coupling_begin(server, a, b);
}

static void couple(struct end *a, struct end *b)
{
	struct server *server = a->session->server;
	struct end *guilty = NULL;
	enum reason reason = judge_pair(server, a, b, &guilty);

	if (reason == REASON_NONE)
		reason = begin(server, a, b);
	if (reason == REASON_NONE)
		return;
	if (guilty != b)
		pair_refuse(a, reason);
	if (guilty != a)
		pair_refuse(b, reason);
}

static void on_waited(struct timer *timer)
{
	struct end *end = container_of(timer, struct end, timer);
	struct end *peer = registry_opposite(&end->session->server->registry, &end->name);

	pair_refuse(end, peer ? REASON_PROMOTE_WAIT : peers_wait_reason(end));
}

/* Wait with the socket @fd (taken over) until the other end comes; it may be there already. */
static void start_waiting(struct end *end, int fd, uint32_t epoch)
{
	struct server *server = end->session->server;
	struct end *peer = registry_opposite(&server->registry, &end->name);
	const struct ctl_msg msg = {
		.type = CTL_REGISTERED,
		.token = end->token,
		.u.registered = {.epoch = epoch, .held = 1},
	};

	end->dup = fd;
	end->next_epoch = epoch;
	end->state = CTL_STATE_REGISTERED;
	end->reason = REASON_NONE;
	end_note(end, HISTORY_WAITING, REASON_NONE, epoch);
	timer_init(&end->timer, on_waited);
	loop_set_timer(&server->loop, &end->timer, server->conf.pair_wait_ms);
	session_send(end->session, &msg, NULL, 0);
	if (peer && peer->dup >= 0)
		couple(peer, end);
	else if (peer && ruling_holds(peer)) /* it will not come */
		pair_refuse(end, REASON_KEPT_BY_RULE);
	else if (peer && coupling_is_alone(peer))
		coupling_hint_gone(peer);
	else if (!peer && !server->end_by_ns)
		peers_offer(server->peers, end);
}

/* Whether @session has @end or kin of it. */
static bool has_kin_in(struct end *end, const struct session *session)
{
	struct end *kin = end;

	do {
		if (kin->session == session)
			return true;
		kin = end_next_kin(kin);
	} while (kin != end);
	return false;
}

/*
 * The end that @facts belong to: known by @token, or new, and with @shared also beside others that
 * hold the socket. NULL, and why not in *@ret_reason; REASON_PROTOCOL is the client's fault.
 */
static struct end *find_or_add(struct session *session, uint64_t token,
			       const struct tcp_facts *facts, bool shared, enum reason *ret_reason)
{
	struct server *server = session->server;
	struct end *end = registry_by_token(&server->registry, session, token);
	struct end *same = registry_by_cookie(&server->registry, facts->cookie);

	*ret_reason = REASON_PROTOCOL;
	if (end)
		return end->cookie == facts->cookie ? end : NULL;
	*ret_reason = REASON_SEVERAL_HOLDERS;
	if (same && (!shared || has_kin_in(same, session))) {
		session_is_gone(same->session); /* dooms it, so that the next attempt succeeds */
		return NULL;
	}
	*ret_reason = REASON_OVER_QUOTA;
	if (!quota_take_end(&server->quota, session->user))
		return NULL;
	end = registry_add(&server->registry, session, token, facts);
	if (!end) {
		session->user->ends--;
		*ret_reason = REASON_NO_MEMORY;
		return NULL;
	}
	if (!same)
		server->tally.seen++;
	end_note(end, HISTORY_SEEN, REASON_NONE, 0);
	return end;
}

static void refuse_new(struct session *session, uint64_t token, enum reason reason)
{
	struct end *end = registry_by_token(&session->server->registry, session, token);

	if (end) {
		end->reason = reason;
		end_note(end, HISTORY_REFUSED, reason, 0);
	}
	session_refuse(session, token, reason, retry_ms(reason));
}

/* A rule keeps @end on TCP: the other end need not wait for it. */
static void keep_on_tcp(struct session *session, struct end *end)
{
	struct end *peer = registry_opposite(&session->server->registry, &end->name);

	refuse_new(session, end->token, REASON_KEPT_BY_RULE);
	if (peer && peer->dup >= 0)
		pair_refuse(peer, REASON_KEPT_BY_RULE);
}

void pair_register(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct server *server = session->server;
	AUTO_FD int fd = fd_bag_take(bag, 0);
	struct tcp_facts facts;
	enum reason reason;
	struct end *end = registry_by_token(&server->registry, session, msg->token);
	uint32_t wait_ms;
	int rc;

	if (end && end->coupling && end->coupling->complete &&
	    msg->u.reg.epoch > end->coupling->epoch) /* it says that it is through with that lane */
		coupling_drained(end, end->coupling->epoch, REASON_NONE);
	if (end && end_is_busy(end)) {
		session_cut(session, "registered a connection twice");
		return;
	}
	wait_ms = quota_take_registration(&server->quota, session->user, loop_now(&server->loop));
	if (wait_ms) {
		session_refuse(session, msg->token, REASON_OVER_QUOTA, wait_ms);
		return;
	}
	if (fd >= server->fd_limit) {
		refuse_new(session, msg->token, REASON_NO_DESCRIPTORS);
		return;
	}
	rc = tcp_facts_read(fd, &facts);
	reason = judge_facts(server, rc, &facts);
	if (reason != REASON_NONE) {
		refuse_new(session, msg->token, reason);
		return;
	}
	end = find_or_add(session, msg->token, &facts, false, &reason);
	if (!end && reason == REASON_PROTOCOL) {
		session_cut(session, "used one token for two sockets");
		return;
	}
	if (!end) {
		session_refuse(session, msg->token, reason, retry_ms(reason));
		return;
	}
	if (end->last_epoch == UINT32_MAX) {
		refuse_new(session, msg->token, REASON_PROTOCOL); /* no epoch is left */
		return;
	}
	end->fd = msg->u.reg.fd;
	ruling_set_facts(end, &facts);
	if (ruling_keeps(end)) {
		keep_on_tcp(session, end);
		return;
	}
	start_waiting(end, TAKE(fd, -1),
		      msg->u.reg.epoch > end->last_epoch ? msg->u.reg.epoch : end->last_epoch + 1);
}

/* As tcp_facts_read(), of a socket whose counters may be on the move: a lane that is lost stands
 * still for who is refused. */
static int read_patiently(int fd, struct tcp_facts *ret_facts)
{
	int rc = -EAGAIN;

	for (int i = 0; i < READS_MAX && rc == -EAGAIN; i++)
		rc = tcp_facts_read(fd, ret_facts);
	return rc;
}

/*
 * Make room for an adoption by another process of the same socket's holders. Who is on that lane
 * stays; an end with another story is out of date. False if it is not @session's to say so.
 */
static bool make_room(struct session *session, uint64_t cookie, uint32_t epoch)
{
	struct end *same = registry_by_cookie(&session->server->registry, cookie);
	bool gone;

	while (same && same->session != session) {
		gone = session_is_gone(same->session);
		if (!gone && (same->remote || coupling_is_on(same, epoch)))
			return true;
		if (!gone && same->session->uid != session->uid)
			return false;
		pair_forget(same, REASON_SEVERAL_HOLDERS, gone);
		same = registry_by_cookie(&session->server->registry, cookie);
	}
	return true;
}

void pair_adopt(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag)
{
	struct server *server = session->server;
	AUTO_FD int fd = fd_bag_take(bag, 0);
	uint32_t epoch = msg->u.adopt.epoch;
	struct end *end = registry_by_token(&server->registry, session, msg->token);
	struct tcp_facts facts;
	enum reason reason;
	const struct ctl_msg done = {
		.type = CTL_REGISTERED,
		.token = msg->token,
		.u.registered = {.epoch = epoch,
				 .held = (msg->u.adopt.flags & CTL_LANE_REMOTE) != 0},
	};

	if ((end && end_is_busy(end)) || (!(msg->u.adopt.flags & CTL_LANE_REMOTE) && bag->n > 1)) {
		session_cut(session, "adopted what it can't");
		return;
	}
	if ((msg->u.adopt.flags & CTL_LANE_REMOTE) && (!server->remote || bag->n != CTL_MAX_FDS)) {
		/* It was made by a daemon of another make, and ends by its time limit. */
		refuse_new(session, msg->token, REASON_NO_LINK);
		return;
	}
	if (fd >= server->fd_limit) {
		refuse_new(session, msg->token, REASON_NO_DESCRIPTORS);
		return;
	}
	if (read_patiently(fd, &facts) < 0) {
		refuse_new(session, msg->token, REASON_NOT_CONNECTED);
		return;
	}
	if (facts.netns_cookie != server->netns_cookie) {
		refuse_new(session, msg->token, REASON_OTHER_NETNS);
		return;
	}
	if (!make_room(session, facts.cookie, epoch)) {
		refuse_new(session, msg->token, REASON_SEVERAL_HOLDERS);
		return;
	}
	end = find_or_add(session, msg->token, &facts, true, &reason);
	if (!end) {
		session_refuse(session, msg->token, reason, retry_ms(reason));
		return;
	}
	end->fd = msg->u.adopt.fd;
	end_set_totals(end, &msg->u.adopt.totals);
	if (msg->u.adopt.flags & CTL_LANE_REMOTE)
		reason = server->remote->adopt(end, epoch, TAKE(fd, -1), bag);
	else
		reason = coupling_adopt(server, end,
					registry_opposite(&server->registry, &end->name), epoch) < 0
				 ? REASON_NO_MEMORY
				 : REASON_NONE;
	if (reason != REASON_NONE) {
		refuse_new(session, msg->token, reason);
		return;
	}
	end_note(end, HISTORY_ADOPTED, REASON_NONE, epoch);
	end->state = CTL_STATE_RING;
	end->reason = REASON_NONE;
	session_send(session, &done, NULL, 0);
	if (facts.state ==
	    TCP_STATE_ESTABLISHED) /* else the lane ends soon, and nobody knows more */
		ruling_adopted(end, &facts);
}

static void leave_lane(struct end *end, enum reason reason, bool died)
{
	if (end->remote)
		end->session->server->remote->leave(end, reason, died);
	else
		coupling_leave(end, reason, died);
}

void pair_cancel(struct end *end)
{
	if (end->dup >= 0)
		pair_refuse(end, REASON_CANCELLED);
	else
		leave_lane(end, REASON_CANCELLED, false); /* unless it crossed our refusal */
}

void pair_forget(struct end *end, enum reason reason, bool died)
{
	struct server *server = end->session->server;
	struct ctl_totals totals = end_totals(end);

	if (end_next_kin(end) == end)
		tally_add(&server->tally.gone, &totals);
	else
		end_set_totals(end_next_kin(end), &totals); /* it is the same connection */
	if (end->dup >= 0)
		stop_waiting(end);
	leave_lane(end, reason, died);
	registry_remove(&server->registry, end);
}

void pair_session_gone(struct session *session)
{
	struct list *node;

	while ((node = list_first(&session->ends)) != NULL)
		pair_forget(list_entry(node, struct end, link), REASON_PEER_DIED, true);
}
