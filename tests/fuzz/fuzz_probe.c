/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "fabric/probe_entry.h"

#include "fuzz/fuzz.h"

/*
 * The file of kept probe results, with anything in it. What is believed must be possible: no more
 * than the cap, no less than the floor, nothing without a good reason; and it must come back the
 * same when it is written and read again.
 */
static const struct probe_order order = {
	.shape = {.send_wr = 256, .recv_wr = 256, .send_sge = 1, .recv_sge = 1},
	.ask = {.ask = 256, .floor = 32, .cap = 236},
	.use = true,
};

static void check(const struct probe_report *report)
{
	struct probe_report again;
	json_t *entry;

	if (!report->is_cached || !probe_is_lasting(report) || report->used > order.ask.cap ||
	    report->used > report->granted || report->frontier.n > FRONTIER_POINTS_MAX)
		abort();
	if (inline_reason_is_good(report->reason) != (report->used >= order.ask.floor))
		abort();
	entry = probe_entry_encode(report);
	if (!entry || !probe_entry_decode(entry, &order, &again) ||
	    memcmp(report, &again, sizeof(again)) != 0)
		abort();
	json_decref(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char why[PROBE_PARSE_BYTES];
	json_t *entry, *entries = probe_entries_parse((const char *)data, len, why);
	const char *key;

	if (!entries)
		return 0;
	json_object_foreach(entries, key, entry)
	{
		struct probe_report report;

		memset(&report, 0, sizeof(report));
		if (probe_entry_decode(entry, &order, &report))
			check(&report);
	}
	json_decref(entries);
	return 0;
}
