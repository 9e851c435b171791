/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fabric/probe_json.h"

const char *probe_error_name(int error, char text[16])
{
	const char *name = strerrorname_np(error);

	if (error == 0)
		return "";
	if (name)
		return name;
	snprintf(text, 16, "%d", error);
	return text;
}

json_t *probe_device_json(const struct device_info *info)
{
	char guid[20];

	snprintf(guid, sizeof(guid), "%016" PRIx64, info->guid);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", info->name,
			 "transport", fabric_transport_name(info->transport), "driver",
			 info->driver, "firmware", info->firmware, "guid", guid, "vendor_id",
			 (json_int_t)info->vendor_id, "part_id", (json_int_t)info->part_id, "ports",
			 (json_int_t)info->ports, "max_qp", (json_int_t)info->max_qp, "max_qp_wr",
			 (json_int_t)info->max_qp_wr);
}

static json_t *error_json(int error)
{
	char text[16];

	return error ? json_string(probe_error_name(error, text)) : json_null();
}

static json_t *steps_json(const struct probe_report *report)
{
	json_t *steps = json_array();

	for (uint32_t i = 0; i < report->n_steps; i++) {
		const struct probe_step *step = &report->steps[i];

		json_array_append_new(
			steps,
			json_pack("{s:s, s:I, s:I, s:b, s:o, s:I}", "step",
				  inline_state_name(step->state), "asked", (json_int_t)step->asked,
				  "granted", (json_int_t)step->granted, "ok", (int)step->ok,
				  "error", error_json(step->error), "us", (json_int_t)step->us));
	}
	return steps;
}

static json_t *frontier_json(const struct frontier *frontier)
{
	json_t *points = json_array();

	for (uint32_t i = 0; i < frontier->n; i++) {
		const struct frontier_point *point = &frontier->points[i];

		json_array_append_new(points, json_pack("{s:I, s:I, s:o}", "inline_bytes",
							(json_int_t)point->inline_bytes, "send_wr",
							(json_int_t)point->send_wr, "error",
							error_json(point->error)));
	}
	return points;
}

static json_t *hints_json(const struct inline_ask *ask)
{
	json_t *hints = json_array();

	for (uint32_t i = 0; i < ask->n_hints && i < INLINE_HINTS_MAX; i++)
		json_array_append_new(hints, json_integer(ask->hints[i]));
	return hints;
}

json_t *probe_report_json(const struct device_info *info, const struct probe_report *report)
{
	char cause[PROBE_CAUSE_BYTES];
	json_t *json, *more;

	probe_cause(info, report, cause);
	json = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "depth",
			 (json_int_t)report->shape.send_wr, "sges",
			 (json_int_t)report->shape.send_sge, "asked", (json_int_t)report->ask.ask,
			 "floor", (json_int_t)report->ask.floor, "cap", (json_int_t)report->ask.cap,
			 "hints", hints_json(&report->ask), "granted", (json_int_t)report->granted,
			 "verified", (json_int_t)report->verified, "used",
			 (json_int_t)report->used);
	more = json_pack("{s:b, s:s, s:s, s:o, s:s, s:s, s:I, s:I, s:b, s:I, s:o, s:o}", "exact",
			 (int)report->exact, "reason", inline_reason_name(report->reason), "text",
			 inline_reason_text(report->reason), "error", error_json(report->error),
			 "detail", report->detail, "cause", cause, "creations",
			 (json_int_t)report->creations, "us", (json_int_t)report->us, "cached",
			 (int)report->is_cached, "port", (json_int_t)report->port, "steps",
			 steps_json(report), "frontier", frontier_json(&report->frontier));
	if (!json || !more || json_object_update(json, more) < 0) {
		json_decref(json);
		json = NULL;
	}
	json_decref(more);
	return json;
}
