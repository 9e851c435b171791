/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "base/util.h"
#include "check_judge.h"
#include "tool.h"

#include "lib/tap.h"

/* The report says it by this; nothing here makes it run out of memory. */
void tool_say(const char *format, ...)
{
	(void)format;
}

/* The last line has @verdict, what was found has @found in it, and the remedy @remedy (NULL: there
 * is none). Empties the report. */
static void expect(struct check_report *report, enum check_verdict verdict, const char *found,
		   const char *remedy)
{
	const struct check_line *line;

	if (!CHECK(report->n > 0))
		return;
	line = &report->lines[report->n - 1];
	tap_diag("%s: %s (do: %s)", line->subject, line->found, line->remedy);
	CHECK_EQ(line->verdict, verdict);
	CHECK(strstr(line->found, found));
	CHECK(remedy ? strstr(line->remedy, remedy) != NULL : line->remedy[0] == '\0');
	/* What is wrong has a remedy. */
	for (size_t i = 0; i < report->n; i++)
		CHECK(report->lines[i].verdict == CHECK_PASS || report->lines[i].remedy[0]);
	check_report_deinit(report);
	report->check = "test";
}

TAP_CASE(kernels)
{
	struct kernel_need needs[] = {{"pidfd", "Linux 5.3", 0}, {"seals", "Linux 5.1", 0}};
	struct kernel_facts facts = {
		.release = "6.12", .needs = needs, .n_needs = 2, .daemon_rule = -1};
	struct check_report report = {.check = "test"};

	judge_kernel(&report, &facts);
	CHECK_EQ(report.n, 2);
	CHECK(strstr(report.lines[0].found, "6.12"));
	expect(&report, CHECK_PASS, "as Shunt needs", NULL);
	facts.daemon_rule = 0;
	judge_kernel(&report, &facts);
	expect(&report, CHECK_FAIL, "says the daemon", "another kernel");
	facts.daemon_rule = -1;
	facts.rule = 1;
	judge_kernel(&report, &facts);
	expect(&report, CHECK_FAIL, "counts bytes otherwise", "another kernel");
	facts.rule = -ENETUNREACH;
	judge_kernel(&report, &facts);
	expect(&report, CHECK_FAIL, "Network is unreachable", "ip link set lo up");
	facts.rule = 0;
	needs[1].error = -EINVAL;
	judge_kernel(&report, &facts);
	CHECK_EQ(report.n, 2);
	CHECK_STR(report.lines[0].subject, "seals");
	CHECK_EQ(report.lines[0].verdict, CHECK_FAIL);
	CHECK(strstr(report.lines[0].remedy, "Linux 5.14"));
	expect(&report, CHECK_PASS, "", NULL);
	needs[1].error = -EPERM;
	judge_kernel(&report, &facts);
	CHECK(strstr(report.lines[0].remedy, "seccomp"));
	expect(&report, CHECK_PASS, "", NULL);
}

TAP_CASE(limits)
{
	struct limit_facts facts = {.whose = "the daemon",
				    .is_service = true,
				    .has_rdma = true,
				    .memlock = 64 << 10,
				    .nofile = 1024,
				    .pinned_bytes = 4ull << 30,
				    .sessions = 1000};
	struct check_report report = {.check = "test"};

	judge_memlock(&report, &facts);
	expect(&report, CHECK_FAIL, "64K", "LimitMEMLOCK=infinity");
	facts.memlock = 8 << 20;
	judge_memlock(&report, &facts);
	expect(&report, CHECK_WARN, "8.0M", "LimitMEMLOCK=infinity");
	facts.has_rdma = false;
	judge_memlock(&report, &facts);
	expect(&report, CHECK_PASS, "8.0M", NULL);
	facts.memlock = 64 << 10;
	judge_memlock(&report, &facts);
	expect(&report, CHECK_WARN, "64K", "ulimit -l");
	facts.may_lock = true;
	judge_memlock(&report, &facts);
	expect(&report, CHECK_PASS, "as much memory", NULL);
	facts.may_lock = false;
	facts.memlock = UINT64_MAX;
	judge_memlock(&report, &facts);
	expect(&report, CHECK_PASS, "as much memory", NULL);

	judge_nofile(&report, &facts);
	expect(&report, CHECK_WARN, "256 programs", "LimitNOFILE=3256");
	facts.nofile = 100;
	judge_nofile(&report, &facts);
	expect(&report, CHECK_FAIL, "0 programs", "ulimit -n 3256");
	facts.nofile = 3256;
	judge_nofile(&report, &facts);
	expect(&report, CHECK_PASS, "1000 programs", NULL);
}

