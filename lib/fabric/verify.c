/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "fabric/verify_path.h"
#include "os/clock.h"
#include "os/log.h"

/* Size of the message by reference: a control message. */
#define REFERENCE_BYTES 32u

/* Sleep between looks at the completion queue, doubling from the first to the second. Chosen: a
 * real device answers within the first, and 2 ms cost a slow one nothing. */
#define LOOK_MIN_NS 20000
#define LOOK_MAX_NS 2000000

/* How often a port is asked whether it is still there, while a message is under way. Chosen. */
#define ASK_PORT_NS 200000000ull

#define PAGE_BYTES 4096u

enum message { MESSAGE_REFERENCE, MESSAGE_INLINE, MESSAGE_COUNT };

/* wr_id: the message, and the direction in the highest bit. */
#define WR_RECV (1ull << 63)

/*
 * One registered buffer: what is sent by reference, then a slot for each message received. The
 * inline message lies in memory of its own that no key covers.
 */
struct verify_run {
	const struct device *device;
	const struct verify_pair *pair;
	struct verify_result *result;
	uint32_t bytes; /* of the inline message */
	size_t slot_bytes;
	uint8_t *buffer, *unregistered;
	struct ibv_mr *mr;
	struct ibv_wc sent[MESSAGE_COUNT], received[MESSAGE_COUNT];
	bool is_sent[MESSAGE_COUNT], is_received[MESSAGE_COUNT];
};

__attribute__((format(printf, 2, 3))) static void detail(struct verify_run *run, const char *format,
							 ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->result->detail, sizeof(run->result->detail), format, args);
	va_end(args);
}

static uint8_t *slot(const struct verify_run *run, enum message message)
{
	return run->buffer + run->slot_bytes * (1 + (size_t)message);
}

/* Never zero, so that it differs from a slot that nothing arrived in. */
static uint8_t pattern(enum message message, size_t i)
{
	return (uint8_t)(1 + (i * 7 + (size_t)message * 101) % 251);
}

static int prepare(struct verify_run *run)
{
	size_t size;

	run->slot_bytes = u64_align_up(u64_max(run->bytes, REFERENCE_BYTES), 64);
	size = u64_align_up(run->slot_bytes * (1 + MESSAGE_COUNT), PAGE_BYTES);
	run->buffer = aligned_alloc(PAGE_BYTES, size);
	run->unregistered = malloc(run->slot_bytes);
	if (!run->buffer || !run->unregistered)
		return -ENOMEM;
	memset(run->buffer, 0, size);
	for (size_t i = 0; i < run->slot_bytes; i++) {
		run->buffer[i] = pattern(MESSAGE_REFERENCE, i);
		run->unregistered[i] = pattern(MESSAGE_INLINE, i);
	}
	errno = 0;
	run->mr = ibv_reg_mr(run->device->pd, run->buffer, size, IBV_ACCESS_LOCAL_WRITE);
	if (!run->mr)
		return errno ? -errno : -EIO;
	return 0;
}

static void release(struct verify_run *run)
{
	int rc = run->mr ? ibv_dereg_mr(run->mr) : 0;

	if (rc) {
		/* Memory that the device may still write must not be anything else. */
		log_debug("%s: the probe's memory stays registered: error %d",
			  run->device->info.name, rc);
		run->buffer = NULL;
	}
	free(run->buffer);
	free(run->unregistered);
}

/* Providers return errno, positive or negative. */
static int post_receive(const struct verify_run *run, enum message message)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot(run, message),
		.length = (uint32_t)run->slot_bytes,
		.lkey = run->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
					 .wr_id = WR_RECV | message,
					 .sg_list = &sge,
					 .num_sge = 1,
				 };

	return ibv_post_recv(run->pair->receiver, &wr, &bad);
}

static int post_send(const struct verify_run *run, enum message message, uint32_t bytes)
{
	bool is_inline = message == MESSAGE_INLINE;
	uint32_t bogus_key = run->mr->lkey ^ 0x5a5a5a5a;
	struct ibv_sge sge = {
		.addr = (uintptr_t)(is_inline ? run->unregistered : run->buffer),
		.length = bytes,
		.lkey = is_inline ? (bogus_key ? bogus_key : 1) : run->mr->lkey,
	};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = message,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0),
		};

	return ibv_post_send(run->pair->sender, &wr, &bad);
}

