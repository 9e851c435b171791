/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "os/bell.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/syswait.h"
#include "pair.h"
#include "request.h"
#include "ruling.h"
#include "server.h"
#include "session.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

/* Messages read from one session before others get their turn. Chosen. */
#define READ_BUDGET 16

/* A message that waits for room in a socket; it owns its descriptors. */
struct parcel {
	struct list link;
	size_t len;
	struct fd_bag bag;
	uint8_t bytes[CTL_MAX_BYTES];
};

static void session_doom(struct session *session)
{
	if (session->phase == SESSION_DOOMED)
		return;
	session->phase = SESSION_DOOMED;
	loop_remove(&session->sock);
	loop_defer(&session->server->loop, &session->doom);
}

void session_cut(struct session *session, const char *format, ...)
{
	struct server *server = session->server;
	char text[128];
	va_list args;

	if (session->phase == SESSION_DOOMED)
		return;
	server->tally.cut_off++;
	/* One line a second per user, after a burst of five. */
	if (!bucket_take(&session->user->complaints, loop_now(&server->loop), 1, 5)) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
		event_log(CLIENT_CUT_OFF,
			  LOG_FACTS(LOG_NUMBER("SHUNT_PID", session->pid),
				    LOG_NUMBER("SHUNT_UID", session->uid),
				    LOG_TEXT("SHUNT_REASON", text)),
			  "pid %d (uid %u): cut off: %s; its connections stay as they are",
			  (int)session->pid, (unsigned int)session->uid, text);
	}
	session_doom(session);
}

static void session_free(struct session *session)
{
	struct server *server = session->server;
	struct list *node;

	pair_session_gone(session);
	loop_remove(&session->sock);
	loop_remove(&session->process);
	fd_close(session->sock.fd);
	fd_close(session->process.fd);
	/* Last: who wakes by its hang-up, or sees the counter move, finds the socket closed. */
	fd_close(session->kick);
	board_post(&server->board, session->slot);
	timer_clear(&server->loop.timers, &session->timer);
	list_unlink(&session->doom.link);
	list_unlink(&session->kicking.link);
	while ((node = list_pop_front(&session->out)) != NULL) {
		struct parcel *parcel = list_entry(node, struct parcel, link);

		fd_bag_close(&parcel->bag);
		free(parcel);
	}
	board_give(&server->board, session->slot);
	ruling_forget(session);
	list_unlink(&session->link);
	session->user->sessions--;
	quota_user_put(&server->quota, session->user);
	free(session);
	server_session_gone(server);
}

static void on_doom(struct task *task)
{
	session_free(container_of(task, struct session, doom));
}

static void on_kicking(struct task *task)
{
	bell_ring(container_of(task, struct session, kicking)->kick);
}

void session_kick(struct session *session)
{
	if (session->phase == SESSION_CLIENT)
		loop_defer(&session->server->loop, &session->kicking);
}

int session_make_kick(struct session *session)
{
	int ear;

	session->kick = bell_make();
	ear = bell_ear(session->kick);
	if (ear >= session->server->fd_limit) {
		fd_close(ear);
		return -EMFILE;
	}
	return session->kick < 0 ? session->kick : ear;
}

void session_destroy_all(struct server *server)
{
	struct list *node;

	while ((node = list_first(&server->sessions)) != NULL) {
		struct session *session = list_entry(node, struct session, link);

		session->phase = SESSION_DOOMED;
		session_free(session);
	}
}

/* What the socket should wake us for. */
static void session_watch(struct session *session)
{
	uint32_t events = session->paused ? 0 : EPOLLIN;

	if (!list_is_empty(&session->out))
		events |= EPOLLOUT;
	if (session->phase != SESSION_DOOMED && loop_change(&session->sock, events) < 0)
		session_doom(session);
}

static void session_send_failed(struct session *session, int rc)
{
	/* The kernel counts descriptors that lie in sockets, unread, against us. */
	if (rc == -ETOOMANYREFS)
		session_cut(session, "too many descriptors lie unread in sockets");
	else
		session_doom(session);
}

static void session_ask(struct session *session)
{
	struct ctl_msg msg = {.type = CTL_DEMOTE};
	struct list *node;
	bool any = false;

	while (list_is_empty(&session->out) && session->phase != SESSION_DOOMED &&
	       (node = list_pop_front(&session->asks)) != NULL) {
		struct end *end = list_entry(node, struct end, asking);

		msg.token = end->token;
		msg.u.demote.reason = end->asked_for;
		session_send(session, &msg, NULL, 0);
		any = true;
	}
	if (any)
		session_kick(session);
}

void session_ask_demote(struct end *end, enum reason reason)
{
	end->asked_for = reason;
	if (!list_is_linked(&end->asking))
		list_push_back(&end->session->asks, &end->asking);
	session_ask(end->session);
}