TAP_CASE(device_nodes)
{
	struct node_facts facts = {
		.path = "/dev/infiniband/uverbs0", .gid = 44, .mode = 0660, .group = "rdma"};
	struct identity identity = {
		.who = "the daemon", .uid = 999, .groups = {999, 44}, .n_groups = 2};
	struct check_report report = {.check = "test"};

	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_PASS, "open to the daemon", NULL);
	identity.n_groups = 1;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_FAIL, "mode 0660", "SupplementaryGroups=rdma");
	facts.mode = 0600;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_FAIL, "mode 0600", "chmod 666 /dev/infiniband/uverbs0");
	facts.mode = 0666;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_PASS, "", NULL);
	/* The owner's own bits count for the owner, whatever others may. */
	facts.mode = 0066;
	facts.uid = 999;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_FAIL, "", "chmod 666");
	identity.overrides = true;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_PASS, "", NULL);
	facts.error = -EACCES;
	judge_node(&report, &facts, &identity);
	expect(&report, CHECK_FAIL, "Permission denied", "chmod 755");
}

TAP_CASE(ports)
{
	struct port_facts good = {.device = "rxe0",
				  .port = 1,
				  .is_active = true,
				  .is_roce = true,
				  .state = "active",
				  .mtu_bytes = 1024,
				  .netdev = "eth0",
				  .netdev_mtu = 1500,
				  .is_netdev_up = true,
				  .has_gid = true,
				  .is_roce_v2 = true,
				  .is_ip = true,
				  .gid = "10.0.0.1"};
	struct port_facts facts = good;
	struct check_report report = {.check = "test"};

	judge_port(&report, &facts);
	CHECK_EQ(report.n, 3);
	expect(&report, CHECK_PASS, "path MTU 1024", "mtu 9000");
	facts.netdev_mtu = 9000;
	judge_port(&report, &facts);
	expect(&report, CHECK_WARN, "would carry 4096", "ip link set eth0 down");
	facts.mtu_bytes = 4096;
	judge_port(&report, &facts);
	expect(&report, CHECK_PASS, "4096", NULL);
	facts.netdev_mtu = 1500;
	judge_port(&report, &facts);
	expect(&report, CHECK_FAIL, "does not fit", "ip link set eth0 mtu 4192");
	facts = good;
	facts.netdev_mtu = 0; /* not known: nothing is said of it */
	judge_port(&report, &facts);
	CHECK_EQ(report.n, 2);
	expect(&report, CHECK_PASS, "RoCE v2 10.0.0.1 on eth0", NULL);
	facts.is_roce_v2 = false;
	judge_port(&report, &facts);
	expect(&report, CHECK_WARN, "RoCE v1", "cma_roce_mode -d rxe0 -p 1");
	facts.is_link_local = true;
	judge_port(&report, &facts);
	expect(&report, CHECK_WARN, "link-local", "ip address add");
	facts.has_gid = false;
	judge_port(&report, &facts);
	expect(&report, CHECK_FAIL, "no IP address", "dev eth0");
	facts.is_roce = false;
	judge_port(&report, &facts);
	expect(&report, CHECK_FAIL, "no GID", "opensm");
	facts = good;
	facts.is_active = false;
	facts.state = "down";
	judge_port(&report, &facts);
	CHECK_EQ(report.n, 1);
	expect(&report, CHECK_WARN, "is down", "cable");
	facts.is_needed = true;
	facts.is_netdev_up = false;
	judge_port(&report, &facts);
	expect(&report, CHECK_FAIL, "is down", "ip link set eth0 up");
}

