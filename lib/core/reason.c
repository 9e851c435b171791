/* SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "core/reason.h"

struct reason_row {
	const char *name;
	const char *text;
	bool passes;
};

#define PINS false
#define PASSES true
#define ROW(code, name, passes, text) [REASON_##code] = {name, text, passes}

static const struct reason_row rows[] = {
	ROW(NONE, "none", PASSES, "Nothing stands in the way."),
	ROW(NOT_ELIGIBLE, "not_eligible", PINS,
	    "The socket was not created under Shunt, so others may use it unseen."),
	ROW(NOT_TCP, "not_tcp", PINS, "The descriptor is not a TCP socket over IPv4 or IPv6."),
	ROW(NOT_CONNECTED, "not_connected", PASSES,
	    "The TCP connection is not established at this moment."),
	ROW(FIN_SEEN, "fin_seen", PINS, "One direction of the connection is already shut."),
	ROW(BOUND_TO_DEVICE, "bound_to_device", PINS,
	    "The socket is bound to a network device, which only TCP can honour."),
	ROW(SELF_CONNECT, "self_connect", PINS, "The socket is connected to itself."),
	ROW(OTHER_NETNS, "other_netns", PINS,
	    "The socket lives in a network namespace that this daemon does not serve."),
	ROW(RULE_UNPROVED, "rule_unproved", PINS,
	    "This kernel's TCP counters do not follow the rule that a safe change needs."),
	ROW(NO_DAEMON, "no_daemon", PASSES, "No shuntd answers."),
	ROW(DAEMON_GONE, "daemon_gone", PASSES, "The daemon went away."),
	ROW(PEER_UNKNOWN, "peer_unknown", PASSES,
	    "The other end has not registered: it does not run under Shunt, or not yet."),
	ROW(PROMOTE_WAIT, "promote_wait", PASSES,
	    "The other end has not finished with the last lane of this connection."),
	ROW(STALE_PEER, "stale_peer", PASSES,
	    "The only matching end belongs to an older connection with the same ports."),
	ROW(SEVERAL_HOLDERS, "several_holders", PASSES,
	    "More than one process holds the socket, so no new lane may begin."),
	ROW(FORKED, "forked", PASSES, "The program forked while the promotion was under way."),
	ROW(OVER_QUOTA, "over_quota", PASSES, "The user's share of the daemon is used up."),
	ROW(NO_DESCRIPTORS, "no_descriptors", PASSES, "There are no file descriptors left."),
	ROW(NO_MEMORY, "no_memory", PASSES, "There is not enough memory for a lane."),
	ROW(BACK_OFF, "back_off", PASSES,
	    "The connection left its lane a short while ago and waits before the next one."),
	ROW(CANCELLED, "cancelled", PASSES, "The program withdrew the registration."),
	ROW(FDOPEN, "fdopen", PINS, "The program wrapped the socket in a stdio stream."),
	ROW(SCM_RIGHTS, "scm_rights", PINS, "The socket was passed to another process."),
	ROW(EXEC, "exec", PASSES, "The program executed another one that keeps the socket."),
	ROW(MSG_OOB, "msg_oob", PINS, "The program uses urgent data, which only TCP carries."),
	ROW(ZEROCOPY, "zerocopy", PINS, "The program asked for MSG_ZEROCOPY notifications."),
	ROW(KTLS, "ktls", PINS, "The program attached kernel TLS to the socket."),
	ROW(IO_URING, "io_uring", PINS, "The program does its I/O through io_uring."),
	ROW(PINNED_OPTION, "pinned_option", PINS,
	    "The program set a socket option that only TCP can honour."),
	ROW(UNSERVED_CALL, "unserved_call", PASSES,
	    "The program made a call that a lane can not serve."),
	ROW(REQUESTED, "requested", PASSES, "Someone asked for TCP with shunt demote."),
	ROW(PEER_ASKED, "peer_asked", PASSES, "The other end asked to leave the lane."),
	ROW(PEER_LEFT, "peer_left", PASSES, "The other end gave up before the lane was ready."),
	ROW(PEER_DIED, "peer_died", PASSES, "The process of the other end died."),
	ROW(CLOSED, "closed", PINS, "The connection was closed or shut."),
	ROW(LANE_CORRUPT, "lane_corrupt", PINS,
	    "The other end wrote nonsense into its lane, so the connection was reset."),
	ROW(BEHIND_OUR_BACK, "behind_our_back", PINS,
	    "Somebody used the socket without the library while it was on a lane."),
	ROW(HANDOVER_FAILED, "handover_failed", PINS,
	    "The stream could not be handed to TCP without losing bytes."),
	ROW(HANDOVER_TIMEOUT, "handover_timeout", PINS,
	    "The other end did not answer a hand-over to TCP in time."),
	ROW(PROTOCOL, "protocol", PASSES, "A message broke the rules of the control protocol."),
	ROW(VERSION, "version", PASSES, "Library and daemon speak different protocol versions."),
	ROW(INTERNAL, "internal", PASSES, "Shunt failed in a way that it has no name for."),
	ROW(NO_PEER_DAEMON, "no_peer_daemon", PASSES,
	    "The other end is on another host, and no shuntd answers there."),
	ROW(NO_LINK, "no_link", PASSES,
	    "Both daemons know the connection, but there is no RDMA link between the hosts."),
	ROW(RESUME_TIMEOUT, "resume_timeout", PINS,
	    "A lane between hosts was lost and could not be taken up again in time."),
	ROW(NO_QUEUE_PAIR, "no_queue_pair", PASSES,
	    "Both daemons know the connection, but the link between the hosts waits for a queue "
	    "pair: the pool of one of them is empty."),
	ROW(LANE_LOST, "lane_lost", PASSES,
	    "The lane between hosts was lost, with its link, a daemon or the other program; TCP "
	    "took over from the exact byte."),
	ROW(KEPT_BY_RULE, "kept_by_rule", PASSES,
	    "A rule of the daemon's settings keeps the connection, or its other end, on TCP."),
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) == REASON_COUNT, "a row for each code");

bool reason_ok(uint64_t number)
{
	return number < REASON_COUNT;
}

const char *reason_name(enum reason reason)
{
	return reason_ok(reason) ? rows[reason].name : "invalid";
}

const char *reason_text(enum reason reason)
{
	return reason_ok(reason) ? rows[reason].text : "The reason code is not a known one.";
}

bool reason_passes(enum reason reason)
{
	return reason_ok(reason) && rows[reason].passes;
}
