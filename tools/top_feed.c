/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"
#include "top.h"

#define WANTED (GATHER_STATUS | GATHER_STATS | GATHER_LINKS | GATHER_PEERS | GATHER_CONNECTIONS)

void top_feed_init(struct top_feed *feed)
{
	*feed = (struct top_feed){.asker.fd = -1};
}

void top_feed_deinit(struct top_feed *feed)
{
	gathered_deinit(&feed->now);
	gathered_deinit(&feed->before);
	ask_close(&feed->asker);
}

/* The first daemon that answers; nothing is printed, which would spoil the screen. */
static bool find_daemon(struct top_feed *feed)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	enum reason reason = REASON_NONE;
	size_t n = rundir_candidates(dirs);

	snprintf(feed->why, sizeof(feed->why), "SHUNT_RUNTIME_DIR is not usable");
	for (size_t i = 0; i < n; i++) {
		int rc = ask_connect(&dirs[i], &feed->asker, &reason);

		if (rc == 0)
			return true;
		if (i == 0)
			snprintf(feed->why, sizeof(feed->why), "%s: %s", dirs[i].path,
				 rc == ASK_REFUSED ? reason_text(reason) : ask_error_text(rc));
	}
	feed->asker.fd = -1;
	return false;
}

bool top_feed_ask(struct top_feed *feed)
{
	struct gathered found;
	int rc;

	if (feed->asker.fd < 0) {
		if (!find_daemon(feed))
			return false;
		/* Another one's counts: nothing to compare with. */
		gathered_deinit(&feed->now);
		feed->now_ns = 0;
	}
	rc = gather(&feed->asker, WANTED, &found);
	if (rc) {
		snprintf(feed->why, sizeof(feed->why), "%s: %s", feed->asker.dir.path,
			 ask_error_text(rc));
		ask_close(&feed->asker);
		return false;
	}
	gathered_deinit(&feed->before);
	feed->before = feed->now;
	feed->before_ns = feed->now_ns;
	feed->now = found;
	feed->now_ns = clock_now_ns();
	return true;
}
