/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tool.h"

static const char run_help[] =
	"Usage: shunt run [--daemon auto|system|none] [--verbose] COMMAND [ARGUMENT]...\n"
	"Run COMMAND so that its TCP connections to other such programs of this host may move to\n"
	"shared memory. Nothing else changes for it.\n"
	"\n"
	"  --daemon auto    use the system's daemon if it answers, else one of your own, which is\n"
	"                   started on first use and ends some minutes after its last client "
	"(default)\n"
	"  --daemon system  the system's daemon must answer\n"
	"  --daemon none    start no daemon; one that answers, now or later, is used\n"
	"  --verbose        say which daemon and which library are used\n"
	"\n"
	"With SHUNT_RUNTIME_DIR set, the daemon is looked for, and started, in that directory "
	"only.\n"
	"Exit status: that of COMMAND; 125 if shunt itself fails, 126 if COMMAND can't be "
	"executed,\n"
	"127 if it isn't found.\n";

static const char ss_help[] =
	"Usage: shunt ss [--pid PID] [--lane tcp|ring|rdma] [--json]\n"
	"Show the TCP connections of programs under Shunt, and which lane each is on.\n"
	"You see your own; root sees everybody's.\n"
	"\n"
	"  --pid PID    of this process only\n"
	"  --lane LANE  on this lane only\n"
	"  --json       as JSON\n"
	"\n"
	"LANE is tcp, ring, or rdma and the device for one between hosts; RING is the share of "
	"the\n"
	"bytes, sent and received, that went over lanes. --json tells more of lanes between "
	"hosts.\n";

static const char why_help[] =
	"Usage: shunt why [--json] PID[:FD]\n"
	"Tell the history of a connection: when it moved to a lane, when and why it left it, or "
	"why\n"
	"it never did. FD is its descriptor in process PID; without it, all of the process.\n";

static const char stats_help[] =
	"Usage: shunt stats [--json]\n"
	"Show the daemon's totals since it started, closed connections included. A connection "
	"between\n"
	"two programs under Shunt counts twice, once for each end.\n"
	"\n"
	"The sizes are those of messages on lanes: what went into a ring, or out of it, at once. A "
	"call\n"
	"of more than 16 KiB, or than there is room for, is several.\n";

static const char top_help[] =
	"Usage: shunt top [-d SECONDS] [-n COUNT] [--view VIEW] [--sort COLUMN] [--filter WORDS]\n"
	"                 [--once | --batch] [--json]\n"
	"Watch what goes over which lane: connections, links to other hosts, and the hosts. ? "
	"shows "
	"the\n"
	"keys. You see your own connections; root sees everybody's.\n"
	"\n"
	"  -d, --delay SECONDS  between two looks (default 2)\n"
	"  -n, --count COUNT    so many looks, then the end\n"
	"  --view VIEW          connections (default), links or hosts\n"
	"  --sort COLUMN        by its head, as in --sort MSG/s\n"
	"  --filter WORDS       only lines that have each of the words in some column\n"
	"  --once               one look, as text, after a delay\n"
	"  --batch              as text, again and again\n"
	"  --json               the same as JSON, a line for each look; rates are null where not "
	"known\n";

static const char metrics_help[] =
	"Usage: shunt metrics [--prometheus] [--output FILE | --http]\n"
	"Print the daemon's totals, and what its devices and links do, as OpenMetrics text.\n"
	"\n"
	"  --prometheus   in the older text format of Prometheus, as textfile collectors want it\n"
	"  --output FILE  to FILE, which is replaced at once; left alone if no daemon answers\n"
	"  --http         read one HTTP request from the standard input, and answer it: for a "
	"socket\n"
	"                 that systemd accepts on, see the manual page\n";

static const char status_help[] = "Usage: shunt status [--json]\n"
				  "Say which daemon answers, and how it is.\n";

static const char demote_help[] =
	"Usage: shunt demote [--json] PID[:FD]\n"
	"Ask connections to go back to TCP: that at descriptor FD of process PID, or all of the\n"
	"process. They do so at their next call, lose nothing, and may be promoted again later.\n";

static const char probe_help[] =
	"Usage: shunt probe [--device DEVICE] [--ask BYTES] [--frontier] [--no-cache] [--json]\n"
	"Find out how much data each RDMA device really posts inline: by creating queue pairs, and "
	"by\n"
	"sending messages from the device to itself. Prints each step as it happens. Needs no "
	"daemon,\n"
	"disturbs none, and uses its settings ($SHUNT_CONF, else " SHUNT_CONF_PATH ").\n"
	"\n"
	"  --device DEVICE  this one only\n"
	"  --ask BYTES      ask for so much (inline_ask in the settings)\n"
	"  --frontier       also find how deep the send queue may be, for a few inline sizes\n"
	"  --no-cache       neither look at nor change the results that the daemon starts with\n"
	"  --json           as JSON\n"
	"\n"
	"Exit status: 0 every device gave an answer, 1 there is no such device, 4 a device could "
	"not\n"
	"be probed or verified.\n";

