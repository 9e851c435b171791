/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "config.h"

#include "lib/tap.h"

static char path[] = "/tmp/shunt-config-XXXXXX";

/* Load @text as a file. The result; the message behind "file:" goes to @ret_message. */
static int load(const char *text, struct conf *conf, char ret_message[512])
{
	struct conf_error error = {""};
	int fd, rc;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		rc = -EIO;
	else
		rc = conf_load(conf, path, &error);
	close(fd);
	unlink(path);
	snprintf(ret_message, 512, "%s",
		 strncmp(error.text, path, strlen(path)) == 0 ? error.text + strlen(path) + 1
							      : error.text);
	return rc;
}

static const struct {
	const char *text, *message;
} broken[] = {
	{"spin_u = 5;", "1: unknown key spin_u; did you mean spin_us?"},
	{"\n\npromote_afer = 5;", "3: unknown key promote_afer; did you mean promote_after?"},
	{"SPIN_US = 5;", "1: unknown key SPIN_US; shuntd --print-config lists the keys"},
	{"colour = \"red\";", "1: unknown key colour; shuntd --print-config lists the keys"},
	{"quotas = { connections_per_uid = 3; };",
	 "1: unknown key quotas; shuntd --print-config lists the keys"},
	{"spin_us = -1;", "1: spin_us is -1, but must be from 0 to 100000 microseconds"},
	{"# why not\nspin_us = 100001;",
	 "2: spin_us is 100001, but must be from 0 to 100000 microseconds"},
	{"spin_us = 1.5;", "1: spin_us must be a whole number of microseconds from 0 to 100000"},
	{"spin_us = \"50\";", "1: spin_us must be a whole number of microseconds from 0 to 100000"},
	{"spin_us = true;", "1: spin_us must be a whole number of microseconds from 0 to 100000"},
	{"spin_us = [ 1, 2 ];",
	 "1: spin_us must be a whole number of microseconds from 0 to 100000"},
	{"spin_us = { };", "1: spin_us must be a whole number of microseconds from 0 to 100000"},
	{"promote_after = 0;",
	 "1: promote_after is 0, but must be from 1 to 1000000000 operations"},
	{"ring_bytes = 2048;", "1: ring_bytes is 2048, but must be from 4096 to 67108864 bytes"},
	{"ring_bytes = 134217728;",
	 "1: ring_bytes is 134217728, but must be from 4096 to 67108864 bytes"},
	{"ring_bytes = 5000;", "1: ring_bytes is 5000, but must be a power of two"},
	{"spin_us = 1;\n\nring_bytes = 65537L;",
	 "3: ring_bytes is 65537, but must be a power of two"},
	{"ring_bytes_per_uid = 9223372036854775807L;",
	 "1: ring_bytes_per_uid is 9223372036854775807, but must be from 8192 to 1099511627776 "
	 "bytes"},
	{"demote_wait_ms = 0;", "1: demote_wait_ms is 0, but must be from 1 to 60000 milliseconds"},
	{"pair_wait_ms = 9;", "1: pair_wait_ms is 9, but must be from 10 to 60000 milliseconds"},
	{"users = \"some\";",
	 "1: users is \"some\", but must be one of \"auto\", \"all\", \"own\""},
	{"users = 1;", "1: users must be one of the words \"auto\", \"all\", \"own\", in quotes"},
	{"users = all;",
	 "1: syntax error in, or before, \"users = all;\"; a line looks like: spin_us = 50;"},
	{"log_level = \"loud\";", "1: log_level is \"loud\", but must be one of \"error\", "
				  "\"warning\", \"info\", \"debug\""},
	{"backoff_min_ms = 20000;",
	 "1: backoff_max_ms (10000) must not be below backoff_min_ms (20000)"},
	{"backoff_min_ms = 200;\nbackoff_max_ms = 100;",
	 "2: backoff_max_ms (100) must not be below backoff_min_ms (200)"},
	{"pool_min = 40;", "1: pool_max (32) must not be below pool_min (40)"},
	{"pool_min = 4;\npool_max = 3;", "2: pool_max (3) must not be below pool_min (4)"},
	{"rdma = \"on\";", "1: rdma is \"on\", but must be one of \"auto\", \"off\""},
	{"rdma_rescan_ms = 5;",
	 "1: rdma_rescan_ms is 5, but must be from 100 to 600000 milliseconds"},
	{"max_sessions = 0;", "1: max_sessions is 0, but must be from 1 to 1048576 sessions"},
	{"spin_us 5;",
	 "1: syntax error in, or before, \"spin_us 5;\"; a line looks like: spin_us = 50;"},
	{"spin_us = 5;\nspin_us = 6;",
	 "2: the key before the = is set already; keep one of the two"},
	{"spin_us = 5;\n}\n",
	 "2: syntax error in, or before, \"}\"; a line looks like: spin_us = 50;"},
	{"spin_us = 0x;",
	 "1: syntax error in, or before, \"spin_us = 0x;\"; a line looks like: spin_us = 50;"},
	{"rdma_depth = 1;", "1: rdma_depth is 1, but must be from 16 to 32768 work requests"},
	{"inline_floor = 16;", "1: inline_floor is 16, but must be from 32 to 1024 bytes"},
	{"rule = ();", "1: unknown key rule; did you mean rules?"},
	{"rules = (\n{ port = 1; action = \"tcp\"; },\n{ port = 0;\n action = \"tcp\"; });",
	 "3: port of a rule must be a number from 1 to 65535, or a range in quotes, such as "
	 "\"8000-8999\""},
	{"device = ();", "1: unknown key device; did you mean devices?"},
	{"peer = ();", "1: unknown key peer; did you mean peers?"},
	{"peers = 1;",
	 "1: peers must be a list of groups: peers = ( { address = \"10.0.0.2\"; } );"},
	{"peers = ( 5 );", "1: an entry of peers must look like: { address = \"10.0.0.2\"; }"},
	{"peers = (\n{ port = 5; }\n);", "2: an entry of peers must have an address"},
	{"peers = (\n{ address = \"10.0.0.2\";\n adress = \"10.0.0.3\"; });",
	 "3: unknown key adress of a peer; there are address, rdma_address, port, key, name"},
	{"peers = ({ address = \"10.0.0\"; });",
	 "1: address of a peer must be an IP address in quotes, such as \"10.0.0.2\", or a list of "
	 "them"},
	{"peers = ({ address = \"0.0.0.0\"; });",
	 "1: address of a peer must be an IP address in quotes, such as \"10.0.0.2\", or a list of "
	 "them"},
	{"peers = ({ address = [ ]; });",
	 "1: address of a peer must be an IP address in quotes, such as \"10.0.0.2\", or a list of "
	 "them"},
	{"peers = ({ address = \"fe80::1\"; rdma_address = 7; });",
	 "1: rdma_address of a peer must be an IP address in quotes, such as \"10.0.0.2\", or a "
	 "list "
	 "of them"},
	{"peers = ({ address = \"10.0.0.2\"; },\n{ address = [ \"10.0.0.3\", \"::ffff:10.0.0.2\" "
	 "]; "
	 "});",
	 "2: 10.0.0.2 is in two entries of peers"},
	{"peers = ({ address = \"10.0.0.2\"; port = 0; });",
	 "1: port of a peer must be a whole number from 1 to 65535"},
	{"peers = ({ address = \"10.0.0.2\"; key = \"../key\"; });",
	 "1: key of a peer must be a file in quotes: its full path, of at most 255 bytes, or the "
	 "name of a credential"},
	{"peers = ({ address = \"10.0.0.2\"; name = \"\"; });",
	 "1: name of a peer must be a text in quotes of at most 63 plain characters"},
	{"peer_port = 0;", "1: peer_port is 0, but must be from 1 to 65535 port numbers"},
	{"peer_listen = \"here\";",
	 "1: peer_listen must be an IP address in quotes, such as \"10.0.0.1\""},
	{"peer_key = 5;",
	 "1: peer_key must be a file in quotes: its full path, of at most 255 bytes, "
	 "or the name of a credential"},
	{"peer_key = \"etc/key\";", "1: peer_key must be a file in quotes: its full path, of at "
				    "most 255 bytes, or the name of "
				    "a credential"},
	{"peer_ca = \"/a\";\n",
	 "1: peer_ca, peer_cert and peer_cert_key go together: set all three "
	 "or none"},
	{"peer_ca = \"/a\"; peer_cert = \"/b\"; peer_cert_key = \"/c\";\npeer_key = \"/d\";",
	 "2: peer_key and peer_ca exclude each other: set one of them"},
	{"peer_ping_ms = 20000;", "1: peer_dead_ms (15000) must not be below peer_ping_ms (20000)"},
	{"peer_retry_max_ms = 500;",
	 "1: peer_retry_max_ms (500) must not be below peer_retry_min_ms (1000)"},
	{"peer_sessions = \"yes\";",
	 "1: peer_sessions is \"yes\", but must be one of \"auto\", \"on\", \"off\""},
	{"devices = 1;", "1: devices must be a list of groups: devices = ( { vendor_id = 0x02c9; "
			 "inline_cap = 236; } );"},
	{"devices = (\n  { vendor_id = 1; inline_cap = 1; },\n  { vendor_id = 1;\n    colour = 3; "
	 "}\n);",
	 "4: unknown key colour of a device; there are vendor_id, part_id, driver, name, "
	 "inline_cap, inline_hints, inline, use"},
	{"devices = ( 5 );", "1: an entry of devices must look like: { vendor_id = 0x02c9; "
			     "inline_cap = 236; }"},
	{"devices = (\n{ inline_cap = 9; }\n);", "2: an entry of devices must say which ones: "
						 "vendor_id, part_id, driver or name (\"*\" for "
						 "all)"},
	{"devices = (\n{ driver = \"rxe\"; }\n);",
	 "2: an entry of devices must say what holds for them: inline_cap, inline_hints, inline or "
	 "use"},
	{"devices = ({\nname = \"*\"; inline_cap = 70000; });",
	 "2: inline_cap of a device is 70000, but must be from 0 to 65535"},
	{"devices = ({ name = \"*\"; inline_cap = \"236\"; });",
	 "1: inline_cap of a device must be a whole number from 0 to 65535"},
	{"devices = ({ name = \"*\";\n inline_hints = 48; });",
	 "2: inline_hints of a device must be a list of 1 to 8 sizes, such as [ 216, 101, 48 ]"},
	{"devices = ({ name = \"*\";\n inline_hints = [ ]; });",
	 "2: inline_hints of a device must be a list of 1 to 8 sizes, such as [ 216, 101, 48 ]"},
	{"devices = ({ name = \"*\"; inline_hints = [ 48, 0 ]; });",
	 "1: a hint of a device is 0, but must be from 1 to 65535"},
	{"devices = ({ name = 5; inline_cap = 1; });",
	 "1: name of a device must be a pattern in quotes, such as \"mlx5_*\", of at most 63 "
	 "characters"},
	{"devices = ({ name = \"*\"; inline = \"no\"; });",
	 "1: inline of a device must be \"on\" or \"off\", in quotes"},
	{"devices = ({ name = \"*\"; use = 1; });",
	 "1: use of a device must be \"yes\" or \"no\", in quotes"},
	{"devices = ({ vendor_id = -1; use = \"no\"; });",
	 "1: vendor_id of a device is -1, but must be from 0 to 16777215"},
};

