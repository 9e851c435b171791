/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/util.h"
#include "manager.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/sys.h"

/* The first letter of the names that we give. */
#define KEPT_LETTER 'k'

void manager_tell(const char *state)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, state);
#else
	(void)state;
#endif
}

void manager_fds_close(struct manager_fds *fds)
{
	for (size_t i = 0; i < fds->n_kept; i++)
		fd_close(fds->kept[i].fd);
	free(fds->kept);
	fd_close(fds->listener);
	*fds = (struct manager_fds){.listener = -1};
}

#ifdef HAVE_SYSTEMD

static bool is_listener(int fd)
{
	return sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) > 0;
}

static bool is_kept(int fd, const char *name)
{
	return name[0] == KEPT_LETTER && strlen(name) < MANAGER_NAME_BYTES &&
	       sd_is_socket_unix(fd, SOCK_SEQPACKET, 0, NULL, 0) > 0;
}

static int take_one(struct manager_fds *fds, int fd, const char *name)
{
	if (is_listener(fd)) {
		if (fds->listener >= 0) {
			fd_close(fd);
			return -EPROTO;
		}
		sys_fcntl(fd, F_SETFL, sys_fcntl(fd, F_GETFL, 0) | O_NONBLOCK);
		fds->listener = fd;
		return 0;
	}
	if (!is_kept(fd, name)) {
		log_warning("descriptor %d, which the service manager passes as \"%.40s\", is none "
			    "that this daemon knows: it is closed",
			    fd, name);
		fd_close(fd);
		return 0;
	}
	snprintf(fds->kept[fds->n_kept].name, MANAGER_NAME_BYTES, "%s", name);
	fds->kept[fds->n_kept++].fd = fd;
	return 0;
}

int manager_take(struct manager_fds *ret_fds)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), rc = 0;

	*ret_fds = (struct manager_fds){.listener = -1};
	if (n <= 0)
		return n;
	ret_fds->kept = calloc((size_t)n, sizeof(*ret_fds->kept));
	for (int i = 0; i < n; i++) {
		if (rc == 0 && !ret_fds->kept)
			rc = -ENOMEM;
		if (rc == 0)
			rc = take_one(ret_fds, SD_LISTEN_FDS_START + i, names ? names[i] : "");
		else
			fd_close(SD_LISTEN_FDS_START + i);
	}
	for (int i = 0; names && i < n; i++)
		free(names[i]);
	free(names);
	if (rc < 0)
		manager_fds_close(ret_fds);
	return rc;
}

bool manager_is_there(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

/* Not those of a predecessor, which may be kept still. */
static void new_name(char ret_name[MANAGER_NAME_BYTES])
{
	static uint32_t serial;

	if (!serial)
		serial = (uint32_t)(clock_now_ns() / 1000u);
	snprintf(ret_name, MANAGER_NAME_BYTES, "%c%06x", KEPT_LETTER, ++serial & 0xffffffu);
}

int manager_keep(const void *record, size_t len, const int *fds, size_t n_fds,
		 char ret_name[MANAGER_NAME_BYTES])
{
	char name[MANAGER_NAME_BYTES], state[64];
	int pair[2], rc;

	ret_name[0] = '\0';
	rc = sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
	if (rc < 0)
		return rc;
	rc = fd_send(pair[0], record, len, fds, n_fds);
	if (rc == 0) {
		new_name(name);
		/* It hangs up as soon as we close our end, which means nothing. */
		snprintf(state, sizeof(state), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
		rc = sd_pid_notify_with_fds(0, 0, state, &pair[1], 1);
		rc = rc < 0 ? rc : 0;
	}
	fd_close(pair[0]);
	fd_close(pair[1]);
	if (rc == 0)
		memcpy(ret_name, name, MANAGER_NAME_BYTES);
	return rc;
}

void manager_forget(const char *name)
{
	char state[64];

	if (!name[0])
		return;
	snprintf(state, sizeof(state), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	sd_notify(0, state);
}

#else

int manager_take(struct manager_fds *ret_fds)
{
	*ret_fds = (struct manager_fds){.listener = -1};
	return 0;
}

bool manager_is_there(void)
{
	return false;
}

int manager_keep(const void *record, size_t len, const int *fds, size_t n_fds,
		 char ret_name[MANAGER_NAME_BYTES])
{
	(void)record;
	(void)len;
	(void)fds;
	(void)n_fds;
	ret_name[0] = '\0';
	return -ENOTSUP;
}

void manager_forget(const char *name)
{
	(void)name;
}

#endif

void manager_give_up(const struct manager_fds *fds)
{
	for (size_t i = 0; i < fds->n_kept; i++)
		manager_forget(fds->kept[i].name);
	if (fds->n_kept)
		log_notice("%zu lanes to other hosts, which a predecessor has left, are given up: "
			   "lanes between hosts are off",
			   fds->n_kept);
}
