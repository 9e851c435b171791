/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "client/kick.h"
#include "client/ownfd.h"
#include "os/fd.h"
#include "os/syswait.h"

static struct {
	_Atomic uint32_t serial;
	_Atomic int fd; /* of the present kick or the one before it; -1 at first */
	uint32_t last;	/* serial that was given out last; session lock */
} kick = {.fd = -1};

uint32_t kick_serial(void)
{
	return atomic_load(&kick.serial);
}

int kick_set(int fd)
{
	int rc, number = atomic_load(&kick.fd);

	/* The number never becomes another file's: a thread may be about to watch it. */
	if (number >= 0) {
		rc = sys_dup3(fd, number, O_CLOEXEC);
		fd_close(fd);
	} else {
		rc = number = ownfd_take(fd);
	}
	if (rc < 0)
		return rc;
	atomic_store(&kick.fd, number);
	if (!++kick.last)
		kick.last = 1;
	atomic_store(&kick.serial, kick.last);
	return 0;
}

void kick_clear(void)
{
	atomic_store(&kick.serial, 0);
}

void kick_forked(void)
{
	kick_clear();
	ownfd_close(atomic_exchange(&kick.fd, -1));
}

void kick_watch(int epfd, uint64_t kind, uint32_t *watched)
{
	uint32_t serial = kick_serial();
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = kind | serial};
	int fd = atomic_load(&kick.fd);

	if (serial == *watched || !serial)
		return;
	/* The one before has left by itself if nobody else has it open; else it stays, dumb. If the
	 * kick is replaced again at this moment, the serial tells that this one is old. */
	sys_epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
	if (!sys_epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		*watched = serial;
}

void kick_unwatch(int epfd, uint32_t *watched)
{
	struct epoll_event event = {0};

	sys_epoll_ctl(epfd, EPOLL_CTL_DEL, atomic_load(&kick.fd), &event);
	*watched = 0;
}
