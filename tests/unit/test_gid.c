/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <string.h>

#include "base/util.h"
#include "fabric/gid.h"

#include "lib/tap.h"

/* A GID of @type on @ifindex with the IP address @text, "" for none. */
static struct gid make(enum gid_type type, uint32_t index, uint32_t ifindex, const char *text)
{
	struct gid gid = {.port = 1, .index = index, .type = type, .ifindex = ifindex};

	if (strchr(text, ':')) {
		gid.address.in6.sin6_family = AF_INET6;
		CHECK_EQ(inet_pton(AF_INET6, text, &gid.address.in6.sin6_addr), 1);
		gid.scope = strncmp(text, "fe80", 4) == 0 ? GID_SCOPE_LINK : GID_SCOPE_WIDE;
	} else if (text[0]) {
		gid.address.in.sin_family = AF_INET;
		CHECK_EQ(inet_pton(AF_INET, text, &gid.address.in.sin_addr), 1);
		gid.scope = strncmp(text, "169.254", 7) == 0 ? GID_SCOPE_LINK : GID_SCOPE_WIDE;
	}
	return gid;
}

/* The order of choice, the best first: each beats all that follow it, wherever it stands. */
TAP_CASE(the_choice_is_by_the_documented_order)
{
	const struct gid order[] = {
		make(GID_ROCE_V2, 7, 3, "10.77.0.1"),
		make(GID_ROCE_V2, 8, 3, "10.77.0.2"),
		make(GID_ROCE_V2, 5, 3, "2001:db8::1"),
		make(GID_ROCE_V2, 4, 0, "10.77.0.3"),
		make(GID_ROCE_V2, 6, 3, "169.254.0.9"),
		make(GID_ROCE_V2, 3, 3, "fe80::1"),
		make(GID_ROCE_V2, 2, 3, ""),
		make(GID_ROCE_V1, 1, 3, "10.77.0.1"),
		make(GID_ROCE_V1, 0, 3, "fe80::1"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		for (size_t j = i + 1; j < ARRAY_SIZE(order); j++) {
			struct gid two[] = {order[i], order[j]};

			CHECK_EQ(gid_choose(two, 2), 0);
			two[0] = order[j];
			two[1] = order[i];
			CHECK_EQ(gid_choose(two, 2), 1);
		}
	}
	CHECK_EQ(gid_choose(order, ARRAY_SIZE(order)), 0);
	CHECK_EQ(gid_choose(order, 0), -1);
}

TAP_CASE(gids_have_a_text)
{
	struct gid gid = make(GID_ROCE_V2, 0, 1, "10.77.0.1");
	char text[GID_TEXT_BYTES];

	CHECK_STR(gid_text(&gid, text), "10.77.0.1");
	gid = make(GID_ROCE_V2, 0, 1, "2001:db8::1");
	CHECK_STR(gid_text(&gid, text), "2001:db8::1");
	gid = make(GID_IB, 0, 0, "");
	gid.raw.raw[0] = 0xfe;
	gid.raw.raw[1] = 0x80;
	gid.raw.raw[15] = 7;
	CHECK_STR(gid_text(&gid, text), "fe80::7");
	CHECK_STR(gid_type_name(GID_ROCE_V2), "RoCEv2");
	CHECK_STR(gid_type_name(GID_IWARP), "iWARP");
}
