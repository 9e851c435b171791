/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/link_hello.h"

#include "fuzz/fuzz.h"

/*
 * Private data of the connection manager, arbitrary bytes, with or without padding. What is
 * accepted is in its range and means the same when it is written again; what is refused must leave
 * the result alone.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct link_hello hello, again;
	uint8_t bytes[LINK_HELLO_BYTES];

	memset(&hello, 0xa5, sizeof(hello));
	again = hello;
	if (link_hello_decode(data, len, &hello) != LINK_HELLO_OK) {
		if (memcmp(&hello, &again, sizeof(hello)) != 0)
			abort();
		return 0;
	}
	if (len < LINK_HELLO_BYTES || hello.version != LINK_HELLO_VERSION || hello.kind <= 0 ||
	    hello.kind >= LINK_KIND_END || hello.credits > UINT16_MAX)
		abort();
	if (hello.kind == LINK_REJECTION && (hello.reject <= 0 || hello.reject >= LINK_REJECT_END ||
					     strlen(link_reject_text(hello.reject)) == 0))
		abort();
	link_hello_encode(&hello, bytes);
	if (link_hello_decode(bytes, sizeof(bytes), &again) != LINK_HELLO_OK ||
	    again.kind != hello.kind || again.reject != hello.reject ||
	    again.credits != hello.credits || again.generation != hello.generation ||
	    memcmp(again.nonce, hello.nonce, sizeof(hello.nonce)) != 0)
		abort();
	return 0;
}