TAP_CASE(a_broken_file_is_told_with_line_and_remedy)
{
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		struct conf conf, preset;
		char message[512];

		conf_init(&conf);
		conf_init(&preset);
		CHECK_EQ(load(broken[i].text, &conf, message), CONF_BAD);
		CHECK_STR(message, broken[i].message);
		CHECK(memcmp(&conf, &preset, sizeof(conf)) == 0);
	}
	CHECK(ARRAY_SIZE(broken) >= 20);
}

TAP_CASE(good_files_change_what_they_name)
{
	struct conf conf, expected;
	char message[512];

	conf_init(&conf);
	conf_init(&expected);
	CHECK_EQ(load("", &conf, message), 0);
	CHECK(memcmp(&conf, &expected, sizeof(conf)) == 0);
	CHECK_EQ(load("spin_us = 0; ring_bytes = 0x10000;\nusers = \"own\"\n"
		      "ring_bytes_per_uid = 17179869184L;",
		      &conf, message),
		 0);
	expected.spin_us = 0;
	expected.ring_bytes = 65536;
	expected.users = CONF_USERS_OWN;
	expected.ring_bytes_per_uid = 16ull << 30;
	CHECK(memcmp(&conf, &expected, sizeof(conf)) == 0);
}

TAP_CASE(a_file_that_is_not_there_is_told)
{
	struct conf_error error;
	struct conf conf;

	conf_init(&conf);
	CHECK_EQ(conf_load(&conf, "/nonexistent/shunt.conf", &error), -ENOENT);
	CHECK_STR(error.text, "/nonexistent/shunt.conf: can't be read: No such file or directory");
}

