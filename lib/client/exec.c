/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/demote.h"
#include "client/exec.h"
#include "client/fdtable.h"
#include "client/session.h"
#include "client/wait.h"
#include "os/syswait.h"

#define STDIO_FDS (STDERR_FILENO + 1)

/* What the children of this thread's vfork() have done to their standard descriptors: valid for
 * process @pid only. */
static __thread struct {
	pid_t pid;
	bool noted[STDIO_FDS];
	struct sock *sock[STDIO_FDS];
} notes __attribute__((tls_model("initial-exec")));

void exec_note(int fd, struct sock *sock)
{
	pid_t pid = sys_getpid();

	if (notes.pid != pid) {
		notes.pid = pid;
		for (int i = 0; i < STDIO_FDS; i++)
			notes.noted[i] = false;
	}
	if (fd < 0 || fd >= STDIO_FDS)
		return;
	notes.noted[fd] = true;
	notes.sock[fd] = sock;
}

static struct sock *noted_sock(int fd)
{
	if (notes.pid == sys_getpid() && notes.noted[fd])
		return notes.sock[fd];
	return fdtable_get(fd);
}

static bool survives(int fd)
{
	int flags = sys_fcntl(fd, F_GETFD, 0);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/*
 * Hand @sock over from a child of vfork(): in a process with memory of its own, since the way to
 * TCP makes and drops descriptors and mappings, and the parent's notes of these must stay true.
 * It shares the halves and the state page, which is all it needs.
 * @fd: the number under which this process still has the socket.
 */
static int hand_over_apart(struct sock *sock, int fd)
{
	int status = 0;
	pid_t pid;

	session_lock();
	pid = (pid_t)SYS_CALL(clone, 0, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		session_unlock();
		wait_apart();
		sock->fd = fd;
		SYS_CALL(exit_group, -demote_handover(sock, REASON_EXEC) & 0xff);
	}
	session_unlock();
	if (pid < 0)
		return pid;
	while (SYS_CALL(wait4, pid, &status, __WCLONE, NULL) == -EINTR)
		;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

static int prepare_foreign(void)
{
	int rc = 0;

	for (int fd = 0; fd < STDIO_FDS && !rc; fd++) {
		struct sock *sock = noted_sock(fd);

		if (sock && survives(fd) && sock_stage(sock) != CONN_PINNED)
			rc = hand_over_apart(sock, fd);
	}
	return rc;
}

/* Whether this is the only thread: nobody else can sign a lock of ours. */
static bool is_alone(void)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0 && st.st_nlink == 3;
}

/*
 * The process stays, with its number and age, but it will not know these sockets any more: sockets
 * that the exec closes must not look as if it held them. @hold: the exec has failed.
 */
static void release_holds(bool hold)
{
	struct sock *sock;

	for (uint32_t i = 0; (sock = sock_at(i)); i++) {
		struct holder *holder;

		if (!sock->live || survives(sock->fd) || (!hold && sock_sole_holder(sock)))
			continue;
		holder = sock_holder(sock);
		if (hold)
			atomic_store(&holder->taken, holder->id.pid ? 2 : 1);
		else
			atomic_store(&holder->taken, 0);
	}
}

int exec_prepare(bool foreign)
{
	int rc = 0;

	if (!fdtable_slots)
		return 0;
	if (foreign)
		return prepare_foreign();
	for (unsigned int fd = 0; fd < fdtable_top() && !rc; fd++) {
		struct sock *sock = fdtable_get((int)fd);

		if (sock && survives((int)fd) && (fd < STDIO_FDS || sock_sole_holder(sock)))
			rc = demote_handover(sock, REASON_EXEC);
	}
	if (!rc && fdtable_top() && is_alone())
		release_holds(false);
	return rc;
}

void exec_failed(bool foreign)
{
	if (fdtable_slots && !foreign && fdtable_top() && is_alone())
		release_holds(true);
}

int exec_prepare_spawn(void)
{
	int rc = 0;

	for (int fd = 0; fd < STDIO_FDS && !rc; fd++) {
		struct sock *sock = fdtable_get(fd);

		if (sock && survives(fd))
			rc = demote_handover(sock, REASON_EXEC);
	}
	return rc;
}
