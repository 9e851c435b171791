/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "rule.h"

#define SERVICE ".service"

bool address_in(const struct peer_address *address, const struct peer_address *network,
		unsigned int bits)
{
	unsigned int bytes = bits / 8, rest = bits % 8;
	unsigned int mask = (0xff00u >> rest) & 0xffu;

	if (address->family != network->family)
		return false;
	if (memcmp(address->addr, network->addr, bytes) != 0)
		return false;
	return rest == 0 || ((address->addr[bytes] ^ network->addr[bytes]) & mask) == 0;
}

/* A pattern with a slash is about the whole path, one without about the name. */
static bool program_matches(const char *pattern, const char *program)
{
	const char *name;

	if (!program)
		return false;
	name = strrchr(program, '/');
	return fnmatch(pattern, !strchr(pattern, '/') && name ? name + 1 : program, 0) == 0;
}

/* @name, of @len bytes, is one step of a control group's path; services go without their ending,
 * too. */
static bool step_matches(const char *pattern, const char *name, size_t len)
{
	const size_t ending = strlen(SERVICE);
	char step[RULE_PATTERN_BYTES];

	if (len == 0 || len >= sizeof(step))
		return false;
	memcpy(step, name, len);
	step[len] = '\0';
	if (fnmatch(pattern, step, 0) == 0)
		return true;
	if (len <= ending || strcmp(step + len - ending, SERVICE) != 0)
		return false;
	step[len - ending] = '\0';
	return fnmatch(pattern, step, 0) == 0;
}

/* A pattern with a slash is about the whole path; one without about any step of it: a service, a
 * scope, or a slice that they are in. */
static bool unit_matches(const char *pattern, const char *unit)
{
	size_t len;

	if (!unit)
		return false;
	if (strchr(pattern, '/'))
		return fnmatch(pattern, unit, 0) == 0;
	for (; *unit; unit += len + (unit[len] == '/')) {
		len = strcspn(unit, "/");
		if (step_matches(pattern, unit, len))
			return true;
	}
	return false;
}

static bool holds(const struct rule *rule, enum rule_key key, const struct rule_subject *subject)
{
	switch (key) {
	case RULE_KEY_PROGRAM:
		return program_matches(rule->program, subject->program);
	case RULE_KEY_USER:
		return rule->uid == subject->uid;
	case RULE_KEY_UNIT:
		return unit_matches(rule->unit, subject->unit);
	case RULE_KEY_DIRECTION:
		return rule->is_out == subject->is_out;
	case RULE_KEY_PORT:
		return rule->port_lo <= subject->port && subject->port <= rule->port_hi;
	case RULE_KEY_TO:
		return address_in(&subject->to, &rule->to, rule->prefix);
	case RULE_KEY_ACTION:
		break;
	}
	return true;
}

uint32_t rule_differs(const struct rule *rule, const struct rule_subject *subject)
{
	for (uint32_t key = RULE_KEY_PROGRAM; key < RULE_KEY_ACTION; key <<= 1) {
		if ((rule->has & key) && !holds(rule, (enum rule_key)key, subject))
			return key;
	}
	return 0;
}

const struct rule *rules_find(const struct rule_list *list, const struct rule_subject *subject)
{
	for (uint32_t i = 0; i < list->n; i++) {
		if (rule_differs(&list->rules[i], subject) == 0)
			return &list->rules[i];
	}
	return NULL;
}

unsigned int rule_number(const struct rule_list *list, const struct rule *rule)
{
	return (unsigned int)(rule - list->rules) + 1;
}
