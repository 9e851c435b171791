/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "client/fdtable.h"
#include "client/pool.h"
#include "client/signal.h"
#include "client/sock.h"

_Atomic(struct sock *) *fdtable_slots;
static _Atomic unsigned int top;
static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;

int fdtable_init(void)
{
	struct pool pool;
	int rc = pool_init(&pool, sizeof(*fdtable_slots), FDTABLE_SIZE, 0);

	if (rc)
		return rc;
	fdtable_slots = (void *)pool.base;
	return 0;
}

void fdtable_lock(void)
{
	section_enter();
	pthread_mutex_lock(&table_mutex);
}

void fdtable_unlock(void)
{
	pthread_mutex_unlock(&table_mutex);
	section_leave();
}

unsigned int fdtable_top(void)
{
	return atomic_load(&top);
}

void fdtable_reach(int fd)
{
	unsigned int seen = atomic_load(&top);

	while ((unsigned int)fd >= seen &&
	       !atomic_compare_exchange_weak(&top, &seen, (unsigned int)fd + 1))
		;
}

int fdtable_set(int fd, struct sock *sock)
{
	if (!fdtable_slots || (unsigned int)fd >= FDTABLE_SIZE)
		return -EINVAL;
	fdtable_reach(fd);
	atomic_store_explicit(&fdtable_slots[fd], sock, memory_order_release);
	return 0;
}

int fdtable_dup(int fd, struct sock *sock)
{
	int rc;

	fdtable_lock();
	rc = fdtable_set(fd, sock);
	if (!rc)
		sock->n_fds++;
	fdtable_unlock();
	return rc;
}

struct sock *fdtable_remove(int fd, int *ret_last)
{
	struct sock *sock;

	if (!fdtable_get(fd))
		return NULL;
	fdtable_lock();
	sock = fdtable_get(fd);
	if (sock) {
		fdtable_set(fd, NULL);
		*ret_last = --sock->n_fds == 0;
		/* Calls need a descriptor of the socket that is still open. */
		for (int i = 0; sock->fd == fd && sock->n_fds && i < (int)fdtable_top(); i++)
			if (fdtable_get(i) == sock)
				sock->fd = i;
	}
	fdtable_unlock();
	return sock;
}
