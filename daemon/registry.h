/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "base/map.h"
#include "end.h"

/*
 * All registered ends, found by their session's token, by their socket, and by their name. One end
 * per socket cookie and session; of kin the first is the one that is found, until it goes. Of two
 * ends with the same name the older is stale for certain (the kernel keeps one established
 * connection per name and namespace): the newer takes its place by name.
 */
struct registry {
	struct map by_token, by_cookie, by_name;
};

/* Make an empty registry; @key: random, for the hash maps. */
void registry_init(struct registry *registry, uint64_t key);

/* Release it; it must be empty. */
void registry_deinit(struct registry *registry);

/*
 * Make an end of @session, idle, and enter it. The session's user has been charged for it.
 * @token: in use by no other end. Ends of the same cookie become its kin. Returns it, or NULL
 * without memory.
 */
struct end *registry_add(struct registry *registry, struct session *session, uint64_t token,
			 const struct tcp_facts *facts);

/* Take @end out and free it; it is idle. The user's charge is given back. */
void registry_remove(struct registry *registry, struct end *end);

/* The end of @session with @token, or NULL. */
struct end *registry_by_token(const struct registry *registry, const struct session *session,
			      uint64_t token);

/* The end with the socket @cookie, the first of its kin, or NULL. */
struct end *registry_by_cookie(const struct registry *registry, uint64_t cookie);

/* The end at the other side of the connection @name, or NULL. */
struct end *registry_opposite(const struct registry *registry, const struct tcp_name *name);
