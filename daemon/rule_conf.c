/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "peer_conf.h"
#include "rule_conf.h"

#define KEYS "program, user, unit, direction, port, to, action"

__attribute__((format(printf, 2, 3))) static int wrong(struct section_error *error,
						       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return SECTION_BAD;
}

/* A whole decimal number of @text up to @max. */
static bool number_of(const char *text, size_t len, unsigned long max, unsigned long *ret_value)
{
	unsigned long value = 0;

	if (len == 0 || len > 10)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned long)(text[i] - '0');
	}
	*ret_value = value;
	return value <= max;
}

/* Patterns are of names and full paths. */
static bool pattern_ok(const char *text)
{
	if (!*text || strlen(text) >= RULE_PATTERN_BYTES)
		return false;
	for (const char *at = text; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return false;
	}
	return !strchr(text, '/') || text[0] == '/' || text[0] == '*';
}

static int set_program(struct rule *rule, const char *text, struct section_error *error)
{
	if (!pattern_ok(text))
		return wrong(error,
			     "program of a rule must be a name, such as \"redis-server\", or a "
			     "full path, of at most %u characters; with * and ? as in file names",
			     RULE_PATTERN_BYTES - 1);
	strcpy(rule->program, text);
	return 0;
}

static int set_unit(struct rule *rule, const char *text, struct section_error *error)
{
	if (!pattern_ok(text))
		return wrong(error,
			     "unit of a rule must be the name of a unit, such as \"redis.service\","
			     " or the path of a control group that begins with /, of at most %u "
			     "characters; with * and ? as in file names",
			     RULE_PATTERN_BYTES - 1);
	strcpy(rule->unit, text);
	return 0;
}

static int set_user(struct rule *rule, const char *text, struct section_error *error)
{
	const struct passwd *user;
	unsigned long uid;

	if (!*text || strlen(text) >= RULE_USER_BYTES)
		return wrong(error, "user of a rule must be the name of a user in quotes, or a "
				    "number from 0 to 4294967294");
	if (text[0] >= '0' && text[0] <= '9') {
		if (!number_of(text, strlen(text), UINT32_MAX - 1, &uid))
			return wrong(error,
				     "user of a rule is %s, but a number must be from 0 to "
				     "4294967294",
				     text);
	} else {
		user = getpwnam(text);
		if (!user)
			return wrong(error,
				     "there is no user %s on this host: create it first, or write "
				     "its number",
				     text);
		uid = user->pw_uid;
	}
	rule->uid = (uint32_t)uid;
	strcpy(rule->user, text);
	return 0;
}

static int set_port(struct rule *rule, const char *text, struct section_error *error)
{
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);
	unsigned long lo, hi;

	if (!number_of(text, len, UINT16_MAX, &lo) || lo == 0)
		goto bad;
	hi = lo;
	if (dash && (!number_of(dash + 1, strlen(dash + 1), UINT16_MAX, &hi) || hi == 0))
		goto bad;
	if (hi < lo)
		return wrong(error,
			     "port of a rule is %s, but the first must not be above the last: "
			     "\"%lu-%lu\"",
			     text, hi, lo);
	rule->port_lo = (uint16_t)lo;
	rule->port_hi = (uint16_t)hi;
	return 0;

bad:
	return wrong(error,
		     "port of a rule must be a number from 1 to 65535, or a range in quotes, "
		     "such as \"8000-8999\"");
}

/* Zero what lies behind the first @bits bits of @address. */
static void cut_off(struct peer_address *address, unsigned int bits)
{
	for (unsigned int i = 0; i < sizeof(address->addr); i++) {
		if (i * 8 >= bits)
			address->addr[i] = 0;
		else if (bits - i * 8 < 8)
			address->addr[i] &= (uint8_t)(0xff00u >> (bits - i * 8));
	}
}

