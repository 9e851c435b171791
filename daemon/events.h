/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

#include "os/log.h"

/*
 * The kinds of line that the daemon logs and that others act upon: in the journal each has a
 * MESSAGE_ID of its own, and its facts as fields. One table (events.c) has for each its id, its
 * fields, what it means and what to do; `shuntd --print-events` prints it, and `shuntd
 * --print-catalog` what journalctl -x shows beside such a line.
 *
 * An id is given once and for ever. A kind that is no longer logged keeps its row.
 */
enum event {
	EVENT_DAEMON_READY,
	EVENT_DAEMON_STOPPING,
	EVENT_CONFIG_RELOADED,
	EVENT_CONFIG_REFUSED,
	EVENT_KERNEL_UNFIT,
	EVENT_DEVICE_READY,
	EVENT_DEVICE_UNUSED,
	EVENT_DEVICE_GONE,
	EVENT_PORT_CHANGED,
	EVENT_PEER_UP,
	EVENT_PEER_DOWN,
	EVENT_PEER_REFUSED,
	EVENT_LINK_UP,
	EVENT_LINK_DOWN,
	EVENT_CLIENT_CUT_OFF,
	EVENT_CLIENT_REFUSED,
	EVENT_PROMOTED,
	EVENT_DEMOTED,
	EVENT_LANE_LOST,
	EVENT_CONNECTION_RESET,
	EVENT_COUNT,
};

/* The kind, for log_event(). */
const struct log_kind *event_kind(enum event event);

/* Log a line of the kind EVENT_@kind: the rest as of log_event(). Evaluated only if it is on. */
#define event_log(kind, facts, ...)                                                                \
	do {                                                                                       \
		if (log_is_on(event_kind(EVENT_##kind)->level))                                    \
			log_event(event_kind(EVENT_##kind), facts, __VA_ARGS__);                   \
	} while (0)

/* The same for what another host can bring about again and again: beyond @limit (at @now_ns) it is
 * logged for whoever debugs only, and the next line says of how many that was so. */
#define event_log_within(limit, now_ns, kind, facts, ...)                                          \
	do {                                                                                       \
		unsigned int event_withheld;                                                       \
                                                                                                   \
		if (!log_limit_pass(limit, now_ns, &event_withheld)) {                             \
			log_debug(__VA_ARGS__);                                                    \
			break;                                                                     \
		}                                                                                  \
		if (event_withheld)                                                                \
			log_notice("%u lines like the next one were withheld", event_withheld);    \
		event_log(kind, facts, __VA_ARGS__);                                               \
	} while (0)

/*
 * Have the journal take entries with their fields, where standard error is the journal's and the
 * daemon was built with libsystemd. Once, after log_init().
 */
void events_init(void);

/* Print the table: name, id, priority and fields of each kind, and what it means. */
void events_print(FILE *out);

/* Print the same as a catalog of systemd: journalctl --catalog. */
void events_print_catalog(FILE *out);
