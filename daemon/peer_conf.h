/* SPDX-License-Identifier: MIT */
#pragma once

#include <libconfig.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/peer_msg.h"
#include "fabric/conf_section.h"

/*
 * Which other hosts this daemon knows, as settings: the section
 *
 *	peers = (
 *		{ address = "10.0.0.2"; },
 *		{ address = [ "10.0.0.3", "10.1.0.3" ]; rdma_address = "192.168.7.3";
 *		  key = "/etc/shunt/rack2.key"; }
 *	);
 *
 * An entry is one daemon. It may speak for each of its addresses, whichever its session comes from;
 * a daemon without an entry for that one only.
 */

#define PEER_RULES_MAX 128u
/* Addresses of one kind of one entry. Chosen. */
#define PEER_RULE_ADDRESSES_MAX 8u
/* Longest path of a key, terminator included. Chosen. */
#define PEER_CONF_PATH_BYTES 256u
#define PEER_CONF_NAME_BYTES 64u

struct peer_rule {
	uint32_t n_addresses, n_rdma;
	struct peer_address addresses[PEER_RULE_ADDRESSES_MAX]; /* port 0 */
	struct peer_address rdma[PEER_RULE_ADDRESSES_MAX];	/* port 0 */
	uint16_t port;						/* 0: peer_port */
	char key[PEER_CONF_PATH_BYTES];				/* empty: as for all */
	char name[PEER_CONF_NAME_BYTES];			/* for people; may be empty */
};

struct peer_conf {
	uint32_t n;
	struct peer_rule rules[PEER_RULES_MAX];
};

/*
 * Read the value of "peers" from a file. @ret_conf: changed only if all of it is good.
 * @ret_error: set if the result is not 0. Returns 0 or SECTION_BAD.
 */
int peer_conf_read(const config_setting_t *setting, struct peer_conf *ret_conf,
		   struct section_error *ret_error);

/* The entry with @address (its port does not count), or NULL. */
const struct peer_rule *peer_conf_find(const struct peer_conf *conf,
				       const struct peer_address *address);

/* Print the section as a commented sample. */
void peer_conf_print_sample(FILE *out);

/* Whether @path (NULL: no text at all) may name a file: empty, a full path, or a plain name. */
bool peer_conf_path_ok(const char *path);

/* Read an IP address. @ret_address: port 0; IPv4 in IPv6 form is IPv4. False: it is none. */
bool peer_address_parse(const char *text, struct peer_address *ret_address);

/* Text of an address without its port. Returns @text. */
#define PEER_ADDRESS_TEXT 46
const char *peer_address_text(const struct peer_address *address, char text[PEER_ADDRESS_TEXT]);

/* Whether two are the same address; ports do not count. */
bool peer_address_same(const struct peer_address *a, const struct peer_address *b);
