/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * What a text for others may not say is taken out of it.
 *
 * Always, whatever it is doing there: runs of 32 or more hexadecimal digits, which a key of
 * shunt.conf is; runs of 40 or more base64 digits of all kinds; PEM blocks; and what follows words
 * like "password". Rather too much than too little.
 *
 * On request also who is meant: each IP and hardware address, and the name of this host, becomes a
 * name that is the same wherever it stood (address-1, mac-1, host-1). Loopback and "any" stay.
 *
 * Without memory the program ends: it has only this to do.
 */

/* Names given by one scrub. */
struct scrub {
	bool anonymize;
	char host[65];	 /* to be replaced; empty: none */
	char **known[2]; /* addresses, hardware addresses */
	size_t n[2];
};

/* @host: of this host, may be NULL. */
void scrub_init(struct scrub *scrub, bool anonymize, const char *host);
void scrub_deinit(struct scrub *scrub);

/* A copy of @text[0, @len), without what it may not say, zero bytes as '?'; the caller frees it. */
char *scrub_text(struct scrub *scrub, const char *text, size_t len);
