/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "client/kick.h"
#include "client/ownfd.h"
#include "client/promote.h"
#include "client/session.h"
#include "client/signal.h"
#include "os/bell.h"
#include "os/clock.h"
#include "os/memfd.h"
#include "os/rundir.h"
#include "os/sys.h"

/* Between two attempts to reach a daemon. Chosen: ten a second cost nothing, and a restarted
 * daemon finds its lanes again before anybody looks. */
#define SESSION_RETRY_NS 100000000u
/* Messages handled in one call. Chosen: bounds the time that one operation of the program can be
 * delayed; the rest is handled by the next. */
#define SESSION_BATCH 64

enum session_state {
	SESSION_NONE,
	SESSION_HELLO, /* connected, WELCOME is due */
	SESSION_OPEN,
};

static struct {
	pthread_mutex_t mutex;
	enum session_state state;
	int fd;
	size_t n_dirs; /* where a daemon may be, as the environment said at the start */
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
} session = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

struct session_view session_view = {.adopt_next = PROMOTE_ADOPTED};
struct session_settings session_settings = {
	.promote_after = 8,
	.backoff_min_ms = 100,
	.backoff_max_ms = 10000,
	.spin_us = 50,
	.demote_wait_ms = 1000,
	.resume_timeout_s = 30,
};

void session_init(void)
{
	session.n_dirs = rundir_candidates(session.dirs);
}

void session_lock(void)
{
	section_enter();
	pthread_mutex_lock(&session.mutex);
}

static bool session_trylock(void)
{
	section_enter();
	if (pthread_mutex_trylock(&session.mutex) == 0)
		return true;
	section_leave();
	return false;
}

void session_unlock(void)
{
	pthread_mutex_unlock(&session.mutex);
	section_leave();
}

int session_fd(void)
{
	return __atomic_load_n(&session.fd, __ATOMIC_RELAXED);
}

static void session_set_fd(int fd)
{
	__atomic_store_n(&session.fd, fd, __ATOMIC_RELAXED);
}

static void session_clear(void)
{
	/* The page stays mapped: another thread may be about to load from it. */
	atomic_store(&session_view.page, NULL);
	kick_clear();
	ownfd_close(session.fd);
	session_set_fd(-1);
	session.state = SESSION_NONE;
	atomic_store(&session_view.adopt_next, PROMOTE_ADOPTED);
	atomic_store(&session_view.next_try_ns, clock_coarse_ns() + SESSION_RETRY_NS);
}

void session_drop_locked(void)
{
	if (session.state == SESSION_NONE)
		return;
	session_clear();
	/* Sleepers that believe in the daemon are woken by this, others find that there is none. */
	atomic_store(&session_view.lost, promote_session_lost());
}

void session_forked(void)
{
	session_clear();
	kick_forked();
	atomic_store(&session_view.lost, 0);
	atomic_store(&session_view.next_try_ns, 0);
}

int session_send_locked(const struct ctl_msg *msg, int fd)
{
	return session_send_fds_locked(msg, &fd, fd >= 0);
}

int session_send_fds_locked(const struct ctl_msg *msg, const int *fds, size_t n_fds)
{
	uint8_t bytes[CTL_MAX_BYTES];
	int rc;

	/* Part of it may come from memory that a process of another user shares. */
	if (!ctl_msg_ok(msg))
		return -EINVAL;
	if (session.state == SESSION_NONE)
		return -ENOTCONN;
	rc = fd_send(session.fd, bytes, ctl_encode(msg, bytes), fds, n_fds);
	if (rc && rc != -EAGAIN) {
		session_drop_locked();
		return -ENOTCONN;
	}
	return rc;
}

int session_send(const struct ctl_msg *msg, int fd)
{
	int rc;

	session_lock();
	rc = session_send_locked(msg, fd);
	session_unlock();
	return rc;
}

static int session_open_socket(void)
{
	struct sockaddr_un addr;
	socklen_t len;
	int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	fd = ownfd_take(fd);
	if (fd < 0)
		return fd;
	for (size_t i = 0; i < session.n_dirs; i++) {
		int dir = rundir_open(&session.dirs[i]);

		fd_close(dir);
		if (dir < 0 || rundir_socket(&session.dirs[i], "shuntd.sock", &addr, &len))
			continue;
		if (sys_connect(fd, (struct sockaddr *)&addr, len) == 0)
			return fd;
	}
	ownfd_close(fd);
	return -ENOENT;
}

static int session_start(void)
{
	struct ctl_msg hello = {.type = CTL_HELLO, .u.hello = {.version = CTL_VERSION}};
	AUTO_FD int exe = -1;
	int fd;

	if (clock_coarse_ns() < atomic_load(&session_view.next_try_ns))
		return -EAGAIN;
	fd = session_open_socket();
	if (fd < 0) {
		atomic_store(&session_view.next_try_ns, clock_coarse_ns() + SESSION_RETRY_NS);
		return fd;
	}
	session_set_fd(fd);
	session.state = SESSION_HELLO;
	exe = sys_openat(AT_FDCWD, "/proc/self/exe", O_PATH | O_CLOEXEC, 0);
	return session_send_locked(&hello, exe);
}

