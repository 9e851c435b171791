/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <string.h>

#include "base/util.h"
#include "peer_conf.h"

#define KEYS "address, rdma_address, port, key, name"

bool peer_address_parse(const char *text, struct peer_address *ret_address)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct peer_address address = {.family = 4};

	if (inet_pton(AF_INET, text, address.addr) == 1) {
		*ret_address = address;
		return true;
	}
	address.family = 6;
	if (inet_pton(AF_INET6, text, address.addr) != 1)
		return false;
	if (memcmp(address.addr, mapped, sizeof(mapped)) == 0) {
		memcpy(address.addr, address.addr + 12, 4);
		memset(address.addr + 4, 0, 12);
		address.family = 4;
	}
	*ret_address = address;
	return true;
}

const char *peer_address_text(const struct peer_address *address, char text[PEER_ADDRESS_TEXT])
{
	if (address->family == 0 || !inet_ntop(address->family == 4 ? AF_INET : AF_INET6,
					       address->addr, text, PEER_ADDRESS_TEXT))
		strcpy(text, "none");
	return text;
}

bool peer_address_same(const struct peer_address *a, const struct peer_address *b)
{
	return a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

bool peer_conf_path_ok(const char *path)
{
	if (!path || strlen(path) >= PEER_CONF_PATH_BYTES)
		return false;
	return path[0] == '\0' || path[0] == '/' || (!strchr(path, '/') && path[0] != '.');
}

/* No wildcard and nothing that many hosts share. */
static bool names_a_host(const struct peer_address *address)
{
	static const uint8_t zero[16];

	if (memcmp(address->addr, zero, sizeof(zero)) == 0)
		return false;
	return address->family == 4 ? address->addr[0] < 224 : address->addr[0] != 0xff;
}

/* Where a list of addresses goes. */
struct address_list {
	struct peer_address *to;
	uint32_t n;
};

static int add_address(const config_setting_t *setting, const char *name, const char *text,
		       struct address_list *list, struct section_error *error)
{
	if (list->n == PEER_RULE_ADDRESSES_MAX)
		return section_complain(error, setting, "%s of a peer lists more than %u addresses",
					name, PEER_RULE_ADDRESSES_MAX);
	if (!text || !peer_address_parse(text, &list->to[list->n]) ||
	    !names_a_host(&list->to[list->n]))
		return section_complain(error, setting,
					"%s of a peer must be an IP address in quotes, such as "
					"\"10.0.0.2\", or a list of them",
					name);
	list->n++;
	return 0;
}

static int read_addresses(const config_setting_t *setting, const char *name,
			  struct address_list *list, struct section_error *error)
{
	int type = config_setting_type(setting), rc;

	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
		return add_address(setting, name, config_setting_get_string(setting), list, error);
	for (int i = 0; i < config_setting_length(setting); i++) {
		rc = add_address(setting, name, config_setting_get_string_elem(setting, i), list,
				 error);
		if (rc)
			return rc;
	}
	/* An empty list names nobody. */
	return list->n ? 0 : add_address(setting, name, NULL, list, error);
}

static int read_address(const config_setting_t *setting, struct peer_rule *rule,
			struct section_error *error)
{
	struct address_list list = {rule->addresses, 0};
	int rc = read_addresses(setting, "address", &list, error);

	rule->n_addresses = list.n;
	return rc;
}

static int read_rdma_address(const config_setting_t *setting, struct peer_rule *rule,
			     struct section_error *error)
{
	struct address_list list = {rule->rdma, 0};
	int rc = read_addresses(setting, "rdma_address", &list, error);

	rule->n_rdma = list.n;
	return rc;
}

static int read_port(const config_setting_t *setting, struct peer_rule *rule,
		     struct section_error *error)
{
	int port = config_setting_get_int(setting);

	if (config_setting_type(setting) != CONFIG_TYPE_INT || port < 1 || port > UINT16_MAX)
		return section_complain(error, setting,
					"port of a peer must be a whole number from 1 to 65535");
	rule->port = (uint16_t)port;
	return 0;
}

static int read_key_file(const config_setting_t *setting, struct peer_rule *rule,
			 struct section_error *error)
{
	const char *text = config_setting_get_string(setting);

	if (!peer_conf_path_ok(text) || !*text)
		return section_complain(
			error, setting,
			"key of a peer must be a file in quotes: its full path, of at most "
			"%u bytes, or the name of a credential",
			PEER_CONF_PATH_BYTES - 1);
	strcpy(rule->key, text);
	return 0;
}

static int read_name(const config_setting_t *setting, struct peer_rule *rule,
		     struct section_error *error)
{
	const char *text = config_setting_get_string(setting);
	bool good = text && *text && strlen(text) < PEER_CONF_NAME_BYTES;

	for (const char *at = text; good && *at; at++)
		good = *at >= ' ' && *at <= '~';
	if (!good)
		return section_complain(
			error, setting,
			"name of a peer must be a text in quotes of at most %u plain "
			"characters",
			PEER_CONF_NAME_BYTES - 1);
	strcpy(rule->name, text);
	return 0;
}

static const struct {
	const char *name;
	int (*read)(const config_setting_t *setting, struct peer_rule *rule,
		    struct section_error *error);
} keys[] = {
	{"address", read_address}, {"rdma_address", read_rdma_address},
	{"port", read_port},	   {"key", read_key_file},
	{"name", read_name},
};

static int read_entry_key(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct peer_conf *conf = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, config_setting_name(setting)) == 0)
			return keys[i].read(setting, &conf->rules[conf->n], error);
	}
	return section_complain(error, setting, "unknown key %.60s of a peer; there are " KEYS,
				config_setting_name(setting));
}

