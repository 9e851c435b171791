/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config_key.h"
#include "config_text.h"

/* The sections: about RDMA devices, other hosts, and who is accelerated. */
#define DEVICES "devices"
#define PEERS "peers"
#define RULES "rules"

__attribute__((format(printf, 4, 5))) static int
complain(struct conf_error *error, const char *file, int line, const char *format, ...)
{
	size_t used;
	va_list args;

	if (line > 0)
		snprintf(error->text, sizeof(error->text), "%s:%d: ", file, line);
	else
		snprintf(error->text, sizeof(error->text), "%s: ", file);
	used = strlen(error->text);
	va_start(args, format);
	vsnprintf(error->text + used, sizeof(error->text) - used, format, args);
	va_end(args);
	return CONF_BAD;
}

/* Edits that turn @a into @b, or a large number for long names. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[64], len_b = strlen(b);

	if (len_b >= 63 || strlen(a) >= 63)
		return 64;
	for (size_t j = 0; j <= len_b; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= len_b; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[len_b];
}

static const char *nearest_key(const char *name)
{
	size_t best = strlen(name) / 2 + 1;
	static const char *const sections[] = {DEVICES, PEERS, RULES};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (edit_distance(name, sections[i]) < best) {
			best = edit_distance(name, sections[i]);
			found = sections[i];
		}
	}
	for (size_t i = 0; conf_key_at(i); i++) {
		size_t distance = edit_distance(name, conf_key_at(i)->name);

		if (distance < best) {
			best = distance;
			found = conf_key_at(i)->name;
		}
	}
	return found;
}

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; conf_key_at(i); i++) {
		if (strcmp(conf_key_at(i)->name, name) == 0)
			return conf_key_at(i);
	}
	return NULL;
}

static void words_join(const struct key *key, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; key->words[i]; i++) {
		size_t used = strlen(text);

		snprintf(text + used, size - used, "%s\"%s\"", i ? ", " : "", key->words[i]);
	}
}

static int read_word(const struct key *key, const config_setting_t *setting, const char *file,
		     struct conf *config, struct conf_error *error)
{
	const char *word = config_setting_get_string(setting);
	int line = (int)config_setting_source_line(setting);
	char list[128];

	for (size_t i = 0; word && key->words[i]; i++) {
		if (strcmp(word, key->words[i]) == 0) {
			*conf_key_value(config, key) = i;
			return 0;
		}
	}
	words_join(key, list, sizeof(list));
	if (!word)
		return complain(error, file, line, "%s must be one of the words %s, in quotes",
				key->name, list);
	return complain(error, file, line, "%s is \"%.40s\", but must be one of %s", key->name,
			word, list);
}

static int read_number(const struct key *key, const config_setting_t *setting, const char *file,
		       struct conf *config, struct conf_error *error)
{
	int type = config_setting_type(setting);
	int line = (int)config_setting_source_line(setting);
	long long value;

	if (type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64)
		return complain(error, file, line,
				"%s must be a whole number of %s from %llu to %llu", key->name,
				key->unit, (unsigned long long)key->lo,
				(unsigned long long)key->hi);
	value = type == CONFIG_TYPE_INT ? config_setting_get_int(setting)
					: config_setting_get_int64(setting);
	if (value < 0 || (uint64_t)value < key->lo || (uint64_t)value > key->hi)
		return complain(error, file, line, "%s is %lld, but must be from %llu to %llu %s",
				key->name, value, (unsigned long long)key->lo,
				(unsigned long long)key->hi, key->unit);
	if (key->kind == KEY_POWER && (value & (value - 1)) != 0)
		return complain(error, file, line, "%s is %lld, but must be a power of two",
				key->name, value);
	*conf_key_value(config, key) = (uint64_t)value;
	return 0;
}

static int read_text(const struct key *key, const config_setting_t *setting, const char *file,
		     struct conf *config, struct conf_error *error)
{
	const char *text = config_setting_get_string(setting);
	int line = (int)config_setting_source_line(setting);
	uint8_t address[sizeof(struct in6_addr)];

	if (key->kind == KEY_ADDRESS &&
	    (!text || (*text && inet_pton(AF_INET, text, address) != 1 &&
		       inet_pton(AF_INET6, text, address) != 1)))
		return complain(error, file, line,
				"%s must be an IP address in quotes, such as \"10.0.0.1\"",
				key->name);
	if (!peer_conf_path_ok(text))
		return complain(error, file, line,
				"%s must be a file in quotes: its full path, of at most %u bytes, "
				"or the name of a credential",
				key->name, CONF_PATH_BYTES - 1);
	strncpy((char *)config + key->offset, text, CONF_PATH_BYTES);
	return 0;
}

/* Verdict of read_section(). */
#define SECTION_NONE 2

