/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"

#include "lib/shuntd.h"
#include "lib/tap.h"

/* Long enough for a message that should not come to come. */
#define SILENCE_MS 100

const char *shuntd_path(const struct shuntd *daemon, const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", daemon->dir, name);
	return path;
}

bool shuntd_restart(struct shuntd *daemon)
{
	const char *program = getenv("SHUNTD");
	uint64_t limit = clock_now_ns() + SHUNTD_WAIT_MS * 1000000ull;
	char conf[64], log[64];
	int sock = -ENOENT;

	snprintf(conf, sizeof(conf), "%s/conf", daemon->dir);
	snprintf(log, sizeof(log), "%s/log", daemon->dir);
	daemon->pid = fork();
	if (daemon->pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(fd, 2);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing behind */
		execl(program ? program : "shuntd", "shuntd", "--runtime-dir", daemon->dir,
		      "--config", conf, (char *)NULL);
		_exit(127);
	}
	while (sock < 0 && clock_now_ns() < limit) {
		usleep(2000);
		sock = shuntd_connect(daemon);
	}
	fd_close(sock);
	return CHECK_OK(sock);
}

bool shuntd_start(struct shuntd *daemon, const char *conf)
{
	FILE *file;

	strcpy(daemon->dir, "/tmp/shunt-test-XXXXXX");
	/* Other users may enter, as in the system's directory. */
	if (!CHECK(mkdtemp(daemon->dir)) || !CHECK(chmod(daemon->dir, 0755) == 0))
		return false;
	file = fopen(shuntd_path(daemon, "conf"), "we");
	if (!CHECK(file))
		return false;
	fputs(conf, file);
	fclose(file);
	return shuntd_restart(daemon);
}

int shuntd_kill(struct shuntd *daemon, int sig)
{
	int status = -1;

	kill(daemon->pid, sig);
	waitpid(daemon->pid, &status, 0);
	return status;
}

/* What a sanitizer has to say is in the log. */
static void show_log(const struct shuntd *daemon)
{
	FILE *file = fopen(shuntd_path(daemon, "log"), "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		tap_diag("%s", line);
	if (file)
		fclose(file);
}

void shuntd_stop(struct shuntd *daemon)
{
	static const char *const names[] = {"conf", "log", "shuntd.lock", "shuntd.sock"};

	if (!CHECK_EQ(shuntd_kill(daemon, SIGTERM), 0))
		show_log(daemon);
	CHECK_EQ(access(shuntd_path(daemon, "shuntd.sock"), F_OK), -1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(shuntd_path(daemon, names[i]));
	CHECK_EQ(rmdir(daemon->dir), 0);
}

bool shuntd_logged(const struct shuntd *daemon, const char *text)
{
	static char log[1 << 20];
	uint64_t limit = clock_now_ns() + SHUNTD_WAIT_MS * 1000000ull;

	do {
		int fd = open(shuntd_path(daemon, "log"), O_RDONLY | O_CLOEXEC);
		ssize_t len = read(fd, log, sizeof(log) - 1);

		fd_close(fd);
		log[len > 0 ? len : 0] = '\0';
		if (strstr(log, text))
			return true;
		usleep(10000);
	} while (clock_now_ns() < limit);
	return false;
}

int shuntd_count_fds(const struct shuntd *daemon)
{
	char path[64];
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon->pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

int shuntd_count_halves(const struct shuntd *daemon)
{
	char path[64], line[512];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)daemon->pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:shunt-half") != NULL;
	if (file)
		fclose(file);
	return n;
}

long shuntd_status(const struct shuntd *daemon, const char *key)
{
	char path[64], line[256];
	size_t len = strlen(key);
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)daemon->pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, len) == 0 && line[len] == ':')
			value = atol(line + len + 1);
	}
	if (file)
		fclose(file);
	return value;
}

int shuntd_connect(const struct shuntd *daemon)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/shuntd.sock", daemon->dir);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int rc = -errno;

		close(sock);
		return rc;
	}
	return sock;
}

int msg_send(int sock, const struct ctl_msg *msg, const int *fds, size_t n)
{
	uint8_t bytes[CTL_MAX_BYTES];

	return fd_send(sock, bytes, ctl_encode(msg, bytes), fds, n);
}

int msg_recv(int sock, struct ctl_msg *ret_msg, struct fd_bag *ret_bag)
{
	struct pollfd poll_in = {.fd = sock, .events = POLLIN};
	uint8_t bytes[CTL_MAX_BYTES];
	ssize_t len;

	if (poll(&poll_in, 1, SHUNTD_WAIT_MS) != 1)
		return -ETIMEDOUT;
	len = fd_recv(sock, bytes, sizeof(bytes), CTL_MAX_FDS, ret_bag);
	if (len == 0 || len == -ECONNRESET)
		return -EPIPE;
	if (len < 0)
		return (int)len;
	CHECK_EQ(ctl_decode(CTL_FROM_DAEMON, bytes, (size_t)len, ret_bag->n, ret_msg), CTL_OK);
	return 0;
}

