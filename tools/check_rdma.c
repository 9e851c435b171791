/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "base/util.h"
#include "check.h"
#include "os/fd.h"
#include "os/sys.h"

#ifdef HAVE_RDMA
#include "fabric/gid.h"
#include "fabric/netlink.h"
#include "fabric/preflight.h"
#endif

#define NODES "/dev/infiniband"

/* --- nodes ------------------------------------------------------------------------------------ */

/* Numbers behind "Groups:" of @pid. */
static void read_groups(int pid, struct identity *identity)
{
	char path[48], line[1024], *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Groups:", 7) != 0 && strncmp(line, "Gid:", 4) != 0)
			continue;
		at = strchr(line, ':') + 1;
		while (identity->n_groups < ARRAY_SIZE(identity->groups)) {
			char *rest;
			unsigned long gid = strtoul(at, &rest, 10);

			if (rest == at)
				break;
			identity->groups[identity->n_groups++] = (gid_t)gid;
			at = rest;
		}
	}
	if (file)
		fclose(file);
}

/* Those of @user, and the one that the unit adds. */
static void list_groups(const char *user, struct identity *identity)
{
	const struct passwd *entry = getpwnam(user);
	const struct group *rdma;
	int n = ARRAY_SIZE(identity->groups) - 1;

	if (entry && getgrouplist(user, entry->pw_gid, identity->groups, &n) >= 0)
		identity->n_groups = (size_t)n;
	rdma = getgrnam("rdma");
	if (rdma)
		identity->groups[identity->n_groups++] = rdma->gr_gid;
}

static void find_identity(const struct check_context *context, struct identity *identity,
			  char who[80])
{
	const int pid = context->daemon.answers ? context->daemon.pid : (int)getpid();
	uint64_t capabilities = 0;

	*identity = (struct identity){.who = who, .uid = context->daemon.uid};
	if (context->daemon.answers) {
		snprintf(who, 80, "the daemon (user %u)", (unsigned int)context->daemon.daemon_uid);
		identity->uid = context->daemon.daemon_uid;
	} else if (identity->uid == 0 && context->service_uid != 0) {
		identity->uid = context->service_uid;
		snprintf(who, 80, "the service's user %.40s", context->service_user);
		list_groups(context->service_user, identity);
		return;
	} else {
		snprintf(who, 80, "you (user %u)", (unsigned int)identity->uid);
	}
	read_groups(pid, identity);
	check_status_of(pid, "CapEff:", 16, &capabilities);
	identity->overrides = capabilities >> CAP_DAC_OVERRIDE & 1;
}

static void look_at_node(const char *name, struct node_facts *facts)
{
	const struct group *group;
	struct stat st;

	*facts = (struct node_facts){.error = 0};
	snprintf(facts->path, sizeof(facts->path), NODES "/%.60s", name);
	facts->error = sys_fstatat(AT_FDCWD, facts->path, &st, 0);
	if (facts->error < 0)
		return;
	facts->uid = st.st_uid;
	facts->gid = st.st_gid;
	facts->mode = st.st_mode;
	group = getgrgid(st.st_gid);
	if (group)
		snprintf(facts->group, sizeof(facts->group), "%s", group->gr_name);
	else
		snprintf(facts->group, sizeof(facts->group), "%u", (unsigned int)st.st_gid);
}

void check_nodes(struct check_context *context, struct check_report *report)
{
	const struct dirent *entry;
	struct identity identity;
	struct node_facts facts;
	char who[80];
	DIR *dir = opendir(NODES);
	size_t n = 0;

	find_identity(context, &identity, who);
	if (!dir && errno != ENOENT) {
		snprintf(facts.path, sizeof(facts.path), NODES);
		facts.error = -errno;
		judge_node(report, &facts, &identity);
		return;
	}
	while (dir && (entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, "uverbs", 6) != 0 &&
		    strcmp(entry->d_name, "rdma_cm") != 0)
			continue;
		look_at_node(entry->d_name, &facts);
		judge_node(report, &facts, &identity);
		n++;
	}
	if (dir)
		closedir(dir);
	/* Without devices there is no need for nodes; with them, check_devices() says more. */
	if (n == 0)
		check_say(report, context->has_rdma ? CHECK_WARN : CHECK_PASS, NODES,
			  "no device nodes%s",
			  context->has_rdma ? "" : ", as there are no devices");
	if (n == 0 && context->has_rdma)
		check_remedy(report, "modprobe ib_uverbs; modprobe rdma_ucm (the package rdma-core "
				     "does it at boot); in a container: --device /dev/infiniband");
}

