/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The description of a host that the double plays: the file `host` of its state folder. Tests write
 * it, and write it again while programs run. One fact a line, `kind key=value …`; `#` begins
 * a comment; a port, GID or address belongs to the device that it names:
 *
 *	device name=rxe0 personality=rxe [index=N] [guid=HEX16] [KEY=VALUE]…
 *	port device=rxe0 num=1 [state=active|down|init] [mtu=1024] [lid=N] [netdev=eth0] [ifindex=N]
 *	gid device=rxe0 port=1 index=0 type=ib|v1|v2 gid=IPV6 [ifindex=N]
 *	addr device=rxe0 port=1 ip=10.77.0.1
 *
 * A device of another index is another device, even under the same name. Keys of a device that
 * change its personality (see personality.h): inline, max_qp_wr, max_qp, max_cq, max_mr, wqebb,
 * memlock (bytes that may be pinned, also by root), open=ERRNO (ibv_open_device fails so), fw.
 *
 * A line that does not parse is the test's mistake: the program is aborted with the line.
 */
#define STATE_DEVICES_MAX 16
#define STATE_PORTS_MAX 2
#define STATE_GIDS_MAX 16
#define STATE_ADDRS_MAX 8
#define STATE_NAME_MAX 64

/* No override: the personality's own figure holds. */
#define STATE_UNSET (-1L)

/* Seen from outside: what programs call, and what the double's two libraries share. */
#define DBL_API __attribute__((visibility("default")))

struct state_gid {
	bool valid;
	uint8_t raw[16];
	uint32_t type; /* enum ibv_gid_type */
	uint32_t ifindex;
};

struct state_port {
	bool present;
	int state; /* enum ibv_port_state */
	int mtu;   /* enum ibv_mtu */
	uint16_t lid;
	uint32_t ifindex;
	char netdev[16];
	struct state_gid gids[STATE_GIDS_MAX];
	uint8_t addrs[STATE_ADDRS_MAX][16]; /* IPv6, or IPv4 mapped */
	unsigned addr_count;
};

struct state_device {
	char name[STATE_NAME_MAX];
	char personality[32];
	char fw[32];
	int index;
	uint64_t guid;
	long inline_limit, max_qp_wr, max_qp, max_cq, max_mr, wqebb, memlock;
	int open_errno;
	struct state_port ports[STATE_PORTS_MAX];
};

struct state_host {
	unsigned count;
	struct state_device devices[STATE_DEVICES_MAX];
};

/*
 * Read @dir's description into *@ret_host. A host without the file has no device.
 * Returns 0 or -errno.
 */
int state_read(const char *dir, struct state_host *ret_host);

/* The device of that name, or NULL. */
struct state_device *state_find(struct state_host *host, const char *name);

/* The errno value of a name such as "EINVAL"; "0" is 0; -1 if unknown. */
int state_errno(const char *name);

/* An IPv4 or IPv6 address in text, as 16 bytes (IPv4 mapped). 0 or -EINVAL. */
int state_parse_ip(const char *text, uint8_t ret_raw[16]);
