/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the subcommands of `shunt` share. A subcommand is one row of the table in main.c; it tells
 * the user itself what went wrong, in one line "shunt: what, where, what to do", and returns the
 * exit status.
 */

enum tool_exit {
	TOOL_OK = 0,
	TOOL_NOT_FOUND = 1, /* no such connection, process or device, or nothing to do for it */
	TOOL_USAGE = 2,	    /* the command line is wrong */
	TOOL_NO_DAEMON = 3, /* no daemon answers */
	TOOL_FAILED = 4,    /* anything else */
	/* Of `shunt run`, as of env(1): else it is the command's own. */
	TOOL_RUN_FAILED = 125,
	TOOL_RUN_CANNOT_EXEC = 126,
	TOOL_RUN_NO_COMMAND = 127,
};

/* One subcommand: argv[0] is its name. Returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_ss(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_demote(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_peers(int argc, char **argv);
int cmd_links(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_enable(int argc, char **argv);
int cmd_disable(int argc, char **argv);
int cmd_enabled(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_debug(int argc, char **argv);

/* Print "shunt: ", the message and a newline to stderr. */
__attribute__((format(printf, 1, 2))) void tool_say(const char *format, ...);

/* As tool_say(), and point to the help of the subcommand @name. Returns TOOL_USAGE. */
__attribute__((format(printf, 2, 3))) int tool_usage(const char *name, const char *format, ...);

/* A negative status of tool_options(): go on. */
#define TOOL_GO_ON (-1)

/*
 * Options of a subcommand that has only --json and --help and takes at most one argument (so that
 * every command reads them alike). @max_args: how many arguments it takes at most.
 * Returns TOOL_GO_ON, or the exit status. optind is at the first argument then.
 */
int tool_options(int argc, char **argv, int max_args, int *ret_json);

/*
 * What is to be done about @opt of getopt_long(), of the subcommand @name, whose optstring begins
 * with ':': it is 'h' for --help, or an option that is unknown or lacks its value. Returns the exit
 * status.
 */
int tool_other_option(const char *name, int opt, char **argv);

/* Print the help of the subcommand @name to stdout. */
void tool_help(const char *name);
