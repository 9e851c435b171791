/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/peer_msg.h"

#include "fuzz/fuzz.h"

/*
 * The codec between daemons on an arbitrary stream. What it accepts must be encodable, to the very
 * same bytes; what it refuses must leave the results alone; it never asks for more than a frame.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t again[PEER_FRAME_MAX];
	struct peer_msg msg, before;
	enum peer_verdict verdict;
	size_t used;

	for (;;) {
		memset(&msg, 0xa5, sizeof(msg));
		before = msg;
		used = SIZE_MAX;
		verdict = peer_decode(data, len, &msg, &used);
		if (verdict != PEER_OK)
			break;
		if (used < PEER_HEADER_BYTES || used > len || !peer_msg_ok(&msg))
			abort();
		if (peer_encode(&msg, again) != used || memcmp(again, data, used) != 0)
			abort();
		data += used;
		len -= used;
	}
	if (verdict >= PEER_VERDICT_COUNT || used != SIZE_MAX ||
	    memcmp(&msg, &before, sizeof(msg)) != 0)
		abort();
	if (verdict == PEER_MORE && len >= PEER_FRAME_MAX)
		abort();
	return 0;
}
