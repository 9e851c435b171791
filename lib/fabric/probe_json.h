/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "fabric/probe.h"

/*
 * The JSON of a device and of its probe, for shunt probe and shunt devices alike. Keys are only
 * ever added. An object for the caller to release, or NULL without memory.
 */

/* name, transport, driver, firmware, guid, vendor_id, part_id, ports, max_qp, max_qp_wr. */
json_t *probe_device_json(const struct device_info *info);

/*
 * depth, sges, asked, floor, cap, hints, granted, verified, used, exact, reason, text, error (a
 * name such as "ENOMEM"; null: none), detail, cause, creations, us, cached, port,
 * steps[] (step, asked, granted, ok, error, us), frontier[] (inline_bytes, send_wr, error).
 */
json_t *probe_report_json(const struct device_info *info, const struct probe_report *report);

/* "EINVAL"; "" for 0; the number for one without a name. Static, or @text. */
const char *probe_error_name(int error, char text[16]);
