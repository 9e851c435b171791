/* SPDX-License-Identifier: MIT */
/*
 * Links between two devices of one process, on real drivers: pools, the connection manager and
 * links as the daemon has them, while one of the devices is taken away.
 *
 *	links DEVICE ADDRESS OTHER_DEVICE OTHER_ADDRESS COUNT
 *
 * Makes COUNT links from the first to the other at once, sends a message over each, and closes
 * them. Then makes and closes links without a pause, prints "busy", and waits for the first device
 * to be removed; gives it back, with every descriptor, and shows that the other still makes links:
 * with itself. Prints a line for each of these. Exit status 0 if all went well.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "station.h"

#define BUSY_LINKS 8
#define LOOK_NS 50000000ull

/* @n links from @from to @to, all at once, and a message over each. */
static void many(struct station *from, struct station *to, uint32_t n)
{
	uint64_t begun_ns = clock_now_ns();
	uint32_t received = to->received, up = counts.up, failed = counts.failed;

	for (uint32_t i = 0; i < n; i++)
		dial(from, to);
	AWAIT(counts.up - up == 2 * n || counts.failed != failed);
	if (counts.failed != failed)
		die("%s to %s: a link failed", from->name, to->name);
	send_over_new();
	AWAIT(to->received - received == n);
	printf("%s to %s: %u links in %u ms\n", from->name, to->name, n,
	       (unsigned int)((clock_now_ns() - begun_ns) / 1000000));
	fflush(stdout);
	close_all();
}

static uint32_t count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (!folder)
		die("/proc/self/fd");
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static bool is_listed(const char *name)
{
	struct device_list list;
	bool found = false;

	if (device_list_get(&list) < 0)
		return false;
	for (size_t i = 0; i < list.n; i++)
		found |= strcmp(device_list_name(&list, i), name) == 0;
	device_list_free(&list);
	return found;
}

/* Make and close links until the device of @from is gone. */
static void busy(struct station *from, struct station *to)
{
	uint64_t looked_ns = 0;

	puts("busy");
	fflush(stdout);
	for (;;) {
		uint32_t n = 0;

		if (clock_now_ns() - looked_ns > LOOK_NS) {
			looked_ns = clock_now_ns();
			if (!is_listed(from->name))
				return;
		}
		for (int i = 0; i < USES_MAX; i++) {
			struct use *use = &uses[i];

			if (!use->is_taken || !use->is_dialer)
				continue;
			n++;
			if (use->has_sent)
				link_close(&use->link, "enough");
		}
		send_over_new();
		for (; n < BUSY_LINKS; n++)
			dial(from, to);
		turn();
	}
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 6 ? (uint32_t)atoi(argv[5]) : 0, descriptors;

	if (count < 1 || count > USES_MAX / 2) {
		fputs("usage: links DEVICE ADDRESS OTHER_DEVICE OTHER_ADDRESS COUNT\n", stderr);
		return 2;
	}
	station_open(&stations[1], argv[3], argv[4], count);
	descriptors = count_descriptors();
	station_open(&stations[0], argv[1], argv[2], count);
	many(&stations[0], &stations[1], count);
	busy(&stations[0], &stations[1]);
	station_close(&stations[0]);
	AWAIT(!has_uses(&stations[1]) && stations[1].pool.n_ready == count);
	if (count_descriptors() != descriptors)
		die("%u descriptors instead of %u", count_descriptors(), descriptors);
	printf("%s: given back; %u links were dialled\n", stations[0].name, counts.dialled);
	fflush(stdout);
	many(&stations[1], &stations[1], 2);
	station_close(&stations[1]);
	return 0;
}
