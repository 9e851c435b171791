/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "config_key.h"
#include "os/rundir.h"

static const struct key keys[] = {
	NUMBER(spin_us, TO_NEW, "microseconds", 0, 100000, 50,
	       "Longest time that a wait looks at the ring before it sleeps; 0 never spins.",
	       "About two wake-ups of a sleeping thread: spinning longer costs more than it "
	       "saves."),
	NUMBER(promote_after, TO_NEW, "operations", 1, 1000000000, 8,
	       "Socket calls that a connection makes on TCP before it asks for a lane.",
	       "A connection that serves one request is over by then and has cost nothing."),
	NUMBER(demote_wait_ms, TO_NEW, "milliseconds", 1, 60000, 1000,
	       "Longest time that a hand-over to TCP may wait for the other end.",
	       "Far beyond any scheduling delay, short enough for a caller to bear."),
	NUMBER(resume_timeout_s, TO_NEW, "seconds", 1, 3600, 30,
	       "Longest time that a lane between hosts may stay lost, or without its daemon.",
	       "A daemon is started anew within it; then the connection is reset on both ends."),
	POWER(ring_bytes, AT_START, "bytes", 4 * KIB, 64 * MIB, 256 * KIB,
	      "Size of each ring; a connection has two. A power of two.",
	      "Several 64 KiB messages in flight, and still within one core's cache."),
	NUMBER(backoff_min_ms, TO_NEW, "milliseconds", 0, 3600000, 100,
	       "Time on TCP after the first demotion before the next lane is asked for.",
	       "Lets a short disturbance pass; it doubles with each demotion."),
	NUMBER(backoff_max_ms, TO_NEW, "milliseconds", 0, 3600000, 10000,
	       "Where that doubling ends; not below backoff_min_ms.",
	       "A connection that keeps falling off its lane costs six changes a minute."),
	NUMBER(pair_wait_ms, NOW, "milliseconds", 10, 60000, 3000,
	       "How long a registered end waits for the other one.",
	       "The slower end may need a few more calls, at human speed, to register."),
	NUMBER(hello_wait_ms, NOW, "milliseconds", 10, 60000, 5000,
	       "How long a new session may stay silent.",
	       "The library greets at once; anything slower is not the library."),
	NUMBER(max_sessions, AT_START, "sessions", 1, 1048576, 16384,
	       "Processes served at the same time.", "Three descriptors and a cache line each."),
	NUMBER(sessions_per_uid, NOW, "sessions", 1, 1048576, 4096, "The same, per user.",
	       "A quarter of the whole, so that no user shuts out the others."),
	NUMBER(connections_per_uid, NOW, "ends", 1, 16777216, 65536,
	       "Connection ends that one user may have registered; both ends count.",
	       "Beyond what one process can hold with common descriptor limits."),
	NUMBER(ring_bytes_per_uid, NOW, "bytes", 8 * KIB, 1024 * GIB, 8 * GIB,
	       "Ring memory that the ends of one user may hold; write 8589934592L for 8 GiB.",
	       "32768 ends of the default ring size."),
	NUMBER(registrations_per_s, NOW, "per second", 1, 1000000, 20000,
	       "Registrations per second that one user may make, and the burst allowed.",
	       "Chosen: ten thousand connections at once, and one user's flood stays bounded."),
	NUMBER(messages_per_s, NOW, "per second", 10, 10000000, 50000,
	       "Messages per second read from one session, and the burst; more must wait.",
	       "A client with ten thousand connections may close them all at once."),
	NUMBER(send_backlog, NOW, "messages", 1, 65536, 256,
	       "Messages kept for a client that does not read; beyond it, it is cut off.",
	       "Far more than the library ever leaves unread."),
	WORD(users, AT_START, WORDS("auto", "all", "own"), CONF_USERS_AUTO,
	     "Whom to serve: all users, the daemon's own, or auto: all if it runs as root\n# or "
	     "in " RUNDIR_SYSTEM_PATH ".",
	     "A user's daemon has no business with others' sockets."),
	WORD(rdma, AT_START, WORDS("auto", "off"), CONF_RDMA_AUTO,
	     "Whether RDMA devices are used: auto (those that there are) or off.",
	     "A host without any loses nothing."),
	WORD(remote_lanes, AT_START, WORDS("off", "on"), CONF_REMOTE_OFF,
	     "Whether connections between hosts get lanes over RDMA links: on or off.",
	     "Not for use yet: they are still being tested."),
	NUMBER(stop_wait_ms, NOW, "milliseconds", 0, 600000, 5000,
	       "Longest time that an end in order waits for lanes between hosts to go to TCP.",
	       "Programs that are awake take milliseconds; systemd waits for 90 seconds."),
	NUMBER(rdma_rescan_ms, NOW, "milliseconds", 100, 600000, 3000,
	       "How often to look for devices that came or went without the kernel's telling.",
	       "A device that goes has to be released within five seconds, news or not."),
	NUMBER(pool_min, AT_START, "queue pairs", 1, 4096, 2,
	       "Queue pairs kept ready per port, so that a link is made without creating one.",
	       "A quiet host makes a link at a time; two cover the next one too."),
	NUMBER(pool_max, AT_START, "queue pairs", 1, 4096, 32,
	       "Where a pool stops growing when links are made in bursts; not below pool_min.",
	       "Up to four links to each of eight peers that start together."),
	NUMBER(qps_per_device, AT_START, "queue pairs", 1, 1048576, 1024,
	       "Queue pairs per device, of pools and links; never more than 7/8 of the device's.",
	       "Four links to each of 200 peers, and pools for them."),
	NUMBER(queue_bytes_per_device, AT_START, "bytes", 64 * KIB, 64 * GIB, 256 * MIB,
	       "Memory that the queues of these may take, as estimated from their depth.",
	       "Some five thousand of the usual depth: qps_per_device is reached first."),
	NUMBER(pinned_bytes_per_device, AT_START, "bytes", 64 * KIB, 1024 * GIB, 4 * GIB,
	       "Ring memory that may be pinned for one device at a time.",
	       "16384 rings of the default size, on hosts that have tens of GiB."),
	NUMBER(pinned_bytes_per_uid, NOW, "bytes", 64 * KIB, 1024 * GIB, 1 * GIB,
	       "The same, for the connections of one user, over all devices.",
	       "A quarter, so that no user pins everything."),
	WORD(log_level, NOW, WORDS("error", "warning", "info", "debug"), 2,
	     "How much to log: error, warning, info or debug.",
	     "Tells of cut-off clients and nothing of ordinary work."),
	NUMBER(rdma_depth, AT_START, "work requests", 16, 32768, 256,
	       "Depth of the send and of the receive queue of each RDMA queue pair.",
	       "Messages under way between two hosts at most; every provider has this many, with "
	       "inline."),
	NUMBER(rdma_sges, AT_START, "pieces", 1, 16, 1,
	       "Pieces of memory that one RDMA work request may name.",
	       "What is sent lies in one piece: more would take room from inline data."),
	NUMBER(inline_ask, AT_START, "bytes", 0, 65535, 256,
	       "Inline data to ask RDMA devices for; 0 posts nothing inline.",
	       "A control message with 224 bytes. More makes every entry of the send queue "
	       "larger."),
	NUMBER(inline_floor, AT_START, "bytes", 32, 1024, 32,
	       "A device that has less inline than this is used without.",
	       "The size of a control message: what does not hold one is worth nothing."),
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

const struct key *conf_key_at(size_t i)
{
	if (i < KEY_COUNT)
		return &keys[i];
	return i - KEY_COUNT < conf_peer_key_count ? &conf_peer_keys[i - KEY_COUNT] : NULL;
}

bool conf_key_is_text(const struct key *key)
{
	return key->kind == KEY_PATH || key->kind == KEY_ADDRESS;
}

uint64_t *conf_key_value(struct conf *config, const struct key *key)
{
	return (uint64_t *)(void *)((char *)config + key->offset);
}

void conf_init(struct conf *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; conf_key_at(i); i++) {
		if (!conf_key_is_text(conf_key_at(i)))
			*conf_key_value(config, conf_key_at(i)) = conf_key_at(i)->preset;
	}
	device_conf_init(&config->devices);
}

