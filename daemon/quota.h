/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "config.h"

/*
 * What each user may take of the daemon. Every session, registered end and half is charged to one
 * user and given back exactly once; a user's record lives while something refers to it.
 */

/* A rate limit with bursts: the time at which everything taken so far would have been due. */
struct bucket {
	uint64_t due_ns;
};

struct quota {
	const struct conf *conf;
	struct map users;
};

struct quota_user {
	uid_t uid;
	uint32_t refs;
	uint64_t sessions, ends, ring_bytes, pinned_bytes;
	struct bucket registrations, queries, complaints;
};

/*
 * Take one from @bucket at time @now_ns.
 * @per_s: rate, 1…10^9; @burst: how many may be taken at once, at least 1.
 * Returns 0, or the nanoseconds to wait if nothing is left (nothing is taken then).
 */
uint64_t bucket_take(struct bucket *bucket, uint64_t now_ns, uint64_t per_s, uint64_t burst);

/* Make an empty book; @conf outlives it; @key: random, for the hash map. */
void quota_init(struct quota *quota, const struct conf *conf, uint64_t key);

/* Release it; every user must have been put. */
void quota_deinit(struct quota *quota);

/* The record of @uid, with a reference for the caller; NULL without memory. */
struct quota_user *quota_user_get(struct quota *quota, uid_t uid);

/* One more reference to @user. */
struct quota_user *quota_user_ref(struct quota_user *user);

/* Drop a reference; NULL is ignored. Returns NULL. */
struct quota_user *quota_user_put(struct quota *quota, struct quota_user *user);

/*
 * Charge @user a session, an end, @bytes of ring, @bytes pinned for RDMA devices (all of them
 * together; each device has a budget of its own beside, see fabric/mr.h). True if that is within
 * the quota; false charges nothing. What was charged is given back by subtracting it from the
 * record.
 */
bool quota_take_session(const struct quota *quota, struct quota_user *user);
bool quota_take_end(const struct quota *quota, struct quota_user *user);
bool quota_take_ring(const struct quota *quota, struct quota_user *user, uint64_t bytes);
bool quota_take_pinned(const struct quota *quota, struct quota_user *user, uint64_t bytes);

/* Milliseconds that @user must wait before one more registration; 0: it was taken now. */
uint32_t quota_take_registration(const struct quota *quota, struct quota_user *user,
				 uint64_t now_ns);
