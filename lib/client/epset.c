/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "client/bell.h"
#include "client/demote.h"
#include "client/epset.h"
#include "client/fdtable.h"
#include "client/ownfd.h"
#include "client/pool.h"
#include "client/session.h"
#include "os/fd.h"
#include "os/syswait.h"

/* Sockets in sets, and sets, of one process. Chosen: as many as there can be tracked sockets, and
 * more sets than threads; only what is used takes memory. */
#define EPSET_ENTRIES 131072u
#define EPSET_SETS 4096u
/* A tag is an entry's index, its generation, and whether TCP moved. */
#define TAG_TCP 1u

static struct pool entry_pool, set_pool;
static _Atomic(struct epset *) *set_slots; /* by descriptor */
static struct epentry *entry_free;
static struct epset *set_free;
static uint32_t entry_top, set_top;
static pthread_mutex_t epset_mutex = PTHREAD_MUTEX_INITIALIZER;

int epset_init(void)
{
	struct pool slots;
	int rc = pool_init(&entry_pool, sizeof(struct epentry), EPSET_ENTRIES, 0);

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
	pthread_mutex_lock(&epset_mutex);
}

void epset_unlock(void)
{
	pthread_mutex_unlock(&epset_mutex);
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
	*set = (struct epset){.epfd = epfd, .n_fds = 1, .inner = -1, .kick = -1, .session = -1};
	fdtable_reach(epfd);
	atomic_store_explicit(&set_slots[epfd], set, memory_order_release);
	return set;
}

static struct epentry *entry_make(struct epset *set, struct sock *sock, int fd)
{
	struct epentry *entry = entry_free;
	uint32_t index, gen;

	if (entry) {
		entry_free = entry->sock_next;
		index = entry->index;
		gen = entry->gen;
	} else if (entry_top < entry_pool.capacity) {
		index = entry_top;
		gen = 0;
		entry = pool_at(&entry_pool, entry_top++);
	} else {
		return NULL;
	}
	*entry = (struct epentry){
		.set = set, .sock = sock, .fd = fd, .index = index, .gen = gen + 1};
	entry->sock_next = sock->entries;
	sock->entries = entry;
	return entry;
}

static struct epentry *entry_find(int epfd, int fd, struct sock *sock)
{
	struct epset *set = epset_get(epfd);

	for (struct epentry *e = set ? sock->entries : NULL; e; e = e->sock_next)
		if (e->set == set && e->fd == fd)
			return e;
	return NULL;
}

void epset_list(struct epentry *entry)
{
	struct epset *set = entry->set;

	if (entry->listed)
		return;
	entry->listed = true;
	entry->ready_next = NULL;
	entry->ready_prev = set->ready_tail;
	*(set->ready_tail ? &set->ready_tail->ready_next : &set->ready_head) = entry;
	set->ready_tail = entry;
}

void epset_unlist(struct epentry *entry)
{
	struct epset *set = entry->set;

	if (!entry->listed)
		return;
	entry->listed = false;
	*(entry->ready_prev ? &entry->ready_prev->ready_next : &set->ready_head) =
		entry->ready_next;
	*(entry->ready_next ? &entry->ready_next->ready_prev : &set->ready_tail) =
		entry->ready_prev;
}

void epset_kick(struct epset *set)
{
	bell_ring(set->kick);
}

static uint64_t entry_tag(const struct epentry *entry, bool tcp)
{
	return (uint64_t)entry->index << 32 | (entry->gen << 1) | (tcp ? TAG_TCP : 0);
}

struct epentry *epset_entry(uint64_t tag, bool *ret_tcp)
{
	uint32_t index = (uint32_t)(tag >> 32);
	struct epentry *entry;

	if (index >= entry_top)
		return NULL;
	entry = pool_at(&entry_pool, index);
	*ret_tcp = tag & TAG_TCP;
	return entry->set && entry_tag(entry, *ret_tcp) == tag ? entry : NULL;
}

static int inner_add(int inner, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return sys_epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event);
}

static void ctl_del(int epfd, int fd)
{
	struct epoll_event event = {0};

	sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
}