static void print_key(const struct key *key, FILE *out)
{
	const unsigned long long preset = key->preset;

	fprintf(out, "\n# %s\n# %s\n", key->what, key->why);
	if (key->applies != KEY_APPLIES_NOW)
		fprintf(out, "# %s\n",
			key->applies == KEY_APPLIES_AT_START
				? "Read at the start only."
				: "A change holds for programs that start later.");
	if (key->kind == KEY_WORD)
		fprintf(out, "#%s = \"%s\";\n", key->name, key->words[preset]);
	else if (conf_key_is_text(key))
		fprintf(out, "#%s = \"\";\n", key->name);
	else
		fprintf(out, "# In %s, from %llu to %llu.\n#%s = %llu%s;\n", key->unit,
			(unsigned long long)key->lo, (unsigned long long)key->hi, key->name, preset,
			preset > INT32_MAX ? "L" : "");
}

void conf_print_sample(FILE *out)
{
	fputs("# Settings of shuntd. Every key is shown with its default.\n"
	      "# Check a changed file with: shuntd --check-config FILE\n"
	      "# The running daemon reads it again at SIGHUP (systemctl reload shuntd).\n",
	      out);
	for (size_t i = 0; conf_key_at(i); i++)
		print_key(conf_key_at(i), out);
	device_conf_print_sample(out);
	peer_conf_print_sample(out);
	rule_conf_print_sample(out);
}
