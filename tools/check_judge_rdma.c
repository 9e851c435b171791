/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "check_judge.h"

/* What RoCE v2 puts around the payload of a packet, at most: the kernel's reckoning (iboe_get_mtu()
 * in include/rdma/ib_addr.h). */
#define ROCE_HEADERS 96u
#define IB_MTU_MIN 256u
#define IB_MTU_MAX 4096u

static bool in_group(const struct identity *identity, gid_t gid)
{
	for (size_t i = 0; i < identity->n_groups; i++) {
		if (identity->groups[i] == gid)
			return true;
	}
	return false;
}

static bool may_use(const struct node_facts *facts, const struct identity *identity)
{
	mode_t rights = facts->mode & 7;

	if (identity->overrides)
		return true;
	if (facts->uid == identity->uid)
		rights = facts->mode >> 6 & 7;
	else if (in_group(identity, facts->gid))
		rights = facts->mode >> 3 & 7;
	return (rights & 6) == 6;
}

void judge_node(struct check_report *report, const struct node_facts *facts,
		const struct identity *identity)
{
	unsigned int mode = facts->mode & 07777;

	if (facts->error) {
		check_say(report, CHECK_FAIL, facts->path, "can't be looked at: %s",
			  strerror(-facts->error));
		check_remedy(report, "chmod 755 /dev/infiniband, or install rdma-core, whose udev "
				     "rules let everybody in");
		return;
	}
	if (may_use(facts, identity)) {
		check_say(report, CHECK_PASS, facts->path, "open to %s (mode %04o)", identity->who,
			  mode);
		return;
	}
	check_say(report, CHECK_FAIL, facts->path, "closed to %s: user %u, group %s, mode %04o",
		  identity->who, (unsigned int)facts->uid, facts->group, mode);
	if ((facts->mode & 060) == 060 && facts->gid != 0 && facts->uid != identity->uid)
		check_remedy(
			report,
			"SupplementaryGroups=%s in the unit (systemctl edit shuntd), or usermod "
			"-aG %s USER; or install rdma-core, whose udev rules let everybody in",
			facts->group, facts->group);
	else
		check_remedy(report,
			     "install rdma-core, whose udev rules let everybody in; until the next "
			     "boot: chmod 666 %s",
			     facts->path);
}

uint32_t roce_mtu(uint32_t netdev_mtu)
{
	uint32_t mtu = IB_MTU_MAX;

	while (mtu >= IB_MTU_MIN && mtu + ROCE_HEADERS > netdev_mtu)
		mtu /= 2;
	return mtu >= IB_MTU_MIN ? mtu : 0;
}

static void judge_mtu(struct check_report *report, const struct port_facts *facts,
		      const char *subject)
{
	uint32_t fits = roce_mtu(facts->netdev_mtu);

	if (!facts->is_roce || !facts->mtu_bytes || !facts->netdev_mtu)
		return;
	if (facts->mtu_bytes > fits) {
		check_say(report, CHECK_FAIL, subject,
			  "path MTU %u does not fit into %s with MTU %u: full packets are lost",
			  facts->mtu_bytes, facts->netdev, facts->netdev_mtu);
		check_remedy(report, "ip link set %s mtu %u, on both hosts and the switch",
			     facts->netdev, facts->mtu_bytes + ROCE_HEADERS);
	} else if (facts->mtu_bytes < fits) {
		check_say(report, CHECK_WARN, subject,
			  "path MTU %u, but %s with MTU %u would carry %u", facts->mtu_bytes,
			  facts->netdev, facts->netdev_mtu, fits);
		check_remedy(report,
			     "ip link set %s down; ip link set %s up, so that the port takes the "
			     "MTU over; both hosts alike",
			     facts->netdev, facts->netdev);
	} else {
		check_say(report, CHECK_PASS, subject, "path MTU %u on %s with MTU %u",
			  facts->mtu_bytes, facts->netdev, facts->netdev_mtu);
		if (fits < IB_MTU_MAX && facts->netdev_mtu == 1500)
			check_remedy(report,
				     "larger messages go faster with ip link set %s mtu 9000, if "
				     "both hosts and the switch have it",
				     facts->netdev);
	}
}

static void judge_address(struct check_report *report, const struct port_facts *facts,
			  const char *subject)
{
	const char *netdev = facts->netdev[0] ? facts->netdev : "INTERFACE";

	if (!facts->has_gid && !facts->is_roce && !facts->is_iwarp) {
		check_say(report, CHECK_FAIL, subject, "the port has no GID");
		check_remedy(report,
			     "see whether a subnet manager runs: sminfo (infiniband-diags), "
			     "systemctl start opensm");
	} else if (!facts->has_gid || ((facts->is_roce || facts->is_iwarp) && !facts->is_ip)) {
		check_say(report, CHECK_FAIL, subject, "no IP address: no link can be made");
		check_remedy(report, "ip address add ADDRESS/PREFIX dev %s", netdev);
	} else if ((facts->is_roce || facts->is_iwarp) && facts->is_link_local) {
		check_say(report, CHECK_WARN, subject,
			  "only the link-local address %s: other hosts can't be sure to reach it",
			  facts->gid);
		check_remedy(report, "ip address add ADDRESS/PREFIX dev %s", netdev);
	} else if (facts->is_roce && !facts->is_roce_v2) {
		check_say(report, CHECK_WARN, subject,
			  "only RoCE v1 (%s), which does not leave its Ethernet segment",
			  facts->gid);
		check_remedy(report,
			     "cma_roce_mode -d %s -p %u -m 2; see the device's documentation",
			     facts->device, facts->port);
	} else {
		check_say(report, CHECK_PASS, subject, "%s %s%s%s",
			  facts->is_roce    ? "RoCE v2"
			  : facts->is_iwarp ? "iWARP"
					    : "InfiniBand",
			  facts->gid, facts->netdev[0] ? " on " : "", facts->netdev);
	}
}

void judge_port(struct check_report *report, const struct port_facts *facts)
{
	char subject[80];

	snprintf(subject, sizeof(subject), "%s port %u", facts->device, facts->port);
	if (!facts->is_active) {
		check_say(report, facts->is_needed ? CHECK_FAIL : CHECK_WARN, subject,
			  "is %s: no links over it", facts->state);
		if (facts->netdev[0] && !facts->is_netdev_up)
			check_remedy(report, "ip link set %s up", facts->netdev);
		else if (facts->is_roce || facts->is_iwarp)
			check_remedy(report, "see cable and switch: ip link show %s",
				     facts->netdev[0] ? facts->netdev : "");
		else
			check_remedy(report, "see cable, switch and subnet manager: ibstat %s",
				     facts->device);
		return;
	}
	check_say(report, CHECK_PASS, subject, "is %s", facts->state);
	judge_address(report, facts, subject);
	judge_mtu(report, facts, subject);
}