bool msg_expect(int sock, enum ctl_type type, struct ctl_msg *ret_msg, struct fd_bag *ret_bag)
{
	struct fd_bag bag = {0};
	struct ctl_msg msg = {0};

	if (!CHECK_OK(msg_recv(sock, &msg, &bag)))
		return false;
	if (ret_msg)
		*ret_msg = msg;
	if (ret_bag)
		*ret_bag = bag;
	else
		fd_bag_close(&bag);
	if (msg.type == type)
		return true;
	tap_diag("got %s (reason %s)", ctl_type_name(msg.type),
		 msg.type == CTL_REFUSED ? reason_name(msg.u.refused.reason) : "-");
	return CHECK_STR(ctl_type_name(msg.type), ctl_type_name(type));
}

bool msg_expect_refused(int sock, uint64_t token, enum reason reason)
{
	struct ctl_msg msg;

	return msg_expect(sock, CTL_REFUSED, &msg, NULL) && CHECK_EQ(msg.token, token) &&
	       CHECK_STR(reason_name(msg.u.refused.reason), reason_name(reason)) &&
	       CHECK_EQ(msg.u.refused.retry_ms > 0, reason_passes(reason));
}

bool msg_is_silent(int sock)
{
	struct pollfd poll_in = {.fd = sock, .events = POLLIN};

	return CHECK_EQ(poll(&poll_in, 1, SILENCE_MS), 0);
}

bool msg_expect_cut(int sock)
{
	struct fd_bag bag = {0};
	struct ctl_msg msg;
	int rc;

	do {
		rc = msg_recv(sock, &msg, &bag);
		fd_bag_close(&bag);
	} while (rc == 0);
	return CHECK_EQ(rc, -EPIPE);
}

static int session_open(const struct shuntd *daemon, uint32_t flags, struct ctl_msg *welcome,
			struct fd_bag *bag)
{
	const struct ctl_msg hello = {
		.type = CTL_HELLO,
		.u.hello = {.version = CTL_VERSION, .flags = flags},
	};
	int sock = shuntd_connect(daemon);

	if (!CHECK_OK(sock))
		return -1;
	CHECK_OK(msg_send(sock, &hello, NULL, 0));
	if (msg_expect(sock, CTL_WELCOME, welcome, bag))
		return sock;
	close(sock);
	return -1;
}

int shuntd_session(const struct shuntd *daemon, uint32_t flags)
{
	return session_open(daemon, flags, NULL, NULL);
}

int shuntd_session_with_kick(const struct shuntd *daemon, int *ret_kick)
{
	struct ctl_msg welcome;
	struct fd_bag bag = {0};
	int sock = session_open(daemon, 0, &welcome, &bag);

	if (sock < 0)
		return -1;
	*ret_kick = fd_bag_take(&bag, 1);
	fd_bag_close(&bag);
	return sock;
}

int shuntd_session_with_page(const struct shuntd *daemon, struct notice_page **ret_page,
			     uint32_t *ret_slot)
{
	struct ctl_msg welcome = {0};
	struct fd_bag bag = {0};
	int sock = session_open(daemon, 0, &welcome, &bag);
	struct stat stat;
	void *map;

	if (sock < 0 || !CHECK_OK(fstat(bag.fds[0], &stat)))
		return -1;
	map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, bag.fds[0], 0);
	CHECK(map != MAP_FAILED);
	CHECK(welcome.u.welcome.slot < notice_slots_in((uint64_t)stat.st_size));
	fd_bag_close(&bag);
	*ret_page = map;
	*ret_slot = welcome.u.welcome.slot;
	return sock;
}

void msg_register(int sock, uint64_t token, int fd, uint32_t epoch)
{
	const struct ctl_msg msg = {
		.type = CTL_REGISTER,
		.token = token,
		.u.reg = {.fd = fd, .epoch = epoch},
	};

	CHECK_OK(msg_send(sock, &msg, &fd, 1));
}

char *msg_query(int sock, enum ctl_query kind, int32_t pid, int32_t fd)
{
	const struct ctl_msg query = {
		.type = CTL_QUERY,
		.token = 1,
		.u.query = {.kind = kind, .pid = pid, .fd = fd},
	};
	struct fd_bag bag = {0};
	struct ctl_msg answer;
	struct stat stat;
	char *text = NULL;

	CHECK_OK(msg_send(sock, &query, NULL, 0));
	if (!msg_expect(sock, CTL_ANSWER, &answer, &bag) || !CHECK_EQ(answer.u.answer.result, 0) ||
	    !CHECK_EQ(bag.n, 1))
		return NULL;
	CHECK_OK(fstat(bag.fds[0], &stat));
	text = calloc(1, (size_t)stat.st_size + 1);
	CHECK(text && read(bag.fds[0], text, (size_t)stat.st_size) == stat.st_size);
	fd_bag_close(&bag);
	return text;
}
