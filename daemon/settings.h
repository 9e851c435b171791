/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "config.h"

/*
 * The settings of a daemon: read at the start, and again while it runs.
 */

struct server;

/*
 * Fill @config from the file @path; NULL: from the one that $SHUNT_CONF names, else the default
 * one, which alone may be missing. False: it can't be used, which is logged; @config has defaults
 * then.
 */
bool settings_load(struct conf *config, const char *path);

/* Have the log as @config wants it. */
void settings_apply_log(const struct conf *config);

/*
 * Read the file again and take over what may change while @server runs. Each change is logged, with
 * the time from when it holds. A file that is wrong is logged, and changes nothing.
 * The keys of peers are read again in any case (peers.h). @path as above.
 */
void settings_reload(struct server *server, const char *path);
