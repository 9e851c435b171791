/* SPDX-License-Identifier: MIT */
#include "core/link_test.h"

void link_test_init(struct link_test *test, uint64_t now_ns)
{
	*test = (struct link_test){.heard_ns = now_ns};
}

void link_test_heard(struct link_test *test, uint64_t now_ns)
{
	test->heard_ns = now_ns;
	test->is_asking = false;
}

bool link_test_answered(struct link_test *test, uint32_t number)
{
	/* Anything else that was heard may have settled the question before; it stays the last. */
	return number && number == test->number;
}

enum link_test_result link_test_tick(struct link_test *test, uint64_t now_ns, uint64_t *ret_next_ns)
{
	if (test->is_asking) {
		if (now_ns - test->asked_ns >= LINK_TEST_WAIT_NS)
			return LINK_TEST_DEAD;
		*ret_next_ns = test->asked_ns + LINK_TEST_WAIT_NS;
		return LINK_TEST_FINE;
	}
	if (now_ns - test->heard_ns < LINK_TEST_IDLE_NS) {
		*ret_next_ns = test->heard_ns + LINK_TEST_IDLE_NS;
		return LINK_TEST_FINE;
	}
	test->is_asking = true;
	test->asked_ns = now_ns;
	test->number = test->number == UINT32_MAX ? 1 : test->number + 1;
	*ret_next_ns = now_ns + LINK_TEST_WAIT_NS;
	return LINK_TEST_ASK;
}