TAP_CASE(path_mtus_that_fit)
{
	static const uint32_t pairs[][2] = {{351, 0},	  {352, 256},	{607, 256},
					    {1500, 1024}, {2144, 2048}, {4191, 2048},
					    {4192, 4096}, {65536, 4096}};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		CHECK_EQ(roce_mtu(pairs[i][0]), pairs[i][1]);
}

TAP_CASE(settings)
{
	struct config_facts facts = {.path = "/etc/shunt.conf", .is_default = true};
	struct check_report report = {.check = "test"};

	judge_config(&report, &facts);
	expect(&report, CHECK_PASS, "good", NULL);
	facts.result = -ENOENT;
	judge_config(&report, &facts);
	expect(&report, CHECK_PASS, "defaults", NULL);
	facts.is_default = false;
	judge_config(&report, &facts);
	expect(&report, CHECK_FAIL, "No such file", "--print-config > /etc/shunt.conf");
	facts.result = -EACCES;
	judge_config(&report, &facts);
	expect(&report, CHECK_FAIL, "Permission", "chmod 644 /etc/shunt.conf");
	facts.result = 1;
	strcpy(facts.error, "/etc/shunt.conf:7: what");
	judge_config(&report, &facts);
	expect(&report, CHECK_FAIL, "conf:7", "shuntd --check-config /etc/shunt.conf");
}

TAP_CASE(places_of_a_daemon)
{
	struct daemon_facts facts = {.n_places = 1, .uid = 1000, .pid = 77, .serves_all = true};
	struct place_facts *place = &facts.places[0];
	struct check_report report = {.check = "test"};

	strcpy(place->dir.path, "/run/shunt");
	place->answer = -ENOENT;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "no daemon runs", "systemctl enable --now");
	place->dir_error = -EPERM;
	place->has_dir = true;
	place->dir_mode = 0777;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "0777", "chmod go-w /run/shunt");
	place->dir_mode = 0755;
	place->dir_uid = 5;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "belongs to user 5", "chown 1000 /run/shunt");
	place->dir_uid = 1000;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "look into it", "chmod 700");
	place->dir_error = -ENOTDIR;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "symbolic link", "rm /run/shunt");
	place->dir_error = 0;
	place->answer = -EACCES;
	place->sock_mode = 0600;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "mode 0600, and you are user 1000", "SocketMode=0666");
	place->answer = -ECONNREFUSED;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "has died", "systemctl restart shuntd");
	place->answer = -ETIMEDOUT;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "in time", "systemctl restart shuntd");
	place->answer = -EPROTO;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "no shuntd", "one version");
	place->answer = ASK_REFUSED;
	place->reason = REASON_NOT_ELIGIBLE;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, reason_text(REASON_NOT_ELIGIBLE), "users = \"all\"");
	place->answer = 0;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_PASS, "process 77", NULL);
	facts.n_places = 0;
	judge_daemon(&report, &facts);
	expect(&report, CHECK_FAIL, "SHUNT_RUNTIME_DIR", "unset");
}

