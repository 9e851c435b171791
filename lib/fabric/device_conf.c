/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdarg.h>
#include <string.h>

#include "base/util.h"
#include "fabric/device_conf.h"

#define KEYS "vendor_id, part_id, driver, name, inline_cap, inline_hints, inline, use"
#define MATCHES (DEVICE_KEY_VENDOR | DEVICE_KEY_PART | DEVICE_KEY_DRIVER | DEVICE_KEY_NAME)

/* Identifiers are 24 bits (an OUI) and 32 bits. */
#define VENDOR_MAX 0xffffff
#define PART_MAX UINT32_MAX

static const struct {
	struct device_rule rule;
	const char *source;
} presets[] = {
	{{.has = DEVICE_KEY_VENDOR | DEVICE_KEY_CAP, .vendor_id = 0x02c9, .inline_cap = 236},
	 "NVIDIA, formerly Mellanox: a single request of up to 256 bytes is pushed to the adapter\n"
	 "with the doorbell (BlueFlame): 20 of control and length, 236 of data. A larger one "
	 "works,\n"
	 "but the adapter fetches it from memory, which inline is to save."},
	{{.has = DEVICE_KEY_VENDOR | DEVICE_KEY_HINTS,
	  .vendor_id = 0x8086,
	  .n_hints = 3,
	  .hints = {216, 101, 48}},
	 "Intel: what irdma grants on its third generation, on E810 and on X722 (rdma-core,\n"
	 "providers/irdma)."},
	{{.has = DEVICE_KEY_VENDOR | DEVICE_KEY_HINTS,
	  .vendor_id = 0x1ded,
	  .n_hints = 1,
	  .hints = {96}},
	 "Alibaba: ERDMA_MAX_INLINE of erdma (rdma-core, providers/erdma)."},
};

_Static_assert(ARRAY_SIZE(presets) <= DEVICE_RULES_MAX, "the presets fit");

void device_conf_init(struct device_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++)
		conf->rules[conf->n++] = presets[i].rule;
}

/* Where an error is told, and about what. */
struct reading {
	struct section_error *error;
	struct device_rule *rule;
};

static int read_number(const config_setting_t *setting, const char *name, int64_t lo, int64_t hi,
		       struct section_error *error)
{
	int type = config_setting_type(setting);
	int64_t value;

	if (type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64)
		return section_complain(error, setting,
					"%s of a device must be a whole number from %lld to %lld",
					name, (long long)lo, (long long)hi);
	value = type == CONFIG_TYPE_INT ? config_setting_get_int(setting)
					: config_setting_get_int64(setting);
	if (value < lo || value > hi)
		return section_complain(error, setting,
					"%s of a device is %lld, but must be from %lld to %lld",
					name, (long long)value, (long long)lo, (long long)hi);
	return 0;
}

/* A checked number. */
static uint32_t number_of(const config_setting_t *setting)
{
	return config_setting_type(setting) == CONFIG_TYPE_INT
		       ? (uint32_t)config_setting_get_int(setting)
		       : (uint32_t)config_setting_get_int64(setting);
}

static int read_pattern(const config_setting_t *setting, const char *name,
			char to[DEVICE_PATTERN_BYTES], struct section_error *error)
{
	const char *text = config_setting_get_string(setting);

	if (!text || !*text || strlen(text) >= DEVICE_PATTERN_BYTES)
		return section_complain(
			error, setting,
			"%s of a device must be a pattern in quotes, such as \"mlx5_*\", of "
			"at most %u characters",
			name, DEVICE_PATTERN_BYTES - 1);
	strcpy(to, text);
	return 0;
}

static int read_hints(const config_setting_t *setting, struct reading *reading)
{
	int length = config_setting_length(setting);
	int rc;

	if ((config_setting_type(setting) != CONFIG_TYPE_ARRAY &&
	     config_setting_type(setting) != CONFIG_TYPE_LIST) ||
	    length < 1 || (unsigned int)length > INLINE_HINTS_MAX)
		return section_complain(
			reading->error, setting,
			"inline_hints of a device must be a list of 1 to %u sizes, such as "
			"[ 216, 101, 48 ]",
			INLINE_HINTS_MAX);
	for (int i = 0; i < length; i++) {
		const config_setting_t *hint = config_setting_get_elem(setting, (unsigned int)i);

		rc = read_number(hint, "a hint", 1, INLINE_BYTES_MAX, reading->error);
		if (rc) {
			/* Elements have no line of their own in some versions. */
			reading->error->line = (int)config_setting_source_line(setting);
			return rc;
		}
		reading->rule->hints[i] = number_of(hint);
	}
	reading->rule->n_hints = (uint32_t)length;
	return 0;
}

