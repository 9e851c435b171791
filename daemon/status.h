/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "core/ctl.h"

/*
 * Answers to `shunt ss`, `why`, `stats`, `devices` and to the question how the daemon is, as JSON
 * text in a memfd that is sealed whole. A user sees his own processes' connections, root sees all.
 * Keys are only ever added.
 */

struct server;
struct session;

/*
 * Answer @query of @asker.
 * @ret_count: how many connections (or devices) are in the answer; set on success.
 * Returns a descriptor of the text, at offset 0, for the caller to close; -ENOMEM, -ESRCH (why:
 * no such connection), or -errno of making the memfd.
 */
int status_make(struct server *server, const struct session *asker,
		const struct ctl_query_msg *query, uint32_t *ret_count);
