/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cm_hooks.h"
#include "conn.h"
#include "device.h"
#include "double.h"
#include "engine.h"
#include "fabric.h"
#include "transport.h"

DBL_API pthread_mutex_t dbl_lock = PTHREAD_MUTEX_INITIALIZER;
DBL_API const struct dbl_cm_hooks *dbl_cm_hooks;

/* Serializes start and stop; taken before dbl_lock. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	unsigned holders;
	bool stopping, woken;
	unsigned long ended; /* sources that are watched no longer, counted */
	pthread_t thread;
	int epoll_fd;
	char socket[FABRIC_SOCKET_MAX];
	char dir[PATH_MAX]; /* the host that it was started on */
	struct engine_source wake, listener, watch;
} engine = {.epoll_fd = -1};

DBL_API uint64_t dbl_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

DBL_API const char *dbl_dir(void)
{
	const char *dir = getenv("VERBS_DOUBLE_DIR");

	return dir && *dir ? dir : NULL;
}

DBL_API int dbl_unsupported(const char *what)
{
	fprintf(stderr, "verbs double: %s is not supported\n", what);
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

DBL_API void dbl_count_up(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

DBL_API int dbl_count_down(int fd)
{
	uint64_t one;

	return read(fd, &one, sizeof(one)) == sizeof(one) ? 0 : errno;
}

int engine_watch(struct engine_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	return epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0 ? -errno : 0;
}

void engine_rewatch(struct engine_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	epoll_ctl(engine.epoll_fd, EPOLL_CTL_MOD, source->fd, &event);
}

void engine_unwatch(struct engine_source *source)
{
	engine.ended++;
	epoll_ctl(engine.epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

DBL_API void engine_wake(void)
{
	if (engine.epoll_fd < 0 || engine.woken)
		return;
	engine.woken = true;
	dbl_count_up(engine.wake.fd);
}

DBL_API const char *engine_socket(void)
{
	return engine.socket;
}

/*
 * An address for a socket of the fabric. Paths of folders are easily longer than sun_path is, so
 * the folder is named by descriptor. *@ret_folder is to be closed after use.
 */
static int socket_address(const char *name, struct sockaddr_un *ret_addr, int *ret_folder)
{
	char path[PATH_MAX];

	fabric_path("sock", "", path);
	*ret_folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_folder < 0)
		return -errno;
	memset(ret_addr, 0, sizeof(*ret_addr));
	ret_addr->sun_family = AF_UNIX;
	snprintf(ret_addr->sun_path, sizeof(ret_addr->sun_path), "/proc/self/fd/%d/%s", *ret_folder,
		 name);
	return 0;
}

DBL_API int engine_dial(const char *socket_name)
{
	struct sockaddr_un addr;
	int folder, rc, fd;

	rc = socket_address(socket_name, &addr, &folder);
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		rc = -errno;
		close(fd);
		fd = rc;
	}
	close(folder);
	return fd;
}

static void on_wake(struct engine_source *source, uint32_t events)
{
	uint64_t count;

	(void)events;
	engine.woken = false;
	(void)!read(source->fd, &count, sizeof(count));
}

static void on_accept(struct engine_source *source, uint32_t events)
{
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0)
		conn_adopt(fd);
}

/* Something in the state folder was written; faults and foreign files do no harm. */
static void on_watch(struct engine_source *source, uint32_t events)
{
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));

	(void)events;
	while (read(source->fd, buffer, sizeof(buffer)) > 0)
		;
	device_refresh();
}

static int timeout_ms(uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t ms;

	if (deadline_ns == 0)
		return -1;
	if (deadline_ns <= now_ns)
		return 0;
	ms = (deadline_ns - now_ns + 999999) / 1000000;
	return ms > 60000 ? 60000 : (int)ms;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static void *run(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&dbl_lock);
	while (!engine.stopping) {
		uint64_t now = dbl_now_ns(), deadline = requester_run(now);
		struct epoll_event event;
		unsigned long ended = engine.ended;
		int timeout, count, fd = engine.epoll_fd;

		if (dbl_cm_hooks)
			deadline = earlier(deadline, dbl_cm_hooks->run(now));
		timeout = timeout_ms(deadline, dbl_now_ns());
		pthread_mutex_unlock(&dbl_lock);
		/* One at a time: a handler may end the source of another. */
		count = epoll_wait(fd, &event, 1, timeout);
		pthread_mutex_lock(&dbl_lock);
		/* Without the lock somebody may have ended the very source: epoll tells again of
		 * any that is still there. */
		if (count == 1 && ended == engine.ended) {
			struct engine_source *source = event.data.ptr;

			source->ready(source, event.events);
		}
	}
	pthread_mutex_unlock(&dbl_lock);
	return NULL;
}

