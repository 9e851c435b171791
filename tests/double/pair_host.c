/* SPDX-License-Identifier: MIT */
#include "lib/tap.h"
#include "pair_host.h"

bool set_up(struct setting *s, const char *personality)
{
	s->host = verbs_host_new();
	verbs_host_add(s->host, "a", personality, "10.77.0.1");
	verbs_host_add(s->host, "b", personality, "10.77.0.2");
	verbs_host_enter(s->host);
	if (!tap_check_eq(pair_make(s->ends, "a", "b"), 0, __FILE__, __LINE__, personality))
		return false;
	pair_name(&s->ends[0], &s->names[0]);
	pair_name(&s->ends[1], &s->names[1]);
	return true;
}

void tear_down(struct setting *s)
{
	pair_close(&s->ends[0]);
	pair_close(&s->ends[1]);
	verbs_host_free(s->host);
}
