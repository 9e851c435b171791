/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "client/demote.h"
#include "client/exec.h"
#include "client/fdtable.h"
#include "client/fork.h"
#include "client/stream.h"
#include "os/sys.h"
#include "preload/calls.h"
#include "preload/real.h"
#include "preload/state.h"

/* Forks, execs, and what libc makes of them. */

/* The handlers of client/fork.h do the work; only they do not learn that there was no fork. */
long call_fork(void)
{
	pid_t (*libc)(void) = real(fork);
	pid_t pid;

	if (!libc)
		return -ENOSYS;
	pid = libc();
	if (pid >= 0)
		return pid;
	if (fdtable_slots)
		fork_failed();
	return -errno;
}

/* libc runs no handlers here. */
long call__Fork(void)
{
	pid_t (*libc)(void) = real(_Fork);
	bool ours = fdtable_slots && !state_is_foreign();
	int error;
	pid_t pid;

	if (!libc)
		return -ENOSYS;
	if (ours)
		fork_prepare();
	pid = libc();
	error = errno;
	if (ours && pid == 0)
		fork_in_child();
	else if (ours)
		fork_in_parent();
	if (pid >= 0)
		return pid;
	if (ours)
		fork_failed();
	return -error;
}

static int clone_child(void *arg)
{
	const struct clone_call *clone_call = arg;

	fork_in_child();
	return clone_call->fn(clone_call->arg);
}

/* A child with memory of its own is a fork; one on this memory is a thread, or as after vfork(). */
long call_clone(const struct clone_call *c)
{
	bool forks = fdtable_slots && !(c->flags & CLONE_VM) && c->fn && !state_is_foreign();
	bool vforks =
		(c->flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == (CLONE_VM | CLONE_VFORK);
	int error, pid;

	if (forks)
		fork_prepare();
	shim_vforked += vforks;
	pid = real(clone)(forks ? clone_child : c->fn, c->stack, c->flags,
			  forks ? (void *)(uintptr_t)c : c->arg, c->parent_tid, c->tls,
			  c->child_tid);
	error = errno;
	shim_vforked -= vforks;
	if (forks)
		fork_in_parent();
	if (pid >= 0)
		return pid;
	if (forks)
		fork_failed();
	return -error;
}

/* What comes before an exec, and what comes after one that failed with @error. */
static int before_exec(bool *ret_foreign)
{
	*ret_foreign = fdtable_slots && state_is_stranger();
	return exec_prepare(*ret_foreign);
}

#define EXEC(call)                                                                                 \
	({                                                                                         \
		bool foreign;                                                                      \
		long exec_rc = before_exec(&foreign);                                              \
                                                                                                   \
		if (!exec_rc) {                                                                    \
			exec_rc = (call);                                                          \
			exec_failed(foreign);                                                      \
		}                                                                                  \
		exec_rc;                                                                           \
	})

long call_execve(const char *path, char *const argv[], char *const envp[])
{
	return EXEC(SYS_CALL(execve, path, argv, envp));
}

long call_execv(const char *path, char *const argv[])
{
	return call_execve(path, argv, environ);
}

long call_execvpe(const char *file, char *const argv[], char *const envp[])
{
	return EXEC(real(execvpe)(file, argv, envp) ? -errno : 0);
}

long call_execvp(const char *file, char *const argv[])
{
	return call_execvpe(file, argv, environ);
}

long call_fexecve(int fd, char *const argv[], char *const envp[])
{
	return EXEC(real(fexecve)(fd, argv, envp) ? -errno : 0);
}

long call_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	return EXEC(SYS_CALL(execveat, dir, path, argv, envp, flags));
}

int before_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	(void)pid;
	(void)path;
	(void)actions;
	(void)attributes;
	(void)argv;
	(void)envp;
	return exec_prepare_spawn();
}

/* The child will have the socket under a number that it was told. */
int before_spawn_adddup2(posix_spawn_file_actions_t *actions, int from, int to)
{
	struct sock *sock = fdtable_get(from);

	(void)actions;
	(void)to;
	return sock ? demote_handover(sock, REASON_EXEC) : 0;
}

int before_system(const char *command)
{
	return command ? exec_prepare_spawn() : 0;
}

int before_popen(const char *command, const char *mode)
{
	(void)command;
	(void)mode;
	return exec_prepare_spawn();
}

int before_wordexp(const char *words, wordexp_t *expanded, int flags)
{
	(void)words;
	(void)expanded;
	(void)flags;
	return exec_prepare_spawn();
}

/* libc puts /dev/null over the standard descriptors by itself, in the child that stays. */
int before_daemon(int keep_dir, int keep_files)
{
	(void)keep_dir;
	for (int fd = 0; fd <= STDERR_FILENO && !keep_files; fd++)
		if (fdtable_get(fd))
			stream_untrack(fd);
	return 0;
}
