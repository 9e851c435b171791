/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/peer.h"
#include "core/replay.h"

void replay_begin(struct half_ctl *half, struct ring_off from, struct tcp_count written)
{
	if (atomic_load(&half->replay_from) != OPT_NONE)
		return;
	atomic_store(&half->replay_at, opt_some(written.v));
	atomic_store(&half->replay_from, opt_some(from.v));
}

int replay_next(const struct half_ctl *half, struct tcp_count written, struct ring_off end,
		struct ring_off *ret_next)
{
	uint64_t from = atomic_load(&half->replay_from);
	uint64_t at = atomic_load(&half->replay_at);
	struct ring_off next;

	if (from == OPT_NONE || at == OPT_NONE || written.v < opt_value(at))
		return -EBADMSG;
	next = ring_off_add(ring_off(opt_value(from)), written.v - opt_value(at));
	if (ring_off_lt(end, next))
		return -EBADMSG;
	*ret_next = next;
	return 0;
}

void replay_publish(struct half_ctl *half, struct ring_off next)
{
	own_announce(half, &half->replayed, opt_some(next.v));
}