static int set_to(struct rule *rule, const char *text, struct section_error *error)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char address[PEER_ADDRESS_TEXT];
	unsigned long bits, most;
	struct peer_address to, network;

	if (len >= sizeof(address))
		goto bad;
	memcpy(address, text, len);
	address[len] = '\0';
	if (!peer_address_parse(address, &to))
		goto bad;
	most = to.family == 4 ? 32 : 128;
	bits = most;
	if (slash && !number_of(slash + 1, strlen(slash + 1), most, &bits))
		return wrong(error,
			     "to of a rule is %s, but behind the / must be a number from 0 to "
			     "%lu",
			     text, most);
	network = to;
	cut_off(&network, (unsigned int)bits);
	if (!peer_address_same(&network, &to))
		return wrong(error,
			     "to of a rule is %s, which is an address in a network, not the "
			     "network: that is \"%s/%lu\"",
			     text, peer_address_text(&network, address), bits);
	rule->to = to;
	rule->prefix = (uint8_t)bits;
	return 0;

bad:
	return wrong(error, "to of a rule must be an IP address or network in quotes, such as "
			    "\"10.0.0.2\", \"10.0.0.0/8\" or \"fd00::/8\"");
}

static int set_direction(struct rule *rule, const char *text, struct section_error *error)
{
	if (strcmp(text, "any") == 0) {
		rule->has &= ~(uint32_t)RULE_KEY_DIRECTION;
		return 0;
	}
	rule->is_out = strcmp(text, "out") == 0;
	if (!rule->is_out && strcmp(text, "in") != 0)
		return wrong(error, "direction of a rule must be \"in\" (the program accepted the "
				    "connection), \"out\" (it made it) or \"any\"");
	return 0;
}

static int set_action(struct rule *rule, const char *text, struct section_error *error)
{
	rule->action = strcmp(text, "tcp") == 0 ? RULE_TCP : RULE_ACCELERATE;
	if (rule->action == RULE_ACCELERATE && strcmp(text, "accelerate") != 0)
		return wrong(error, "action of a rule must be \"accelerate\" or \"tcp\"");
	return 0;
}

static const struct {
	const char *name;
	enum rule_key key;
	bool takes_number;
	int (*set)(struct rule *rule, const char *text, struct section_error *error);
} keys[] = {
	{"program", RULE_KEY_PROGRAM, false, set_program},
	{"user", RULE_KEY_USER, true, set_user},
	{"unit", RULE_KEY_UNIT, false, set_unit},
	{"direction", RULE_KEY_DIRECTION, false, set_direction},
	{"port", RULE_KEY_PORT, true, set_port},
	{"to", RULE_KEY_TO, false, set_to},
	{"action", RULE_KEY_ACTION, false, set_action},
};

const char *rule_key_name(enum rule_key key)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].key == key)
			return keys[i].name;
	}
	return "?";
}

static int find_key(const char *name, struct section_error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name) == 0)
			return (int)i;
	}
	wrong(error, "unknown key %.60s of a rule; there are " KEYS, name);
	return -1;
}

int rule_conf_set(struct rule *rule, const char *name, const char *text,
		  struct section_error *ret_error)
{
	int i = find_key(name, ret_error);

	if (i < 0)
		return SECTION_BAD;
	rule->has |= keys[i].key;
	return keys[i].set(rule, text, ret_error);
}

static int read_key(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct rule_list *list = ctx;
	const char *name = config_setting_name(setting);
	const char *text = config_setting_get_string(setting);
	int type = config_setting_type(setting), i;
	char number[24];

	error->line = (int)config_setting_source_line(setting);
	i = find_key(name, error);
	if (i < 0)
		return SECTION_BAD;
	if (keys[i].takes_number && (type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64)) {
		snprintf(number, sizeof(number), "%lld",
			 type == CONFIG_TYPE_INT ? config_setting_get_int(setting)
						 : config_setting_get_int64(setting));
		text = number;
	}
	/* No text at all is as wrong as an empty one, and what would be right is the same. */
	return rule_conf_set(&list->rules[list->n], name, text ? text : "", error);
}