static const char devices_help[] =
	"Usage: shunt devices [--json]\n"
	"Show the RDMA devices that the daemon owns: their state and ports, how many bytes can be "
	"posted\n"
	"inline and how that was found out, the pools of queue pairs, and pinned memory; and what "
	"the host\n"
	"lacks for RDMA, with the remedy.\n";

static const char peers_help[] =
	"Usage: shunt peers [--json]\n"
	"Show the daemons of other hosts that this one talks to: since when, where their RDMA "
	"devices\n"
	"are, how many connections were offered and matched; and the hosts where none answers, "
	"and for\n"
	"how long they are left alone.\n";

static const char links_help[] =
	"Usage: shunt links [--json]\n"
	"Show the RDMA links to other hosts, one line each, and why there is none where there "
	"should "
	"be one.\n"
	"\n"
	"INLINE    bytes that one work request carries inline\n"
	"CREDITS   receives of the peer that may be used now, of all that it has\n"
	"E/W/R     messages with bytes: in one inline SEND (eager), by an inline WRITE, by a WRITE "
	"from\n"
	"          memory; the last two with a SEND behind them\n"
	"UPDATES   times that the peer was told of room in a ring: by a message of its own, or "
	"along\n"
	"          with another\n"
	"WR/MSG    work requests, whatever for, per message with bytes; POST/MSG the same of "
	"posts\n"
	"\n"
	"--json tells more, also of each device.\n";

static const char check_help[] =
	"Usage: shunt check [--pid PID] [--peer ADDRESS] [--device DEVICE] [--json]\n"
	"Look at all that Shunt needs of this host, point by point: pass, warn or fail, what was "
	"found,\n"
	"and what to do about it. Changes nothing. As root it sees more.\n"
	"\n"
	"  --pid PID        also whether process PID runs under Shunt, and if not, why\n"
	"  --peer ADDRESS   call the daemon of that host, not those of the settings\n"
	"  --device DEVICE  of the RDMA devices this one only\n"
	"  --json           as JSON\n"
	"\n"
	"Exit status: 0 nothing failed (there may be warnings), 1 something failed.\n";

static const char debug_help[] =
	"Usage: shunt debug [--output FILE] [--anonymize]\n"
	"Make one archive for a bug report: versions, settings, what shunt check, status, ss, why, "
	"stats,\n"
	"links, peers and devices say, the kernel's counters and limits, and the daemon's log of "
	"the last\n"
	"six hours. No secret goes in: no content of keys, no environment or command line of "
	"programs.\n"
	"What can't be had, as without a daemon, is said, and the rest is written. As root it sees "
	"more.\n"
	"\n"
	"  --output FILE  write this file, not shunt-debug-TIME.tar.gz here; - is standard output\n"
	"  --anonymize    replace addresses and this host's name\n"
	"\n"
	"Exit status: 0 the archive is written, 4 it is not.\n";

static const char enable_help[] =
	"Usage: shunt enable [--dry-run] [--force] [--now] [--root DIR] UNIT\n"
	"Have systemd start the service UNIT under Shunt: by a drop-in that preloads the library, "
	"beside\n"
	"what the unit preloads already. Shows what it writes, and what of the unit's sandbox is "
	"in the\n"
	"way, with the remedy. Done again, it changes nothing.\n"
	"\n"
	"  --dry-run   show it only\n"
	"  --now       restart the service, which has to be for it to take effect\n"
	"  --force     also for a unit that is not there, or masked\n"
	"  --root DIR  in the system whose root is DIR\n"
	"\n"
	"UNIT may go without its .service; NAME@ is a template with all its instances.\n";

static const char disable_help[] =
	"Usage: shunt disable [--dry-run] [--now] [--root DIR] UNIT\n"
	"Remove what shunt enable wrote for UNIT, and nothing else.\n"
	"\n"
	"  --dry-run   say what would be removed only\n"
	"  --now       restart the service, which keeps the library until then\n"
	"  --root DIR  in the system whose root is DIR\n";

static const char enabled_help[] =
	"Usage: shunt enabled [--root DIR] [--json]\n"
	"List the services that shunt enable was used for, and whether their running processes "
	"have the\n"
	"library: one that was started before has to be restarted.\n"
	"\n"
	"  --root DIR  in the system whose root is DIR\n"
	"  --json      as JSON\n";

