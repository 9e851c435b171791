/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Who a process is, so that another can tell later whether it still lives: a pid alone is reused.
 * Any thread, errno left alone; reads /proc.
 */

/* Bytes of a command name with its terminator (TASK_COMM_LEN). */
#define PROC_COMM_BYTES 16u

/* Fixed size and no pointers: it may lie in shared memory. All zeros is nobody. */
struct proc_id {
	uint32_t pid;	      /* as its own pid namespace counts */
	uint32_t reserved;    /* 0 */
	uint64_t start_ticks; /* since boot, as its own time namespace counts */
	uint64_t pid_ns;      /* inode of its pid namespace */
	uint64_t time_ns;     /* inode of its time namespace; 0 where the kernel has none */
};

/* The calling process. To be called again in a forked child. 0; -EXDEV when /proc is
 * another pid namespace's; what open(2), stat(2) say when there is none. On an error this process
 * can't be identified. */
int proc_id_self(struct proc_id *ret_id);

/*
 * Whether the process @id may still be alive: false only if it certainly is not, that is, if its
 * pid is free, taken by a process that started at another time, or that of a dead process that
 * nobody has waited for (its descriptors are closed by then). When unsure (another pid or time
 * namespace, an unreadable /proc) it is alive. @id may be anything at all.
 */
bool proc_is_alive(const struct proc_id *id);

/* Start time of @pid in clock ticks since boot: 0; -ESRCH; -EPROTO. */
int proc_start_ticks(pid_t pid, uint64_t *ret_ticks);

/*
 * Full path of what @pid runs, as its mount namespace has it; of a file that was removed since, as
 * it was. 0; -ESRCH; -EACCES: it is another user's; -ENAMETOOLONG. The second: of any open
 * descriptor
 * @fd of our own, with its errors.
 */
int proc_exe(pid_t pid, char *ret_path, size_t size);
int proc_fd_path(int fd, char *ret_path, size_t size);

/*
 * The control group of @pid that its service manager gave it: the path below the root of that
 * hierarchy, "/" for the root. 0; -ESRCH; -ENODATA: it has none; -ENAMETOOLONG.
 */
int proc_cgroup(pid_t pid, char *ret_path, size_t size);

/* Command name of @pid, control characters as '?': 0; -ESRCH. */
int proc_comm(pid_t pid, char ret_comm[PROC_COMM_BYTES]);
