/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "scrub.h"
#include "tool.h"

/* The shortest key that a daemon takes has 16 bytes. */
#define HEX_MIN 32u
/* Chosen: no identifier of a program is so long and so mixed. */
#define BASE64_MIN 40u

#define BEGIN "-----BEGIN "
#define END "-----END "
#define DASHES "-----"

/* Longest address with its zone, as text. */
#define ADDRESS_MAX 64u

enum kind { KIND_ADDRESS, KIND_MAC };

struct output {
	char *text;
	size_t len, room;
};

static void *must(void *memory)
{
	if (memory)
		return memory;
	tool_say("out of memory");
	exit(TOOL_FAILED);
}

static void put(struct output *out, const char *text, size_t len)
{
	if (out->len + len + 1 > out->room) {
		out->room = (out->len + len + 1) * 2;
		out->text = must(realloc(out->text, out->room));
	}
	memcpy(out->text + out->len, text, len);
	out->len += len;
	out->text[out->len] = '\0';
}

void scrub_init(struct scrub *scrub, bool anonymize, const char *host)
{
	*scrub = (struct scrub){.anonymize = anonymize};
	/* A short name is a word of any text, and tells nothing. */
	if (host && strlen(host) > 2 && strncasecmp(host, "localhost", 9) != 0)
		snprintf(scrub->host, sizeof(scrub->host), "%s", host);
}

void scrub_deinit(struct scrub *scrub)
{
	for (size_t kind = 0; kind < ARRAY_SIZE(scrub->known); kind++) {
		for (size_t i = 0; i < scrub->n[kind]; i++)
			free(scrub->known[kind][i]);
		free(scrub->known[kind]);
	}
	*scrub = (struct scrub){0};
}

/* --- secrets ---------------------------------------------------------------------------------- */

/* Each of these looks at what begins at @text, of @left bytes, and says how many of them it takes
 * out; 0: nothing. */

static size_t take_hex(const char *text, size_t left, struct output *out)
{
	char note[64];
	size_t n = 0;

	while (n < left && isxdigit((unsigned char)text[n]))
		n++;
	if (n < HEX_MIN)
		return 0;
	snprintf(note, sizeof(note), "[left out: %zu hexadecimal digits]", n);
	put(out, note, strlen(note));
	return n;
}

static size_t take_base64(const char *text, size_t left, struct output *out)
{
	bool upper = false, lower = false, digit = false;
	char note[64];
	size_t n = 0;

	for (; n < left; n++) {
		const unsigned char c = (unsigned char)text[n];

		if (!isalnum(c) && c != '+' && c != '/')
			break;
		upper = upper || isupper(c);
		lower = lower || islower(c);
		digit = digit || isdigit(c);
	}
	if (n < BASE64_MIN || !upper || !lower || !digit)
		return 0;
	while (n < left && text[n] == '=')
		n++;
	snprintf(note, sizeof(note), "[left out: %zu characters]", n);
	put(out, note, strlen(note));
	return n;
}

static size_t take_pem(const char *text, size_t left, struct output *out)
{
	const char *end, *dashes;

	if (left < strlen(BEGIN) || strncmp(text, BEGIN, strlen(BEGIN)) != 0)
		return 0;
	put(out, "[left out: a PEM block]", 23);
	end = memmem(text, left, END, strlen(END));
	if (!end)
		return left;
	end += strlen(END);
	dashes = memmem(end, left - (size_t)(end - text), DASHES, strlen(DASHES));
	return dashes ? (size_t)(dashes - text) + strlen(DASHES) : left;
}

/* "password=…", "Secret: …", also as a key of JSON or of settings. */
static size_t take_password(const char *text, size_t left, struct output *out)
{
	static const char *const words[] = {"password", "passwd", "passphrase", "secret"};
	size_t n = 0, value;

	for (size_t i = 0; i < ARRAY_SIZE(words) && n == 0; i++) {
		size_t len = strlen(words[i]);

		if (left > len && strncasecmp(text, words[i], len) == 0)
			n = len;
	}
	if (n == 0)
		return 0;
	while (n < left && strchr("\"' \t", text[n]) && text[n])
		n++;
	if (n == left || (text[n] != '=' && text[n] != ':'))
		return 0;
	for (n++; n < left && text[n] && strchr("\"' \t", text[n]); n++)
		;
	for (value = n;
	     n < left && !strchr("\"'\n,;}", text[n]) && !isspace((unsigned char)text[n]);)
		n++;
	if (n == value)
		return 0;
	put(out, text, value);
	put(out, "[left out]", 10);
	return n;
}

