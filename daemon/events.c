/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>

#ifdef HAVE_SYSTEMD
/* Where in the source a line comes from is nobody's business but ours. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#endif

#include "base/util.h"
#include "events.h"

#define ROW(event, name, id, level, fields, subject, meaning, remedy)                              \
	[EVENT_##event] = {{name, id, LOG_LEVEL_##level}, fields, subject, meaning, remedy}

static const struct row {
	struct log_kind kind;
	const char *fields;  /* separated by spaces */
	const char *subject; /* in a few words */
	const char *meaning;
	const char *remedy; /* NULL: there is nothing to do */
} rows[EVENT_COUNT] = {
	ROW(DAEMON_READY, "daemon-ready", "be08517ec1e34ce7a5146296e87dcbc3", INFO,
	    "SHUNT_VERSION SHUNT_RUNTIME_DIR", "The daemon serves",
	    "Programs under Shunt find the daemon from now on. Connections that have a lane "
	    "already, from a daemon before this one, go on with it.",
	    NULL),
	ROW(DAEMON_STOPPING, "daemon-stopping", "4dff8eb2e7d648cda241f4d914fa77ce", INFO,
	    "SHUNT_REASON", "The daemon ends",
	    "It was told to, or nobody needs it. Lanes within the host go on without it, those to "
	    "other hosts go back to TCP first; nothing is lost.",
	    NULL),
	ROW(CONFIG_RELOADED, "config-reloaded", "5a96076cf0ac499a9f410eea75afc569", NOTICE,
	    "SHUNT_CHANGES", "Settings were read again",
	    "What has changed is in the lines before this one, also what holds after the next "
	    "start only.",
	    NULL),
	ROW(CONFIG_REFUSED, "config-refused", "a78a5b14d6714f08a957407faa155266", ERROR,
	    "SHUNT_CONFIG SHUNT_REASON", "A file of settings is wrong",
	    "At the start the daemon ends; while it runs it goes on with the settings that it has.",
	    "Mend the line that is named; shuntd --check-config FILE looks at the file alone."),
	ROW(KERNEL_UNFIT, "kernel-unfit", "00166515395a4b5ba5ede456c9ada81c", ERROR,
	    "SHUNT_REASON SHUNT_ERROR", "This kernel counts TCP bytes otherwise",
	    "Bytes can be moved off TCP only at an exact count. What this kernel says about its "
	    "connections is not what was sent, so every connection stays on TCP.",
	    "Boot another kernel, and report this one: shunt debug makes the archive for it."),
	ROW(DEVICE_READY, "device-ready", "9c00416c4a2942859f0678568d0543df", INFO,
	    "SHUNT_DEVICE SHUNT_DRIVER SHUNT_INLINE_BYTES", "An RDMA device is ready",
	    "It was opened and probed, and links to other hosts can be made over it.", NULL),
	ROW(DEVICE_UNUSED, "device-unused", "9fd102d7c5d142e2b27724682652acf7", WARNING,
	    "SHUNT_DEVICE SHUNT_REASON", "An RDMA device is not used",
	    "Connections to other hosts go over other devices, or stay on TCP.",
	    "shunt check says what is missing, shunt devices what the probe found."),
	ROW(DEVICE_GONE, "device-gone", "1777fde78274406f8556d7554368b49d", INFO,
	    "SHUNT_DEVICE SHUNT_REASON", "An RDMA device goes",
	    "It is being removed, or the daemon has no more use for it. Connections over it go on, "
	    "on TCP at first.",
	    NULL),
	ROW(PORT_CHANGED, "port-changed", "b4c4c12604fa4e3489e25ec82f6618f4", INFO,
	    "SHUNT_DEVICE SHUNT_PORT SHUNT_STATE SHUNT_ADDRESS", "A port of an RDMA device changed",
	    "Its state, address or network device is another now. Links need a port that is active "
	    "and has an address.",
	    NULL),
	ROW(PEER_UP, "peer-up", "ff3b85ab65344bf3a566db1cb1c11989", INFO,
	    "SHUNT_PEER SHUNT_SOFTWARE", "The daemon of another host is there",
	    "The two have shown each other who they are. Connections between their hosts may be "
	    "promoted.",
	    NULL),
	ROW(PEER_DOWN, "peer-down", "65bab53a18224082b51b83480f39174f", INFO,
	    "SHUNT_PEER SHUNT_REASON", "The daemon of another host is gone",
	    "Its session has ended. If it does not come back, connections between the hosts go "
	    "back to TCP after peer_lapse_ms.",
	    "shunt peers shows when it is called again; shunt check --peer ADDRESS whether it can "
	    "be reached."),
	ROW(PEER_REFUSED, "peer-refused", "08d4aebc1a944e20a34cb8f1a9ad67a9", WARNING,
	    "SHUNT_PEER SHUNT_REASON SHUNT_WITHHELD", "Another host was refused, or cut off",
	    "What called, or answered, showed no good key or certificate, broke the protocol, or "
	    "asked for too much. Its connections stay on TCP.",
	    "If it is one of yours: give both daemons the same key and version. If not, keep it "
	    "away from the port with a packet filter."),
	ROW(LINK_UP, "link-up", "30566ac3b4c2449898d0bf8087508321", INFO, "SHUNT_PEER SHUNT_DEVICE",
	    "An RDMA link is up", "Connections to that host can be moved to it.", NULL),
	ROW(LINK_DOWN, "link-down", "cb9f198272334c6f85bc8d7b6e8703d1", NOTICE,
	    "SHUNT_PEER SHUNT_DEVICE SHUNT_REASON", "An RDMA link is lost",
	    "Its connections go on over TCP from the exact byte, and are promoted again over "
	    "another link or when this one is back.",
	    "shunt links shows what there is now. If it happens often, look at the errors of the "
	    "port and of the switch."),
	ROW(CLIENT_CUT_OFF, "client-cut-off", "3164ea1964044074a24aeba2ec466eb3", WARNING,
	    "SHUNT_PID SHUNT_UID SHUNT_REASON", "A program was cut off",
	    "It broke the rules of the session with the daemon, or did not read. Its connections "
	    "stay as they are.",
	    "A program that is older or newer than the daemon is restarted; any other that does "
	    "this is faulty, or hostile."),
	ROW(CLIENT_REFUSED, "client-refused", "963fc29a46ed42ee9ff2908b704b5a9e", WARNING,
	    "SHUNT_REASON SHUNT_WITHHELD", "Programs were turned away",
	    "A limit is reached, or they may not use this daemon. Their connections stay on TCP.",
	    "If it is a limit: max_sessions and sessions_per_uid of shunt.conf, LimitNOFILE of the "
	    "unit."),
	ROW(PROMOTED, "connection-promoted", "d674cfc73dd84a759ddcdd796a1dc09e", DEBUG,
	    "SHUNT_PID SHUNT_UID SHUNT_LANE SHUNT_EPOCH", "A connection has a lane",
	    "Both ends hold it; each direction moves to it by itself. Logged with log_level = "
	    "\"debug\" only.",
	    NULL),
	ROW(DEMOTED, "connection-demoted", "4ae3d8a356b84ef28bea9d006b592166", DEBUG,
	    "SHUNT_PID SHUNT_UID SHUNT_EPOCH SHUNT_REASON", "A connection is back on TCP",
	    "Its lane is drained. It may be promoted again, unless the reason lasts. Logged with "
	    "log_level = \"debug\" only.",
	    NULL),
	ROW(LANE_LOST, "lane-lost", "13005bfa389c4e2ebd7610f518706585", DEBUG,
	    "SHUNT_PID SHUNT_UID SHUNT_EPOCH SHUNT_REASON", "A lane to another host is lost",
	    "The link or the other daemon went away under a connection. The daemons send what is "
	    "missing over TCP, from the exact byte. Logged with log_level = \"debug\" only.",
	    NULL),
	ROW(CONNECTION_RESET, "connection-reset", "8b237cf30f90439abde97b89c495b957", WARNING,
	    "SHUNT_PEER SHUNT_REASON", "A connection is reset",
	    "Its lane holds what no right program writes. Rather than deliver a wrong byte, the "
	    "connection ends.",
	    "A program has written where it must not, or a peer breaks the protocol: update both "
	    "sides, and report it if it stays."),
};

