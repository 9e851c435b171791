/* SPDX-License-Identifier: MIT */
#include "tool.h"
#include "top.h"

/* Built without ncurses. */
int top_screen(struct top_feed *feed, struct top_options *options)
{
	(void)feed;
	(void)options;
	tool_say("this shunt was built without ncurses (libncurses-dev); shunt top --batch or "
		 "--once needs none");
	return TOOL_FAILED;
}
