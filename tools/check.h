/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "ask.h"
#include "check_judge.h"
#include "config.h"

/*
 * Gathering for `shunt check`. Each check_*() looks at one point of the host, changes nothing, and
 * has its lines said by the judge of that point.
 */

struct check_context {
	/* What was asked for. */
	const char *device; /* NULL: all */
	const char *peer;   /* NULL: those of the settings */
	int pid;	    /* 0: none */
	/* What most checks need to know. */
	struct config_facts config;
	struct conf conf; /* as far as the file is good; else the defaults */
	struct daemon_facts daemon;
	struct asker asker;	  /* with daemon.answers */
	json_t *status, *devices; /* the daemon's own words; NULL: none */
	uid_t service_uid;	  /* whom the daemon runs as, or would */
	char service_user[64];
	bool has_rdma; /* the kernel has RDMA devices */
};

/* Look for the daemon and read the settings. Never fails: what is missing is in the facts. */
void check_open(struct check_context *context);
void check_close(struct check_context *context);

/* Run all checks: what was asked for is set in @context, nothing else. @report: all zeros; to be
 * released by check_report_deinit(). */
void check_run(struct check_context *context, struct check_report *report);

void check_kernel(struct check_context *context, struct check_report *report);
void check_limits_memlock(struct check_context *context, struct check_report *report);
void check_limits_nofile(struct check_context *context, struct check_report *report);
void check_nodes(struct check_context *context, struct check_report *report);
void check_devices(struct check_context *context, struct check_report *report);
void check_config(struct check_context *context, struct check_report *report);
void check_daemon(struct check_context *context, struct check_report *report);
void check_versions(struct check_context *context, struct check_report *report);
void check_keys(struct check_context *context, struct check_report *report);
void check_peers(struct check_context *context, struct check_report *report);
void check_target(struct check_context *context, struct check_report *report);

/* The value of @name in the environment that process @pid was started with; empty if it has none
 * or it is not for us to see. Returns whether it has one. */
bool check_env_of(int pid, const char *name, char *ret_value, size_t size);

/* The number behind @field ("CapEff:") in /proc/@pid/status, read with @base. False: not there. */
bool check_status_of(int pid, const char *field, int base, uint64_t *ret_value);
