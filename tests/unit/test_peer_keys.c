/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <gnutls/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/peer.h"
#include "lib/tap.h"

/*
 * Who may talk to a daemon: with the right key, with a certificate, or because it is listed.
 */

static bool is_up(const struct shuntd *daemon)
{
	return CHECK_OK(shuntd_count_fds(daemon)) && peer_await(daemon, "listening", 1);
}

/* A connection from host 0 to host 1 has both its ends registered: what comes of it. */
static void expect_outcome(const struct shuntd daemons[2], enum reason reason)
{
	int tcp[2], socks[2];

	REQUIRE_OK(peer_connect(0, 1, tcp));
	for (int i = 0; i < 2; i++) {
		socks[i] = shuntd_session(&daemons[i], 0);
		msg_register(socks[i], 1, tcp[i], 1);
		msg_expect(socks[i], CTL_REGISTERED, NULL, NULL);
	}
	for (int i = 0; i < 2; i++)
		msg_expect_refused(socks[i], 1, reason);
	for (int i = 0; i < 2; i++) {
		close(socks[i]);
		close(tcp[i]);
	}
}

static bool start_both(struct shuntd daemons[2], const char *conf0, const char *conf1)
{
	return shuntd_start(&daemons[0], conf0) && shuntd_start(&daemons[1], conf1) &&
	       is_up(&daemons[0]) && is_up(&daemons[1]);
}

/* Settings of host @host, which knows the other one; @security: lines about keys. */
static const char *settings(unsigned int host, const char *security, const char *of_entry)
{
	static char text[2][2048];

	snprintf(text[host], sizeof(text[host]),
		 "peer_sessions = \"on\"; peer_listen = \"%s\"; rdma = \"off\"; offer_wait_ms = "
		 "600;\n"
		 "%s\npeers = ( { address = \"%s\"; %s } );\n",
		 peer_ip(host), security, peer_ip(!host), of_entry);
	return text[host];
}

static const char *key_line(const char *name, const char *path)
{
	static char text[4][128];
	static unsigned int next;

	next = (next + 1) % 4;
	snprintf(text[next], sizeof(text[next]), "%s = \"%s\";", name, path);
	return text[next];
}

TAP_CASE(two_keys_do_not_meet)
{
	struct shuntd daemons[2];

	REQUIRE(start_both(daemons, settings(0, key_line("peer_key", peer_key_file(1)), ""),
			   settings(1, key_line("peer_key", peer_key_file(2)), "")));
	expect_outcome(daemons, REASON_NO_PEER_DAEMON);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(peer_total(&daemons[i], "matches"), 0);
		CHECK(peer_count(&daemons[i], "tls") >= 1);
		CHECK(shuntd_logged(&daemons[i], "Have both hosts the same key or authority?"));
	}
	peer_pair_stop(daemons);
}

TAP_CASE(a_key_for_one_peer)
{
	const char *own = key_line("key", peer_key_file(3));
	struct shuntd daemons[2];

	REQUIRE(start_both(daemons, settings(0, key_line("peer_key", peer_key_file(1)), own),
			   settings(1, key_line("peer_key", peer_key_file(2)), own)));
	expect_outcome(daemons, REASON_NO_LINK);
	peer_pair_stop(daemons);
}