/* Take what has completed. */
static void look(struct verify_run *run)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(run->pair->cq, 1, &wc) > 0) {
		uint64_t message = wc.wr_id & ~WR_RECV;

		if (message >= MESSAGE_COUNT)
			continue;
		if (wc.wr_id & WR_RECV) {
			run->received[message] = wc;
			run->is_received[message] = true;
		} else {
			run->sent[message] = wc;
			run->is_sent[message] = true;
		}
	}
}

/* Whether the port that the messages went over is still there. */
static bool is_active(const struct verify_run *run)
{
	struct port port;

	return device_port(run->device, run->result->port, &port) == 0 &&
	       port.state == IBV_PORT_ACTIVE;
}

/* Wait until @message has been sent and has arrived, until one of them failed, until the port is
 * gone (a removal should not have to wait for us), or until the deadline. */
static void await(struct verify_run *run, enum message message)
{
	uint64_t start_ns = clock_now_ns(), ask_at_ns = start_ns + ASK_PORT_NS;
	struct timespec pause = {.tv_nsec = LOOK_MIN_NS};

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		bool is_late = now_ns >= start_ns + VERIFY_DEADLINE_NS;

		if (now_ns >= ask_at_ns) {
			is_late = is_late || !is_active(run);
			ask_at_ns = now_ns + ASK_PORT_NS;
		}

		look(run);
		if (run->is_sent[message] && run->sent[message].status != IBV_WC_SUCCESS)
			return;
		if (run->is_received[message] &&
		    (run->is_sent[message] || run->received[message].status != IBV_WC_SUCCESS))
			return;
		/* The last look came after the deadline: a thread that slept too long has seen
		 * all that was there in time. */
		if (is_late)
			return;
		nanosleep(&pause, NULL);
		pause.tv_nsec = (long)u64_min(2 * (uint64_t)pause.tv_nsec, LOOK_MAX_NS);
	}
}

/* Whether @message of @bytes came through: true, or false with the reason in the detail. */
static bool arrived(struct verify_run *run, enum message message, uint32_t bytes)
{
	const char *what = message == MESSAGE_INLINE ? "inline" : "by reference";

	if (run->is_sent[message] && run->sent[message].status != IBV_WC_SUCCESS)
		detail(run, "port %u: a send %s of %u bytes failed: %s", run->result->port, what,
		       bytes, ibv_wc_status_str(run->sent[message].status));
	else if (run->is_received[message] && run->received[message].status != IBV_WC_SUCCESS)
		detail(run, "port %u: receiving a send %s failed: %s", run->result->port, what,
		       ibv_wc_status_str(run->received[message].status));
	else if (!run->is_sent[message] || !run->is_received[message])
		detail(run, "port %u: a send %s of %u bytes has not %s in time", run->result->port,
		       what, bytes, run->is_sent[message] ? "arrived" : "completed");
	else
		return true;
	return false;
}

static bool is_intact(const struct verify_run *run, enum message message, uint32_t bytes)
{
	if (run->received[message].byte_len != bytes)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (slot(run, message)[i] != pattern(message, i))
			return false;
	}
	return true;
}

/* Whose fault it is that an inline send failed that had been taken. */
static enum inline_verdict blame(const struct verify_run *run)
{
	if (!run->is_sent[MESSAGE_INLINE] || run->sent[MESSAGE_INLINE].status == IBV_WC_SUCCESS)
		return INLINE_PATH_FAILED;
	switch (run->sent[MESSAGE_INLINE].status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_FATAL_ERR:
		return INLINE_PATH_FAILED;
	case IBV_WC_WR_FLUSH_ERR:
		/* What becomes of any send when the port goes, and what rxe calls a bad key. */
		return is_active(run) ? INLINE_SEND_FAILED : INLINE_PATH_FAILED;
	default:
		return INLINE_SEND_FAILED;
	}
}

