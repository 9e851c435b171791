/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/peer_msg.h"

/*
 * Rules: which connections of programs under Shunt are accelerated, and which stay on TCP. They are
 * looked at in order, for each end of a connection by itself; the first whose every condition holds
 * decides. Without one, an end is accelerated. Since a lane needs both ends, TCP for one is TCP for
 * both.
 *
 * The port of a rule is the server's: of an end that accepted the connection its own, of one that
 * made it the other's. So both ends of a connection are asked about the same number, and the
 * client's, which means nothing, about none.
 *
 * Pure: no I/O. Any thread.
 */

/* Chosen: far more than anybody reads through to find out which one decides. */
#define RULES_MAX 128u
_Static_assert(RULES_MAX <= UINT8_MAX, "an end keeps the number of its rule in a byte");
/* Longest pattern, and name of a user, with the terminator. Chosen. */
#define RULE_PATTERN_BYTES 256u
#define RULE_USER_BYTES 64u

/* What a rule asks for, as bits; in the order in which they are looked at. */
enum rule_key {
	RULE_KEY_PROGRAM = 1u << 0,
	RULE_KEY_USER = 1u << 1,
	RULE_KEY_UNIT = 1u << 2,
	RULE_KEY_DIRECTION = 1u << 3,
	RULE_KEY_PORT = 1u << 4,
	RULE_KEY_TO = 1u << 5,
	RULE_KEY_ACTION = 1u << 6, /* no condition; every rule has it */
};

enum rule_action { RULE_ACCELERATE, RULE_TCP };

struct rule {
	uint32_t has; /* of enum rule_key */
	char program[RULE_PATTERN_BYTES];
	char unit[RULE_PATTERN_BYTES];
	char user[RULE_USER_BYTES]; /* as written: a name, or a number */
	uint32_t uid;
	uint16_t port_lo, port_hi;
	struct peer_address to; /* port 0; zero behind the prefix */
	uint8_t prefix;		/* bits */
	bool is_out;
	uint8_t action; /* enum rule_action */
	int line;	/* of the file */
};

struct rule_list {
	uint32_t n;
	struct rule rules[RULES_MAX];
};

/* An end of a connection, as rules see it. */
struct rule_subject {
	const char *program; /* full path of what the process runs; NULL: not known */
	const char *unit;    /* its control group, "/system.slice/x.service"; NULL: not known */
	uint32_t uid;
	bool is_out; /* this end made the connection */
	uint16_t port;
	struct peer_address to; /* of the other end; its port does not count */
};

/* The first condition of @rule that does not hold for @subject, as its bit; 0: all hold. */
uint32_t rule_differs(const struct rule *rule, const struct rule_subject *subject);

/*
 * The rule that decides about @subject, or NULL: none matches, and it is accelerated. What is not
 * known fulfils no condition.
 */
const struct rule *rules_find(const struct rule_list *list, const struct rule_subject *subject);

/* The number of @rule, which is in @list, as people count: from 1. */
unsigned int rule_number(const struct rule_list *list, const struct rule *rule);

/* Whether the first @bits bits of the two are the same, and they are of one family. */
bool address_in(const struct peer_address *address, const struct peer_address *network,
		unsigned int bits);
