/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/util.h"
#include "core/peer.h"
#include "core/replay.h"
#include "core/ring.h"
#include "os/fd.h"
#include "os/syswait.h"
#include "os/tcp.h"
#include "remote_replay.h"

static uint64_t word(const _Atomic uint64_t *at)
{
	return atomic_load(at);
}

/* Events of the socket: POLLOUT, POLLERR, POLLHUP. */
static short events(const struct remote_end *end)
{
	struct pollfd fd = {.fd = end->sock, .events = POLLOUT};

	return end->sock >= 0 && sys_poll(&fd, 1, 0) > 0 ? fd.revents : 0;
}

/* Whether the connection is over by a reset. */
static bool is_reset(const struct remote_end *end)
{
	enum tcp_state state;

	if (events(end) & POLLERR)
		return true;
	return tcp_state_read(end->sock, &state) == 0 && state == TCP_STATE_CLOSE;
}

/* TCP bytes written by our client's side. False when that can't be told any more. */
static bool written(const struct remote_end *end, struct tcp_count *ret_count)
{
	return tcp_written(end->sock, end->syn_bias, &ret_count->v) == 0;
}

/* --- how far things are ----------------------------------------------------------------------- */

bool remote_reached(const struct remote_end *end, uint64_t *ret_offset)
{
	const struct half_ctl *half = end->half, *fed = end->fed;
	uint64_t resume, at;

	if (!word(&fed->lost) || !word(&fed->stop_ack))
		return false;
	/* It was frozen; and the client takes nothing from the ring, or reads TCP no further than
	 * to the start, or can't read any more. */
	resume = word(&half->rx_resume);
	if (resume == RESUME_ASKED && !end->gone)
		return false;
	at = resume == RESUME_DONE ? word(&fed->prod) : opt_value(word(&fed->stop_ack));
	if (at && !word(&half->rx_seen) && !end->gone)
		return false;
	*ret_offset = at;
	return true;
}

/* Where the client's bytes end: where it said, or where it stood when it died. */
static uint64_t end_of(const struct remote_end *end)
{
	uint64_t said = word(&end->half->tx_end);

	return said ? opt_value(said) : word(&end->half->prod);
}

/* Bytes from *@ret_next to the end are still to be replayed. False: no replay is under way. */
static bool replay_state(const struct remote_end *end, uint64_t *ret_next)
{
	struct tcp_count count;
	struct ring_off next;

	if (!word(&end->fed->lost) || !word(&end->half->tx_start) || end->sock < 0)
		return false;
	if (!word(&end->fed->replay_from)) {
		*ret_next = opt_value(word(&end->fed->wanted));
		return word(&end->fed->wanted) != OPT_NONE;
	}
	/* Or it was through, and others have sent since. */
	if (!written(end, &count) || replay_next(end->fed, count, ring_off(end_of(end)), &next))
		return false;
	*ret_next = next.v;
	return true;
}

/* Whether all that the client has said or will ever say has come to the other daemon. */
static bool delivered(const struct remote_end *end)
{
	const struct half_ctl *half = end->half;

	return !end->lost && end->acked.prod == word(&half->prod) &&
	       end->acked.states[REMOTE_TX_END] == word(&half->tx_end) &&
	       end->acked.cons == word(&half->cons) &&
	       end->acked.states[REMOTE_SHUT] == word(&half->shut);
}

/* Whether nothing of the client's is on its way any more, but over TCP. */
static bool through(const struct remote_end *end)
{
	uint64_t next;

	if (!word(&end->half->tx_start) || !end_of(end) || delivered(end))
		return true;
	return replay_state(end, &next) && next == end_of(end);
}

static bool vouched(const struct remote_end *end)
{
	uint64_t said = word(&end->half->tx_end);

	return said && word(&end->fed->replayed) == said;
}

/* The client has ended its direction: can we vouch for the bytes? */
static bool may_vouch(const struct remote_end *end)
{
	if (!word(&end->half->tx_end) || vouched(end))
		return false;
	return word(&end->fed->lost) ? through(end) : delivered(end);
}

static bool replay_is_due(const struct remote_end *end)
{
	uint64_t next;

	return !vouched(end) && replay_state(end, &next) && next < end_of(end);
}

bool remote_has_recorded(const struct remote_end *end)
{
	return word(&end->fed->wanted) != OPT_NONE;
}

bool remote_can_replay(const struct remote_end *end)
{
	return end->sock >= 0 && !vouched(end);
}

/* --- what to do ------------------------------------------------------------------------------- */

/* The client is gone: may the last descriptor go, too? */
static bool may_close(const struct remote_end *end)
{
	return vouched(end) || (!word(&end->half->tx_end) && through(end)) || is_reset(end);
}

enum remote_task remote_next(const struct remote_end *end)
{
	const struct half_ctl *half = end->half, *fed = end->fed;

