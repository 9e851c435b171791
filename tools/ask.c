/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "answer.h"
#include "ask.h"
#include "base/cleanup.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/syswait.h"
#include "tool.h"

/* How long, and how often, a daemon is asked again that had no time. Chosen: it allows 50 queries
 * per second. */
#define BUSY_TRIES 100
#define BUSY_PAUSE_NS 30000000L

/* More than a daemon with all its connections would ever say. Chosen. */
#define ANSWER_MAX_BYTES (1ull << 30)

/* Receive one message into @ret_msg; with at most one descriptor, else -1. */
static int receive(int sock, struct ctl_msg *ret_msg, int *ret_fd)
{
	struct pollfd wait = {.fd = sock, .events = POLLIN};
	struct timespec limit = {ASK_TIMEOUT_MS / 1000, ASK_TIMEOUT_MS % 1000 * 1000000L};
	uint8_t packet[CTL_MAX_BYTES];
	struct fd_bag bag = {0};
	ssize_t len;
	int rc;

	do {
		rc = sys_ppoll(&wait, 1, &limit, NULL);
	} while (rc == -EINTR);
	if (rc <= 0)
		return rc ? rc : -ETIMEDOUT;
	len = fd_recv(sock, packet, sizeof(packet), CTL_MAX_FDS, &bag);
	if (len <= 0)
		return len ? (int)len : -ECONNRESET;
	rc = ctl_decode(CTL_FROM_DAEMON, packet, (size_t)len, bag.n, ret_msg) ? -EPROTO : 0;
	*ret_fd = rc == 0 && bag.n > 0 ? fd_bag_take(&bag, 0) : -1;
	fd_bag_close(&bag);
	return rc;
}

static int send_msg(int sock, const struct ctl_msg *msg)
{
	uint8_t packet[CTL_MAX_BYTES];

	return fd_send(sock, packet, ctl_encode(msg, packet), NULL, 0);
}

static int greet(int sock, struct asker *asker, enum reason *ret_reason)
{
	const struct ctl_msg hello = {
		.type = CTL_HELLO,
		.u.hello = {.version = CTL_VERSION, .flags = CTL_HELLO_TOOL},
	};
	AUTO_FD int page = -1;
	struct ctl_msg msg;
	int rc;

	rc = send_msg(sock, &hello);
	if (rc == 0)
		rc = receive(sock, &msg, &page);
	if (rc < 0)
		return rc;
	if (msg.type == CTL_REFUSED) {
		*ret_reason = msg.u.refused.reason;
		return ASK_REFUSED;
	}
	if (msg.type != CTL_WELCOME)
		return -EPROTO;
	asker->policy = msg.u.welcome;
	return 0;
}

int ask_connect(const struct rundir *dir, struct asker *ret_asker, enum reason *ret_reason)
{
	AUTO_FD int dir_fd = -1;
	AUTO_FD int sock = -1;
	const struct timeval limit = {ASK_TIMEOUT_MS / 1000, 0};
	struct sockaddr_un addr;
	socklen_t len;
	int rc;

	dir_fd = rundir_open(dir);
	if (dir_fd < 0)
		return TAKE(dir_fd, -1);
	rc = rundir_socket(dir, ASK_SOCKET_NAME, &addr, &len);
	if (rc < 0)
		return rc;
	sock = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return TAKE(sock, -1);
	/* Else a daemon that is stopped and has a full backlog would hold us for ever. */
	sys_setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	rc = sys_connect(sock, (struct sockaddr *)&addr, len);
	if (rc < 0)
		return rc;
	rc = greet(sock, ret_asker, ret_reason);
	if (rc)
		return rc;
	ret_asker->dir = *dir;
	ret_asker->fd = TAKE(sock, -1);
	return 0;
}

const char *ask_error_text(int error)
{
	switch (-error) {
	case ENOENT:
	case ECONNREFUSED:
		return "no daemon there";
	case EPERM:
		return "not to be trusted: wrong owner, or others may write in it";
	case ENOTDIR:
		return "not a directory";
	case ETIMEDOUT:
	case EAGAIN:
		return "the daemon does not answer in time";
	case EPROTO:
		return "what answers does not speak our protocol; are tool and daemon of one "
		       "version?";
	default:
		return strerror(-error);
	}
}

/* Others may serve the processes that the user is looking for. */
static void name_others(const struct rundir *dirs, size_t n, const struct asker *asked)
{
	struct asker other;
	enum reason reason;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(dirs[i].path, asked->dir.path) == 0 ||
		    ask_connect(&dirs[i], &other, &reason) != 0)
			continue;
		tool_say("asking the daemon in %s; another one answers: SHUNT_RUNTIME_DIR=%s",
			 asked->dir.path, other.dir.path);
		ask_close(&other);
	}
}