static int check_entry(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct peer_conf *conf = ctx;
	const struct peer_rule *rule = &conf->rules[conf->n];
	char text[PEER_ADDRESS_TEXT];

	if (rule->n_addresses == 0)
		return section_complain(error, setting, "an entry of peers must have an address");
	for (uint32_t i = 0; i < rule->n_addresses; i++) {
		if (peer_conf_find(conf, &rule->addresses[i]))
			return section_complain(error, setting, "%s is in two entries of peers",
						peer_address_text(&rule->addresses[i], text));
	}
	conf->n++;
	return 0;
}

int peer_conf_read(const config_setting_t *setting, struct peer_conf *ret_conf,
		   struct section_error *ret_error)
{
	static const struct section_reader section = {
		.name = "peers",
		.sample = "{ address = \"10.0.0.2\"; }",
		.max = PEER_RULES_MAX,
		.key = read_entry_key,
		.entry = check_entry,
	};
	static struct peer_conf conf; /* large */
	int rc;

	memset(&conf, 0, sizeof(conf));
	rc = section_read(&section, setting, &conf, ret_error);
	if (rc == 0)
		*ret_conf = conf;
	return rc;
}

const struct peer_rule *peer_conf_find(const struct peer_conf *conf,
				       const struct peer_address *address)
{
	for (uint32_t i = 0; i < conf->n; i++) {
		for (uint32_t j = 0; j < conf->rules[i].n_addresses; j++) {
			if (peer_address_same(&conf->rules[i].addresses[j], address))
				return &conf->rules[i];
		}
	}
	return NULL;
}

void peer_conf_print_sample(FILE *out)
{
	fputs("\n# The daemons of other hosts. With a key, those that have it need no entry; "
	      "without one,\n"
	      "# nobody else is talked to, and who they are is taken on trust of the network. An "
	      "entry is one\n"
	      "# daemon:\n"
	      "#   address = \"10.0.0.2\";        where it is; or a list, [ \"10.0.0.2\", "
	      "\"10.1.0.2\" ]: it may\n"
	      "#                                speak for connections of all of them\n"
	      "#   rdma_address = \"10.7.0.2\";   where its RDMA devices are, if it can't tell "
	      "itself; or a list\n"
	      "#   port = 7609;                 if not peer_port\n"
	      "#   key = \"/etc/shunt/b.key\";    a key of its own, in place of peer_key\n"
	      "#   name = \"rack 2, left\";       for people\n"
	      "#peers = ( );\n",
	      out);
}