static int set_open_inner(struct epset *set)
{
	int rc;

	if (set->inner >= 0)
		return 0;
	set->inner = ownfd_take(sys_epoll_create1(EPOLL_CLOEXEC));
	set->kick = ownfd_take(sys_eventfd2(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = set->inner < 0 ? set->inner : set->kick < 0 ? set->kick : 0;
	if (!rc)
		rc = inner_add(set->inner, set->kick, EPOLLIN | EPOLLET, EPSET_TAG_KICK);
	/* The set's own address is a tag that no program can have chosen. */
	if (!rc)
		rc = inner_add(set->epfd, set->inner, EPOLLIN, (uint64_t)(uintptr_t)set);
	if (rc) {
		ownfd_close(set->inner);
		ownfd_close(set->kick);
		set->inner = set->kick = -1;
	}
	return rc;
}

static int set_watch_session(struct epset *set)
{
	int fd = session_fd();

	if (set->session == fd)
		return 0;
	set->session = fd;
	return fd < 0 ? 0 : inner_add(set->inner, fd, EPOLLIN | EPOLLET, EPSET_TAG_SESSION);
}

static int entry_watch(struct epentry *entry)
{
	struct sock *sock = entry->sock;
	int rc = set_open_inner(entry->set);

	if (rc || entry->watched)
		return rc;
	rc = inner_add(entry->set->inner, sock->bell_own, EPOLLIN | EPOLLET,
		       entry_tag(entry, false));
	if (!rc)
		rc = inner_add(entry->set->inner, entry->fd,
			       EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, entry_tag(entry, true));
	if (rc) {
		ctl_del(entry->set->inner, sock->bell_own);
		return rc;
	}
	entry->watched = true;
	entry->set->n_inner++;
	return 0;
}

static void entry_unwatch(struct epentry *entry)
{
	if (!entry->watched)
		return;
	ctl_del(entry->set->inner, entry->sock->bell_own);
	ctl_del(entry->set->inner, entry->fd);
	entry->watched = false;
	entry->set->n_inner--;
	epset_unlist(entry);
}

/* Out of the program's set, onto the ready list: whoever sleeps there looks at it. */
static void entry_enter(struct epentry *entry)
{
	if (entry->inner)
		return;
	if (!entry->absent)
		ctl_del(entry->set->epfd, entry->fd);
	entry->inner = true;
	entry->absent = false;
	entry->tcp_moved = true;
	entry->told_prod = entry->told_seq = UINT64_MAX;
	entry->told_out = false;
	epset_list(entry);
	epset_kick(entry->set);
}

static void entry_leave(struct epentry *entry)
{
	struct epoll_event event = entry->user;

	entry_unwatch(entry);
	if (!entry->inner)
		return;
	entry->inner = false;
	entry->absent = entry->disabled;
	if (!entry->disabled)
		sys_epoll_ctl(entry->set->epfd, EPOLL_CTL_ADD, entry->fd, &event);
}

static void entry_drop(struct epentry *entry)
{
	struct epentry **link = &entry->sock->entries;

	entry_unwatch(entry);
	while (*link != entry)
		link = &(*link)->sock_next;
	*link = entry->sock_next;
	entry->set = NULL;
	entry->sock_next = entry_free;
	entry_free = entry;
}

/* A wish that is right only as the kernel does it: the socket goes to TCP and stays there. */
static bool must_stay(const struct epoll_event *event)
{
	return event->events & (EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP);
}

/* Whatever stage @entry's socket is in. */
static int entry_settle(struct epentry *entry)
{
	uint32_t stage = sock_stage(entry->sock);
	int rc = 0;

	if (stage_pending(stage)) {
		rc = set_open_inner(entry->set);
		if (!rc)
			rc = set_watch_session(entry->set);
	}
	if (!rc && entry->sock->bell_own >= 0 && (stage == CONN_MAPPED || stage_on_lane(stage)))
		rc = entry_watch(entry);
	if (!rc && stage_on_lane(stage) && entry->watched)
		entry_enter(entry);
	return rc;
}

int epset_add(int epfd, int fd, struct sock *sock, const struct epoll_event *event)
{
	struct epoll_event copy = *event;
	struct epentry *entry;
	struct epset *set;
	int rc;

	epset_lock();
	entry = entry_find(epfd, fd, sock);
	if (entry && (entry->inner || entry->absent)) {
		epset_unlock();
		return -EEXIST;
	}
	rc = sys_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &copy); /* the kernel knows what is wrong */
	if (!rc) {
		set = epset_get(epfd);
		if (!set)
			set = set_make(epfd);
		entry = set ? entry_make(set, sock, fd) : NULL;
		if (entry) {
			entry->user = *event;
			rc = entry_settle(entry);
		} else {
			rc = -ENOMEM;
		}
		if (rc) {
			if (entry)
				entry_drop(entry);
			ctl_del(epfd, fd);
		}
	}
	epset_unlock();
	if (!rc && must_stay(event))
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
	if (!entry || !entry->inner)
		rc = sys_epoll_ctl(epfd, entry && entry->absent ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd,
				   &copy);
	if (!rc && entry) {
		entry->user = *event;
		entry->disabled = entry->absent = false;
		entry->told_prod = entry->told_seq = UINT64_MAX;
		entry->told_out = false;
		entry->tcp_moved = true;
		if (entry->inner) {
			epset_list(entry);
			epset_kick(entry->set);
		}
	}
	epset_unlock();
	if (!rc && must_stay(event))
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
	if (!entry || !(entry->inner || entry->absent))
		rc = sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
	if (entry)
		entry_drop(entry);
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
	for (uint32_t i = 0; i < entry_top; i++) {
		struct epentry *entry = pool_at(&entry_pool, i);

		if (entry->set == set)
			entry_drop(entry);
	}
	ownfd_close(set->inner);
	ownfd_close(set->kick);
	set->inner = set->kick = -1;
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
	epset_lock();
	set->outer = true;
	if (set->ready_head)
		epset_kick(set);
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
	for (struct epentry *e = sock->entries; e; e = e->sock_next)
		entry_leave(e);
	epset_unlock();
}

void epset_sock_closed(struct sock *sock)
{
	if (!sock->entries)
		return;
	epset_lock();
	while (sock->entries)
		entry_drop(sock->entries);
	epset_unlock();
}
