/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "scrub.h"
#include "tool.h"

#include "lib/tap.h"

/* The scrub says it by this; nothing here makes it run out of memory. */
void tool_say(const char *format, ...)
{
	(void)format;
}

static void expect(struct scrub *scrub, const char *text, const char *wanted)
{
	char *clean = scrub_text(scrub, text, strlen(text));

	CHECK_STR(clean, wanted);
	free(clean);
}

#define HEX32 "00112233445566778899aAbBcCdDeEfF"

TAP_CASE(keys_are_taken_out)
{
	struct scrub scrub;

	scrub_init(&scrub, false, "box");
	expect(&scrub, "", "");
	expect(&scrub, "key " HEX32, "key [left out: 32 hexadecimal digits]");
	expect(&scrub, "\"" HEX32 HEX32 "\",", "\"[left out: 64 hexadecimal digits]\",");
	expect(&scrub, "a\n" HEX32 "\nb", "a\n[left out: 32 hexadecimal digits]\nb");
	/* As JSON has the end of a line. */
	expect(&scrub, "a\\n" HEX32, "a\\n[left out: 32 hexadecimal digits]");
	expect(&scrub, "guid 0011223344556677, 2026-12-01T10:00",
	       "guid 0011223344556677, 2026-12-01T10:00");
	expect(&scrub, "=ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=.",
	       "=[left out: 44 characters].");
	expect(&scrub, "/usr/lib/a/very/long/path/without/any/capital/in/it",
	       "/usr/lib/a/very/long/path/without/any/capital/in/it");
	scrub_deinit(&scrub);
}

TAP_CASE(pem_blocks_are_taken_out)
{
	struct scrub scrub;

	scrub_init(&scrub, false, NULL);
	expect(&scrub, "x\n-----BEGIN PRIVATE KEY-----\nMARK\n-----END PRIVATE KEY-----\ny",
	       "x\n[left out: a PEM block]\ny");
	/* One that does not end ends with the text. */
	expect(&scrub, "x -----BEGIN KEY-----\nMARK", "x [left out: a PEM block]");
	expect(&scrub, "-----BEGIN KEY-----\nMARK-----END ", "[left out: a PEM block]");
	scrub_deinit(&scrub);
}

TAP_CASE(passwords_are_taken_out)
{
	struct scrub scrub;

	scrub_init(&scrub, false, NULL);
	expect(&scrub, "password=MARK rest", "password=[left out] rest");
	expect(&scrub, "\"Secret\": \"MARK\", 5", "\"Secret\": \"[left out]\", 5");
	expect(&scrub, "db_passwd : MARK\n", "db_passwd : [left out]\n");
	expect(&scrub, "no secret is in it; a password", "no secret is in it; a password");
	expect(&scrub, "secret=", "secret=");
	scrub_deinit(&scrub);
}

TAP_CASE(who_is_meant_gets_another_name)
{
	struct scrub scrub;

	scrub_init(&scrub, true, "box.example.org");
	expect(&scrub, "peer 10.1.2.3:7609: up", "peer address-1:7609: up");
	expect(&scrub, "10.1.2.3/24, 10.1.2.4. Then 10.1.2.3.",
	       "address-1/24, address-2. Then address-1.");
	expect(&scrub, "[fd00::1]:80 fe80::200:ff:fe00:1%eth0 ::ffff:10.1.2.9",
	       "[address-3]:80 address-4%eth0 address-5");
	expect(&scrub, "link/ether 02:42:ac:11:00:02 brd", "link/ether mac-1 brd");
	expect(&scrub, "127.0.0.1 ::1 0.0.0.0 :: 255.255.255.0",
	       "127.0.0.1 ::1 0.0.0.0 :: 255.255.255.0");
	expect(&scrub, "Linux 6.12.5 at 12:34:56, a::b", "Linux 6.12.5 at 12:34:56, address-6");
	expect(&scrub, "Box.example.org boxes box.example.orgs", "host-1 boxes box.example.orgs");
	expect(&scrub, "1.2.3.4.5 abc:def face", "1.2.3.4.5 abc:def face");
	expect(&scrub, "x10.1.2.3 v1.2.3.4", "x10.1.2.3 v1.2.3.4");
	scrub_deinit(&scrub);
	scrub_init(&scrub, false, "box.example.org");
	expect(&scrub, "box.example.org 10.1.2.3 fd00::1", "box.example.org 10.1.2.3 fd00::1");
	scrub_deinit(&scrub);
	/* A name that tells nothing stays. */
	scrub_init(&scrub, true, "localhost");
	expect(&scrub, "localhost", "localhost");
	scrub_deinit(&scrub);
}

/* Whatever a program says: nothing is read beyond its end, and no zero byte is left. */
TAP_CASE(any_bytes_at_all)
{
	struct scrub scrub;
	unsigned int seed = 7;

	scrub_init(&scrub, true, "box");
	for (int round = 0; round < 2000; round++) {
		static const char pieces[] = "0123456789abcdefABCDEF:.:.-= \n\"/+box";
		size_t len = (size_t)(rand_r(&seed) % 120);
		char *text = malloc(len + 1), *clean;

		for (size_t i = 0; i < len; i++)
			text[i] = rand_r(&seed) % 9 ? pieces[(size_t)rand_r(&seed) % sizeof(pieces)]
						    : (char)rand_r(&seed);
		/* Exactly so long, so that a sanitizer sees a byte too many. */
		text = realloc(text, len ? len : 1);
		clean = scrub_text(&scrub, text, len);
		CHECK(strlen(clean) >= 1 || len == 0);
		free(clean);
		free(text);
	}
	scrub_deinit(&scrub);
}
