/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/util.h"
#include "fabric/probe_entry.h"

#define VERSION 1

void probe_entry_key(const struct device_info *info, const struct probe_order *order,
		     char key[PROBE_KEY_BYTES])
{
	struct utsname kernel;
	int used;

	if (uname(&kernel) < 0)
		strcpy(kernel.release, "?");
	used = snprintf(key, PROBE_KEY_BYTES,
			"%s guid %016" PRIx64 " firmware %s kernel %.64s provider %s driver %s "
			"depth %u+%u pieces %u+%u ask %u floor %u cap %u hints",
			info->name, info->guid, info->firmware, kernel.release, info->provider,
			info->driver, order->shape.send_wr, order->shape.recv_wr,
			order->shape.send_sge, order->shape.recv_sge, order->ask.ask,
			order->ask.floor, order->ask.cap);
	for (uint32_t i = 0; i < u64_min(order->ask.n_hints, INLINE_HINTS_MAX); i++)
		used += snprintf(key + used, PROBE_KEY_BYTES - (size_t)used, " %u",
				 order->ask.hints[i]);
}

json_t *probe_entries_parse(const char *text, size_t len, char why[PROBE_PARSE_BYTES])
{
	json_error_t error;
	json_t *entries, *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

	if (!root) {
		snprintf(why, PROBE_PARSE_BYTES, "line %d: %s", error.line, error.text);
		return NULL;
	}
	entries = json_object_get(root, "entries");
	if (json_integer_value(json_object_get(root, "version")) == VERSION &&
	    json_is_object(entries)) {
		json_incref(entries);
	} else {
		snprintf(why, PROBE_PARSE_BYTES, "not of this version");
		entries = NULL;
	}
	json_decref(root);
	return entries;
}

char *probe_entries_text(json_t *entries)
{
	json_t *root = json_pack("{s:i, s:O}", "version", VERSION, "entries", entries);
	char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;

	json_decref(root);
	return text;
}

/* A number of an entry: false if it is none, or beyond @max. */
static bool get_number(const json_t *entry, const char *name, uint32_t max, uint32_t *ret_number)
{
	const json_t *value = json_object_get(entry, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > max)
		return false;
	*ret_number = (uint32_t)json_integer_value(value);
	return true;
}

static bool get_reason(const json_t *entry, enum inline_reason *ret_reason)
{
	const char *name = json_string_value(json_object_get(entry, "reason"));

	for (int i = 0; name && i < INLINE_REASON_COUNT; i++) {
		if (strcmp(name, inline_reason_name(i)) == 0) {
			*ret_reason = i;
			return true;
		}
	}
	return false;
}

static bool get_frontier(const json_t *entry, struct frontier *frontier)
{
	const json_t *points = json_object_get(entry, "frontier");

	if (!points)
		return true;
	if (!json_is_array(points) || json_array_size(points) > FRONTIER_POINTS_MAX)
		return false;
	for (size_t i = 0; i < json_array_size(points); i++) {
		struct frontier_point *point = &frontier->points[i];
		const json_t *value = json_array_get(points, i);

		if (!get_number(value, "inline_bytes", INLINE_BYTES_MAX, &point->inline_bytes) ||
		    !get_number(value, "send_wr", INT32_MAX, &point->send_wr))
			return false;
	}
	frontier->n = (uint32_t)json_array_size(points);
	return true;
}

static bool decode(const json_t *entry, const struct probe_order *order,
		   struct probe_report *report)
{
	*report =
		(struct probe_report){.shape = order->shape, .ask = order->ask, .is_cached = true};
	if (!json_is_object(entry) || !get_reason(entry, &report->reason) ||
	    !get_number(entry, "used", INLINE_BYTES_MAX, &report->used) ||
	    !get_number(entry, "granted", INT32_MAX, &report->granted) ||
	    !get_number(entry, "verified", INLINE_BYTES_MAX, &report->verified) ||
	    !get_number(entry, "send_wr_granted", INT32_MAX, &report->send_wr_granted) ||
	    !get_number(entry, "port", UINT8_MAX, &report->port) ||
	    !get_number(entry, "creations", INT32_MAX, &report->creations) ||
	    !get_number(entry, "us", INT32_MAX, &report->us) ||
	    !get_frontier(entry, &report->frontier))
		return false;
	report->exact = json_is_true(json_object_get(entry, "exact"));
	if (!probe_is_lasting(report) || report->used > order->ask.cap ||
	    report->used > report->granted)
		return false;
	if (inline_reason_is_good(report->reason))
		return report->used >= order->ask.floor && report->used > 0 &&
		       report->used == report->verified;
	return report->used == 0;
}

json_t *probe_entry_encode(const struct probe_report *report)
{
	json_t *points, *entry;

	entry = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "reason",
			  inline_reason_name(report->reason), "used", (int)report->used, "granted",
			  (int)u64_min(report->granted, INT32_MAX), "verified",
			  (int)report->verified, "send_wr_granted",
			  (int)u64_min(report->send_wr_granted, INT32_MAX), "port",
			  (int)report->port, "creations", (int)report->creations, "us",
			  (int)u64_min(report->us, INT32_MAX), "exact", (int)report->exact);
	if (!entry || report->frontier.n == 0)
		return entry;
	points = json_array();
	for (uint32_t i = 0; i < report->frontier.n; i++) {
		const struct frontier_point *point = &report->frontier.points[i];

		if (point->error == 0)
			json_array_append_new(points,
					      json_pack("{s:i, s:i}", "inline_bytes",
							(int)point->inline_bytes, "send_wr",
							(int)u64_min(point->send_wr, INT32_MAX)));
	}
	json_object_set_new(entry, "frontier", points);
	return entry;
}

bool probe_entry_decode(const json_t *entry, const struct probe_order *order,
			struct probe_report *ret_report)
{
	struct probe_report report;

	if (!decode(entry, order, &report))
		return false;
	*ret_report = report;
	return true;
}
