/* SPDX-License-Identifier: MIT */
#include "client/demote.h"
#include "client/fdtable.h"
#include "preload/calls.h"

/* libc serves these by threads of its own, which read and write at any later time. */

static int hand_over(int fd)
{
	struct sock *sock = fdtable_get(fd);

	return sock ? demote_handover(sock, REASON_UNSERVED_CALL) : 0;
}

int before_aio(struct aiocb *cb)
{
	return hand_over(cb->aio_fildes);
}

int before_aio64(struct aiocb64 *cb)
{
	return hand_over(cb->aio_fildes);
}

int before_lio_listio(int mode, struct aiocb *const cbs[], int n, struct sigevent *event)
{
	int rc = 0;

	(void)mode;
	(void)event;
	for (int i = 0; i < n && !rc; i++)
		if (cbs[i] && cbs[i]->aio_lio_opcode != LIO_NOP)
			rc = hand_over(cbs[i]->aio_fildes);
	return rc;
}

int before_lio_listio64(int mode, struct aiocb64 *const cbs[], int n, struct sigevent *event)
{
	int rc = 0;

	(void)mode;
	(void)event;
	for (int i = 0; i < n && !rc; i++)
		if (cbs[i] && cbs[i]->aio_lio_opcode != LIO_NOP)
			rc = hand_over(cbs[i]->aio_fildes);
	return rc;
}