/* @yes and @no are words; true and false do as well. */
static int read_switch(const config_setting_t *setting, const char *const words[2], bool *ret_on,
		       struct section_error *error)
{
	const char *word = config_setting_get_string(setting);

	if (config_setting_type(setting) == CONFIG_TYPE_BOOL) {
		*ret_on = config_setting_get_bool(setting);
		return 0;
	}
	if (word && (strcmp(word, words[0]) == 0 || strcmp(word, words[1]) == 0)) {
		*ret_on = strcmp(word, words[1]) == 0;
		return 0;
	}
	return section_complain(error, setting,
				"%s of a device must be \"%s\" or \"%s\", in quotes",
				config_setting_name(setting), words[1], words[0]);
}

static int read_vendor(const config_setting_t *setting, struct reading *reading)
{
	int rc = read_number(setting, "vendor_id", 0, VENDOR_MAX, reading->error);

	reading->rule->vendor_id = rc ? 0 : number_of(setting);
	return rc;
}

static int read_part(const config_setting_t *setting, struct reading *reading)
{
	int rc = read_number(setting, "part_id", 0, PART_MAX, reading->error);

	reading->rule->part_id = rc ? 0 : number_of(setting);
	return rc;
}

static int read_driver(const config_setting_t *setting, struct reading *reading)
{
	return read_pattern(setting, "driver", reading->rule->driver, reading->error);
}

static int read_name(const config_setting_t *setting, struct reading *reading)
{
	return read_pattern(setting, "name", reading->rule->name, reading->error);
}

static int read_cap(const config_setting_t *setting, struct reading *reading)
{
	int rc = read_number(setting, "inline_cap", 0, INLINE_BYTES_MAX, reading->error);

	reading->rule->inline_cap = rc ? 0 : number_of(setting);
	return rc;
}

static int read_inline(const config_setting_t *setting, struct reading *reading)
{
	static const char *const words[] = {"off", "on"};

	return read_switch(setting, words, &reading->rule->inline_on, reading->error);
}

static int read_use(const config_setting_t *setting, struct reading *reading)
{
	static const char *const words[] = {"no", "yes"};

	return read_switch(setting, words, &reading->rule->use, reading->error);
}

static const struct {
	const char *name;
	enum device_key key;
	int (*read)(const config_setting_t *setting, struct reading *reading);
} keys[] = {
	{"vendor_id", DEVICE_KEY_VENDOR, read_vendor},
	{"part_id", DEVICE_KEY_PART, read_part},
	{"driver", DEVICE_KEY_DRIVER, read_driver},
	{"name", DEVICE_KEY_NAME, read_name},
	{"inline_cap", DEVICE_KEY_CAP, read_cap},
	{"inline_hints", DEVICE_KEY_HINTS, read_hints},
	{"inline", DEVICE_KEY_INLINE, read_inline},
	{"use", DEVICE_KEY_USE, read_use},
};

static int read_key(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct device_conf *conf = ctx;
	struct reading reading = {error, &conf->rules[conf->n]};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, config_setting_name(setting)) == 0) {
			reading.rule->has |= keys[i].key;
			return keys[i].read(setting, &reading);
		}
	}
	return section_complain(error, setting, "unknown key %.60s of a device; there are " KEYS,
				config_setting_name(setting));
}

static int check_entry(void *ctx, const config_setting_t *setting, struct section_error *error)
{
	struct device_conf *conf = ctx;
	const struct device_rule *rule = &conf->rules[conf->n];

	if (!(rule->has & MATCHES))
		return section_complain(
			error, setting,
			"an entry of devices must say which ones: vendor_id, part_id, driver "
			"or name (\"*\" for all)");
	if (!(rule->has & ~(uint32_t)MATCHES))
		return section_complain(
			error, setting,
			"an entry of devices must say what holds for them: inline_cap, "
			"inline_hints, inline or use");
	conf->n++;
	return 0;
}

