/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/half.h"

/*
 * Replay of a lost lane: the daemon that feeds a reader over a network loses the lane at some
 * offset R; the bytes that the writer has in its ring from R on go over TCP instead, sent by the
 * writer's daemon, for the writer itself may not be called for hours.
 *
 * The one thing that must survive the daemon is how far it got. It is never stored: where the
 * replay began is (a ring offset and the TCP count of that moment, in the daemon's own half), and
 * progress is the difference that the kernel's counter has made since. A daemon that dies between
 * a send and its bookkeeping can so neither repeat nor skip a byte, and neither can its successor.
 */

/*
 * Begin at @from with @written TCP bytes written so far, or take up a replay that a predecessor
 * began: then the arguments are ignored and the record stands. @half is the daemon's own.
 */
void replay_begin(struct half_ctl *half, struct ring_off from, struct tcp_count written);

/*
 * The next byte to send when the kernel's count stands at @written; @end is the writer's end.
 * 0, or -EBADMSG if no replay was begun or the count does not fit it.
 */
int replay_next(const struct half_ctl *half, struct tcp_count written, struct ring_off end,
		struct ring_off *ret_next);

/* Tell the writer that everything before @next is in the kernel's send queue. */
void replay_publish(struct half_ctl *half, struct ring_off next);
