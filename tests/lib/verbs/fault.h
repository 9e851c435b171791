/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Injected faults: the file `faults` of the state folder. One fault a line, the first that fits an
 * occasion is taken, and counted down in the file until it is used up and its line gone; so a test
 * can also read there what has not happened yet. Every process of the host sees the same file.
 *
 *	POINT [device=NAME] [count=N|inf] [skip=N] [KEY=VALUE]…
 *
 * skip: let N occasions pass first. Points, and the keys that they know:
 *
 *	create_qp	errno=E (0: NULL with errno untouched); grant=N (succeeds,
 *			with an inline limit of N); over=N (only requests of more
 *			than N inline bytes)
 *	create_cq, create_channel, alloc_pd, reg_mr, modify_qp, open
 *			errno=E
 *	post_send, post_recv
 *			value=N: what the call returns, sign included
 *	send		a message of a QP: action=drop|delay|flush|partial|error;
 *			ms=N of a delay; status=N (enum ibv_wc_status) of an error;
 *			partial: half of it is written, then the QP breaks
 *	ack		an acknowledgement is lost: action=drop
 *	cq		the CQ overruns at its next completion
 *	cm		a CM message, what=req|rep|rtu|rej|dreq|drep: action=drop;
 *			req, rep and dreq also action=delay ms=N
 *	resolve_addr, resolve_route, connect
 *			event=E: the call succeeds, and its event says so
 *	resolve_route, connect, accept, listen
 *			errno=E: the call fails
 */
enum fault_action {
	FAULT_NONE,
	FAULT_DROP,
	FAULT_DELAY,
	FAULT_FLUSH,
	FAULT_PARTIAL,
	FAULT_ERROR,
};

struct fault {
	bool has_errno, has_grant, has_event;
	int errno_value, event_errno;
	long grant, value, ms, status;
	enum fault_action action;
};

/*
 * Whether a fault is due at @point for @device (a name, or NULL). @amount is what `over` is
 * compared with; @what, if not NULL, is compared with the key of that name.
 */
bool fault_take(const char *point, const char *device, uint64_t amount, const char *what,
		struct fault *ret_fault);

/* The same where only an errno matters: that, or 0. */
int fault_errno(const char *point, const char *device);
