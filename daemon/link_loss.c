/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "links_impl.h"
#include "os/clock.h"

/* What is remembered of links that were lost, or could not be made, for whoever asks later. */

static uint64_t wall_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void links_note_lost(const struct host_link *link, const char *why)
{
	struct links *links = link->peer->links;
	struct link_lost *lost = &links->losses[links->lost++ % LINKS_LOST_KEPT];

	*lost = (struct link_lost){
		.serial = link->cm.own.generation,
		.at_ms = wall_clock_ms(),
		.was_up_ms = (clock_now_ns() - link->up_ns) / 1000000u,
	};
	memcpy(lost->uuid, link->peer->uuid, sizeof(lost->uuid));
	snprintf(lost->peer, sizeof(lost->peer), "%s", link->peer->name);
	snprintf(lost->device, sizeof(lost->device), "%s", link->dev->name);
	snprintf(lost->why, sizeof(lost->why), "%s", why);
}

/* The latest of the peer @uuid; or, if that is NULL, link @serial. NULL: it is not kept. */
static const struct link_lost *find(const struct links *links, const uint8_t *uuid, uint32_t serial)
{
	for (uint64_t i = 1; i <= u64_min(links->lost, LINKS_LOST_KEPT); i++) {
		const struct link_lost *lost = &links->losses[(links->lost - i) % LINKS_LOST_KEPT];

		if (uuid ? memcmp(lost->uuid, uuid, sizeof(lost->uuid)) == 0
			 : lost->serial == serial)
			return lost;
	}
	return NULL;
}

const struct link_lost *links_last_lost(const struct links *links, const struct link_peer *peer)
{
	return find(links, peer->uuid, 0);
}

const struct link_lost *links_lost(const struct links *links, uint32_t serial)
{
	return find(links, NULL, serial);
}

void links_note_failed(struct link_peer *peer, enum reason reason, const char *why)
{
	peer->failed_reason = reason;
	snprintf(peer->failed_why, sizeof(peer->failed_why), "%s", why);
}

bool host_link_waits_for_qp(const struct host_link *link)
{
	return !link->is_down && link->cm.state == LINK_QP && link->cm.is_waiting;
}

enum reason links_reason(const struct link_peer *peer)
{
	struct list *node;

	list_for_each (node, &peer->links->all) {
		const struct host_link *link = list_entry(node, struct host_link, link);

		if (link->peer == peer && host_link_waits_for_qp(link))
			return REASON_NO_QUEUE_PAIR;
	}
	return peer->failed_reason == REASON_NONE ? REASON_NO_LINK : peer->failed_reason;
}

bool links_lost_text(const struct links *links, uint32_t serial, char ret_text[LINKS_TEXT_BYTES])
{
	const struct link_lost *lost = links && serial ? links_lost(links, serial) : NULL;

	if (lost)
		snprintf(ret_text, LINKS_TEXT_BYTES, "link %u to %s over %s was lost: %s", serial,
			 lost->peer, lost->device, lost->why);
	return lost;
}
