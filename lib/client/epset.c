/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "os/bell.h"
#include "client/demote.h"
#include "client/epentry.h"
#include "client/fdtable.h"
#include "client/kick.h"
#include "client/ownfd.h"
#include "client/pool.h"
#include "client/session.h"
#include "client/signal.h"
#include "os/fd.h"
#include "os/syswait.h"

/* Sets of one process. Chosen: more than threads; only what is used takes memory. */
#define EPSET_SETS 4096u

static struct pool set_pool;
static _Atomic(struct epset *) *set_slots; /* by descriptor */
static struct epset *set_free;
static uint32_t set_top;
static pthread_mutex_t epset_mutex = PTHREAD_MUTEX_INITIALIZER;

int epset_init(void)
{
	struct pool slots;
	int rc = entry_pool_init();

	if (!rc)
		rc = pool_init(&set_pool, sizeof(struct epset), EPSET_SETS, 0);
	if (!rc)
		rc = pool_init(&slots, sizeof(*set_slots), FDTABLE_SIZE, 0);
	if (!rc)
		set_slots = (void *)slots.base;
	return rc;
}

void epset_lock(void)
{
	section_enter();
	pthread_mutex_lock(&epset_mutex);
}

void epset_unlock(void)
{
	pthread_mutex_unlock(&epset_mutex);
	section_leave();
}

struct epset *epset_get(int epfd)
{
	if (!set_slots || (unsigned int)epfd >= FDTABLE_SIZE)
		return NULL;
	return atomic_load_explicit(&set_slots[epfd], memory_order_acquire);
}

static struct epset *set_make(int epfd)
{
	struct epset *set = set_free;

	if (!set_slots || (unsigned int)epfd >= FDTABLE_SIZE)
		return NULL;
	if (set)
		set_free = set->next_free;
	else if (set_top < set_pool.capacity)
		set = pool_at(&set_pool, set_top++);
	if (!set)
		return NULL;
	*set = (struct epset){.epfd = epfd, .n_fds = 1, .inner = -1, .nudge = -1, .session = -1};
	fdtable_reach(epfd);
	atomic_store_explicit(&set_slots[epfd], set, memory_order_release);
	return set;
}

void epset_nudge(struct epset *set)
{
	/* A thread that is about to sleep counts itself first and looks at the list afterwards. */
	if (atomic_load(&set->waiters) || set->outer)
		bell_ring(set->nudge);
}

int set_open_inner(struct epset *set)
{
	int rc;

	if (set->inner >= 0)
		return 0;
	set->inner = ownfd_take(sys_epoll_create1(EPOLL_CLOEXEC));
	set->nudge = ownfd_take(sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = set->inner < 0 ? set->inner : set->nudge < 0 ? set->nudge : 0;
	if (!rc)
		rc = inner_add(set->inner, set->nudge, EPOLLIN | EPOLLET, EPSET_TAG_NUDGE);
	/* The set's own address is a tag that no program can have chosen. */
	if (!rc)
		rc = inner_add(set->epfd, set->inner, EPOLLIN, (uint64_t)(uintptr_t)set);
	set->watched = 0;
	if (!rc && !set->outer)
		kick_watch(set->inner, EPSET_TAG_KICK, &set->watched);
	if (rc) {
		ownfd_close(set->inner);
		ownfd_close(set->nudge);
		set->inner = set->nudge = -1;
	}
	return rc;
}

void epset_list_all(struct epset *set)
{
	epset_lock();
	entry_list_all(set);
	epset_unlock();
}

bool epset_cover(struct epset *set)
{
	uint32_t covered = __atomic_load_n(&set->covered, __ATOMIC_RELAXED);

	if (session_covers(covered))
		return true;
	epset_lock();
	if (set->inner >= 0 && !set->outer)
		kick_watch(set->inner, EPSET_TAG_KICK, &set->watched);
	covered = session_covers(set->watched) ? set->watched : 0;
	if (covered && covered != set->covered)
		entry_list_all(set);
	__atomic_store_n(&set->covered, covered, __ATOMIC_RELAXED);
	epset_unlock();
	return covered;
}

int set_watch_session(struct epset *set)
{
	int fd = session_fd();

	if (set->session == fd)
		return 0;
	set->session = fd;
	return fd < 0 ? 0 : inner_add(set->inner, fd, EPOLLIN | EPOLLET, EPSET_TAG_SESSION);
}

/* A wish that is right only as the kernel does it: the socket goes to TCP and stays there. */
static bool must_stay(int epfd, const struct epoll_event *event)
{
	const struct epset *set = epset_get(epfd);

	return (event->events & (EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP)) ||
	       (set && set->outer);
}

/* A socket that the kernel has let into the program's set: keep what is asked for. */
static int entry_begin(int epfd, int fd, struct sock *sock, const struct epoll_event *event)
{
	struct epset *set = epset_get(epfd);
	struct epentry *entry;
	int rc;

	if (!set)
		set = set_make(epfd);
	entry = set ? entry_make(set, sock, fd) : NULL;
	if (!entry) {
		ctl_del(epfd, fd);
		return -ENOMEM;
	}
	entry->user = *event;
	rc = entry_settle(entry);
	if (rc) {
		entry_drop(entry);
		ctl_del(epfd, fd);
	}
	return rc;
}

int epset_add(int epfd, int fd, struct sock *sock, const struct epoll_event *event)
{
	struct epoll_event copy = *event;
	struct epentry *entry;
	int rc = 0;

	epset_lock();
	entry = entry_find(epfd, fd, sock);
	if (entry && entry->parked)
		entry_want(entry, event);
	else if (entry && (entry->inner || entry->absent))
		rc = -EEXIST;
	else
		rc = sys_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &copy); /* knows what is wrong */
	if (!rc && !entry)
		rc = entry_begin(epfd, fd, sock, event);
	epset_unlock();
	if (!rc && must_stay(epfd, event))
		demote_pin(sock, REASON_UNSERVED_CALL);
	return rc;
}