static void session_flush(struct session *session)
{
	struct list *node;

	while ((node = list_first(&session->out)) != NULL) {
		struct parcel *parcel = list_entry(node, struct parcel, link);
		int rc = fd_send(session->sock.fd, parcel->bytes, parcel->len, parcel->bag.fds,
				 parcel->bag.n);

		if (rc == -EAGAIN)
			return;
		if (rc < 0) {
			session_send_failed(session, rc);
			return;
		}
		board_post(&session->server->board, session->slot);
		session_kick(session); /* who woke by the kick for it may be asleep again */
		list_unlink(&parcel->link);
		session->out_count--;
		fd_bag_close(&parcel->bag);
		free(parcel);
	}
	session_ask(session);
	session_watch(session);
}

/* Keep a message until the socket takes it. */
static void session_queue(struct session *session, const void *bytes, size_t len, const int *fds,
			  size_t fd_count)
{
	struct parcel *parcel;

	if (session->out_count >= session->server->conf.send_backlog) {
		session_cut(session, "does not read its messages");
		return;
	}
	parcel = calloc(1, sizeof(*parcel));
	if (!parcel) {
		session_cut(session, "no memory for its messages");
		return;
	}
	list_init(&parcel->link);
	parcel->len = len;
	memcpy(parcel->bytes, bytes, len);
	for (size_t i = 0; i < fd_count; i++) {
		int fd = sys_fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			fd_bag_close(&parcel->bag);
			free(parcel);
			session_cut(session, "no descriptors for its messages");
			return;
		}
		parcel->bag.fds[parcel->bag.n++] = fd;
	}
	list_push_back(&session->out, &parcel->link);
	session->out_count++;
	session_watch(session);
}

void session_send(struct session *session, const struct ctl_msg *msg, const int *fds,
		  size_t fd_count)
{
	uint8_t bytes[CTL_MAX_BYTES];
	size_t len;
	int rc;

	if (session->phase == SESSION_DOOMED)
		return;
	len = ctl_encode(msg, bytes);
	rc = list_is_empty(&session->out) ? fd_send(session->sock.fd, bytes, len, fds, fd_count)
					  : -EAGAIN;
	if (rc == -EAGAIN)
		session_queue(session, bytes, len, fds, fd_count);
	else if (rc < 0)
		session_send_failed(session, rc);
	else
		board_post(&session->server->board, session->slot);
}

void session_refuse(struct session *session, uint64_t token, enum reason reason, uint32_t retry_ms)
{
	const struct ctl_msg msg = {
		.type = CTL_REFUSED,
		.token = token,
		.u.refused = {.reason = reason, .retry_ms = retry_ms},
	};

	session->server->tally.refusals[reason]++;
	session_send(session, &msg, NULL, 0);
}

/* Read one message and act on it. False when there is nothing more to read now. */
static bool session_read_one(struct session *session)
{
	uint8_t bytes[CTL_MAX_BYTES];
	struct fd_bag bag = {0};
	enum ctl_verdict verdict;
	struct ctl_msg msg;
	ssize_t len = fd_recv(session->sock.fd, bytes, sizeof(bytes), CTL_MAX_FDS, &bag);

	if (len == -EAGAIN)
		return false;
	if (len == 0 || len == -ECONNRESET) {
		session_doom(session);
		return false;
	}
	if (len < 0) {
		session_cut(session, len == -EMSGSIZE ? "oversized message"
				     : len == -EPROTO ? "too many descriptors"
						      : "its message could not be read");
		return false;
	}
	verdict = ctl_decode(CTL_FROM_CLIENT, bytes, (size_t)len, bag.n, &msg);
	if (verdict == CTL_OK)
		request_handle(session, &msg, &bag);
	else
		session_cut(session, "garbage (%s)", ctl_verdict_name(verdict));
	fd_bag_close(&bag);
	return session->phase != SESSION_DOOMED;
}

/* Take one message's worth of the rate; a session that is too fast is not read for a while. */
static bool session_may_read(struct session *session)
{
	struct server *server = session->server;
	uint64_t rate = server->conf.messages_per_s;
	uint64_t wait_ns = bucket_take(&session->messages, loop_now(&server->loop), rate, rate);

	if (!wait_ns)
		return true;
	session->paused = true;
	loop_set_timer(&server->loop, &session->timer, wait_ns / 1000000u + 1);
	session_watch(session);
	return false;
}

static void session_read(struct session *session)
{
	for (int i = 0; i < READ_BUDGET; i++) {
		if (!session_may_read(session) || !session_read_one(session))
			return;
	}
}

static void on_sock(struct source *source, uint32_t events)
{
	struct session *session = container_of(source, struct session, sock);

	if (events & EPOLLOUT)
		session_flush(session);
	if (session->phase != SESSION_DOOMED && (events & EPOLLIN))
		session_read(session);
	/* Behind a hang-up there is nothing more to come: read what there is, then end. */
	if (session->phase != SESSION_DOOMED && (events & (EPOLLHUP | EPOLLERR)) &&
	    !(events & EPOLLIN))
		session_doom(session);
}