static char *slurp(FILE *file)
{
	static char text[2][65536];
	static int turn;
	char *at = text[turn++ & 1];

	at[fread(at, 1, sizeof(text[0]) - 1, file)] = '\0';
	return at;
}

/* etc/shunt.conf is what shuntd --print-config prints. */
TAP_CASE(the_shipped_file_is_the_table)
{
	const char *shipped_path = getenv("SHUNT_SHIPPED_CONF");
	FILE *shipped, *printed = tmpfile();

	REQUIRE(shipped_path && printed);
	shipped = fopen(shipped_path, "re");
	REQUIRE(shipped);
	conf_print_sample(printed);
	rewind(printed);
	CHECK_STR(slurp(shipped), slurp(printed));
	fclose(shipped);
	fclose(printed);
}

/* Every key of the sample may be uncommented as it stands. */
TAP_CASE(the_sample_without_comments_sets_the_defaults)
{
	char text[65536] = "", line[512], message[512];
	FILE *printed = tmpfile();
	struct conf conf, preset;
	size_t keys = 0;

	REQUIRE(printed);
	conf_print_sample(printed);
	rewind(printed);
	while (fgets(line, sizeof(line), printed)) {
		if (line[0] == '#' && line[1] != ' ') {
			strcat(text, line + 1);
			/* Lines of the section about devices begin with a tab. */
			keys += line[1] != '\t' && line[1] != ')';
		}
	}
	fclose(printed);
	/* Numbers and words, then two sections, then the texts. */
	CHECK_EQ(keys,
		 offsetof(struct conf, devices) / sizeof(uint64_t) + 3 +
			 (sizeof(conf) - offsetof(struct conf, peer_listen)) / CONF_PATH_BYTES);
	conf_init(&preset);
	memset(&conf, 0, sizeof(conf));
	CHECK_EQ(load(text, &conf, message), 0);
	CHECK(memcmp(&conf, &preset, sizeof(conf)) == 0);
}