static int open_listener(void)
{
	struct sockaddr_un addr;
	uint64_t name[2];
	int folder, rc;

	if (getrandom(name, sizeof(name), 0) != sizeof(name))
		return -errno;
	snprintf(engine.socket, sizeof(engine.socket), "%016lx%016lx", (unsigned long)name[0],
		 (unsigned long)name[1]);
	rc = socket_address(engine.socket, &addr, &folder);
	if (rc < 0)
		return rc;
	engine.listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (engine.listener.fd < 0 ||
	    bind(engine.listener.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(engine.listener.fd, 128) < 0)
		rc = -errno;
	else
		chmod(addr.sun_path, 0777);
	close(folder);
	return rc;
}

static int open_watch(void)
{
	engine.watch.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (engine.watch.fd < 0 ||
	    inotify_add_watch(engine.watch.fd, dbl_dir(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0)
		return -errno;
	return 0;
}

static void close_source(struct engine_source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	source->fd = -1;
}

/*
 * The epoll set goes first: a forked child shares it with its parent, where taking something out of
 * it would be felt.
 */
static void close_descriptors(void)
{
	if (engine.epoll_fd >= 0)
		close(engine.epoll_fd);
	engine.epoll_fd = -1;
	conn_close_all();
	close_source(&engine.wake);
	close_source(&engine.listener);
	close_source(&engine.watch);
	engine.woken = false;
}

static int open_descriptors(void)
{
	int rc;

	engine.wake = (struct engine_source){-1, on_wake};
	engine.listener = (struct engine_source){-1, on_accept};
	engine.watch = (struct engine_source){-1, on_watch};
	snprintf(engine.dir, sizeof(engine.dir), "%s", dbl_dir());
	rc = fabric_join();
	if (rc < 0)
		return rc;
	engine.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine.wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine.epoll_fd < 0 || engine.wake.fd < 0)
		return -errno;
	rc = open_listener();
	if (rc == 0)
		rc = open_watch();
	if (rc == 0)
		rc = engine_watch(&engine.wake, EPOLLIN);
	if (rc == 0)
		rc = engine_watch(&engine.listener, EPOLLIN);
	if (rc == 0)
		rc = engine_watch(&engine.watch, EPOLLIN);
	return rc;
}

/* The thread takes no signals: they are the program's. */
static int start_thread(void)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	engine.stopping = false;
	rc = -pthread_create(&engine.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

DBL_API int engine_hold(void)
{
	int rc = 0;

	if (!dbl_dir())
		return -ENODEV;
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&dbl_lock);
	if (engine.holders == 0) {
		rc = open_descriptors();
		if (rc == 0)
			rc = start_thread();
		if (rc < 0)
			close_descriptors();
	}
	if (rc == 0 && strcmp(engine.dir, dbl_dir()) != 0) {
		fprintf(stderr, "verbs double: on %s, with something of %s still open\n", dbl_dir(),
			engine.dir);
		abort();
	}
	if (rc == 0)
		engine.holders++;
	pthread_mutex_unlock(&dbl_lock);
	pthread_mutex_unlock(&life_lock);
	return rc;
}

static void stop(void)
{
	char path[PATH_MAX];

	engine.stopping = true;
	dbl_count_up(engine.wake.fd);
	pthread_mutex_unlock(&dbl_lock);
	pthread_join(engine.thread, NULL);
	pthread_mutex_lock(&dbl_lock);
	fabric_path("sock", engine.socket, path);
	unlink(path);
	close_descriptors();
}

DBL_API void engine_drop(void)
{
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&dbl_lock);
	if (--engine.holders == 0)
		stop();
	pthread_mutex_unlock(&dbl_lock);
	pthread_mutex_unlock(&life_lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&dbl_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&dbl_lock);
	pthread_mutex_unlock(&life_lock);
}

/*
 * A child has no engine and none of its parent's contexts work in it, as with real devices; it may
 * open its own. The parent's descriptors are closed, so that the parent alone holds the device.
 */
static void in_child(void)
{
	close_descriptors();
	engine.holders = 0;
	device_forget_contexts();
	pthread_mutex_unlock(&dbl_lock);
	pthread_mutex_unlock(&life_lock);
}

__attribute__((constructor)) static void init(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}
