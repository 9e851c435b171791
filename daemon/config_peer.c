/* SPDX-License-Identifier: MIT */
#include "config_key.h"

const struct key conf_peer_keys[] = {
	WORD(peer_sessions, AT_START, WORDS("auto", "on", "off"), CONF_PEERS_AUTO,
	     "Whether to talk to the daemons of other hosts: on, off, or auto: if this daemon "
	     "serves "
	     "all users\n# and has a key or a list of peers.",
	     "Nobody is talked to or listened to before somebody has said who may be."),
	NUMBER(peer_port, AT_START, "port numbers", 1, 65535, 7609,
	       "TCP port on which the daemons of other hosts are listened for, and dialled.",
	       "Shunt's own; not assigned to anybody else at the time of writing."),
	TEXT(peer_listen, AT_START, KEY_ADDRESS,
	     "The one address on which to listen for them, and to dial from; empty: all.",
	     "A host is known to others by any of its addresses."),
	TEXT(peer_key, AT_START, KEY_PATH,
	     "File with the key that all daemons share: 32 to 128 hexadecimal digits, as printed "
	     "by\n"
	     "# openssl rand -hex 32. It must belong to root or the daemon, mode 0600. A name "
	     "without "
	     "a slash is a\n# credential that systemd passes. Empty: the credential shunt-peer-key "
	     "if there is one.",
	     "Without a key, or certificates, only the peers listed below are talked to."),
	TEXT(peer_ca, AT_START, KEY_PATH,
	     "In place of a key: file with the certificates (PEM) of those who vouch for daemons.",
	     "Goes together with peer_cert and peer_cert_key."),
	TEXT(peer_cert, AT_START, KEY_PATH, "This daemon's certificate, with its chain (PEM).",
	     "Shown to dialling and dialled daemons alike."),
	TEXT(peer_cert_key, AT_START, KEY_PATH,
	     "The private key of that certificate (PEM), mode 0600.", "As peer_key."),
	NUMBER(offer_wait_ms, NOW, "milliseconds", 10, 60000, 3000,
	       "How long an end waits for its other end on another host.",
	       "As pair_wait_ms: the slower end may need a few more calls to register."),
	NUMBER(peer_dial_ms, NOW, "milliseconds", 50, 60000, 3000,
	       "How long the daemon of another host may take to answer a call.",
	       "Beyond one retransmission of the first segment (1 s)."),
	NUMBER(peer_handshake_ms, NOW, "milliseconds", 50, 60000, 5000,
	       "How long TLS and the first message may take.",
	       "Milliseconds are usual; a stranger shall not keep a place for longer."),
	NUMBER(peer_ping_ms, NOW, "milliseconds", 100, 600000, 5000,
	       "A session that was silent for so long is asked whether it lives.",
	       "A dead host is noticed within peer_dead_ms."),
	NUMBER(peer_dead_ms, NOW, "milliseconds", 200, 3600000, 15000,
	       "A session that was silent for so long is given up; not below peer_ping_ms.",
	       "Two questions may be lost."),
	NUMBER(peer_retry_min_ms, NOW, "milliseconds", 10, 3600000, 1000,
	       "After a call that failed: how long the other host is left in peace.",
	       "A daemon that restarts is back by then; it doubles with each failure."),
	NUMBER(peer_retry_max_ms, NOW, "milliseconds", 10, 86400000, 300000,
	       "Where that doubling ends; not below peer_retry_min_ms.",
	       "One segment in five minutes to a host that has no daemon."),
	NUMBER(peer_lapse_ms, NOW, "milliseconds", 100, 3600000, 10000,
	       "How long lanes go on when the session with the other daemon is lost.",
	       "It comes back within seconds if at all; without one a lost link is a lost lane."),
	NUMBER(peer_sessions_max, NOW, "sessions", 1, 65536, 1024,
	       "Sessions with other daemons, calls under way included.",
	       "Beyond the hosts of a rack or two; each costs a descriptor and some 50 KiB."),
	NUMBER(peer_pending_max, NOW, "sessions", 1, 4096, 64,
	       "Of these: calls that came in and have not shown a key and a first message.",
	       "A cluster may start at once; a flood of strangers stays bounded."),
	NUMBER(peer_dials_max, NOW, "calls", 1, 4096, 32,
	       "Of these: calls that go out and are not answered yet.",
	       "A program that connects to many hosts must not make the daemon scan them."),
	NUMBER(peer_hosts_max, NOW, "hosts", 16, 1048576, 4096,
	       "Hosts of which it is remembered whether a daemon answers; the oldest are "
	       "forgotten.",
	       "A quarter of a kilobyte each."),
	NUMBER(peer_offers_max, NOW, "offers", 1, 1048576, 4096,
	       "Offers of one peer that may wait for their other end here; more are refused.",
	       "As many connections may begin within offer_wait_ms."),
	NUMBER(peer_messages_per_s, NOW, "per second", 10, 10000000, 50000,
	       "Messages per second read from one peer, and the burst; more must wait.",
	       "As messages_per_s."),
	NUMBER(peer_backlog, NOW, "bytes", 16 * KIB, 1024 * MIB, 1 * MIB,
	       "Bytes kept for a peer that does not read; beyond it, its session ends.",
	       "Ten thousand messages."),
};

const size_t conf_peer_key_count = sizeof(conf_peer_keys) / sizeof(conf_peer_keys[0]);
