/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "state.h"

/*
 * The network that hosts share, as folders and links (see double.h): who is where.
 */

/* Name of a process's socket within the fabric. */
#define FABRIC_SOCKET_MAX 48

/* Where an address or GID is. */
struct fabric_place {
	uint64_t host; /* a number for its state folder */
	uint64_t guid; /* of the device */
	int port;
	char device[STATE_NAME_MAX];
	struct state_port facts;
};

/* Make the folders, and this host known in the fabric. 0 or -errno. */
int fabric_join(void);

/* The number of this host. */
uint64_t fabric_own_host(void);

/* A path within the fabric, of folder @folder and name @name. */
void fabric_path(const char *folder, const char *name, char ret_path[PATH_MAX]);

/* A QP number that no process on this fabric has had on the device. 0 or -errno. */
int fabric_take_qpn(uint64_t guid, uint32_t *ret_qpn);

/* Make it known that the QP is behind @socket; forget it again; find it. 0 or -errno. */
int fabric_publish_qp(uint64_t guid, uint32_t qpn, const char *socket);
void fabric_forget_qp(uint64_t guid, uint32_t qpn);
int fabric_find_qp(uint64_t guid, uint32_t qpn, char ret_socket[FABRIC_SOCKET_MAX]);

/* QPs of the device that are there, of all processes. */
unsigned fabric_count_qps(uint64_t guid);

/* A listener of the CM at @ip (all zero: any) and @port of this host; -EADDRINUSE if taken. */
int fabric_publish_cm(const uint8_t ip[16], uint16_t port, const char *socket);
void fabric_forget_cm(const uint8_t ip[16], uint16_t port);
int fabric_find_cm(uint64_t host, const uint8_t ip[16], uint16_t port,
		   char ret_socket[FABRIC_SOCKET_MAX]);

/* The port with this GID, LID or address, in any state. 0, or -ENOENT if there is none. */
int fabric_find_gid(const uint8_t raw[16], struct fabric_place *ret_place);
int fabric_find_lid(uint16_t lid, struct fabric_place *ret_place);
int fabric_find_ip(const uint8_t raw[16], struct fabric_place *ret_place);