static enum inline_verdict try_reference(struct verify_run *run)
{
	int rc = post_send(run, MESSAGE_REFERENCE, REFERENCE_BYTES);

	if (rc) {
		detail(run, "port %u: a send by reference was not taken: error %d",
		       run->result->port, rc);
		return INLINE_PATH_FAILED;
	}
	await(run, MESSAGE_REFERENCE);
	if (!arrived(run, MESSAGE_REFERENCE, REFERENCE_BYTES))
		return INLINE_PATH_FAILED;
	if (!is_intact(run, MESSAGE_REFERENCE, REFERENCE_BYTES)) {
		detail(run, "port %u: a send by reference arrived wrong", run->result->port);
		return INLINE_PATH_FAILED;
	}
	return INLINE_VERIFIED;
}

static enum inline_verdict try_inline(struct verify_run *run, uint32_t mtu_bytes)
{
	uint32_t *bytes = &run->result->bytes;
	int rc = post_send(run, MESSAGE_INLINE, *bytes);

	/* hns takes no inline message of more than one packet. */
	if (rc && mtu_bytes > 0 && *bytes > mtu_bytes) {
		*bytes = mtu_bytes;
		rc = post_send(run, MESSAGE_INLINE, *bytes);
	}
	if (rc) {
		detail(run, "port %u: a send inline of %u bytes was not taken: error %d",
		       run->result->port, *bytes, rc);
		return INLINE_POST_FAILED;
	}
	await(run, MESSAGE_INLINE);
	if (!arrived(run, MESSAGE_INLINE, *bytes))
		return blame(run);
	if (!is_intact(run, MESSAGE_INLINE, *bytes)) {
		detail(run, "port %u: a send inline of %u bytes arrived wrong", run->result->port,
		       *bytes);
		return INLINE_DATA_WRONG;
	}
	detail(run, "port %u: sends by reference and inline of %u bytes arrived", run->result->port,
	       *bytes);
	return INLINE_VERIFIED;
}

static enum inline_verdict converse(struct verify_run *run, uint32_t mtu_bytes)
{
	enum inline_verdict verdict = try_reference(run);

	return verdict == INLINE_VERIFIED ? try_inline(run, mtu_bytes) : verdict;
}

/* So that nothing touches the memory any more; what the device says to it makes no difference. */
static void stop_pair(const struct verify_pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ibv_modify_qp(pair->sender, &attr, IBV_QP_STATE);
	ibv_modify_qp(pair->receiver, &attr, IBV_QP_STATE);
}

/* Connect, and be ready to receive: nobody sends before. */
static int connect_pair(struct verify_run *run, const struct verify_path *path,
			struct verify_cm *cm)
{
	bool by_cm = path->port.transport == FABRIC_IWARP;
	char *why = run->result->detail;
	int rc;

	rc = by_cm ? verify_cm_connect(cm, run->pair, path, run->device->info.name, why)
		   : verify_connect(run->pair, path, why);
	for (int i = 0; i < MESSAGE_COUNT && rc == 0; i++) {
		rc = post_receive(run, i);
		if (rc)
			detail(run, "port %u: a receive was not taken: error %d", path->port.number,
			       rc);
	}
	return rc;
}

int verify_inline(const struct device *device, const struct verify_pair *pair, uint32_t bytes,
		  struct verify_result *ret_result)
{
	struct verify_result result = {.verdict = INLINE_PATH_FAILED, .bytes = bytes};
	struct verify_run run = {.device = device, .pair = pair, .result = &result, .bytes = bytes};
	struct verify_path path;
	struct verify_cm cm = {.channel = NULL};
	int rc;

	rc = verify_path_find(device, &path, result.detail);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		*ret_result = result;
		return 0;
	}
	result.port = path.port.number;
	rc = prepare(&run);
	if (rc == 0) {
		if (connect_pair(&run, &path, &cm) == 0)
			result.verdict = converse(&run, path.port.mtu_bytes);
		stop_pair(pair);
		verify_cm_close(&cm);
		*ret_result = result;
	}
	release(&run);
	return rc;
}