int device_conf_read(const config_setting_t *setting, struct device_conf *ret_conf,
		     struct section_error *ret_error)
{
	static const struct section_reader section = {
		.name = "devices",
		.sample = "{ vendor_id = 0x02c9; inline_cap = 236; }",
		.max = DEVICE_RULES_MAX,
		.key = read_key,
		.entry = check_entry,
	};
	struct device_conf conf;
	int rc;

	memset(&conf, 0, sizeof(conf));
	rc = section_read(&section, setting, &conf, ret_error);
	if (rc == 0)
		*ret_conf = conf;
	return rc;
}

static bool rule_matches(const struct device_rule *rule, const struct device_match *match)
{
	if ((rule->has & DEVICE_KEY_VENDOR) && rule->vendor_id != match->vendor_id)
		return false;
	if ((rule->has & DEVICE_KEY_PART) && rule->part_id != match->part_id)
		return false;
	if ((rule->has & DEVICE_KEY_DRIVER) && fnmatch(rule->driver, match->driver, 0) != 0)
		return false;
	return !(rule->has & DEVICE_KEY_NAME) || fnmatch(rule->name, match->name, 0) == 0;
}

void device_conf_policy(const struct device_conf *conf, const struct device_match *match,
			struct device_policy *ret_policy)
{
	bool is_on = true;
	uint32_t decided = 0;

	*ret_policy = (struct device_policy){.use = true, .inline_cap = INLINE_BYTES_MAX};
	for (uint32_t i = 0; i < conf->n; i++) {
		const struct device_rule *rule = &conf->rules[i];
		uint32_t fresh = rule->has & ~decided;

		if (!rule_matches(rule, match))
			continue;
		decided |= rule->has;
		if (fresh & DEVICE_KEY_USE)
			ret_policy->use = rule->use;
		if (fresh & DEVICE_KEY_INLINE)
			is_on = rule->inline_on;
		if (fresh & DEVICE_KEY_CAP)
			ret_policy->inline_cap = rule->inline_cap;
		if (fresh & DEVICE_KEY_HINTS) {
			ret_policy->n_hints = rule->n_hints;
			memcpy(ret_policy->hints, rule->hints, sizeof(rule->hints));
		}
	}
	if (!is_on)
		ret_policy->inline_cap = 0;
}

static void print_source(FILE *out, const char *source)
{
	fputs("# ", out);
	for (; *source; source++) {
		fputc(*source, out);
		if (*source == '\n')
			fputs("# ", out);
	}
	fputc('\n', out);
}

static void print_rule(FILE *out, const struct device_rule *rule, bool is_last)
{
	fprintf(out, "#\t{ vendor_id = 0x%04x;", rule->vendor_id);
	if (rule->has & DEVICE_KEY_CAP)
		fprintf(out, " inline_cap = %u;", rule->inline_cap);
	for (uint32_t i = 0; i < rule->n_hints; i++)
		fprintf(out, "%s%u", i ? ", " : " inline_hints = [ ", rule->hints[i]);
	fprintf(out, "%s }%s\n", rule->n_hints ? " ];" : "", is_last ? "" : ",");
}

void device_conf_print_sample(FILE *out)
{
	fputs("\n# What is known of RDMA devices, and which to use. An entry names devices by "
	      "vendor_id,\n"
	      "# part_id, driver and name (the last two with * and ? as in file names): all that "
	      "it has\n"
	      "# must match. Of all entries that match, the first that has a key decides it:\n"
	      "#   inline_cap = N;            never post more than N bytes inline, whatever is "
	      "granted\n"
	      "#   inline_hints = [ N, … ];   sizes to try first when the device refuses what is "
	      "asked\n"
	      "#   inline = \"off\";            post nothing inline (\"on\")\n"
	      "#   use = \"no\";                leave the device alone (\"yes\")\n"
	      "# The limits themselves are found by trial; hints only make that shorter.\n"
	      "#devices = (\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
		print_source(out, presets[i].source);
		print_rule(out, &presets[i].rule, i + 1 == ARRAY_SIZE(presets));
	}
	fputs("#);\n", out);
}
