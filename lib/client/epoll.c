/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/util.h"
#include "client/cancel.h"
#include "client/epoll.h"
#include "client/epset.h"
#include "client/fdtable.h"
#include "client/kick.h"
#include "client/ready.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/signal.h"
#include "client/spin.h"
#include "client/wait.h"
#include "os/clock.h"
#include "os/syswait.h"

/* Entries looked at, or inner events taken, in one go. Chosen: what fits the stack comfortably. */
#define EPOLL_BATCH 64

/* The events that epoll and poll share have the same numbers. */
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLRDHUP == POLLRDHUP &&
		       EPOLLHUP == POLLHUP && EPOLLERR == POLLERR && EPOLLPRI == POLLPRI,
	       "epoll's event bits are poll's");
#define EPOLL_POLL_BITS 0x3fffu

/* One entry that is being looked at, without the sets' mutex. */
struct look {
	struct epentry *entry;
	struct sock *sock;
	uint32_t gen;
	bool tcp_news;	/* an edge of TCP was taken, and there is something to read */
	bool tcp_moved; /* TCP has something to tell still */
	short want;
	struct ready ready;
	short got;
};

struct batch {
	struct look look[EPOLL_BATCH];
	int n;
};

/* Take entries off the ready list. */
static void batch_take(struct epset *set, struct batch *batch, int most)
{
	batch->n = 0;
	epset_lock();
	while (set->ready_head && batch->n < most && batch->n < EPOLL_BATCH) {
		struct epentry *entry = set->ready_head;
		struct look *look = &batch->look[batch->n++];

		epset_unlist(entry);
		*look = (struct look){
			.entry = entry,
			.sock = entry->sock,
			.gen = entry->gen,
			.tcp_news = entry->tcp_moved,
			.want = (short)(entry->user.events & EPOLL_POLL_BITS),
		};
		entry->tcp_moved = false;
	}
	epset_unlock();
}

/* What the lane, and TCP where it matters, say. */
static void look_at(struct look *look)
{
	struct pollfd tcp = {0};
	short asked;

	ready_look(look->sock, look->want, true, &look->ready);
	asked = look->ready.ask;
	if (look->tcp_news || (asked & (POLLIN | POLLOUT))) {
		/* Bytes on TCP are news, even while those in the ring come first. */
		tcp = (struct pollfd){.fd = look->sock->fd, .events = asked | POLLIN};
		sys_poll(&tcp, 1, 0);
	}
	look->tcp_news &= (tcp.revents & ~(POLLOUT | POLLWRNORM)) != 0;
	tcp.revents &= asked | POLLHUP | POLLERR | POLLNVAL;
	/* Until TCP is quiet again; or till the ring's words have caught up with it. */
	look->tcp_moved = tcp.revents || look->ready.fin || (look->ready.ring && look->tcp_news);
	look->got = ready_merge(look->sock, look->want, &look->ready, tcp.revents);
}

/* Edge-triggered: leave out what the program has been told already. */
static short only_news(struct epentry *entry, const struct look *look)
{
	const struct wake_mark *mark = &look->ready.mark;
	bool news = look->tcp_news || mark->prod != entry->told_prod;
	bool space = !entry->told_out || atomic_exchange(&look->sock->tx_again, 0);
	short got = look->got;

	if (!news)
		got &= (short)~(POLLIN | POLLRDHUP | POLLHUP | POLLERR);
	if (!space)
		got &= (short)~POLLOUT;
	entry->told_prod = mark->prod;
	entry->told_out = look->got & POLLOUT;
	return got;
}

/* Decide about one entry that was looked at. True if @ret_event was filled. Locked. */
static bool settle_entry(struct look *look, struct epoll_event *ret_event)
{
	struct epentry *entry = look->entry;
	short got = look->got;
	bool edge;

	if (entry->gen != look->gen || !entry->set || !entry->inner)
		return false; /* it was removed, or went back to the program's set */
	entry->tcp_moved |= look->tcp_moved;
	if (entry->parked || entry->disabled)
		return false;
	edge = entry->user.events & EPOLLET;
	/* Level-triggered and ready: it is looked at again next time. All else waits for an edge,
	 * unless something moved since the look. */
	if ((got && !edge) || !ready_arm(look->sock, &look->ready))
		epset_list(entry);
	if (edge)
		got = only_news(entry, look);
	if (!got)
		return false;
	if (entry->user.events & EPOLLONESHOT) {
		entry->disabled = true;
		epset_unlist(entry);
	}
	*ret_event = (struct epoll_event){.events = (uint32_t)(unsigned short)got,
					  .data = entry->user.data};
	return true;
}

