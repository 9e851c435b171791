/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/*
 * The processes of a running unit.
 */

/* More are not looked at. Chosen. */
#define UNIT_PIDS_MAX 512u

/* Those of the service @unit, by its control group. Returns how many. */
size_t unit_process_list(const char *unit, int ret_pids[UNIT_PIDS_MAX]);

/* Whether process @pid has a library of the name of @library mapped, wherever from: one that was
 * replaced is still ours. UNIT_MAPS_IT, 0, or -errno: we may not look. */
#define UNIT_MAPS_IT 1
int unit_process_maps(int pid, const char *library);

/* The instances of the template @unit that systemd knows, a line each that begins with the name; to
 * be freed; NULL: it does not say. */
char *unit_instances(const char *unit);