#ifdef HAVE_RDMA

/* --- devices and ports ------------------------------------------------------------------------ */

static void look_at_netdev(struct port_facts *facts)
{
	AUTO_FD int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};

	if (fd < 0 || !facts->netdev[0])
		return;
	memcpy(request.ifr_name, facts->netdev, sizeof(request.ifr_name));
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		facts->netdev_mtu = (uint32_t)request.ifr_mtu;
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		facts->is_netdev_up = request.ifr_flags & IFF_UP;
}

static void look_at_gids(const struct device *device, struct port_facts *facts)
{
	static struct gid gids[GID_LIST_MAX];
	ssize_t n = gid_list(device, facts->port, gids, GID_LIST_MAX);
	ssize_t best = n > 0 ? gid_choose(gids, (size_t)n) : -1;
	const struct gid *gid = &gids[best < 0 ? 0 : best];

	if (best < 0)
		return;
	facts->has_gid = true;
	facts->is_roce_v2 = gid->type == GID_ROCE_V2;
	facts->is_link_local = gid->scope == GID_SCOPE_LINK;
	facts->is_ip = gid->scope != GID_SCOPE_NONE;
	gid_text(gid, facts->gid);
	memcpy(facts->netdev, gid->netdev, sizeof(facts->netdev));
}

static bool look_at_port(const struct device *device, uint32_t number, struct port_facts *facts)
{
	struct port port;
	uint32_t ifindex;

	*facts = (struct port_facts){.port = number};
	snprintf(facts->device, sizeof(facts->device), "%.63s", device->info.name);
	if (device_port(device, number, &port) < 0)
		return false;
	facts->is_active = port.state == IBV_PORT_ACTIVE;
	facts->state = port_state_name(port.state);
	facts->is_roce = port.transport == FABRIC_ROCE;
	facts->is_iwarp = port.transport == FABRIC_IWARP;
	facts->mtu_bytes = port.mtu_bytes;
	look_at_gids(device, facts);
	if (!facts->netdev[0] && netlink_port_netdev(facts->device, number, &ifindex) == 0 &&
	    !if_indextoname(ifindex, facts->netdev))
		facts->netdev[0] = '\0';
	look_at_netdev(facts);
	return true;
}

/* Most ports of a host that are told of. Chosen: eight adapters of two. */
#define PORTS_MAX 16u

struct ports {
	size_t n;
	struct port_facts all[PORTS_MAX];
};

static void look_at_device(const struct device_list *list, size_t i, struct ports *ports,
			   struct check_report *report)
{
	const char *name = device_list_name(list, i);
	struct device *device = NULL;
	int rc = device_open(list, i, &device);

	if (rc < 0) {
		check_say(report, CHECK_FAIL, name, "can't be opened: %s", strerror(-rc));
		check_remedy(report, rc == -ENOMEM ? "ulimit -l unlimited: it pins memory"
						   : "see the lines about /dev/infiniband here; as "
						     "the daemon's user, shunt probe says more");
		return;
	}
	if (!device->info.rc) {
		check_say(report, CHECK_WARN, name, "has no reliable connections: it is not used");
		check_remedy(report,
			     "devices = ( { name = \"%s\"; use = \"no\"; } ) in shunt.conf "
			     "says so once and for all",
			     name);
	}
	for (uint32_t port = 1; device->info.rc && port <= device->info.ports; port++) {
		if (ports->n < PORTS_MAX && look_at_port(device, port, &ports->all[ports->n]))
			ports->n++;
	}
	device_close(device);
}

static void judge_ports(const struct check_context *context, struct ports *ports,
			struct check_report *report)
{
	bool any_active = false;

