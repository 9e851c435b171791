/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/ctl.h"

#include "fuzz/fuzz.h"

/*
 * The control codec on arbitrary packets, of either side. What it accepts must be encodable, to the
 * very same bytes; what it refuses must leave the result alone. The first byte chooses the side and
 * the number of descriptors.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t again[CTL_MAX_BYTES];
	struct ctl_msg msg, before;
	enum ctl_side side;
	size_t fds;

	if (len == 0)
		return 0;
	side = data[0] & 1 ? CTL_FROM_DAEMON : CTL_FROM_CLIENT;
	fds = data[0] >> 1;
	data++;
	len--;
	memset(&msg, 0xa5, sizeof(msg));
	before = msg;
	if (ctl_decode(side, data, len, fds, &msg) != CTL_OK) {
		if (memcmp(&msg, &before, sizeof(msg)) != 0)
			abort();
		return 0;
	}
	if (fds < ctl_min_fds(msg.type) || fds > ctl_max_fds(msg.type) || !ctl_msg_ok(&msg))
		abort();
	if (ctl_encode(&msg, again) != len || memcmp(again, data, len) != 0)
		abort();
	return 0;
}
