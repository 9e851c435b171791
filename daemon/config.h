/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/device_conf.h"
#include "peer_conf.h"
#include "rule_conf.h"

/*
 * What the administrator can set. One table in config_table.c says for each key what it is called,
 * its unit, range, default and why the default is what it is; reading a file, checking it and
 * printing the commented sample all walk that table.
 */

enum conf_users {
	CONF_USERS_AUTO, /* all for root's daemon, else own */
	CONF_USERS_ALL,
	CONF_USERS_OWN,
};

enum conf_rdma {
	CONF_RDMA_AUTO, /* the devices that there are */
	CONF_RDMA_OFF,
};

enum conf_remote {
	CONF_REMOTE_OFF,
	CONF_REMOTE_ON,
};

enum conf_peers {
	CONF_PEERS_AUTO, /* a daemon for all users that has a key or a list */
	CONF_PEERS_ON,
	CONF_PEERS_OFF,
};

/* Longest path of a file, terminator included. Chosen. */
#define CONF_PATH_BYTES PEER_CONF_PATH_BYTES

struct conf {
	/* Told to the clients. */
	uint64_t spin_us;
	uint64_t promote_after;
	uint64_t demote_wait_ms;
	uint64_t resume_timeout_s;
	uint64_t ring_bytes;
	uint64_t backoff_min_ms;
	uint64_t backoff_max_ms;
	/* Kept by the daemon. */
	uint64_t pair_wait_ms;
	uint64_t hello_wait_ms;
	uint64_t max_sessions;
	uint64_t sessions_per_uid;
	uint64_t connections_per_uid;
	uint64_t ring_bytes_per_uid;
	uint64_t registrations_per_s;
	uint64_t messages_per_s;
	uint64_t send_backlog;
	uint64_t users; /* enum conf_users */
	uint64_t log_level;
	/* RDMA. */
	uint64_t rdma;	       /* enum conf_rdma */
	uint64_t remote_lanes; /* enum conf_remote */
	uint64_t stop_wait_ms;
	uint64_t rdma_rescan_ms;
	uint64_t pool_min, pool_max;
	uint64_t qps_per_device;
	uint64_t queue_bytes_per_device;
	uint64_t pinned_bytes_per_device;
	uint64_t pinned_bytes_per_uid;
	uint64_t rdma_depth;
	uint64_t rdma_sges;
	uint64_t inline_ask;
	uint64_t inline_floor;
	/* Other hosts' daemons. */
	uint64_t peer_sessions; /* enum conf_peers */
	uint64_t peer_port;
	uint64_t offer_wait_ms;
	uint64_t peer_dial_ms, peer_handshake_ms;
	uint64_t peer_ping_ms, peer_dead_ms;
	uint64_t peer_lapse_ms;
	uint64_t peer_retry_min_ms, peer_retry_max_ms;
	uint64_t peer_sessions_max, peer_pending_max, peer_dials_max;
	uint64_t peer_hosts_max;
	uint64_t peer_offers_max;
	uint64_t peer_messages_per_s;
	uint64_t peer_backlog;
	/* No rows of the table, but sections. */
	struct device_conf devices;
	struct peer_conf peers;
	struct rule_list rules;
	/* Texts; empty: not set. */
	char peer_listen[CONF_PATH_BYTES];
	char peer_key[CONF_PATH_BYTES];
	char peer_ca[CONF_PATH_BYTES], peer_cert[CONF_PATH_BYTES], peer_cert_key[CONF_PATH_BYTES];
};

/* What is wrong with a file, as one line for people: "file:line: what, and what would be right". */
struct conf_error {
	char text[512];
};

/* The file that is wrong; positive, unlike -errno. */
#define CONF_BAD 1

/*
 * Fill @config with the defaults of the table. Never fails.
 */
void conf_init(struct conf *config);

/*
 * Read the file @path over the values in @config.
 * @config: initialised; changed only if the whole file is good.
 * @ret_error: set if the result is not 0.
 * Returns 0, CONF_BAD (syntax, unknown key, wrong type, out of range), or -errno if the file
 * can not be read. Blocks for file reads.
 */
int conf_load(struct conf *config, const char *path, struct conf_error *ret_error);

/*
 * Print a sample file to @out: every key, commented out with its default, and what it means.
 */
void conf_print_sample(FILE *out);
