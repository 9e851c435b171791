/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/link_hello.h"
#include "core/wire.h"

#define MAGIC 0x53686c6bu

#define AT_VERSION 4
#define AT_KIND 6
#define AT_NONCE 8
#define AT_REJECT 8
#define AT_CREDITS 24
#define AT_GENERATION 28

/* More receives than any device has. */
#define CREDITS_MAX 65535u

void link_hello_encode(const struct link_hello *hello, uint8_t ret_bytes[LINK_HELLO_BYTES])
{
	memset(ret_bytes, 0, LINK_HELLO_BYTES);
	put_be32(ret_bytes, MAGIC);
	put_be16(ret_bytes + AT_VERSION, hello->version);
	put_be16(ret_bytes + AT_KIND, (uint16_t)hello->kind);
	if (hello->kind == LINK_REJECTION) {
		put_be32(ret_bytes + AT_REJECT, hello->reject);
		return;
	}
	memcpy(ret_bytes + AT_NONCE, hello->nonce, LINK_NONCE_BYTES);
	put_be32(ret_bytes + AT_CREDITS, hello->credits);
	put_be32(ret_bytes + AT_GENERATION, hello->generation);
}

enum link_verdict link_hello_decode(const void *bytes, size_t len, struct link_hello *ret_hello)
{
	struct link_hello hello = {0};
	const uint8_t *at = bytes;
	uint16_t kind;
	uint32_t reject;

	if (len < LINK_HELLO_BYTES || get_be32(at) != MAGIC)
		return LINK_HELLO_FOREIGN;
	hello.version = get_be16(at + AT_VERSION);
	if (hello.version != LINK_HELLO_VERSION)
		return LINK_HELLO_VERSION_BAD;
	kind = get_be16(at + AT_KIND);
	if (kind == 0 || kind >= LINK_KIND_END)
		return LINK_HELLO_FOREIGN;
	hello.kind = kind;
	if (hello.kind == LINK_REJECTION) {
		reject = get_be32(at + AT_REJECT);
		if (reject == 0 || reject >= LINK_REJECT_END)
			return LINK_HELLO_FOREIGN;
		hello.reject = reject;
	} else {
		memcpy(hello.nonce, at + AT_NONCE, LINK_NONCE_BYTES);
		hello.credits = get_be32(at + AT_CREDITS);
		hello.generation = get_be32(at + AT_GENERATION);
		if (hello.credits > CREDITS_MAX)
			return LINK_HELLO_FOREIGN;
	}
	*ret_hello = hello;
	return LINK_HELLO_OK;
}

const char *link_reject_text(enum link_reject reject)
{
	switch (reject) {
	case LINK_REJECT_VERSION:
		return "The other daemon speaks another version.";
	case LINK_REJECT_MALFORMED:
		return "The other end understood no request.";
	case LINK_REJECT_NONCE:
		return "The other daemon does not expect this link.";
	case LINK_REJECT_BUSY:
		return "The other daemon has too many requests pending.";
	case LINK_REJECT_NO_QP:
		return "The other daemon has no queue pair left.";
	case LINK_REJECT_CROSSED:
		return "Both dialled at once; the other link stays.";
	case LINK_REJECT_GOING:
		return "The other daemon, or its device, is ending.";
	case LINK_REJECT_END:
		break;
	}
	return "The other end gave no reason.";
}
