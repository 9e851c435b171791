/* SPDX-License-Identifier: MIT */
#pragma once

#include "core/ctl.h"
#include "os/fd.h"

/*
 * What to do about each message of a client. One table says in which phase of a session a message
 * may come; anything else is cut off.
 */

struct session;

/*
 * Act on @msg, well formed, from @session.
 * @bag: the descriptors that came with it; what the handler does not take is closed by the caller.
 * The session may be doomed afterwards, never freed.
 */
void request_handle(struct session *session, const struct ctl_msg *msg, struct fd_bag *bag);