static const char explain_help[] =
	"Usage: shunt explain --program PROGRAM --to ADDRESS:PORT [--in|--out] [--user USER]\n"
	"                     [--unit UNIT] [--config FILE] [--json]\n"
	"Say whether such a connection is accelerated or stays on TCP: which rule of the settings\n"
	"decides, and on what those before it do not match. It need not exist.\n"
	"\n"
	"  --program PROGRAM  what runs: its name, found as a shell finds it, or its path\n"
	"  --to ADDRESS:PORT  the other end's address, and the server's port\n"
	"  --out              PROGRAM makes the connection (default)\n"
	"  --in               PROGRAM accepts it: PORT is its own\n"
	"  --user USER        whom it runs as, a name or a number (default: you)\n"
	"  --unit UNIT        the systemd unit that it runs in (default: none)\n"
	"  --config FILE      go by the rules in FILE; else by those of the daemon that answers, "
	"or,\n"
	"                     if none does, of $SHUNT_CONF or " SHUNT_CONF_PATH "\n"
	"  --json             as JSON\n"
	"\n"
	"Both ends are asked about, each by itself, and both must be accelerated.\n";

static const struct subcommand {
	const char *name;
	int (*fn)(int argc, char **argv);
	const char *summary;
	const char *help;
} subcommands[] = {
	{"run", cmd_run, "run a command under Shunt", run_help},
	{"ss", cmd_ss, "show connections and their lanes", ss_help},
	{"why", cmd_why, "tell the history of a connection", why_help},
	{"top", cmd_top, "watch connections, links and hosts", top_help},
	{"stats", cmd_stats, "show totals, closed connections included", stats_help},
	{"metrics", cmd_metrics, "print the totals as OpenMetrics text", metrics_help},
	{"status", cmd_status, "say which daemon answers, and how it is", status_help},
	{"devices", cmd_devices, "show the RDMA devices, what they can do, and their pools",
	 devices_help},
	{"peers", cmd_peers, "show the daemons of other hosts", peers_help},
	{"links", cmd_links, "show the RDMA links to other hosts", links_help},
	{"demote", cmd_demote, "ask connections to go back to TCP", demote_help},
	{"enable", cmd_enable, "have systemd start a service under Shunt", enable_help},
	{"disable", cmd_disable, "have systemd start it without", disable_help},
	{"enabled", cmd_enabled, "list the services that are enabled", enabled_help},
	{"explain", cmd_explain, "say which rule decides about a connection, and why",
	 explain_help},
	{"check", cmd_check, "say what the host lacks, and what to do about it", check_help},
	{"debug", cmd_debug, "gather what a bug report needs, without secrets", debug_help},
	{"probe", cmd_probe, "find out what RDMA devices post inline", probe_help},
};

static const struct subcommand *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++) {
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	}
	return NULL;
}

void tool_say(const char *format, ...)
{
	va_list args;

	fputs("shunt: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

int tool_usage(const char *name, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "shunt %s: ", name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nTry: shunt %s --help\n", name);
	return TOOL_USAGE;
}

void tool_help(const char *name)
{
	fputs(find(name)->help, stdout);
}

int tool_other_option(const char *name, int opt, char **argv)
{
	if (opt == 'h') {
		tool_help(name);
		return TOOL_OK;
	}
	return tool_usage(name, opt == ':' ? "%s needs a value" : "unknown option %s",
			  argv[optind - 1]);
}

int tool_options(int argc, char **argv, int max_args, int *ret_json)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	*ret_json = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt != 'j')
			return tool_other_option(argv[0], opt, argv);
		*ret_json = 1;
	}
	if (argc - optind > max_args)
		return tool_usage(argv[0], "one argument too many: %s", argv[optind + max_args]);
	return TOOL_GO_ON;
}

static void print_help(FILE *out)
{
	fputs("Usage: shunt SUBCOMMAND [OPTION]...\n"
	      "Move TCP connections of unmodified programs to faster lanes, and look at them.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		fprintf(out, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
	fputs("\nshunt SUBCOMMAND --help says more; so does the manual page shunt(1).\n"
	      "Exit status: 0 done, 1 no such connection, process or device, 2 wrong command line, "
	      "3 no\n"
	      "daemon answers, 4 another failure; that of shunt run is its command's.\n",
	      out);
}

/* What was printed must have arrived. */
static int finish(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	tool_say("can't write the output: %s", strerror(errno));
	return TOOL_FAILED;
}

int main(int argc, char **argv)
{
	const struct subcommand *subcommand;

	if (argc < 2) {
		print_help(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("shunt " SHUNT_VERSION);
		return finish(TOOL_OK);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		subcommand = argc > 2 ? find(argv[2]) : NULL;
		if (subcommand)
			tool_help(subcommand->name);
		else
			print_help(stdout);
		return finish(TOOL_OK);
	}
	subcommand = find(argv[1]);
	if (!subcommand) {
		tool_say("there is no subcommand \"%s\"; shunt --help lists them", argv[1]);
		return TOOL_USAGE;
	}
	return finish(subcommand->fn(argc - 1, argv + 1));
}