static bool batch_moved(void *arg)
{
	const struct batch *batch = arg;

	for (int i = 0; i < batch->n; i++)
		if (ready_moved(batch->look[i].sock, &batch->look[i].ready))
			return true;
	return false;
}

static bool batch_quiet(const struct batch *batch)
{
	for (int i = 0; i < batch->n; i++)
		if (batch->look[i].got)
			return false;
	return batch->n;
}

static void batch_look(struct batch *batch)
{
	for (int i = 0; i < batch->n; i++)
		look_at(&batch->look[i]);
}

static void batch_release(struct batch *batch)
{
	for (int i = 0; i < batch->n; i++)
		ready_release(batch->look[i].sock, &batch->look[i].ready);
}

/*
 * Report what is ready on the set's list. @spin: nothing else is being waited for, so that it may
 * pay to look for a while before arming; only where the batch is all there is to look at.
 */
static int harvest(struct epset *set, struct epoll_event *events, int max, bool spin)
{
	struct batch batch;
	int n = 0;

	batch_take(set, &batch, max);
	if (!batch.n)
		return 0;
	batch_look(&batch);
	if (spin && batch_quiet(&batch) && (uint32_t)batch.n == set->n_inner &&
	    spin_for_many((size_t)batch.n, batch_moved, &batch)) {
		batch_release(&batch);
		batch_look(&batch);
	}
	epset_lock();
	for (int i = 0; i < batch.n; i++)
		n += settle_entry(&batch.look[i], &events[n]);
	epset_unlock();
	batch_release(&batch);
	return n;
}

/* Take the edges of the inner epoll: entries go on the ready list. */
static void drain_inner(struct epset *set)
{
	struct epoll_event events[EPOLL_BATCH];
	bool mail = false, kicked = false, tcp;
	uint32_t hung_up = 0;
	int n;

	do {
		n = sys_epoll_wait(set->inner, events, EPOLL_BATCH, 0);
		epset_lock();
		for (int i = 0; i < n; i++) {
			uint64_t tag = events[i].data.u64;
			struct epentry *entry;

			if (tag == EPSET_TAG_SESSION)
				mail = true;
			if (kick_is(EPSET_TAG_KICK, tag)) {
				kicked = true;
				if (events[i].events & EPOLLHUP)
					hung_up = (uint32_t)tag;
			}
			if (tag >= EPSET_TAG_LEAST)
				continue;
			entry = epset_entry(tag, &tcp);
			if (!entry || !entry->inner)
				continue;
			entry->tcp_moved |= tcp;
			if (!entry->parked)
				epset_list(entry);
		}
		epset_unlock();
	} while (n == EPOLL_BATCH);
	if (kicked) {
		/* Whom it is for is not said. */
		epset_list_all(set);
		session_attend(hung_up);
	} else if (mail) {
		session_poll();
	}
}

/* One call, as far as the kernel is concerned. */
struct epoll_ask {
	int ep;
	uint64_t left_ns;
	const sigset_t *mask;
	struct signal_mark since;
};

/* The kernel's part: its events, ours taken out. Sets *@ret_inner if the inner epoll was among
 * them. A count or -errno. */
static int ask_kernel(struct epset *set, const struct epoll_ask *ask, struct epoll_event *events,
		      int max, bool *ret_inner)
{
	uint64_t left_ns = ask->left_ns;
	struct timespec ts = {.tv_sec = (time_t)(left_ns / 1000000000u),
			      .tv_nsec = (long)(left_ns % 1000000000u)};
	int n = signal_epoll_pwait2(ask->ep, events, max, left_ns == UINT64_MAX ? NULL : &ts,
				    ask->mask, &ask->since);
	int kept = 0;

	if (n == -ENOSYS)
		n = sys_epoll_pwait(ask->ep, events, max,
				    left_ns == UINT64_MAX ? -1
							  : (int)((left_ns + 999999) / 1000000),
				    ask->mask);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == (uint64_t)(uintptr_t)set)
			*ret_inner = true;
		else
			events[kept++] = events[i];
	}
	return n < 0 ? n : kept;
}

