/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"
#include "peers_impl.h"
#include "server.h"

/* Messages of one session before others get their turn. Chosen. */
#define READ_BUDGET 64
/* Room for messages out is made in such steps. Chosen. */
#define OUT_STEP 4096u

void peer_io_watch(struct peer_session *session)
{
	bool out = session->out_at < session->out_len || session->wants_write ||
		   session->phase == PEER_DIALLING;
	uint32_t events = (session->paused ? 0 : EPOLLIN) | (out ? EPOLLOUT : 0);

	if (session->phase != PEER_DOOMED && loop_change(&session->source, events) < 0)
		peer_session_doom(session);
}

/* A read or write has failed or met the end. */
static void broken(struct peer_session *session, int rc)
{
	if (rc == 0 || rc == -ECONNRESET)
		peer_session_lost(session, "it hung up");
	else
		peer_session_cut(session, PEER_COMPLAINT_HANDSHAKE, PEER_BYE_PROTOCOL,
				 "TLS failed: %s", tls_why(session->tls));
}

void peer_io_flush(struct peer_session *session)
{
	while (session->out_at < session->out_len) {
		ssize_t n = tls_write(session->tls, session->out + session->out_at,
				      session->out_len - session->out_at);

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			broken(session, (int)n);
			return;
		}
		session->out_at += (size_t)n;
	}
	if (session->out_at == session->out_len)
		session->out_at = session->out_len = 0;
	peer_io_watch(session);
}

/* Room for one more frame. False: the session has been cut off. */
static bool make_room(struct peer_session *session)
{
	size_t kept = session->out_len - session->out_at, room;
	uint8_t *bytes;

	if (kept > session->peers->server->conf.peer_backlog) {
		/* A goodbye would not get through either. */
		peer_session_cut(session, PEER_COMPLAINT_SLOW, 0,
				 "it does not read what it is told");
		return false;
	}
	if (session->out_at > 0 && session->out_len + PEER_FRAME_MAX > session->out_room) {
		memmove(session->out, session->out + session->out_at, kept);
		session->out_at = 0;
		session->out_len = kept;
	}
	if (session->out_len + PEER_FRAME_MAX <= session->out_room)
		return true;
	room = session->out_room * 2 + OUT_STEP;
	bytes = realloc(session->out, room);
	if (!bytes) {
		peer_session_doom(session);
		return false;
	}
	session->out = bytes;
	session->out_room = room;
	return true;
}

void peer_session_send(struct peer_session *session, const struct peer_msg *msg)
{
	bool was_empty = session->out_at == session->out_len;

	if (session->phase != PEER_HELLOING && session->phase != PEER_UP)
		return;
	if (!make_room(session))
		return;
	session->out_len += peer_encode(msg, session->out + session->out_len);
	session->counts.messages_sent++;
	/* Else the socket is full already. */
	if (was_empty)
		peer_io_flush(session);
}

/* Take one message's worth of the rate; a session that is too fast is not read for a while. */
static bool may_read(struct peer_session *session)
{
	struct server *server = session->peers->server;
	uint64_t rate = server->conf.peer_messages_per_s;
	uint64_t wait_ns = bucket_take(&session->messages, clock_now_ns(), rate, rate);

	if (!wait_ns)
		return true;
	session->paused = true;
	loop_set_timer(&server->loop, &session->resume, wait_ns / 1000000u + 1);
	peer_io_watch(session);
	return false;
}

void on_peer_resume(struct timer *timer)
{
	struct peer_session *session = container_of(timer, struct peer_session, resume);

	if (session->phase == PEER_DOOMED)
		return;
	session->paused = false;
	peer_io_watch(session);
	peer_io_read(session); /* something may lie in TLS or here, unknown to epoll */
}

/* Act on the frames at hand. False: nothing more is to be done now. */
static bool take_frames(struct peer_session *session, int *budget)
{
	enum peer_verdict verdict = PEER_MORE;
	struct peer_msg msg;
	size_t at = 0, used;

	while (*budget > 0) {
		verdict = peer_decode(session->in + at, session->in_len - at, &msg, &used);
		if (verdict != PEER_OK)
			break;
		if (!may_read(session))
			break;
		at += used;
		--*budget;
		session->counts.messages_received++;
		session->heard_ns = clock_now_ns();
		peer_dispatch(session, &msg);
		if (session->phase == PEER_DOOMED)
			return false;
	}
	session->in_len -= at;
	memmove(session->in, session->in + at, session->in_len);
	if (session->paused || *budget == 0)
		return false;
	if (verdict == PEER_MORE)
		return true;
	peer_session_cut(session, PEER_COMPLAINT_PROTOCOL,
			 verdict == PEER_BAD_VERSION ? PEER_BYE_VERSION : PEER_BYE_PROTOCOL,
			 "its message is garbage (%s)", peer_verdict_name(verdict));
	return false;
}

void peer_io_read(struct peer_session *session)
{
	int budget = READ_BUDGET;

	while (take_frames(session, &budget)) {
		ssize_t n = tls_read(session->tls, session->in + session->in_len,
				     sizeof(session->in) - session->in_len);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			broken(session, (int)n);
			return;
		}
		session->in_len += (size_t)n;
	}
	/* The rest is not seen by epoll: come back when others have had their turn. */
	if (session->phase != PEER_DOOMED && !session->paused)
		loop_set_timer(&session->peers->server->loop, &session->resume, 0);
}