	if (end->lost && (!word(&fed->lost) || !word(&fed->stop_ack)))
		return REMOTE_DO_FREEZE;
	if (end->lost && end->wanted != OPT_NONE && !remote_has_recorded(end))
		return REMOTE_DO_RECORD;
	if (end->lost && end->settled && !word(&fed->settled))
		return REMOTE_DO_SETTLE;
	if (end->sock < 0)
		return REMOTE_DO_NOTHING;
	if (!end->lost && word(&half->rx_stop) && !word(&half->rx_resume))
		return REMOTE_DO_HAND_OVER;
	if (replay_is_due(end) && (events(end) & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT)
		return REMOTE_DO_REPLAY;
	if (may_vouch(end))
		return REMOTE_DO_VOUCH;
	/* Who closes may do so with bytes unread, which is a reset: REMOTE_DO_CLOSE sees to it. */
	if (word(&half->shut) && !word(&half->closing) && vouched(end) && !end->shut)
		return REMOTE_DO_SHUT;
	if (end->gone && may_close(end))
		return REMOTE_DO_CLOSE;
	return end->drained && !end->gone ? REMOTE_DO_RELEASE : REMOTE_DO_NOTHING;
}

/* The end, and where TCP goes on, are final with it. */
static void freeze(struct remote_end *end)
{
	const struct half_ctl *half = end->half;
	struct half_ctl *fed = end->fed;
	uint64_t stop = word(&half->rx_stop);

	if (!word(&fed->lost))
		own_announce(fed, &fed->lost, 1);
	if (!word(&fed->tx_end))
		own_announce(fed, &fed->tx_end, opt_some(word(&fed->prod)));
	if (!stop || word(&half->rx_resume) || !end->can_replay)
		stop = word(&fed->tx_end);
	if (!word(&fed->stop_ack))
		own_announce(fed, &fed->stop_ack, stop);
}

/* Send what the kernel takes. */
static int replay(struct remote_end *end)
{
	const uint8_t *ring = half_ring_const(end->half);
	struct half_ctl *fed = end->fed;
	uint64_t last = end_of(end);
	struct ring_spans spans;
	struct tcp_count count;
	struct ring_off next;
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};

	if (!written(end, &count))
		return 0;
	if (!word(&fed->replay_from))
		replay_begin(fed, ring_off(opt_value(word(&fed->wanted))), count);
	if (replay_next(fed, count, ring_off(last), &next) || last - next.v > end->half_ring_bytes)
		return -EBADMSG;
	spans = ring_range(end->half_ring_bytes, next, last - next.v);
	for (unsigned int i = 0; i < 2; i++)
		iov[i] = (struct iovec){
			.iov_base = (uint8_t *)(uintptr_t)ring + spans.pos[i],
			.iov_len = spans.len[i],
		};
	msg.msg_iovlen = spans.len[1] ? 2 : 1;
	sys_sendmsg(end->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* How far it came; the end is for REMOTE_DO_VOUCH to tell. */
	if (next.v)
		replay_publish(fed, next);
	return 0;
}

static void set_linger(int sock, bool reset)
{
	const struct linger linger = {.l_onoff = reset, .l_linger = 0};

	sys_setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void release(struct remote_end *end)
{
	fd_close(TAKE(end->sock, -1));
}

/* The last descriptor of a socket whose program is gone: bytes unread make it a reset, as TCP does.
 */
static void close_for(struct remote_end *end)
{
	uint64_t owed = word(&end->fed->prod);

	if (word(&end->fed->stop_ack) && word(&end->half->rx_resume) != RESUME_DONE)
		owed = opt_value(word(&end->fed->stop_ack));
	set_linger(end->sock, word(&end->half->cons) != owed);
	release(end);
}

int remote_do(struct remote_end *end, enum remote_task task)
{
	switch (task) {
	case REMOTE_DO_FREEZE:
		freeze(end);
		return 1;
	case REMOTE_DO_RECORD:
		atomic_store(&end->fed->wanted, end->wanted);
		return 0;
	case REMOTE_DO_SETTLE:
		own_announce(end->fed, &end->fed->settled, 1);
		return 1;
	case REMOTE_DO_REPLAY:
		return replay(end);
	case REMOTE_DO_VOUCH:
		replay_publish(end->fed, ring_off(end_of(end)));
		return 1;
	case REMOTE_DO_SHUT:
		set_linger(end->sock, false);
		sys_shutdown(end->sock, SHUT_WR);
		end->shut = true;
		return 0;
	case REMOTE_DO_CLOSE:
		close_for(end);
		return 0;
	case REMOTE_DO_RELEASE:
		release(end);
		return 0;
	default:
		return 0;
	}
}

void remote_abort(struct remote_end *end)
{
	const struct sockaddr unspec = {.sa_family = AF_UNSPEC};

	if (end->sock < 0)
		return;
	sys_connect(end->sock, &unspec, sizeof(unspec));
	release(end);
}