static int wait_in_set(struct epset *set, int ep, struct epoll_event *events, int max,
		       uint64_t deadline, const sigset_t *mask)
{
	struct epoll_ask ask = {.ep = ep, .mask = mask, .since = signal_mark()};
	uint64_t now;
	bool inner, alone;
	int n, rc;

	for (;;) {
		remote_check();
		if (session_calls())
			session_poll();
		now = deadline == WAIT_FOREVER ? 0 : clock_now_ns();
		ask.left_ns = deadline == WAIT_FOREVER ? UINT64_MAX
			      : now < deadline	       ? deadline - now
						       : 0;
		alone = !epset_cover(set) && set->n_inner && ask.left_ns > SLEEP_ALONE_NS;
		if (alone)
			ask.left_ns = SLEEP_ALONE_NS;
		n = harvest(set, events, max, ask.left_ns != 0);
		if (n == max)
			return n;
		/* What moved while it was being armed is on the list again: do not sleep. */
		if (n || __atomic_load_n(&set->ready_head, __ATOMIC_RELAXED))
			ask.left_ns = 0;
		ask.left_ns = u64_min(ask.left_ns, remote_sleep_ns());
		inner = false;
		rc = ask_kernel(set, &ask, events + n, max - n, &inner);
		if (rc < 0)
			return n ? n : rc;
		if (inner) {
			drain_inner(set);
			/* What was reported already may be on the list again, or since its lane
			 * began just now: no descriptor twice in a call. */
			if (!n && !rc)
				n = harvest(set, events, max, false);
		} else if (alone && ask.left_ns && !rc) {
			epset_list_all(set);
		}
		n += rc;
		if (n || (deadline != WAIT_FOREVER && clock_now_ns() >= deadline))
			return n;
	}
}

static int deadline_of(const struct timespec *timeout, uint64_t *ret_deadline)
{
	*ret_deadline = WAIT_FOREVER;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000L)
		return -EINVAL;
	if (timeout->tv_sec < 1000000000L)
		*ret_deadline = clock_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u +
				(uint64_t)timeout->tv_nsec;
	return 0;
}

int epoll_wait_call(int ep, struct epoll_event *events, int max, const struct timespec *timeout,
		    const sigset_t *mask)
{
	struct epset *set = epset_get(ep);
	uint64_t deadline;
	bool more;
	int rc;

	if (!set || set->inner < 0 || max <= 0) {
		rc = (int)CANCELLABLE(sys_epoll_pwait2(ep, events, max, timeout, mask));
		if (rc != -ENOSYS)
			return rc;
		return (int)CANCELLABLE(
			sys_epoll_pwait(ep, events, max,
					timeout ? (int)(timeout->tv_sec * 1000 +
							(timeout->tv_nsec + 999999) / 1000000)
						: -1,
					mask));
	}
	rc = deadline_of(timeout, &deadline);
	if (rc)
		return rc;
	atomic_fetch_add(&set->waiters, 1);
	rc = wait_in_set(set, ep, events, max, deadline, mask);
	/* What stays on the list is for the next thread, or for whoever watches the set itself. */
	epset_lock();
	more = atomic_fetch_sub(&set->waiters, 1) > 1 || set->outer;
	if (more && set->ready_head && set->inner >= 0)
		epset_nudge(set);
	epset_unlock();
	return rc;
}

int epoll_ctl_call(int ep, int op, int fd, struct epoll_event *event)
{
	struct sock *sock = fdtable_get(fd);
	struct epset *nested = sock ? NULL : epset_get(fd);

	if (nested && op == EPOLL_CTL_ADD && !nested->outer)
		epset_outer(nested);
	if (!sock || (!event && op != EPOLL_CTL_DEL))
		return sys_epoll_ctl(ep, op, fd, event);
	switch (op) {
	case EPOLL_CTL_ADD:
		return epset_add(ep, fd, sock, event);
	case EPOLL_CTL_MOD:
		return epset_mod(ep, fd, sock, event);
	case EPOLL_CTL_DEL:
		return epset_del(ep, fd, sock);
	default:
		return sys_epoll_ctl(ep, op, fd, event);
	}
}