TAP_CASE(versions)
{
	struct library_facts facts = {.path = "/usr/lib/libshunt-preload.so",
				      .is_for_others = true,
				      .version = "1",
				      .tool = "1",
				      .daemon = "1"};
	struct check_report report = {.check = "test"};

	judge_versions(&report, &facts);
	CHECK_EQ(report.n, 2);
	expect(&report, CHECK_PASS, "as the tool", NULL);
	facts.daemon = "0";
	judge_versions(&report, &facts);
	expect(&report, CHECK_WARN, "runs as version 0", "restart shuntd");
	facts.daemon = "";
	facts.version[0] = '\0';
	judge_versions(&report, &facts);
	expect(&report, CHECK_FAIL, "version unknown", "of one version");
	facts.is_for_others = false;
	judge_versions(&report, &facts);
	expect(&report, CHECK_WARN, "other users can't read", "chmod 755");
	facts.error = -ENOENT;
	judge_versions(&report, &facts);
	expect(&report, CHECK_FAIL, "can't be read", "install");
}

TAP_CASE(keys)
{
	struct key_facts good = {.setting = "peer_key",
				 .path = "/etc/shunt/key",
				 .is_regular = true,
				 .uid = 99,
				 .mode = 0600,
				 .daemon_uid = 99};
	struct key_facts facts = good;
	struct check_report report = {.check = "test"};

	judge_key(&report, &facts);
	expect(&report, CHECK_PASS, "daemon alone", NULL);
	facts.mode = 0640;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "mode 0640", "chmod 0600 /etc/shunt/key");
	facts = good;
	facts.uid = 0;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "user 99, can't read", "LoadCredential=");
	facts.daemon_uid = 0;
	judge_key(&report, &facts);
	expect(&report, CHECK_PASS, "", NULL);
	facts.uid = 7;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "belongs to user 7", "chown 0 /etc/shunt/key");
	facts = good;
	strcpy(facts.wrong, "holds no key");
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "no key", "openssl rand");
	facts.is_regular = false;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "not a regular file", "peer_key");
	facts.error = -ENOENT;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "No such file", "mend peer_key");
	facts.error = -EACCES;
	judge_key(&report, &facts);
	expect(&report, CHECK_FAIL, "Permission", "as root");
	facts.is_credential = true;
	judge_key(&report, &facts);
	expect(&report, CHECK_PASS, "credential", NULL);
}

TAP_CASE(peers)
{
	static const struct {
		enum peer_outcome outcome;
		int error;
		enum check_verdict verdict;
		const char *found, *remedy;
	} rows[] = {
		{PEER_OUT_NO_CONNECTION, -ECONNREFUSED, CHECK_FAIL, "refused", "peer_port = 7609"},
		{PEER_OUT_NO_CONNECTION, -ETIMEDOUT, CHECK_FAIL, "drops it", "dport 7609 accept"},
		{PEER_OUT_NO_CONNECTION, -EACCES, CHECK_FAIL, "forbidden", "dport 7609"},
		{PEER_OUT_NO_CONNECTION, -EHOSTUNREACH, CHECK_FAIL, "No route",
		 "ip route get fd00"},
		{PEER_OUT_DAEMON, 0, CHECK_PASS, "shuntd 9", NULL},
		{PEER_OUT_STRANGER, 0, CHECK_WARN, "shuntd 9", "peer_key"},
		{PEER_OUT_VERSION, 0, CHECK_FAIL, "another version", "0.1"},
		{PEER_OUT_REJECTED, 0, CHECK_FAIL, "don't accept", "same peer_key"},
		{PEER_OUT_NO_TLS, 0, CHECK_FAIL, "no shuntd", "ss -ltnp sport = :7609"},
		{PEER_OUT_HUNG_UP, 0, CHECK_FAIL, "hangs up", "peers of shunt.conf"},
		{PEER_OUT_SILENT, 0, CHECK_FAIL, "says nothing", "restart shuntd"},
		{PEER_OUT_NOT_TRIED, 0, CHECK_WARN, "can be reached", "as root"},
	};
	struct check_report report = {.check = "test"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct peer_facts facts = {.address = "fd00::1",
					   .port = 7609,
					   .outcome = rows[i].outcome,
					   .error = rows[i].error,
					   .software = "shuntd 9",
					   .own = "0.1"};

		judge_peer(&report, &facts);
		CHECK_STR(report.lines[0].subject, "[fd00::1]:7609");
		expect(&report, rows[i].verdict, rows[i].found, rows[i].remedy);
		facts.by_certificate = true;
		judge_peer(&report, &facts);
		if (rows[i].outcome == PEER_OUT_DAEMON)
			expect(&report, CHECK_PASS, "certificate of the same authority", NULL);
		check_report_deinit(&report);
	}
}

