/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/link_msg.h"

#include "fuzz/fuzz.h"

/*
 * A message of a link, arbitrary bytes: the header, and the state words behind it. What is accepted
 * must be encodable, to the very same bytes; what is refused must leave the result alone.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t head[CDC_BYTES], payload[LINK_WORDS_MAX_BYTES];
	struct link_words words, words_before;
	struct cdc msg, before;

	memset(&msg, 0xa5, sizeof(msg));
	before = msg;
	if (cdc_decode(data, len, &msg) != CDC_OK) {
		if (memcmp(&msg, &before, sizeof(msg)) != 0)
			abort();
		return 0;
	}
	if (!cdc_is_ok(&msg) || msg.payload != len - CDC_BYTES)
		abort();
	cdc_encode(&msg, head);
	if (memcmp(head, data, CDC_BYTES) != 0)
		abort();
	memset(&words, 0xa5, sizeof(words));
	words_before = words;
	if (link_words_decode(data + CDC_BYTES, msg.payload, &words) != LINK_WORDS_OK) {
		if (memcmp(&words, &words_before, sizeof(words)) != 0)
			abort();
		return 0;
	}
	if (link_words_encode(&words, payload) != msg.payload ||
	    memcmp(payload, data + CDC_BYTES, msg.payload) != 0)
		abort();
	return 0;
}