/* Tell of more lanes. The socket took no more of them the last time; the session may end here. */
static void session_adopt(void)
{
	uint32_t next = promote_adopt(atomic_load(&session_view.adopt_next));

	if (session.state == SESSION_OPEN)
		atomic_store(&session_view.adopt_next, next);
}

static int session_welcome(const struct ctl_welcome *welcome, struct fd_bag *bag)
{
	struct stat st;
	const struct notice_page *page;
	int rc;

	if (session.state != SESSION_HELLO || sys_fstat(bag->fds[0], &st) || st.st_size < 0 ||
	    welcome->slot >= notice_slots_in((uint64_t)st.st_size) ||
	    memfd_check(bag->fds[0], (uint64_t)st.st_size, MEMFD_SEALS_SIZE) ||
	    bell_check(bag->fds[1]))
		return -EPROTO;
	page = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, bag->fds[0], 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	rc = kick_set(fd_bag_take(bag, 1));
	if (rc) {
		munmap((void *)(uintptr_t)page, (size_t)st.st_size);
		return rc;
	}
	session_settings.promote_after = welcome->promote_after;
	session_settings.backoff_min_ms = welcome->backoff_min_ms;
	session_settings.backoff_max_ms = welcome->backoff_max_ms;
	session_settings.spin_us = welcome->spin_us;
	session_settings.demote_wait_ms = welcome->demote_wait_ms;
	session_settings.resume_timeout_s = welcome->resume_timeout_s;
	session.state = SESSION_OPEN;
	atomic_store(&session_view.slot, welcome->slot);
	atomic_store(&session_view.mail_seen, notice_mail(page, welcome->slot));
	atomic_store(&session_view.adopt_last, 0);
	atomic_store(&session_view.adopt_next, 0);
	atomic_store(&session_view.page, page);
	atomic_fetch_add(&session_view.serial, 1);
	atomic_store(&session_view.lost, 0);
	session_adopt();
	return 0;
}

/* One message. Returns 1 if one was handled, 0 if there is none, or -errno: drop the session. */
static int session_read_one(void)
{
	uint8_t bytes[CTL_MAX_BYTES];
	struct fd_bag bag = {0};
	struct ctl_msg msg;
	ssize_t len = fd_recv(session.fd, bytes, sizeof(bytes), CTL_MAX_FDS, &bag);
	int rc = 0;

	if (len == -EAGAIN)
		return 0;
	if (len <= 0)
		return len ? (int)len : -ECONNRESET;
	if (ctl_decode(CTL_FROM_DAEMON, bytes, (size_t)len, bag.n, &msg) != CTL_OK)
		rc = -EPROTO;
	else if (msg.type == CTL_WELCOME)
		rc = session_welcome(&msg.u.welcome, &bag);
	else if (msg.type == CTL_REFUSED && msg.token == 0)
		rc = -ECONNREFUSED;
	else
		promote_message(&msg, &bag);
	fd_bag_close(&bag);
	return rc ? rc : 1;
}

/* Whether there may be more to read. */
static bool session_poll_locked(void)
{
	const struct notice_page *page = atomic_load(&session_view.page);
	bool more;
	int rc = 1;

	if (session.state == SESSION_NONE) {
		if (atomic_load(&session_view.lost))
			session_start();
		return false;
	}
	/* Before the reading: what comes later moves the counter again. */
	if (page)
		atomic_store(&session_view.mail_seen,
			     notice_mail(page, atomic_load(&session_view.slot)));
	for (int i = 0; i < SESSION_BATCH && rc > 0; i++)
		rc = session_read_one();
	if (atomic_load(&session_view.adopt_next) != PROMOTE_ADOPTED && rc >= 0)
		session_adopt();
	page = atomic_load(&session_view.page);
	more = rc > 0 || atomic_load(&session_view.adopt_next) != PROMOTE_ADOPTED;
	if (page && more) /* call again */
		atomic_fetch_sub(&session_view.mail_seen, 1);
	if (rc < 0 || (page && !notice_alive(page)))
		session_drop_locked();
	return rc > 0;
}

void session_poll(void)
{
	if (!session_trylock())
		return;
	session_poll_locked();
	session_unlock();
}

void session_attend(uint32_t hung_up)
{
	session_lock();
	while (session_poll_locked())
		;
	if (hung_up && kick_serial() == hung_up)
		session_drop_locked();
	session_unlock();
}

bool session_covers(uint32_t watched)
{
	const struct notice_page *page = atomic_load(&session_view.page);

	return page && notice_alive(page) && watched && watched == kick_serial() &&
	       atomic_load(&session_view.adopt_next) == PROMOTE_ADOPTED &&
	       !atomic_load(&session_view.adopt_last);
}

int session_ensure(void)
{
	int rc;

	if (!session_trylock())
		return -EAGAIN;
	if (session.state == SESSION_NONE)
		session_start();
	if (session.state == SESSION_HELLO)
		session_poll_locked();
	rc = session.state == SESSION_OPEN ? 0 : -EAGAIN;
	session_unlock();
	return rc;
}
