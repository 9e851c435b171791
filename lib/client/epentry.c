/* SPDX-License-Identifier: MIT */
#include "client/epentry.h"
#include "client/pool.h"
#include "os/syswait.h"

/* Sockets in sets of one process. Chosen: as many as there can be tracked sockets; only what is
 * used takes memory. */
#define EPSET_ENTRIES 131072u
/* A tag is an entry's index, its generation, and whether TCP moved. */
#define TAG_TCP 1u

static struct pool entry_pool;
static struct epentry *entry_free;
static uint32_t entry_top;

int entry_pool_init(void)
{
	return pool_init(&entry_pool, sizeof(struct epentry), EPSET_ENTRIES, 0);
}

struct epentry *entry_make(struct epset *set, struct sock *sock, int fd)
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

struct epentry *entry_find(int epfd, int fd, struct sock *sock)
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
	/* The head is looked at without the lock. */
	__atomic_store_n(set->ready_tail ? &set->ready_tail->ready_next : &set->ready_head, entry,
			 __ATOMIC_RELAXED);
	set->ready_tail = entry;
}

void epset_unlist(struct epentry *entry)
{
	struct epset *set = entry->set;

	if (!entry->listed)
		return;
	entry->listed = false;
	__atomic_store_n(entry->ready_prev ? &entry->ready_prev->ready_next : &set->ready_head,
			 entry->ready_next, __ATOMIC_RELAXED);
	*(entry->ready_next ? &entry->ready_next->ready_prev : &set->ready_tail) =
		entry->ready_prev;
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

int inner_add(int inner, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return sys_epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event);
}

void ctl_del(int epfd, int fd)
{
	struct epoll_event event = {0};

	sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
}

int entry_watch(struct epentry *entry)
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

/* Asked for, or asked for anew: all that is ready is news. */
void entry_want(struct epentry *entry, const struct epoll_event *event)
{
	entry->user = *event;
	entry->disabled = entry->absent = entry->parked = false;
	entry->told_prod = UINT64_MAX;
	entry->told_out = false;
	if (entry->inner) {
		epset_list(entry);
		epset_nudge(entry->set);
	}
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
	entry_want(entry, &entry->user);
}

void entry_leave(struct epentry *entry)
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

void entry_drop(struct epentry *entry)
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

/* Whatever stage @entry's socket is in. */
int entry_settle(struct epentry *entry)
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
	/* With both directions back on TCP the kernel's own events are right again. */
	if (!rc && stage_on_lane(stage) && entry->watched &&
	    atomic_load(&entry->sock->sh->ended) != SOCK_BOTH_ENDED)
		entry_enter(entry);
	return rc;
}

void entry_drop_all(struct epset *set)
{
	for (uint32_t i = 0; i < entry_top; i++) {
		struct epentry *entry = pool_at(&entry_pool, i);

		if (entry->set == set)
			entry_drop(entry);
	}
}

void entry_list_all(struct epset *set)
{
	for (uint32_t i = 0; i < entry_top; i++) {
		struct epentry *entry = pool_at(&entry_pool, i);

		if (entry->set == set && entry->inner && !entry->parked)
			epset_list(entry);
	}
}
