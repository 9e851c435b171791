/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "client/demote.h"
#include "client/fdtable.h"
#include "client/stream.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/tracked.h"
#include "client/cancel.h"

/* sendfile and splice. */

/* Bytes of a file that are read at a time. Chosen: the ring's chunk; it is on the stack. */
#define BULK_BYTES 16384u
/* Most bytes of one call, as the kernel's (MAX_RW_COUNT). */
#define BULK_MAX 0x7ffff000u

static bool is_file(int fd)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Send @len bytes of @in from @at on. Bytes sent, or -errno if that is none. */
static ssize_t send_file(struct sock *sock, int in, off64_t at, size_t len)
{
	uint8_t buf[BULK_BYTES];
	size_t done = 0;
	ssize_t n = 0;

	while (done < len) {
		size_t want = len - done < sizeof(buf) ? len - done : sizeof(buf);
		ssize_t got = SYS_CALL(pread64, in, buf, want, at + (off64_t)done);

		if (got <= 0) {
			n = got;
			break;
		}
		n = sock_send(sock, buf, (size_t)got, 0);
		if (n > 0)
			done += (size_t)n;
		if (n != got)
			break;
	}
	return done ? (ssize_t)done : n < 0 ? n : 0;
}

static bool on_the_way(const struct sock *sock)
{
	return stage_on_lane(sock_stage(sock)) || stage_pending(sock_stage(sock));
}

/* The kernel's own call, counted as a send under way. -ESTALE: a lane is there, or coming. */
static ssize_t send_file_plain(struct sock *sock, int in, off64_t *at, size_t len)
{
	struct holder *holder = sock_holder(sock);
	ssize_t n = -ESTALE;

	/* Full fence; partner: the stage is stored before turn_start() sums up who is busy. */
	atomic_fetch_add(&holder->tx_busy, 1);
	if (!on_the_way(sock))
		n = CANCELLABLE(SYS_CALL(sendfile, sock->fd, in, at, len));
	atomic_fetch_sub(&holder->tx_busy, 1);
	return n;
}

long call_sendfile(int out, int in, off64_t *at, size_t len)
{
	struct sock *sock = tracked(out);
	off64_t from;
	ssize_t n;

	if (fdtable_get(in))
		demote_handover(fdtable_get(in), REASON_UNSERVED_CALL);
	if (!sock)
		return CANCELLABLE(SYS_CALL(sendfile, out, in, at, len));
	n = send_file_plain(sock, in, at, len);
	if (n != -ESTALE)
		return n;
	if (!is_file(in)) {
		demote_tx_wait(sock, REASON_UNSERVED_CALL);
		return CANCELLABLE(SYS_CALL(sendfile, out, in, at, len));
	}
	from = at ? *at : SYS_CALL(lseek, in, 0, SEEK_CUR);
	if (from < 0)
		return at ? -EINVAL : from;
	n = send_file(sock, in, from, len < BULK_MAX ? len : BULK_MAX);
	if (n > 0 && at)
		*at = from + n;
	else if (n > 0)
		SYS_CALL(lseek, in, from + n, SEEK_SET);
	return n;
}

/* From or to a pipe by pages that a ring does not have. */
long call_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned int flags)
{
	struct sock *from = fdtable_get(in), *to = fdtable_get(out);

	if (from)
		demote_handover(from, REASON_UNSERVED_CALL);
	if (to)
		demote_tx_wait(to, REASON_UNSERVED_CALL);
	return CANCELLABLE(SYS_CALL(splice, in, in_at, out, out_at, len, flags));
}