TAP_CASE(programs)
{
	const struct target_facts good = {.pid = 12,
					  .exists = true,
					  .comm = "redis",
					  .has_library = true,
					  .library = "/usr/lib/libshunt-preload.so",
					  .library_version = "1",
					  .version = "1",
					  .daemon_dir = "/run/shunt",
					  .sees_socket = true};
	struct target_facts facts = good;
	struct check_report report = {.check = "test"};

	judge_target(&report, &facts);
	CHECK_EQ(report.n, 1);
	expect(&report, CHECK_PASS, "has the library", NULL);
	facts.library_version[0] = '0';
	judge_target(&report, &facts);
	expect(&report, CHECK_WARN, "of version 0", "restart it");
	facts = good;
	facts.has_library = false;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "without Shunt", "shunt enable UNIT");
	facts.asked_for_library = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "but not in memory", "chmod 755");
	facts.is_secure = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "set-uid", "AmbientCapabilities=");
	facts.is_static = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "statically linked", "dynamically linked");
	facts = good;
	facts.other_net = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "network namespace", "nsenter -t 12 -n shuntd");
	facts = good;
	facts.sees_socket = false;
	facts.other_mnt = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "mount namespace", "BindPaths=/run/shunt");
	facts = good;
	facts.other_user = facts.other_pid = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_WARN, "pid and user namespace", "shuntd of its own");
	facts = good;
	strcpy(facts.runtime_dir, "/tmp/x");
	judge_target(&report, &facts);
	expect(&report, CHECK_WARN, "in /tmp/x only", "SHUNT_RUNTIME_DIR=/tmp/x");
	facts = good;
	facts.is_own_daemon = true;
	facts.uid = 5;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "runs as user 5", "users = \"all\"");
	facts = good;
	facts.has_filter = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_WARN, "seccomp", "@system-service");
	facts.is_promoted = true;
	judge_target(&report, &facts);
	expect(&report, CHECK_PASS, "", NULL);
	facts.maps_error = -EACCES;
	judge_target(&report, &facts);
	expect(&report, CHECK_WARN, "Permission", "sudo shunt check --pid 12");
	facts.exists = false;
	judge_target(&report, &facts);
	expect(&report, CHECK_FAIL, "no such process", "pgrep");
}

TAP_CASE(json_is_the_report)
{
	struct check_report report = {.check = "one"};
	json_t *json;
	const json_t *line;

	check_say(&report, CHECK_PASS, "a", "fine");
	report.check = "two";
	check_say(&report, CHECK_WARN, "b\033[1m", "odd \xff\n");
	check_remedy(&report, "mend \"it\"");
	json = check_json(&report);
	CHECK_STR(json_string_value(json_object_get(json, "verdict")), "warn");
	CHECK_EQ(json_integer_value(json_object_get(json, "warnings")), 1);
	line = json_array_get(json_object_get(json, "checks"), 1);
	CHECK_STR(json_string_value(json_object_get(line, "check")), "two");
	CHECK_STR(json_string_value(json_object_get(line, "subject")), "b [1m");
	CHECK_STR(json_string_value(json_object_get(line, "found")), "odd ? ");
	CHECK_STR(json_string_value(json_object_get(line, "remedy")), "mend \"it\"");
	CHECK_EQ(check_worst(&report), CHECK_WARN);
	check_say(&report, CHECK_FAIL, "", "bad");
	CHECK_EQ(check_worst(&report), CHECK_FAIL);
	json_decref(json);
	check_report_deinit(&report);
}