int epset_mod(int epfd, int fd, struct sock *sock, const struct epoll_event *event)
{
	struct epoll_event copy = *event;
	struct epentry *entry;
	int rc = 0;

	epset_lock();
	entry = entry_find(epfd, fd, sock);
	if (entry && entry->parked)
		rc = -ENOENT;
	else if (!entry || !entry->inner)
		rc = sys_epoll_ctl(epfd, entry && entry->absent ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd,
				   &copy);
	if (!rc && entry)
		entry_want(entry, event);
	epset_unlock();
	if (!rc && must_stay(epfd, event))
		demote_pin(sock, REASON_UNSERVED_CALL);
	return rc;
}

int epset_del(int epfd, int fd, struct sock *sock)
{
	struct epoll_event event = {0};
	struct epentry *entry;
	int rc = 0;

	epset_lock();
	entry = entry_find(epfd, fd, sock);
	if (entry && entry->parked) {
		rc = -ENOENT;
	} else if (entry && entry->inner) {
		entry->parked = true;
		epset_unlist(entry);
	} else {
		if (!entry || !entry->absent)
			rc = sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
		if (entry)
			entry_drop(entry);
	}
	epset_unlock();
	return rc;
}

void epset_dup(int epfd, int new_fd)
{
	struct epset *set;

	if (!epset_get(epfd) || (unsigned int)new_fd >= FDTABLE_SIZE)
		return;
	epset_lock();
	set = epset_get(epfd);
	if (set) {
		set->n_fds++;
		fdtable_reach(new_fd);
		atomic_store_explicit(&set_slots[new_fd], set, memory_order_release);
	}
	epset_unlock();
}

static void set_drop(struct epset *set)
{
	entry_drop_all(set);
	ownfd_close(set->inner);
	ownfd_close(set->nudge);
	set->inner = set->nudge = -1;
	set->next_free = set_free;
	set_free = set;
}

void epset_closed(int epfd)
{
	struct epset *set;

	if (!epset_get(epfd))
		return;
	epset_lock();
	set = epset_get(epfd);
	if (set) {
		atomic_store_explicit(&set_slots[epfd], NULL, memory_order_release);
		if (!--set->n_fds)
			set_drop(set);
		for (int i = 0; set->n_fds && set->epfd == epfd && i < (int)fdtable_top(); i++)
			if (epset_get(i) == set)
				set->epfd = i;
	}
	epset_unlock();
}

void epset_outer(struct epset *set)
{
	struct sock *sock;
	bool member;

	epset_lock();
	set->outer = true;
	epset_unlock();
	for (uint32_t i = 0; (sock = sock_at(i)); i++) {
		epset_lock();
		member = false;
		for (struct epentry *e = sock->live ? sock->entries : NULL; e; e = e->sock_next)
			member |= e->set == set;
		epset_unlock();
		if (member)
			demote_handover(sock, REASON_UNSERVED_CALL);
	}
	/* A kick would make it look ready, and there is no lane in it any more. */
	epset_lock();
	if (set->inner >= 0)
		kick_unwatch(set->inner, &set->watched);
	epset_unlock();
}

int epset_sock_pending(struct sock *sock)
{
	int rc = 0;

	epset_lock();
	for (struct epentry *e = sock->entries; e && !rc; e = e->sock_next)
		rc = entry_settle(e);
	epset_unlock();
	return rc;
}

int epset_sock_watch(struct sock *sock)
{
	int rc = 0;

	epset_lock();
	for (struct epentry *e = sock->entries; e && !rc; e = e->sock_next)
		rc = entry_watch(e);
	epset_unlock();
	return rc;
}

void epset_sock_lane(struct sock *sock)
{
	epset_lock();
	for (struct epentry *e = sock->entries; e; e = e->sock_next)
		entry_settle(e);
	epset_unlock();
}

void epset_sock_tcp(struct sock *sock)
{
	if (!sock->entries)
		return;
	epset_lock();
	for (struct epentry *e = sock->entries, *next; e; e = next) {
		next = e->sock_next;
		if (e->parked)
			entry_drop(e);
		else
			entry_leave(e);
	}
	epset_unlock();
}

void epset_sock_closed(struct sock *sock)
{
	if (!sock->entries)
		return;
	epset_lock();
	while (sock->entries) {
		struct epentry *entry = sock->entries;

		/* The kernel forgets a descriptor with the last one of its socket, but the daemon
		 * may still have one that was passed to it. */
		if (!entry->inner && !entry->absent &&
		    (sock->sh->conn.reason != REASON_NONE || sock->sh->conn.epoch))
			ctl_del(entry->set->epfd, entry->fd);
		entry_drop(entry);
	}
	epset_unlock();
}