TAP_CASE(listed_hosts_need_no_key_and_others_are_turned_away)
{
	struct shuntd daemons[2];
	struct hand hand;
	int fd;
	char byte;

	REQUIRE(start_both(daemons, settings(0, "", ""), settings(1, "", "")));
	expect_outcome(daemons, REASON_NO_LINK);
	CHECK_EQ(peer_total(&daemons[0], "matches"), 1);
	CHECK_EQ(peer_total(&daemons[1], "matches"), 1);
	fd = hand_connect(2, 0);
	CHECK(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	CHECK_EQ(peer_count(&daemons[0], "strangers"), 1);
	CHECK(shuntd_logged(&daemons[0], "it is not among the peers in shunt.conf"));
	/* A key where none is wanted */
	CHECK(!hand_open(&hand, 1, 0, 1));
	peer_pair_stop(daemons);
}

/* With a key, whoever has none gets nowhere, listed or not. */
TAP_CASE(trust_does_not_do_where_there_is_a_key)
{
	struct shuntd daemons[2];
	struct hand hand;

	REQUIRE(start_both(daemons, settings(0, key_line("peer_key", peer_key_file(1)), ""),
			   settings(1, "", "")));
	CHECK(!hand_open(&hand, 1, 0, 0));
	CHECK(!hand_open(&hand, 1, 0, 2));
	expect_outcome(daemons, REASON_NO_PEER_DAEMON);
	peer_pair_stop(daemons);
}

/* Nobody listed, but the key is right. */
TAP_CASE(the_key_alone_is_enough)
{
	struct shuntd daemon;
	struct hand hand;
	char conf[512];

	snprintf(conf, sizeof(conf), "peer_sessions = \"on\"; peer_listen = \"%s\"; %s", peer_ip(0),
		 key_line("peer_key", peer_key_file(1)));
	REQUIRE(shuntd_start(&daemon, conf) && is_up(&daemon));
	REQUIRE(hand_open(&hand, 5, 0, 1));
	CHECK(hand_hello(&hand, 3));
	CHECK_EQ(peer_count(&daemon, "up"), 1);
	hand_close(&hand);
	shuntd_stop(&daemon);
}

static void off_with(const char *security, const char *line)
{
	struct shuntd daemon;
	json_t *json;

	REQUIRE(shuntd_start(&daemon, settings(0, security, "")));
	json = peer_query(&daemon);
	CHECK_STR(json_string_value(json_object_get(json, "state")), "off");
	json_decref(json);
	CHECK(shuntd_logged(&daemon, line));
	shuntd_stop(&daemon);
}

/* A key that others could have read or made is no key. Nothing falls back to trust then. */
TAP_CASE(key_files_are_checked)
{
	char path[] = "/tmp/shunt-badkey-XXXXXX";
	int fd = mkstemp(path);
	const char *line = key_line("peer_key", path);

	REQUIRE_OK(fd);
	off_with(line, "holds no key: one line of 32 to 128 hexadecimal digits");
	CHECK_EQ(write(fd, "0123456789abcdef0123456789abcde\n", 32), 32);
	off_with(line, "holds no key");
	CHECK_EQ(pwrite(fd, "0123456789abcdef0123456789abcdeg\n", 33, 0), 33);
	off_with(line, "holds no key");
	CHECK_EQ(pwrite(fd, "0123456789abcdef0123456789abcdef\n", 33, 0), 33);
	CHECK_OK(fchmod(fd, 0640));
	off_with(line, "may be read or written by others (mode 0640)");
	CHECK_OK(fchmod(fd, 0600));
	if (child_can_switch()) {
		CHECK_OK(fchown(fd, CHILD_UID_OTHER, (gid_t)-1));
		off_with(line, "must belong to root");
	}
	close(fd);
	unlink(path);
	off_with(line, "can't be opened: No such file or directory");
	CHECK_OK(mkdir(path, 0700));
	off_with(line, "is not a regular file");
	rmdir(path);
	off_with("peer_key = \"a-credential\";", "there is no $CREDENTIALS_DIRECTORY");
}

TAP_CASE(a_credential_of_systemd_is_a_key)
{
	char folder[] = "/tmp/shunt-cred-XXXXXX", path[64], command[256];
	struct shuntd daemon;
	struct hand hand;

	REQUIRE(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/shunt-peer-key", folder);
	snprintf(command, sizeof(command), "cp %s %s && chmod 400 %s", peer_key_file(1), path,
		 path);
	REQUIRE(system(command) == 0);
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	if (CHECK(shuntd_start(&daemon, settings(0, "", ""))) && is_up(&daemon)) {
		CHECK(!hand_open(&hand, 1, 0, 2));
		if (CHECK(hand_open(&hand, 1, 0, 1))) {
			CHECK(hand_hello(&hand, 3));
			hand_close(&hand);
		}
		shuntd_stop(&daemon);
	}
	unsetenv("CREDENTIALS_DIRECTORY");
	unlink(path);
	rmdir(folder);
}

TAP_CASE(without_a_key_or_a_list_there_is_nobody)
{
	struct shuntd daemon;

	REQUIRE(shuntd_start(&daemon, "peer_sessions = \"on\"; rdma = \"off\";"));
	CHECK(shuntd_logged(&daemon, "neither a key (peer_key, peer_ca) nor a list of peers"));
	CHECK_EQ(peer_count(&daemon, "port"), -1);
	shuntd_stop(&daemon);
	REQUIRE(shuntd_start(&daemon, "rdma = \"off\";"));
	CHECK_EQ(peer_count(&daemon, "port"), -1);
	shuntd_stop(&daemon);
}

/* An authority or a daemon: its key, and its certificate, signed by @ca (NULL: by itself). */
struct paper {
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	char key_path[64], crt_path[64];
};

static void save(const char *path, const gnutls_datum_t *text)
{
	FILE *file = fopen(path, "we");

	if (!CHECK(file))
		return;
	CHECK_EQ(fwrite(text->data, 1, text->size, file), text->size);
	fclose(file);
	CHECK_OK(chmod(path, 0600));
}

static void paper_make(struct paper *paper, const char *folder, const char *name,
		       const struct paper *ca)
{
	time_t now = time(NULL);
	gnutls_datum_t text;
	char dn[64];

	snprintf(dn, sizeof(dn), "CN=%s", name);
	snprintf(paper->key_path, sizeof(paper->key_path), "%s/%s.key", folder, name);
	snprintf(paper->crt_path, sizeof(paper->crt_path), "%s/%s.pem", folder, name);
	gnutls_x509_privkey_init(&paper->key);
	gnutls_x509_crt_init(&paper->crt);
	gnutls_x509_privkey_generate(paper->key, GNUTLS_PK_ECDSA,
				     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	gnutls_x509_crt_set_version(paper->crt, 3);
	gnutls_x509_crt_set_serial(paper->crt, name, strlen(name));
	gnutls_x509_crt_set_dn(paper->crt, dn, NULL);
	gnutls_x509_crt_set_activation_time(paper->crt, now - 60);
	gnutls_x509_crt_set_expiration_time(paper->crt, now + 3600);
	gnutls_x509_crt_set_basic_constraints(paper->crt, !ca, -1);
	gnutls_x509_crt_set_key_usage(paper->crt,
				      ca ? GNUTLS_KEY_DIGITAL_SIGNATURE : GNUTLS_KEY_KEY_CERT_SIGN);
	gnutls_x509_crt_set_key(paper->crt, paper->key);
	CHECK_OK(gnutls_x509_crt_sign2(paper->crt, ca ? ca->crt : paper->crt,
				       ca ? ca->key : paper->key, GNUTLS_DIG_SHA256, 0));
	CHECK_OK(gnutls_x509_privkey_export2(paper->key, GNUTLS_X509_FMT_PEM, &text));
	save(paper->key_path, &text);
	gnutls_free(text.data);
	CHECK_OK(gnutls_x509_crt_export2(paper->crt, GNUTLS_X509_FMT_PEM, &text));
	save(paper->crt_path, &text);
	gnutls_free(text.data);
}

static void paper_free(struct paper *paper)
{
	gnutls_x509_crt_deinit(paper->crt);
	gnutls_x509_privkey_deinit(paper->key);
	unlink(paper->key_path);
	unlink(paper->crt_path);
}

static const char *papers_lines(const struct paper *ca, const struct paper *own)
{
	static char text[2][512];
	static unsigned int next;

	next = !next;
	snprintf(text[next], sizeof(text[next]),
		 "peer_ca = \"%s\"; peer_cert = \"%s\"; peer_cert_key = \"%s\";", ca->crt_path,
		 own->crt_path, own->key_path);
	return text[next];
}

TAP_CASE(certificates_of_one_authority_meet_and_others_do_not)
{
	char folder[] = "/tmp/shunt-certs-XXXXXX";
	struct paper ca, own[2], other_ca, other;
	struct shuntd daemons[2];
	struct hand hand;

	REQUIRE(mkdtemp(folder));
	paper_make(&ca, folder, "authority", NULL);
	paper_make(&other_ca, folder, "impostor", NULL);
	paper_make(&own[0], folder, "host0", &ca);
	paper_make(&own[1], folder, "host1", &ca);
	paper_make(&other, folder, "host2", &other_ca);
	if (start_both(daemons, settings(0, papers_lines(&ca, &own[0]), ""),
		       settings(1, papers_lines(&ca, &own[1]), ""))) {
		expect_outcome(daemons, REASON_NO_LINK);
		/* No certificate at all: TLS itself is done, but not a word is taken. */
		if (hand_open(&hand, 2, 0, 0)) {
			const struct peer_msg hello = hand_hello_msg(7);

			hand_send(&hand, &hello);
			hand_expect_end(&hand);
			hand_close(&hand);
		}
		CHECK(peer_count(&daemons[0], "tls") >= 1);
		CHECK_EQ(peer_count(&daemons[0], "up"), 1);
		peer_pair_stop(daemons);
	}
	if (start_both(daemons, settings(0, papers_lines(&ca, &own[0]), ""),
		       settings(1, papers_lines(&other_ca, &other), ""))) {
		expect_outcome(daemons, REASON_NO_PEER_DAEMON);
		CHECK_EQ(peer_total(&daemons[0], "matches"), 0);
		peer_pair_stop(daemons);
	}
	paper_free(&ca);
	paper_free(&other_ca);
	paper_free(&own[0]);
	paper_free(&own[1]);
	paper_free(&other);
	rmdir(folder);
}

static void look_again(const struct shuntd *daemon)
{
	CHECK_OK(kill(daemon->pid, SIGHUP));
	/* The signal is there before the questions, and is taken before the second at the latest.
	 */
	for (int i = 0; i < 2; i++)
		CHECK(peer_count(daemon, "port") > 0);
}

/* A session stays as long as somebody vouches for the other end, whoever was asked last. */
TAP_CASE(an_authority_that_is_trusted_no_more)
{
	char folder[] = "/tmp/shunt-certs-XXXXXX", command[256];
	struct paper ca, other_ca, own[2];
	struct shuntd daemons[2];

	REQUIRE(mkdtemp(folder));
	paper_make(&ca, folder, "authority", NULL);
	paper_make(&other_ca, folder, "impostor", NULL);
	paper_make(&own[0], folder, "host0", &ca);
	paper_make(&own[1], folder, "host1", &ca);
	if (start_both(daemons, settings(0, papers_lines(&ca, &own[0]), ""),
		       settings(1, papers_lines(&ca, &own[1]), ""))) {
		expect_outcome(daemons, REASON_NO_LINK);
		paper_free(&own[0]);
		paper_make(&own[0], folder, "host0", &ca);
		look_again(&daemons[0]);
		CHECK_EQ(peer_count(&daemons[0], "up"), 1);
		snprintf(command, sizeof(command), "cp %s %s", other_ca.crt_path, ca.crt_path);
		CHECK_EQ(system(command), 0);
		look_again(&daemons[0]);
		CHECK_EQ(peer_count(&daemons[0], "up"), 0);
		CHECK(shuntd_logged(&daemons[0], "the keys of now do not give its session"));
		expect_outcome(daemons, REASON_NO_PEER_DAEMON);
		unlink(ca.crt_path);
		look_again(&daemons[0]);
		CHECK(shuntd_logged(&daemons[0], "whom it vouched for is not talked to"));
		CHECK_EQ(peer_count(&daemons[0], "up"), 0);
		peer_pair_stop(daemons);
	}
	paper_free(&ca);
	paper_free(&other_ca);
	paper_free(&own[0]);
	paper_free(&own[1]);
	rmdir(folder);
}
