/* SPDX-License-Identifier: MIT */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fabric/cm_context.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/sys.h"

/* Contexts remembered. Chosen: one for each device of a host; further ones are not remembered, and
 * only matter if they are the last to go. */
#define CONTEXTS_MAX 64

/* What a descriptor was when it was noted. */
struct identity {
	int fd;
	dev_t dev, rdev;
	ino_t ino;
	char link[64]; /* of /proc/self/fd: anonymous inodes share one number */
};

struct context {
	bool is_used;
	char name[IBV_SYSFS_NAME_MAX];
	struct identity cmd, async;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[CONTEXTS_MAX];

/* What the kernel adds to the name of a device that it has no longer: it is the same nevertheless.
 */
#define DELETED " (deleted)"

static void identify(int fd, struct identity *ret_identity)
{
	const size_t deleted = strlen(DELETED);
	char path[32];
	struct stat st = {0};
	ssize_t len;

	memset(ret_identity, 0, sizeof(*ret_identity));
	ret_identity->fd = fd;
	if (sys_fstat(fd, &st) < 0) {
		ret_identity->fd = -1;
		return;
	}
	ret_identity->dev = st.st_dev;
	ret_identity->rdev = st.st_rdev;
	ret_identity->ino = st.st_ino;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = sys_readlinkat(AT_FDCWD, path, ret_identity->link, sizeof(ret_identity->link) - 1);
	if (len < 0)
		ret_identity->link[0] = '\0';
	else if ((size_t)len > deleted && strcmp(ret_identity->link + len - deleted, DELETED) == 0)
		memset(ret_identity->link + len - deleted, 0, deleted);
}

static bool is_same(const struct identity *noted)
{
	struct identity now;

	if (noted->fd < 0)
		return false;
	identify(noted->fd, &now);
	return memcmp(&now, noted, sizeof(now)) == 0;
}

static struct context *place_for(const char *name, const struct identity *cmd)
{
	struct context *free_one = NULL;

	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &contexts[i];

		if (context->is_used && strcmp(context->name, name) == 0 &&
		    context->cmd.fd == cmd->fd)
			return context;
		if (!context->is_used && !free_one)
			free_one = context;
	}
	return free_one;
}

/* Under the lock. */
static void note(const struct ibv_context *verbs)
{
	struct context noted, *place;

	memset(&noted, 0, sizeof(noted));
	noted.is_used = true;
	snprintf(noted.name, sizeof(noted.name), "%s", ibv_get_device_name(verbs->device));
	identify(verbs->cmd_fd, &noted.cmd);
	identify(verbs->async_fd, &noted.async);
	place = place_for(noted.name, &noted.cmd);
	if (place)
		*place = noted;
}

void cm_context_note(const struct rdma_cm_id *id)
{
	if (!id->verbs)
		return;
	pthread_mutex_lock(&lock);
	note(id->verbs);
	pthread_mutex_unlock(&lock);
}

bool cm_context_holds_other(const char *const *names, size_t n)
{
	bool other = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CONTEXTS_MAX && !other; i++) {
		bool is_there = !contexts[i].is_used;

		for (size_t j = 0; j < n && !is_there; j++)
			is_there = strcmp(contexts[i].name, names[j]) == 0;
		other = !is_there;
	}
	pthread_mutex_unlock(&lock);
	return other;
}

/* The descriptor leads nowhere from now on; its number stays taken, for librdmacm to close. */
static void point_at_null(const struct identity *identity, int null)
{
	if (is_same(identity))
		sys_dup3(null, identity->fd, O_CLOEXEC);
}

static unsigned int point_all_at_null(void)
{
	AUTO_FD int null = sys_openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
	unsigned int n = 0;

	if (null < 0) {
		log_debug("librdmacm keeps its devices: no /dev/null: error %d", -null);
		return 0;
	}
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		struct context *context = &contexts[i];

		if (!context->is_used || !is_same(&context->cmd))
			continue;
		log_debug("librdmacm's context of %s is put on /dev/null", context->name);
		point_at_null(&context->async, null);
		point_at_null(&context->cmd, null);
		n++;
	}
	memset(contexts, 0, sizeof(contexts));
	return n;
}

static bool has_device(struct ibv_device *const *list, const char *name)
{
	for (size_t i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			return true;
	}
	return false;
}

/* It has closed these. */
static void forget_gone(struct ibv_device *const *list)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++) {
		if (contexts[i].is_used && !has_device(list, contexts[i].name))
			contexts[i].is_used = false;
	}
}

unsigned int cm_context_drop_gone(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context **devices;
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	if (list && list[0]) {
		forget_gone(list);
		devices = rdma_get_devices(NULL);
		for (size_t i = 0; devices && devices[i]; i++)
			note(devices[i]);
		if (devices)
			rdma_free_devices(devices);
	} else {
		n = point_all_at_null();
	}
	pthread_mutex_unlock(&lock);
	if (list)
		ibv_free_device_list(list);
	return n;
}
