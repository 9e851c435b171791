/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config_key.h"

/* The sections about RDMA devices and about other hosts. */
#define DEVICES "devices"
#define PEERS "peers"

static const struct key keys[] = {
	NUMBER(spin_us, "microseconds", 0, 100000, 50,
	       "Longest time that a wait looks at the ring before it sleeps; 0 never spins.",
	       "About two wake-ups of a sleeping thread: spinning longer costs more than it "
	       "saves."),
	NUMBER(promote_after, "operations", 1, 1000000000, 8,
	       "Socket calls that a connection makes on TCP before it asks for a lane.",
	       "A connection that serves one request is over by then and has cost nothing."),
	NUMBER(demote_wait_ms, "milliseconds", 1, 60000, 1000,
	       "Longest time that a hand-over to TCP may wait for the other end.",
	       "Far beyond any scheduling delay, short enough for a caller to bear."),
	NUMBER(resume_timeout_s, "seconds", 1, 3600, 30,
	       "Longest time that a lane between hosts may stay lost, or without its daemon.",
	       "A daemon is started anew within it; then the connection is reset on both ends."),
	POWER(ring_bytes, "bytes", 4 * KIB, 64 * MIB, 256 * KIB,
	      "Size of each ring; a connection has two. A power of two.",
	      "Several 64 KiB messages in flight, and still within one core's cache."),
	NUMBER(backoff_min_ms, "milliseconds", 0, 3600000, 100,
	       "Time on TCP after the first demotion before the next lane is asked for.",
	       "Lets a short disturbance pass; it doubles with each demotion."),
	NUMBER(backoff_max_ms, "milliseconds", 0, 3600000, 10000,
	       "Where that doubling ends; not below backoff_min_ms.",
	       "A connection that keeps falling off its lane costs six changes a minute."),
	NUMBER(pair_wait_ms, "milliseconds", 10, 60000, 3000,
	       "How long a registered end waits for the other one.",
	       "The slower end may need a few more calls, at human speed, to register."),
	NUMBER(hello_wait_ms, "milliseconds", 10, 60000, 5000,
	       "How long a new session may stay silent.",
	       "The library greets at once; anything slower is not the library."),
	NUMBER(max_sessions, "sessions", 1, 1048576, 16384, "Processes served at the same time.",
	       "Three descriptors and a cache line each."),
	NUMBER(sessions_per_uid, "sessions", 1, 1048576, 4096, "The same, per user.",
	       "A quarter of the whole, so that no user shuts out the others."),
	NUMBER(connections_per_uid, "ends", 1, 16777216, 65536,
	       "Connection ends that one user may have registered; both ends count.",
	       "Beyond what one process can hold with common descriptor limits."),
	NUMBER(ring_bytes_per_uid, "bytes", 8 * KIB, 1024 * GIB, 8 * GIB,
	       "Ring memory that the ends of one user may hold; write 8589934592L for 8 GiB.",
	       "32768 ends of the default ring size."),
	NUMBER(registrations_per_s, "per second", 1, 1000000, 20000,
	       "Registrations per second that one user may make, and the burst allowed.",
	       "Chosen: ten thousand connections at once, and one user's flood stays bounded."),
	NUMBER(messages_per_s, "per second", 10, 10000000, 50000,
	       "Messages per second read from one session, and the burst; more must wait.",
	       "A client with ten thousand connections may close them all at once."),
	NUMBER(send_backlog, "messages", 1, 65536, 256,
	       "Messages kept for a client that does not read; beyond it, it is cut off.",
	       "Far more than the library ever leaves unread."),
	WORD(users, WORDS("auto", "all", "own"), CONF_USERS_AUTO,
	     "Whom to serve: all users, the daemon's own, or auto: all if it runs as root.",
	     "A user's daemon has no business with others' sockets."),
	WORD(rdma, WORDS("auto", "off"), CONF_RDMA_AUTO,
	     "Whether RDMA devices are used: auto (those that there are) or off.",
	     "A host without any loses nothing."),
	WORD(remote_lanes, WORDS("off", "on"), CONF_REMOTE_OFF,
	     "Whether connections between hosts get lanes over RDMA links: on or off.",
	     "Not for use yet: they are still being tested."),
	NUMBER(stop_wait_ms, "milliseconds", 0, 600000, 5000,
	       "Longest time that an end in order waits for lanes between hosts to go to TCP.",
	       "Programs that are awake take milliseconds; systemd waits for 90 seconds."),
	NUMBER(rdma_rescan_ms, "milliseconds", 100, 600000, 3000,
	       "How often to look for devices that came or went without the kernel's telling.",
	       "A device that goes has to be released within five seconds, news or not."),
	NUMBER(pool_min, "queue pairs", 1, 4096, 2,
	       "Queue pairs kept ready per port, so that a link is made without creating one.",
	       "A quiet host makes a link at a time; two cover the next one too."),
	NUMBER(pool_max, "queue pairs", 1, 4096, 32,
	       "Where a pool stops growing when links are made in bursts; not below pool_min.",
	       "Up to four links to each of eight peers that start together."),
	NUMBER(qps_per_device, "queue pairs", 1, 1048576, 1024,
	       "Queue pairs per device, of pools and links; never more than 7/8 of the device's.",
	       "Four links to each of 200 peers, and pools for them."),
	NUMBER(queue_bytes_per_device, "bytes", 64 * KIB, 64 * GIB, 256 * MIB,
	       "Memory that the queues of these may take, as estimated from their depth.",
	       "Some five thousand of the usual depth: qps_per_device is reached first."),
	NUMBER(pinned_bytes_per_device, "bytes", 64 * KIB, 1024 * GIB, 4 * GIB,
	       "Ring memory that may be pinned for one device at a time.",
	       "16384 rings of the default size, on hosts that have tens of GiB."),
	NUMBER(pinned_bytes_per_uid, "bytes", 64 * KIB, 1024 * GIB, 1 * GIB,
	       "The same, for the connections of one user, over all devices.",
	       "A quarter, so that no user pins everything."),
	WORD(log_level, WORDS("error", "warning", "info", "debug"), 2,
	     "How much to log: error, warning, info or debug.",
	     "Tells of cut-off clients and nothing of ordinary work."),
	NUMBER(rdma_depth, "work requests", 16, 32768, 256,
	       "Depth of the send and of the receive queue of each RDMA queue pair.",
	       "Messages under way between two hosts at most; every provider has this many, with "
	       "inline."),
	NUMBER(rdma_sges, "pieces", 1, 16, 1,
	       "Pieces of memory that one RDMA work request may name.",
	       "What is sent lies in one piece: more would take room from inline data."),
	NUMBER(inline_ask, "bytes", 0, 65535, 256,
	       "Inline data to ask RDMA devices for; 0 posts nothing inline.",
	       "A control message with 224 bytes. More makes every entry of the send queue "
	       "larger."),
	NUMBER(inline_floor, "bytes", 32, 1024, 32,
	       "A device that has less inline than this is used without.",
	       "The size of a control message: what does not hold one is worth nothing."),
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

/* Every key of every table: the first at 0; NULL behind the last. */
static const struct key *key_at(size_t i)
{
	if (i < KEY_COUNT)
		return &keys[i];
	return i - KEY_COUNT < conf_peer_key_count ? &conf_peer_keys[i - KEY_COUNT] : NULL;
}

static bool is_text(const struct key *key)
{
	return key->kind == KEY_PATH || key->kind == KEY_ADDRESS;
}

static uint64_t *key_value(struct conf *config, const struct key *key)
{
	return (uint64_t *)(void *)((char *)config + key->offset);
}

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
	static const char *const sections[] = {DEVICES, PEERS};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (edit_distance(name, sections[i]) < best) {
			best = edit_distance(name, sections[i]);
			found = sections[i];
		}
	}
	for (size_t i = 0; key_at(i); i++) {
		size_t distance = edit_distance(name, key_at(i)->name);

		if (distance < best) {
			best = distance;
			found = key_at(i)->name;
		}
	}
	return found;
}

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; key_at(i); i++) {
		if (strcmp(key_at(i)->name, name) == 0)
			return key_at(i);
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
			*key_value(config, key) = i;
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
	*key_value(config, key) = (uint64_t)value;
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

static int read_peers(const config_setting_t *setting, const char *file, struct conf *config,
		      struct conf_error *error)
{
	struct peer_conf_error wrong = {0, ""};

	if (peer_conf_read(setting, &config->peers, &wrong) == 0)
		return 0;
	return complain(error, file, wrong.line, "%s", wrong.text);
}

static int read_devices(const config_setting_t *setting, const char *file, struct conf *config,
			struct conf_error *error)
{
	struct device_conf_error wrong = {0, ""};

	if (device_conf_read(setting, &config->devices, &wrong) == 0)
		return 0;
	return complain(error, file, wrong.line, "%s", wrong.text);
}

static int read_setting(const config_setting_t *setting, const char *file, struct conf *config,
			struct conf_error *error)
{
	const char *name = config_setting_name(setting);
	const struct key *key = key_find(name);
	const char *hint;

	if (strcmp(name, DEVICES) == 0)
		return read_devices(setting, file, config, error);
	if (strcmp(name, PEERS) == 0)
		return read_peers(setting, file, config, error);
	if (!key) {
		hint = nearest_key(name);
		return complain(error, file, (int)config_setting_source_line(setting),
				"unknown key %.60s%s%s%s", name, hint ? "; did you mean " : "",
				hint ? hint : "; shuntd --print-config lists the keys",
				hint ? "?" : "");
	}
	if (key->kind == KEY_WORD)
		return read_word(key, setting, file, config, error);
	if (is_text(key))
		return read_text(key, setting, file, config, error);
	return read_number(key, setting, file, config, error);
}

/* Where the file says one of two keys, the first if both; 0: neither. */
static int line_of_either(const config_t *file_config, const char *first, const char *second)
{
	const config_setting_t *setting = config_lookup(file_config, first);

	if (!setting)
		setting = config_lookup(file_config, second);
	return setting ? (int)config_setting_source_line(setting) : 0;
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

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (pairs[i].hi < pairs[i].lo)
			return complain(
				error, file,
				line_of_either(file_config, pairs[i].hi_name, pairs[i].lo_name),
				"%s (%llu) must not be below %s (%llu)", pairs[i].hi_name,
				(unsigned long long)pairs[i].hi, pairs[i].lo_name,
				(unsigned long long)pairs[i].lo);
	}
	if (!config->peer_ca[0] != !config->peer_cert[0] ||
	    !config->peer_ca[0] != !config->peer_cert_key[0])
		return complain(
			error, file, line_of_either(file_config, "peer_ca", "peer_cert"),
			"peer_ca, peer_cert and peer_cert_key go together: set all three or "
			"none");
	if (config->peer_ca[0] && config->peer_key[0])
		return complain(error, file, line_of_either(file_config, "peer_key", "peer_ca"),
				"peer_key and peer_ca exclude each other: set one of them");
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

void conf_init(struct conf *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; key_at(i); i++) {
		if (!is_text(key_at(i)))
			*key_value(config, key_at(i)) = key_at(i)->preset;
	}
	device_conf_init(&config->devices);
}