static int check_entry(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct rule_list *list = ctx;
	struct rule *rule = &list->rules[list->n];

	if (!(rule->has & RULE_KEY_ACTION))
		return section_complain(error, setting,
					"a rule must have an action: \"accelerate\" or \"tcp\"");
	if (list->n && list->rules[list->n - 1].has == RULE_KEY_ACTION)
		return section_complain(
			error, setting,
			"this rule is never looked at: the one before it, without any "
			"condition, decides about everything, and must be the last");
	rule->line = (int)config_setting_source_line(setting);
	list->n++;
	return 0;
}

int rule_conf_read(const config_setting_t *setting, struct rule_list *ret_list,
		   struct section_error *ret_error)
{
	static const struct section_reader section = {
		.name = "rules",
		.sample = "{ program = \"redis-server\"; action = \"tcp\"; }",
		.max = RULES_MAX,
		.key = read_key,
		.entry = check_entry,
	};
	static struct rule_list list; /* large */
	int rc;

	memset(&list, 0, sizeof(list));
	rc = section_read(&section, setting, &list, ret_error);
	if (rc == 0)
		*ret_list = list;
	return rc;
}

const char *rule_value_text(const struct rule *rule, enum rule_key key, char text[RULE_VALUE_BYTES])
{
	char address[PEER_ADDRESS_TEXT];

	switch (key) {
	case RULE_KEY_PROGRAM:
		return strcpy(text, rule->program);
	case RULE_KEY_USER:
		return strcpy(text, rule->user);
	case RULE_KEY_UNIT:
		return strcpy(text, rule->unit);
	case RULE_KEY_DIRECTION:
		return strcpy(text, rule->is_out ? "out" : "in");
	case RULE_KEY_PORT:
		snprintf(text, RULE_VALUE_BYTES, rule->port_lo == rule->port_hi ? "%u" : "%u-%u",
			 (unsigned int)rule->port_lo, (unsigned int)rule->port_hi);
		return text;
	case RULE_KEY_TO:
		snprintf(text, RULE_VALUE_BYTES,
			 rule->prefix == (rule->to.family == 4 ? 32 : 128) ? "%s" : "%s/%u",
			 peer_address_text(&rule->to, address), (unsigned int)rule->prefix);
		return text;
	case RULE_KEY_ACTION:
		return strcpy(text, rule->action == RULE_TCP ? "tcp" : "accelerate");
	}
	return strcpy(text, "");
}

const char *rule_text(const struct rule *rule, char text[RULE_TEXT_BYTES])
{
	char value[RULE_VALUE_BYTES];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys) && used < RULE_TEXT_BYTES; i++) {
		if (rule->has & keys[i].key)
			used += (size_t)snprintf(text + used, RULE_TEXT_BYTES - used,
						 "%s%s = \"%s\";", used ? " " : "{ ", keys[i].name,
						 rule_value_text(rule, keys[i].key, value));
	}
	if (used < RULE_TEXT_BYTES)
		snprintf(text + used, RULE_TEXT_BYTES - used, " }");
	return text;
}

void rule_conf_print_sample(FILE *out)
{
	fputs("\n# Which connections are accelerated and which stay on TCP. The first rule whose "
	      "every\n"
	      "# condition holds decides, for each end of a connection by itself; TCP for one end "
	      "is "
	      "TCP for\n"
	      "# both. Without a rule that matches, an end is accelerated. shunt explain says "
	      "which "
	      "one decides.\n"
	      "#   program = \"redis-*\";         what the process runs: its name, or its full "
	      "path; "
	      "* and ? as\n"
	      "#                                in file names\n"
	      "#   user = \"redis\";              whom it runs as; or the number\n"
	      "#   unit = \"redis*.service\";     its systemd unit, or a slice around that; or, "
	      "from "
	      "the first /\n"
	      "#                                on, the path of its control group\n"
	      "#   direction = \"in\";            it accepted the connection (\"out\": it made it; "
	      "\"any\")\n"
	      "#   port = 6379;                 the server's; or a range, \"8000-8999\"\n"
	      "#   to = \"10.0.0.0/8\";           the other end's address, or network\n"
	      "#   action = \"tcp\";              or \"accelerate\"; every rule has one\n"
	      "#rules = ( );\n",
	      out);
}