/* --- who is meant ----------------------------------------------------------------------------- */

static void put_name(struct scrub *scrub, enum kind kind, const char *text, struct output *out)
{
	static const char *const names[] = {[KIND_ADDRESS] = "address", [KIND_MAC] = "mac"};
	char name[32];
	size_t i;

	for (i = 0; i < scrub->n[kind]; i++) {
		if (strcmp(scrub->known[kind][i], text) == 0)
			break;
	}
	if (i == scrub->n[kind]) {
		scrub->known[kind] =
			must(realloc(scrub->known[kind], (i + 1) * sizeof(*scrub->known[kind])));
		scrub->known[kind][i] = must(strdup(text));
		scrub->n[kind]++;
	}
	snprintf(name, sizeof(name), "%s-%zu", names[kind], i + 1);
	put(out, name, strlen(name));
}

static bool is_mac(const char *text, size_t len)
{
	if (len != 17)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return true;
}

static bool tells_nobody(const char *text)
{
	return strncmp(text, "127.", 4) == 0 || strncmp(text, "255.", 4) == 0 ||
	       strcmp(text, "0.0.0.0") == 0 || strcmp(text, "::1") == 0 || strcmp(text, "::") == 0;
}

/* The longest beginning of @text[0, @n) that is an address of @family; 0: none. */
static size_t parse(int family, char text[ADDRESS_MAX], size_t n)
{
	uint8_t bytes[16];

	for (; n > 1; n--) {
		text[n] = '\0';
		if (inet_pton(family, text, bytes) == 1)
			return n;
		/* What follows an address is a port, or the end of a sentence. */
		if (family == AF_INET6 && text[n - 1] != ':')
			return 0;
	}
	return 0;
}

static size_t take_address(struct scrub *scrub, const char *text, size_t left, struct output *out)
{
	char copy[ADDRESS_MAX];
	size_t v4 = 0, v6 = 0, n;

	while (v4 < left && v4 < 16 && (isdigit((unsigned char)text[v4]) || text[v4] == '.'))
		v4++;
	while (v6 < left && v6 < 46 &&
	       (isxdigit((unsigned char)text[v6]) || text[v6] == ':' || text[v6] == '.'))
		v6++;
	snprintf(copy, sizeof(copy), "%.*s", (int)v6, text);
	if (is_mac(copy, v6)) {
		put_name(scrub, KIND_MAC, copy, out);
		return v6;
	}
	n = memchr(text, ':', v6) ? parse(AF_INET6, copy, v6) : 0;
	if (n == 0) {
		snprintf(copy, sizeof(copy), "%.*s", (int)v4, text);
		while (v4 > 0 && copy[v4 - 1] == '.')
			v4--;
		n = parse(AF_INET, copy, v4) == v4 ? v4 : 0;
	}
	if (n == 0)
		return 0;
	copy[n] = '\0';
	if (tells_nobody(copy))
		put(out, copy, n);
	else
		put_name(scrub, KIND_ADDRESS, copy, out);
	return n;
}

static size_t take_host(const struct scrub *scrub, const char *text, size_t left,
			struct output *out)
{
	size_t len = strlen(scrub->host);

	if (len == 0 || left < len || strncasecmp(text, scrub->host, len) != 0 ||
	    (left > len && isalnum((unsigned char)text[len])))
		return 0;
	put(out, "host-1", 6);
	return len;
}

/* --- both ------------------------------------------------------------------------------------- */

char *scrub_text(struct scrub *scrub, const char *text, size_t len)
{
	struct output out = {0};
	size_t taken;

	put(&out, "", 0);
	for (size_t at = 0; at < len; at += taken) {
		const char *here = text + at, before = at ? text[at - 1] : ' ';
		const size_t left = len - at;
		/* In the middle of a word nothing begins. */
		const bool starts = !isalnum((unsigned char)before) ||
				    (before == 'n' && at > 1 && text[at - 2] == '\\');

		taken = take_pem(here, left, &out);
		if (!taken && starts)
			taken = take_hex(here, left, &out);
		if (!taken && starts)
			taken = take_base64(here, left, &out);
		if (!taken)
			taken = take_password(here, left, &out);
		if (!taken && starts && scrub->anonymize && before != '.' && before != ':')
			taken = take_address(scrub, here, left, &out);
		if (!taken && starts && scrub->anonymize)
			taken = take_host(scrub, here, left, &out);
		if (!taken) {
			put(&out, *here ? here : "?", 1);
			taken = 1;
		}
	}
	return out.text;
}