/* A section by its name. SECTION_NONE: it is no such name. */
static int read_section(const config_setting_t *setting, struct conf *config,
			struct section_error *error)
{
	const char *name = config_setting_name(setting);

	if (strcmp(name, DEVICES) == 0)
		return device_conf_read(setting, &config->devices, error);
	if (strcmp(name, PEERS) == 0)
		return peer_conf_read(setting, &config->peers, error);
	if (strcmp(name, RULES) == 0)
		return rule_conf_read(setting, &config->rules, error);
	return SECTION_NONE;
}

static int read_setting(const config_setting_t *setting, const char *file, struct conf *config,
			struct conf_error *error)
{
	const char *name = config_setting_name(setting);
	const struct key *key = key_find(name);
	struct section_error wrong = {0, ""};
	const char *hint;
	int rc;

	rc = read_section(setting, config, &wrong);
	if (rc == SECTION_BAD)
		return complain(error, file, wrong.line, "%s", wrong.text);
	if (rc != SECTION_NONE)
		return rc;
	if (!key) {
		hint = nearest_key(name);
		return complain(error, file, (int)config_setting_source_line(setting),
				"unknown key %.60s%s%s%s", name, hint ? "; did you mean " : "",
				hint ? hint : "; shuntd --print-config lists the keys",
				hint ? "?" : "");
	}
	if (key->kind == KEY_WORD)
		return read_word(key, setting, file, config, error);
	if (conf_key_is_text(key))
		return read_text(key, setting, file, config, error);
	return read_number(key, setting, file, config, error);
}

/* Where one of two keys is set, the first if both are; 0: neither. @file: changed to an included
 * file that does it. */
static int line_of_either(const config_t *file_config, const char *first, const char *second,
			  const char **file)
{
	const config_setting_t *setting = config_lookup(file_config, first);

	if (!setting)
		setting = config_lookup(file_config, second);
	if (!setting)
		return 0;
	if (config_setting_source_file(setting))
		*file = config_setting_source_file(setting);
	return (int)config_setting_source_line(setting);
}

/* What single keys can't say: how they must fit each other. */
static int check_whole(const config_t *file_config, const char *file, const struct conf *config,
		       struct conf_error *error)
{
	const struct {
		const char *hi_name, *lo_name;
		uint64_t hi, lo;
	} pairs[] = {
#define PAIR(hi, lo) {#hi, #lo, config->hi, config->lo}
		PAIR(pool_max, pool_min),
		PAIR(backoff_max_ms, backoff_min_ms),
		PAIR(peer_retry_max_ms, peer_retry_min_ms),
		PAIR(peer_dead_ms, peer_ping_ms),
#undef PAIR
	};