int ask_open(struct asker *ret_asker)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	enum reason reason = REASON_NONE;
	int errors[RUNDIR_CANDIDATES_MAX];
	size_t n = rundir_candidates(dirs);

	for (size_t i = 0; i < n; i++) {
		errors[i] = ask_connect(&dirs[i], ret_asker, &reason);
		if (errors[i] == ASK_REFUSED) {
			tool_say("the daemon in %s turns us away: %s", dirs[i].path,
				 reason_text(reason));
			return TOOL_FAILED;
		}
		if (errors[i] == 0) {
			name_others(dirs + i, n - i, ret_asker);
			return TOOL_OK;
		}
	}
	if (n == 0) {
		tool_say("SHUNT_RUNTIME_DIR must be an absolute path of at most %zu bytes",
			 RUNDIR_PATH_MAX - 1);
		return TOOL_NO_DAEMON;
	}
	tool_say("no shuntd answers; \"shunt run COMMAND\" starts one. Looked in:");
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "  %s: %s\n", dirs[i].path, ask_error_text(errors[i]));
	return TOOL_NO_DAEMON;
}

void ask_close(struct asker *asker)
{
	fd_close(asker->fd);
	asker->fd = -1;
}

/* Send @msg, wait for the answer with its token. */
static int ask(struct asker *asker, const struct ctl_msg *msg, struct ctl_answer *ret_answer,
	       int *ret_fd)
{
	struct ctl_msg reply;
	int rc, fd;

	rc = send_msg(asker->fd, msg);
	while (rc == 0) {
		rc = receive(asker->fd, &reply, &fd);
		if (rc < 0)
			return rc;
		if (reply.type == CTL_ANSWER && reply.token == msg->token) {
			*ret_answer = reply.u.answer;
			*ret_fd = fd;
			return reply.u.answer.result;
		}
		fd_close(fd);
	}
	return rc;
}

static int read_text(int fd, char **ret_text)
{
	AUTO_FREE char *text = NULL;
	struct stat st;
	ssize_t len;
	int rc = sys_fstat(fd, &st);

	if (rc < 0)
		return rc;
	if (st.st_size < 0 || (uint64_t)st.st_size > ANSWER_MAX_BYTES)
		return -EPROTO;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	for (off_t done = 0; done < st.st_size; done += len) {
		const struct iovec part = {text + done, (size_t)(st.st_size - done)};

		len = sys_preadv2(fd, &part, 1, done, 0);
		if (len <= 0)
			return len ? (int)len : -EPROTO;
	}
	text[st.st_size] = '\0';
	*ret_text = TAKE(text, NULL);
	return 0;
}

int ask_query(struct asker *asker, const struct ctl_query_msg *query, char **ret_text)
{
	const struct timespec pause = {0, BUSY_PAUSE_NS};
	struct ctl_msg msg = {.type = CTL_QUERY, .token = 1, .u.query = *query};
	struct ctl_answer answer;
	int rc, fd = -1;

	for (int i = 0; i < BUSY_TRIES; i++) {
		rc = ask(asker, &msg, &answer, &fd);
		if (rc != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	if (rc == 0)
		rc = fd < 0 ? -EPROTO : read_text(fd, ret_text);
	fd_close(fd);
	return rc;
}

int ask_demote(struct asker *asker, const struct ctl_demote_req *req, uint32_t *ret_count)
{
	struct ctl_msg msg = {.type = CTL_DEMOTE_REQ, .token = 1, .u.demote_req = *req};
	struct ctl_answer answer;
	int rc, fd = -1;

	rc = ask(asker, &msg, &answer, &fd);
	fd_close(fd);
	if (rc == 0)
		*ret_count = answer.count;
	return rc;
}

int ask_once(const struct ctl_query_msg *query, char **ret_text)
{
	struct asker asker;
	int rc = ask_open(&asker);

	if (rc)
		return rc;
	rc = ask_query(&asker, query, ret_text);
	ask_close(&asker);
	if (rc < 0) {
		tool_say("the daemon in %s gave no answer: %s", asker.dir.path, strerror(-rc));
		return TOOL_FAILED;
	}
	return TOOL_OK;
}

int ask_and_show(int argc, char **argv, enum ctl_query kind, void (*print)(const json_t *json))
{
	AUTO_FREE char *text = NULL;
	json_t *json;
	int as_json, rc = tool_options(argc, argv, 0, &as_json);

	if (rc != TOOL_GO_ON)
		return rc;
	rc = ask_once(&(struct ctl_query_msg){kind, -1, -1}, &text);
	if (rc)
		return rc;
	json = answer_parse(text);
	if (!json)
		return TOOL_FAILED;
	if (as_json)
		answer_print(json);
	else
		print(json);
	json_decref(json);
	return TOOL_OK;
}
