/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm_hooks.h"
#include "conn.h"
#include "double.h"
#include "engine.h"
#include "transport.h"

/* One read. Chosen: a chunk of any bulk test. */
#define READ_BYTES 65536

struct buffer {
	uint8_t *data;
	size_t used, size;
};

struct conn {
	struct engine_source source;	/* first */
	char socket[FABRIC_SOCKET_MAX]; /* "" if accepted */
	unsigned refs;
	bool failed; /* nothing can be written any more; the engine will find it broken */
	bool broken;
	bool writing; /* waits for EPOLLOUT */
	struct buffer in, out;
	struct list link;
};

static struct list conns = LIST_INIT(conns);

static bool reserve(struct buffer *buffer, size_t more)
{
	size_t size = buffer->size ? buffer->size : 4096;
	uint8_t *data;

	while (size < buffer->used + more)
		size *= 2;
	if (size == buffer->size)
		return true;
	data = realloc(buffer->data, size);
	if (!data)
		return false;
	buffer->data = data;
	buffer->size = size;
	return true;
}

static void consume(struct buffer *buffer, size_t count)
{
	memmove(buffer->data, buffer->data + count, buffer->used - count);
	buffer->used -= count;
}

static void destroy(struct conn *conn)
{
	list_unlink(&conn->link);
	engine_unwatch(&conn->source);
	close(conn->source.fd);
	free(conn->in.data);
	free(conn->out.data);
	free(conn);
}

/* The stream is of no use any more; whoever holds it finds out at the next send. */
static void break_off(struct conn *conn)
{
	conn->broken = true;
	engine_unwatch(&conn->source);
	shutdown(conn->source.fd, SHUT_RDWR);
	/* Held, since those who are told may give it back. */
	conn->refs++;
	if (conn->socket[0] && dbl_cm_hooks)
		dbl_cm_hooks->stream_broke(conn);
	if (--conn->refs == 0)
		destroy(conn);
}

static void deliver(struct conn *conn, const struct wire *wire, const uint8_t *payload)
{
	switch (wire->type) {
	case WIRE_REQUEST:
		responder_take(conn, wire, payload);
		break;
	case WIRE_ACK:
		requester_answered(wire, payload);
		break;
	case WIRE_TERMINATE:
		transport_terminated(wire);
		break;
	case WIRE_CM:
		if (dbl_cm_hooks)
			dbl_cm_hooks->message(wire, payload);
		break;
	default:
		break;
	}
}

/* Hand out all complete messages. -EPROTO: the peer talks nonsense. */
static int take_messages(struct conn *conn)
{
	size_t at = 0;

	while (conn->in.used - at >= sizeof(struct wire)) {
		struct wire wire;

		memcpy(&wire, conn->in.data + at, sizeof(wire));
		if (wire.magic != WIRE_MAGIC || wire.payload > WIRE_PAYLOAD_MAX)
			return -EPROTO;
		if (conn->in.used - at < sizeof(wire) + wire.payload)
			break;
		deliver(conn, &wire, conn->in.data + at + sizeof(wire));
		at += sizeof(wire) + wire.payload;
	}
	consume(&conn->in, at);
	return 0;
}

/* 0, or -errno if the stream is over. */
static int read_some(struct conn *conn)
{
	for (;;) {
		ssize_t got;
		int rc;

		if (!reserve(&conn->in, READ_BYTES))
			return -ENOMEM;
		got = recv(conn->source.fd, conn->in.data + conn->in.used, READ_BYTES,
			   MSG_DONTWAIT);
		if (got == 0)
			return -EPIPE;
		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		conn->in.used += (size_t)got;
		rc = take_messages(conn);
		if (rc < 0)
			return rc;
	}
}

static int write_some(struct conn *conn)
{
	while (conn->out.used) {
		ssize_t done = send(conn->source.fd, conn->out.data, conn->out.used,
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (done < 0)
			break;
		consume(&conn->out, (size_t)done);
	}
	if (conn->writing != (conn->out.used > 0)) {
		conn->writing = conn->out.used > 0;
		engine_rewatch(&conn->source, EPOLLIN | (conn->writing ? EPOLLOUT : 0u));
	}
	return 0;
}

static void on_ready(struct engine_source *source, uint32_t events)
{
	struct conn *conn = (struct conn *)source;
	int rc = 0;

	/* Held, since a message that is delivered may give the last reference back. */
	conn->refs++;
	if (events & EPOLLOUT)
		rc = write_some(conn);
	if (rc == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		rc = read_some(conn);
	conn->refs--;
	if (conn->broken) {
		if (conn->refs == 0)
			destroy(conn);
	} else if (rc < 0) {
		break_off(conn);
	} else if (conn->refs == 0 && conn->socket[0] && conn->out.used == 0) {
		destroy(conn);
	}
}

static struct conn *make(int fd, const char *socket)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->source.fd = fd;
	conn->source.ready = on_ready;
	snprintf(conn->socket, sizeof(conn->socket), "%s", socket);
	list_push_back(&conns, &conn->link);
	if (engine_watch(&conn->source, EPOLLIN) < 0) {
		list_unlink(&conn->link);
		free(conn);
		return NULL;
	}
	return conn;
}

void conn_adopt(int fd)
{
	if (!make(fd, ""))
		close(fd);
}

DBL_API struct conn *conn_get(const char *socket)
{
	struct list *node;
	struct conn *conn;
	int fd;

	list_for_each (node, &conns) {
		conn = list_entry(node, struct conn, link);
		if (!conn->broken && !conn->failed && strcmp(conn->socket, socket) == 0) {
			conn->refs++;
			return conn;
		}
	}
	fd = engine_dial(socket);
	if (fd < 0)
		return NULL;
	conn = make(fd, socket);
	if (!conn) {
		close(fd);
		return NULL;
	}
	conn->refs = 1;
	return conn;
}

DBL_API void conn_put(struct conn *conn)
{
	if (!conn || --conn->refs > 0)
		return;
	if (conn->broken || (conn->socket[0] && conn->out.used == 0))
		destroy(conn);
}

DBL_API int conn_send(struct conn *conn, const struct wire *wire, const void *payload)
{
	int rc;

	if (conn->broken || conn->failed)
		return -EPIPE;
	if (!reserve(&conn->out, sizeof(*wire) + wire->payload))
		return -ENOMEM;
	memcpy(conn->out.data + conn->out.used, wire, sizeof(*wire));
	if (wire->payload)
		memcpy(conn->out.data + conn->out.used + sizeof(*wire), payload, wire->payload);
	conn->out.used += sizeof(*wire) + wire->payload;
	rc = write_some(conn);
	if (rc < 0) {
		/* Ended by the engine, which tells of it; it sees the hang-up whatever happens. */
		conn->failed = true;
		return -EPIPE;
	}
	return 0;
}

void conn_close_all(void)
{
	while (!list_is_empty(&conns))
		destroy(list_entry(conns.next, struct conn, link));
}