	int line;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (pairs[i].hi >= pairs[i].lo)
			continue;
		line = line_of_either(file_config, pairs[i].hi_name, pairs[i].lo_name, &file);
		return complain(error, file, line, "%s (%llu) must not be below %s (%llu)",
				pairs[i].hi_name, (unsigned long long)pairs[i].hi, pairs[i].lo_name,
				(unsigned long long)pairs[i].lo);
	}
	if (!config->peer_ca[0] != !config->peer_cert[0] ||
	    !config->peer_ca[0] != !config->peer_cert_key[0]) {
		line = line_of_either(file_config, "peer_ca", "peer_cert", &file);
		if (line == 0)
			line = line_of_either(file_config, "peer_cert_key", "peer_ca", &file);
		return complain(
			error, file, line,
			"peer_ca, peer_cert and peer_cert_key go together: set all three or "
			"none");
	}
	if (config->peer_ca[0] && config->peer_key[0]) {
		line = line_of_either(file_config, "peer_key", "peer_ca", &file);
		return complain(error, file, line,
				"peer_key and peer_ca exclude each other: set one of them");
	}
	return 0;
}

static int read_all(const config_t *file_config, const char *path, struct conf *config,
		    struct conf_error *error)
{
	const config_setting_t *root = config_root_setting(file_config);
	struct conf result = *config;
	int rc;

	for (unsigned int i = 0; i < (unsigned int)config_setting_length(root); i++) {
		const config_setting_t *setting = config_setting_get_elem(root, i);
		const char *file = config_setting_source_file(setting);

		rc = read_setting(setting, file ? file : path, &result, error);
		if (rc)
			return rc;
	}
	rc = check_whole(file_config, path, &result, error);
	if (!rc)
		*config = result;
	return rc;
}

/* What libconfig can not read, with the line of @text where that is. */
static int complain_of_syntax(const config_t *file_config, const char *path, const char *text,
			      struct conf_error *error)
{
	const char *what = config_error_text(file_config), *file = config_error_file(file_config);
	int line = config_error_line(file_config), lines = 1;

	if (strncmp(what, "duplicate", 9) == 0)
		return complain(error, file ? file : path, line,
				"the key before the = is set already; keep one of the two");
	if (strncmp(what, "mismatched", 10) == 0)
		return complain(error, file ? file : path, line,
				"what is between [ and ] must be all of one kind, as [ 1, 2 ] or "
				"[ \"a\", \"b\" ]");
	if (strncmp(what, "memory", 6) == 0)
		return complain(error, file ? file : path, line,
				"( [ { are nested too deep; no setting needs more than four");
	if (strncmp(what, "syntax", 6) != 0 || file)
		return complain(error, file ? file : path, line,
				"%s; a line looks like: spin_us = 50;", what);
	/* At the end of the file: what is missing is missing behind the last thing there is. */
	for (const char *at = text, *next; at; at = next, lines++) {
		next = strchr(at, '\n');
		next = next ? next + 1 : NULL;
		if (lines == line && at[strspn(at, " \t\r\n")] != '\0')
			return complain(error, path, line,
					"syntax error in, or before, \"%.*s\"; a line looks like: "
					"spin_us = 50;",
					(int)(strcspn(at, "\n") > 60 ? 60 : strcspn(at, "\n")), at);
	}
	for (lines = 1; text[strspn(text, " \t\r\n")] != '\0'; text++)
		lines += *text == '\n';
	return complain(error, path, lines,
			"syntax error: the file ends here, within a setting; a line looks like: "
			"spin_us = 50;");
}

int conf_load(struct conf *config, const char *path, struct conf_error *ret_error)
{
	struct conf_text_error wrong;
	AUTO_FREE char *text = NULL;
	config_t file_config;
	int rc = conf_text_read(path, &text, &wrong);

	if (rc) {
		complain(ret_error, wrong.file, wrong.line, "%s", wrong.text);
		return rc;
	}
	config_init(&file_config);
	if (config_read_string(&file_config, text))
		rc = read_all(&file_config, path, config, ret_error);
	else
		rc = complain_of_syntax(&file_config, path, text, ret_error);
	config_destroy(&file_config);
	return rc;
}
