/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Links to the daemons of other hosts, and the lanes over them: as the rest of the daemon sees
 * them, which is hardly at all; lanes themselves are behind remote_ops.h.
 */

struct links;
struct server;

/*
 * Begin to make links, and lanes on them, if the settings want any and there are devices and
 * sessions. NULL: none are made. @server: with devices and peers; outlives it.
 */
struct links *links_start(struct server *server);

struct manager_fds;

/* Go on with the lanes that a predecessor has left with the service manager. @links: NULL: there
 * are none for us, and they are given up. */
void links_restore(struct links *links, struct manager_fds *passed);

/* Devices, ports or addresses have come: the other daemons are told, and dialled where there is no
 * link. NULL is ignored. */
void links_look_again(struct links *links);

/*
 * The daemon is about to end: make no more lanes, take back those that have not begun, and ask the
 * ends of all others to go back to TCP. Whether there are any: then links_have_lanes() tells how it
 * goes. @links: NULL: there are none.
 */
bool links_retire(struct links *links);

/* Whether a lane is left that this daemon's end would do harm to. @links: may be NULL. */
bool links_have_lanes(const struct links *links);

/* End all links; waits until no device has anything of them. NULL is ignored. Returns NULL. */
struct links *links_stop(struct links *links);

/* The answer to `shunt links`. @ret_count: links, whatever their state. NULL without memory. */
json_t *links_json(const struct server *server, uint32_t *ret_count);

/* All messages over links since the daemon started, as `shunt links` has them of one. NULL:
 * @links is NULL, or without memory. */
json_t *links_totals_json(const struct links *links);

#define LINKS_TEXT_BYTES 400u

/* What became of our link @serial, in words: "the link to 10.0.0.2 over mlx5_0 …". False: it is
 * not lost, or that was too long ago. */
bool links_lost_text(const struct links *links, uint32_t serial, char ret_text[LINKS_TEXT_BYTES]);
