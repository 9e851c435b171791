/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "fabric/probe.h"

/*
 * Results of probes, kept on disk: a daemon that starts again creates no trial queue pair. One JSON
 * file, probe.json, in
 *
 *	$SHUNT_CACHE_DIR		if set; never under AT_SECURE, as the others
 *	$STATE_DIRECTORY		if set: systemd's, of a unit with StateDirectory=
 *	/var/lib/shunt			root's
 *	$XDG_CACHE_HOME/shunt, $HOME/.cache/shunt	others'
 *
 * An entry holds for one device (name, GUID), firmware, kernel, provider library, driver, shape of
 * the queue pairs, and policy: when one of them changes, it is not found, and the device is probed
 * again. So it is when a queue pair is refused later that the entry promised: probe_cache_drop().
 *
 * The file is not trusted: one that is not ours, too large or damaged is told once, ignored and
 * replaced; an entry that can't be is as if it were not there. Nothing is lost but a probe.
 *
 * Any thread; threads and processes exclude each other by a lock on the folder. Blocks for files.
 */

#define PROBE_CACHE_PROBLEM_BYTES 512u

/* Of probe_cache_find(). */
#define PROBE_CACHE_HIT 1
#define PROBE_CACHE_BAD 2 /* the file is unusable: problem says why, the first time */

struct probe_cache {
	char dir[PATH_MAX - 32]; /* empty: there is no place for one, and nothing is kept */
	bool is_told;		 /* that the file is bad */
	char problem[PROBE_CACHE_PROBLEM_BYTES];
};

/*
 * Choose the folder, from the environment and the effective user; touches nothing. Reads the
 * environment: not while another thread changes it. Never fails.
 */
void probe_cache_init(struct probe_cache *cache);

/*
 * Look for the report of @order on the device of @info. @ret_report: set with PROBE_CACHE_HIT, with
 * is_cached. Returns PROBE_CACHE_HIT; 0: none; PROBE_CACHE_BAD once, then 0.
 */
int probe_cache_find(struct probe_cache *cache, const struct device_info *info,
		     const struct probe_order *order, struct probe_report *ret_report);

/*
 * Keep @report, which probe_is_lasting(), in place of an earlier one; the folder is made if need
 * be. Returns 0 or -errno: -EINVAL for a report that is not to be kept, -EBUSY, -EACCES, -EROFS and
 * the like, with cache->problem set; nothing depends on it.
 */
int probe_cache_store(struct probe_cache *cache, const struct device_info *info,
		      const struct probe_order *order, const struct probe_report *report);

/* Forget the report: the device does not keep what it says. Returns as probe_cache_store(); 0 also
 * when there was none. */
int probe_cache_drop(struct probe_cache *cache, const struct device_info *info,
		     const struct probe_order *order);
