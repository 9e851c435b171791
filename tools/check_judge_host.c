/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check_judge.h"
#include "table.h"

/* Descriptors of the daemon for each program; see shuntd(8). */
#define FDS_PER_SESSION 3u
/* What it needs beside those of programs. Chosen: devices, peers, files. */
#define FDS_FLOOR 256u

static void judge_rule(struct check_report *report, const struct kernel_facts *facts)
{
	if (facts->rule == 1 || facts->daemon_rule == 0)
		check_say(report, CHECK_FAIL, "TCP counters",
			  "this kernel counts bytes otherwise%s: every connection stays on TCP",
			  facts->rule == 1 ? "" : ", says the daemon");
	else if (facts->rule < 0)
		check_say(report, CHECK_FAIL, "TCP counters", "could not be tried on loopback: %s",
			  strerror(-facts->rule));
	else
		check_say(report, CHECK_PASS, "TCP counters", "count as Shunt needs it%s",
			  facts->daemon_rule == 1 ? ", and the daemon says so, too" : "");
	if (facts->rule < 0)
		check_remedy(report, "ip link set lo up; let the packet filter pass 127.0.0.1");
	else if (facts->rule == 1 || facts->daemon_rule == 0)
		check_remedy(report,
			     "boot another kernel (6.12 is known to be good), systemctl restart "
			     "shuntd, and report this one with shunt debug");
}

void judge_kernel(struct check_report *report, const struct kernel_facts *facts)
{
	size_t lacking = 0;

	for (size_t i = 0; i < facts->n_needs; i++) {
		const struct kernel_need *need = &facts->needs[i];
		bool is_forbidden = need->error == -EPERM || need->error == -EACCES;

		if (!need->error)
			continue;
		lacking++;
		check_say(report, CHECK_FAIL, need->what, "not on this Linux %s: %s",
			  facts->release, strerror(-need->error));
		if (is_forbidden)
			check_remedy(report,
				     "a seccomp filter forbids it: let it pass "
				     "(SystemCallFilter=@system-service; docker run --security-opt "
				     "seccomp=…)");
		else
			check_remedy(report, "boot Linux 5.14 or later; this came with %s",
				     need->since);
	}
	if (!lacking)
		check_say(report, CHECK_PASS, "", "Linux %s has all that Shunt needs",
			  facts->release);
	judge_rule(report, facts);
}

void judge_memlock(struct check_report *report, const struct limit_facts *facts)
{
	char limit[BYTES_TEXT], wanted[BYTES_TEXT];
	bool is_less = facts->memlock < facts->pinned_bytes;

	bytes_text(facts->memlock, limit);
	if (facts->may_lock || facts->memlock == UINT64_MAX) {
		check_say(report, CHECK_PASS, "", "%s may lock as much memory as it likes",
			  facts->whose);
		return;
	}
	if (facts->memlock < CHECK_MEMLOCK_BYTES)
		check_say(report, facts->has_rdma && facts->is_service ? CHECK_FAIL : CHECK_WARN,
			  "", "%s may lock only %s of memory: RDMA devices need %s at the least",
			  facts->whose, limit, bytes_text(CHECK_MEMLOCK_BYTES, wanted));
	else if (is_less)
		check_say(report, facts->has_rdma && facts->is_service ? CHECK_WARN : CHECK_PASS,
			  "", "%s may lock %s of memory, pinned_bytes_per_device allows %s",
			  facts->whose, limit, bytes_text(facts->pinned_bytes, wanted));
	else
		check_say(report, CHECK_PASS, "", "%s may lock %s of memory", facts->whose, limit);
	if (is_less && report->lines[report->n - 1].verdict != CHECK_PASS)
		check_remedy(report, "set LimitMEMLOCK=infinity in the unit (systemctl edit "
				     "shuntd); in a shell: ulimit -l unlimited, or memlock in "
				     "/etc/security/limits.conf");
}

void judge_nofile(struct check_report *report, const struct limit_facts *facts)
{
	uint64_t programs =
		facts->nofile > FDS_FLOOR ? (facts->nofile - FDS_FLOOR) / FDS_PER_SESSION : 0;

	if (programs >= facts->sessions) {
		check_say(report, CHECK_PASS, "",
			  "%s may open descriptors for %" PRIu64 " programs", facts->whose,
			  facts->sessions);
		return;
	}
	check_say(report, programs == 0 ? CHECK_FAIL : CHECK_WARN, "",
		  "%s may open %" PRIu64 " descriptors: enough for %" PRIu64
		  " programs, max_sessions is %" PRIu64,
		  facts->whose, facts->nofile, programs, facts->sessions);
	check_remedy(report,
		     "set LimitNOFILE=%" PRIu64 " in the unit (systemctl edit shuntd); in a shell: "
		     "ulimit -n %" PRIu64,
		     facts->sessions * FDS_PER_SESSION + FDS_FLOOR,
		     facts->sessions * FDS_PER_SESSION + FDS_FLOOR);
}