	for (size_t i = 0; i < ports->n; i++)
		any_active = any_active || ports->all[i].is_active;
	for (size_t i = 0; i < ports->n; i++) {
		ports->all[i].is_needed = context->device || !any_active;
		judge_port(report, &ports->all[i]);
	}
}

static void say_note(struct check_report *report, bool is_none, const char *device,
		     const char *found, const char *remedy)
{
	/* A host without any RDMA device is a host like most. */
	check_say(report, is_none ? CHECK_WARN : CHECK_FAIL, device, "%s", found);
	if (remedy[0])
		check_remedy(report, "%s", remedy);
}

/* As the daemon has found it; what its user may do is not what we may. */
static void say_notes_of_daemon(const struct check_context *context, struct check_report *report)
{
	const json_t *note;
	size_t i;

	json_array_foreach(json_object_get(context->devices, "notes"), i, note)
	{
		const char *what = answer_text(note, "what");

		say_note(report, strcmp(what, "no_device") == 0 || strcmp(what, "no_list") == 0,
			 json_object_get(note, "device") ? answer_text(note, "device") : "",
			 json_object_get(note, "found") ? answer_text(note, "found")
							: answer_text(note, "text"),
			 json_object_get(note, "remedy") ? answer_text(note, "remedy") : "");
	}
	json_array_foreach(json_object_get(context->devices, "devices"), i, note)
	{
		const char *name = answer_text(note, "device");

		if (strcmp(answer_text(note, "state"), "unused") != 0 ||
		    (context->device && strcmp(context->device, name) != 0))
			continue;
		check_say(report, CHECK_WARN, name, "the daemon does not use it: %s",
			  answer_text(note, "why"));
		check_remedy(report, "shunt probe --device %s shows each step", name);
	}
}

static void say_own_notes(const struct device_list *list, int list_error,
			  struct check_report *report)
{
	const char **names = calloc(list->n + 1, sizeof(*names));
	struct preflight_config config = {.root = "", .list_error = list_error, .may_lock = true};
	struct preflight preflight;

	for (size_t i = 0; names && i < list->n; i++)
		names[i] = device_list_name(list, i);
	config.listed = names;
	config.n_listed = names ? list->n : 0;
	preflight_check(&config, &preflight);
	for (size_t i = 0; i < preflight.n; i++) {
		const struct preflight_line *line = &preflight.lines[i];
		char found[PREFLIGHT_TEXT_BYTES];

		snprintf(found, sizeof(found), "%.*s", (int)line->found_len, line->text);
		say_note(report,
			 line->what == PREFLIGHT_NO_DEVICE || line->what == PREFLIGHT_NO_LIST,
			 line->device, found, preflight_remedy(line));
	}
	free(names);
}

void check_devices(struct check_context *context, struct check_report *report)
{
	struct device_list list = {0, NULL};
	static struct ports ports;
	int rc = device_list_get(&list);
	bool found = !context->device;

	ports.n = 0;
	if (context->devices && strcmp(answer_text(context->devices, "rdma"), "off") == 0) {
		check_say(report, CHECK_WARN, "", "the daemon leaves RDMA alone (rdma = \"off\")");
		check_remedy(report, "rdma = \"auto\" in shunt.conf; systemctl restart shuntd");
	} else if (json_is_true(json_object_get(context->devices, "scanned"))) {
		say_notes_of_daemon(context, report);
	} else {
		say_own_notes(&list, rc, report);
	}
	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		if (context->device && strcmp(context->device, device_list_name(&list, i)) != 0)
			continue;
		found = true;
		look_at_device(&list, i, &ports, report);
	}
	device_list_free(&list);
	if (!found) {
		check_say(report, CHECK_FAIL, context->device, "there is no such RDMA device");
		check_remedy(report, "rdma link show (iproute2) lists them");
	}
	judge_ports(context, &ports, report);
}

#else

void check_devices(struct check_context *context, struct check_report *report)
{
	(void)context;
	check_say(report, CHECK_WARN, "",
		  "this build has no RDMA: connections to other hosts stay on TCP");
	check_remedy(report, "build it with libibverbs-dev, librdmacm-dev, libnl-3-dev, "
			     "libnl-route-3-dev and libgnutls28-dev");
}

#endif
