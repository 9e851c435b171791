/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "systemctl.h"
#include "unit.h"
#include "unit_process.h"

/* Where the hierarchies of control groups may be mounted that units are in. */
static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/systemd",
				     "/sys/fs/cgroup/unified"};

static size_t read_pids(const char *path, int pids[UNIT_PIDS_MAX])
{
	FILE *file = fopen(path, "re");
	size_t n = 0;

	while (file && n < UNIT_PIDS_MAX && fscanf(file, "%d", &pids[n]) == 1)
		n++;
	if (file)
		fclose(file);
	return n;
}

size_t unit_process_list(const char *unit, int ret_pids[UNIT_PIDS_MAX])
{
	char group[PATH_MAX / 2] = "", path[PATH_MAX], main_pid[16] = "";
	size_t n = 0;

	systemctl_value(unit, "ControlGroup", group, sizeof(group));
	for (size_t i = 0; group[0] == '/' && n == 0 && i < 3; i++) {
		snprintf(path, sizeof(path), "%s%s/cgroup.procs", mounts[i], group);
		n = read_pids(path, ret_pids);
	}
	/* A service with groups of its own inside has no process here. */
	if (n == 0 && systemctl_value(unit, "MainPID", main_pid, sizeof(main_pid)) &&
	    atoi(main_pid) > 0)
		ret_pids[n++] = atoi(main_pid);
	return n;
}

int unit_process_maps(int pid, const char *library)
{
	const char *slash = strrchr(library, '/');
	char line[PATH_MAX + 128], path[64], wanted[PATH_MAX + 2];
	int rc = 0;
	FILE *maps;

	snprintf(wanted, sizeof(wanted), "/%s", slash ? slash + 1 : library);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (rc == 0 && fgets(line, sizeof(line), maps)) {
		const char *at = strstr(line, wanted);

		if (at && strchr(" \n", at[strlen(wanted)]))
			rc = UNIT_MAPS_IT;
	}
	if (rc == 0 && ferror(maps))
		rc = -EACCES;
	fclose(maps);
	return rc;
}

char *unit_instances(const char *unit)
{
	char pattern[UNIT_NAME_BYTES + 1];
	const char *at = strchr(unit, '@');
	const char *argv[] = {"systemctl", "list-units", "--all", "--plain", "--no-legend",
			      "--full",	   "--",	 pattern, NULL};
	char *text = NULL;

	snprintf(pattern, sizeof(pattern), "%.*s@*.service", at ? (int)(at - unit) : 0, unit);
	if (systemctl(argv, &text) == 0)
		return text;
	free(text);
	return NULL;
}