/* Longest line of text that is printed. Chosen: a terminal's. */
#define WIDTH 78u

const struct log_kind *event_kind(enum event event)
{
	return &rows[event].kind;
}

#ifdef HAVE_SYSTEMD
static int to_journal(const struct iovec *fields, int n)
{
	return sd_journal_sendv(fields, n);
}
#endif

void events_init(void)
{
#ifdef HAVE_SYSTEMD
	log_set_journal(to_journal);
#endif
}

/* Print @text in lines of WIDTH, each after @indent. */
static void print_wrapped(FILE *out, const char *indent, const char *text)
{
	size_t room = WIDTH - strlen(indent);

	while (*text) {
		size_t len = strlen(text);

		if (len > room) {
			len = room;
			while (len > 0 && text[len] != ' ')
				len--;
			if (len == 0)
				len = strcspn(text, " ");
		}
		fprintf(out, "%s%.*s\n", indent, (int)len, text);
		text += len;
		text += strspn(text, " ");
	}
}

void events_print(FILE *out)
{
	static const char *const levels[] = {
		[LOG_LEVEL_ERROR] = "error",   [LOG_LEVEL_WARNING] = "warning",
		[LOG_LEVEL_NOTICE] = "notice", [LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];

		fprintf(out, "%s%s\n    MESSAGE_ID=%s\n    priority %d (%s), fields %s\n",
			i ? "\n" : "", row->kind.name, row->kind.id, (int)row->kind.level,
			levels[row->kind.level], row->fields);
		print_wrapped(out, "    ", row->subject);
		print_wrapped(out, "    ", row->meaning);
		if (row->remedy)
			print_wrapped(out, "    ", row->remedy);
	}
}

/* The facts as journalctl fills them in: "SHUNT_PEER: @SHUNT_PEER@". */
static void print_facts(FILE *out, const char *fields)
{
	while (*fields) {
		int len = (int)strcspn(fields, " ");

		fprintf(out, "%.*s: @%.*s@\n", len, fields, len, fields);
		fields += len;
		fields += strspn(fields, " ");
	}
}

void events_print_catalog(FILE *out)
{
	fputs("# SPDX-License-Identifier: MIT\n"
	      "# What journalctl -x shows beside a line of shuntd: as shuntd --print-catalog "
	      "prints it.\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];

		fprintf(out,
			"\n-- %s\nSubject: %s\nDefined-By: shunt\nDocumentation: man:shuntd(8)\n\n",
			row->kind.id, row->subject);
		print_wrapped(out, "", row->meaning);
		if (row->remedy)
			print_wrapped(out, "", row->remedy);
		fputc('\n', out);
		print_facts(out, row->fields);
	}
}