/* More messages than a socket buffer holds. A child that still has the socket could go on. */
#define LAST_WORDS 512

/* The process has died: take its last words. */
static void on_process(struct source *source, uint32_t events)
{
	struct session *session = container_of(source, struct session, process);

	(void)events;
	for (int i = 0; i < LAST_WORDS && session->phase != SESSION_DOOMED; i++) {
		if (!session_read_one(session))
			break;
	}
	session_doom(session);
}

static void on_timer(struct timer *timer)
{
	struct session *session = container_of(timer, struct session, timer);

	if (session->phase == SESSION_NEW) {
		session_cut(session, "said nothing");
	} else {
		session->paused = false;
		session_watch(session);
	}
}

bool session_is_gone(struct session *session)
{
	struct pollfd polls[2] = {{.fd = session->sock.fd}, {.fd = session->process.fd}};

	polls[1].events = POLLIN;
	if (session->phase != SESSION_DOOMED && sys_poll(polls, 2, 0) > 0 &&
	    ((polls[0].revents & (POLLHUP | POLLERR)) || polls[1].revents))
		session_doom(session);
	return session->phase == SESSION_DOOMED;
}

int session_watch_process(struct session *session)
{
	socklen_t len = sizeof(int);
	int fd = -1, rc;

	rc = sys_getsockopt(session->sock.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len);
	if (rc < 0)
		fd = sys_pidfd_open(session->pid, 0);
	if (fd < 0)
		return fd;
	rc = loop_add(&session->server->loop, &session->process, fd, EPOLLIN, on_process);
	if (rc < 0)
		fd_close(fd);
	return rc;
}

/* Tell a client at @fd, which becomes no session, why. */
static void turn_away(struct server *server, int fd, enum reason reason)
{
	const struct ctl_msg msg = {
		.type = CTL_REFUSED,
		.u.refused = {.reason = reason, .retry_ms = 1000},
	};
	uint8_t bytes[CTL_MAX_BYTES];
	unsigned int withheld;

	server->tally.refusals[reason]++;
	fd_send(fd, bytes, ctl_encode(&msg, bytes), NULL, 0);
	fd_close(fd);
	if (log_limit_pass(&server->turned_away, loop_now(&server->loop), &withheld))
		event_log(CLIENT_REFUSED,
			  LOG_FACTS(LOG_TEXT("SHUNT_REASON", reason_name(reason)),
				    LOG_NUMBER("SHUNT_WITHHELD", withheld)),
			  "a client was turned away: %s (%u more since the last such line)",
			  reason_text(reason), withheld);
}

static enum reason session_admit(struct server *server, int fd, const struct ucred *cred,
				 struct quota_user **ret_user)
{
	struct quota_user *user;

	if (fd >= server->fd_limit)
		return REASON_NO_DESCRIPTORS;
	if ((!server->serve_all && cred->uid != server->uid) || cred->pid <= 0)
		return REASON_NOT_ELIGIBLE;
	if (server->session_count >= server->conf.max_sessions)
		return REASON_OVER_QUOTA;
	user = quota_user_get(&server->quota, cred->uid);
	if (!user)
		return REASON_NO_MEMORY;
	if (!quota_take_session(&server->quota, user)) {
		quota_user_put(&server->quota, user);
		return REASON_OVER_QUOTA;
	}
	*ret_user = user;
	return REASON_NONE;
}

void session_accept(struct server *server, int fd)
{
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	struct quota_user *user = NULL;
	struct session *session;
	enum reason reason;

	if (sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		fd_close(fd);
		return;
	}
	reason = session_admit(server, fd, &cred, &user);
	if (reason != REASON_NONE) {
		turn_away(server, fd, reason);
		return;
	}
	session = calloc(1, sizeof(*session));
	if (!session || loop_add(&server->loop, &session->sock, fd, EPOLLIN, on_sock) < 0) {
		free(session);
		user->sessions--;
		quota_user_put(&server->quota, user);
		turn_away(server, fd, REASON_NO_MEMORY);
		return;
	}
	session->server = server;
	session->process.fd = session->kick = -1;
	session->serial = ++server->session_serial;
	session->pid = cred.pid;
	session->uid = cred.uid;
	session->user = user;
	session->slot = BOARD_FULL;
	list_init(&session->link);
	list_init(&session->out);
	list_init(&session->ends);
	list_init(&session->asks);
	task_init(&session->doom, on_doom);
	task_init(&session->kicking, on_kicking);
	timer_init(&session->timer, on_timer);
	list_push_back(&server->sessions, &session->link);
	server->session_count++;
	loop_set_timer(&server->loop, &session->timer, server->conf.hello_wait_ms);
}
