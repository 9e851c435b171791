/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/hostile/hostile.h"

#define EXPORTED __attribute__((visibility("default")))
/* The function of this name in the library behind. */
#define BEHIND(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* A link that there never is: the daemon drops the completion. */
#define NOBODYS_WR (UINT64_MAX >> 1)

/* Longest that a peer that does not read is waited for. */
#define WRITE_MS 3000

static struct hostile_file *file;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("HOSTILE_FILE"), *program = getenv("HOSTILE_PROGRAM");
	void *at;
	int fd;

	if (!path || !program || strcmp(program, program_invocation_short_name) != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED
		    : mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* A test whose peer is harmless must not pass. */
	if (at == MAP_FAILED)
		abort();
	close(fd);
	file = at;
}

/* Whether an order of @kind waits. */
static bool is_ordered(enum hostile_kind kind)
{
	return file && atomic_load(&file->given) != atomic_load(&file->done) && file->kind == kind;
}

static void carried_out(void)
{
	atomic_store(&file->done, atomic_load(&file->given));
}

static void patch(uint8_t *bytes, size_t len)
{
	for (uint32_t i = 0; i < file->n_patches; i++) {
		const struct hostile_patch *change = &file->patches[i];
		uint64_t value = 0;

		if (change->at + change->bytes > len)
			continue;
		for (uint32_t b = 0; b < change->bytes; b++)
			value = value << 8 | bytes[change->at + b];
		value = change->value + (change->is_added ? value : 0);
		for (uint32_t b = change->bytes; b-- > 0; value >>= 8)
			bytes[change->at + b] = (uint8_t)value;
	}
}

/* --- sessions --------------------------------------------------------------------------------- */

static bool is_target(gnutls_session_t session)
{
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t len = sizeof(addr);
	uint32_t address;

	if (getpeername(gnutls_transport_get_int(session), (struct sockaddr *)&addr, &len) < 0)
		return false;
	address = addr.in.sin_family == AF_INET ? addr.in.sin_addr.s_addr
						: addr.in6.sin6_addr.s6_addr32[3];
	return !file->target || address == file->target;
}

static bool say(gnutls_session_t session, const uint8_t *bytes, size_t len)
{
	struct pollfd room = {.fd = gnutls_transport_get_int(session), .events = POLLOUT};
	ssize_t n;

	while (len > 0) {
		n = BEHIND(gnutls_record_send)(session, bytes, len);
		if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
			/* What it took it sends before anything else. */
			while (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED) {
				if (poll(&room, 1, WRITE_MS) != 1)
					return false;
				n = BEHIND(gnutls_record_send)(session, NULL, 0);
			}
		}
		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

EXPORTED ssize_t gnutls_record_send(gnutls_session_t session, const void *data, size_t len)
{
	static uint8_t bytes[4096];
	ssize_t n;

	if (data && is_ordered(HOSTILE_FRAME) && len >= 8 && len <= sizeof(bytes) &&
	    ((const uint8_t *)data)[5] == file->type && is_target(session)) {
		memcpy(bytes, data, len);
		patch(bytes, len);
		data = bytes;
		carried_out();
	}
	n = BEHIND(gnutls_record_send)(session, data, len);
	if (!is_ordered(HOSTILE_SESSION) || !data || n != (ssize_t)len || !is_target(session))
		return n;
	for (uint32_t i = 0; i <= file->repeat && say(session, file->bytes, file->len); i++)
		;
	carried_out();
	return n;
}

/* --- links ------------------------------------------------------------------------------------ */

static int (*post_behind)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static bool is_wanted(const struct ibv_send_wr *wr)
{
	if (is_ordered(HOSTILE_WRITE))
		return wr->opcode == IBV_WR_RDMA_WRITE;
	return is_ordered(HOSTILE_SEND) && wr->opcode == IBV_WR_SEND && wr->num_sge == 1 &&
	       (!file->type || *(const uint8_t *)wr->sg_list->addr == file->type);
}

static void change_write(struct ibv_send_wr *wr)
{
	if (file->n_patches > 0)
		wr->wr.rdma.remote_addr += file->patches[0].value;
	if (file->n_patches > 1)
		wr->wr.rdma.rkey += (uint32_t)file->patches[1].value;
}

/* One more of @wr, which nobody hears of. */
static void post_again(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr again = *wr, *bad;

	again.next = NULL;
	again.wr_id = NOBODYS_WR;
	again.send_flags |= IBV_SEND_SIGNALED;
	for (uint32_t i = 0; i < file->repeat && post_behind(qp, &again, &bad) == 0; i++)
		;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	static uint8_t bytes[2048];
	struct ibv_send_wr *at = wr;
	struct ibv_sge sge;
	int rc;

	while (at && !is_wanted(at))
		at = at->next;
	if (!at)
		return post_behind(qp, wr, bad);
	if (is_ordered(HOSTILE_WRITE)) {
		change_write(at);
		rc = post_behind(qp, wr, bad);
		carried_out();
		return rc;
	}
	sge = *at->sg_list;
	if (sge.length > sizeof(bytes))
		return post_behind(qp, wr, bad);
	if (at->send_flags & IBV_SEND_INLINE) {
		memcpy(bytes, (const void *)sge.addr, sge.length);
		sge.addr = (uintptr_t)bytes;
	}
	patch((uint8_t *)sge.addr, sge.length);
	if (file->new_len)
		sge.length = file->new_len;
	at->sg_list = &sge;
	rc = post_behind(qp, wr, bad);
	post_again(qp, at);
	carried_out();
	return rc;
}

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = BEHIND(ibv_open_device)(device);

	if (context && file && context->ops.post_send != post_send) {
		post_behind = context->ops.post_send;
		context->ops.post_send = post_send;
	}
	return context;
}

/* --- dials ------------------------------------------------------------------------------------ */

EXPORTED int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	static uint8_t bytes[HOSTILE_PRIVATE_BYTES];
	struct rdma_conn_param changed = *param;
	bool is_kept_back = is_ordered(HOSTILE_CONNECT) && file->type;

	if (!file)
		return BEHIND(rdma_connect)(id, param);
	memcpy(bytes, param->private_data, param->private_data_len);
	if (is_ordered(HOSTILE_CONNECT)) {
		patch(bytes, param->private_data_len);
		changed.private_data = bytes;
		if (file->new_len)
			changed.private_data_len = (uint8_t)file->new_len;
		carried_out();
	}
	memcpy(file->private_data, bytes, param->private_data_len);
	file->private_len = param->private_data_len;
	if (is_kept_back) {
		errno = ENETUNREACH;
		return -1;
	}
	return BEHIND(rdma_connect)(id, &changed);
}