int conf_load(struct conf *config, const char *path, struct conf_error *ret_error)
{
	config_t file_config;
	const char *file;
	FILE *stream;
	int rc;

	stream = fopen(path, "re");
	if (!stream) {
		rc = -errno;
		complain(ret_error, path, 0, "can't be read: %s", strerror(-rc));
		return rc;
	}
	config_init(&file_config);
	if (config_read(&file_config, stream)) {
		rc = read_all(&file_config, path, config, ret_error);
	} else {
		file = config_error_file(&file_config);
		rc = complain(ret_error, file ? file : path, config_error_line(&file_config),
			      "%s; a line looks like: spin_us = 50;",
			      config_error_text(&file_config));
	}
	config_destroy(&file_config);
	fclose(stream);
	return rc;
}

static void print_key(const struct key *key, FILE *out)
{
	const unsigned long long preset = key->preset;

	fprintf(out, "\n# %s\n# %s\n", key->what, key->why);
	if (key->kind == KEY_WORD)
		fprintf(out, "#%s = \"%s\";\n", key->name, key->words[preset]);
	else if (is_text(key))
		fprintf(out, "#%s = \"\";\n", key->name);
	else
		fprintf(out, "# In %s, from %llu to %llu.\n#%s = %llu%s;\n", key->unit,
			(unsigned long long)key->lo, (unsigned long long)key->hi, key->name, preset,
			preset > INT32_MAX ? "L" : "");
}

void conf_print_sample(FILE *out)
{
	fputs("# Settings of shuntd. Every key is shown with its default.\n"
	      "# Check a changed file with: shuntd --check-config FILE\n",
	      out);
	for (size_t i = 0; key_at(i); i++)
		print_key(key_at(i), out);
	device_conf_print_sample(out);
	peer_conf_print_sample(out);
}
