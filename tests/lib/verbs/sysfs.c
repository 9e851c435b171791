/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

/*
 * What programs read of sysfs, as files below the state folder: the paths in struct ibv_device and
 * ibv_get_sysfs_path() point there.
 */

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX], again[PATH_MAX];
	FILE *file;

	if ((size_t)snprintf(path, sizeof(path), "%s/.%s.%d", folder, name, (int)getpid()) >=
	    sizeof(path))
		return;
	file = fopen(path, "we");
	if (!file)
		return;
	fprintf(file, "%s\n", text);
	fclose(file);
	/* At once, since several processes write the same. */
	snprintf(again, sizeof(again), "%s/%s", folder, name);
	rename(path, again);
}

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0777);
		*slash = '/';
	}
	mkdir(path, 0777);
}

void sysfs_describe(struct dbl_device *device)
{
	const struct personality *p = device->p;
	char folder[PATH_MAX - 16], text[PATH_MAX];
	uint64_t guid = device->desc.guid;

	snprintf(folder, sizeof(folder), "%s/sys/class/infiniband/%s/device", dbl_dir(),
		 device->desc.name);
	make_folders(folder);
	snprintf(text, sizeof(text), "%s/driver", folder);
	(void)!symlink(p->driver, text);
	*strrchr(folder, '/') = '\0';
	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48) & 0xffff,
		 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		 (unsigned)guid & 0xffff);
	write_file(folder, "node_guid", text);
	write_file(folder, "fw_ver", device->desc.fw[0] ? device->desc.fw : p->fw);
	write_file(folder, "hca_type", p->driver);
	write_file(folder, "node_desc", device->desc.name);
	snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path), "%.*s",
		 (int)sizeof(device->ibv.ibdev_path) - 1, folder);
	snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path),
		 "/sys/class/infiniband_verbs/%s", device->ibv.dev_name);
}
