/* SPDX-License-Identifier: MIT */
#include "core/peer_msg.h"

const char *peer_type_name(enum peer_type type)
{
	static const char *const names[PEER_TYPE_END] = {
		[PEER_HELLO] = "hello", [PEER_OFFER] = "offer",	  [PEER_WITHDRAW] = "withdraw",
		[PEER_MATCH] = "match", [PEER_REFUSE] = "refuse", [PEER_NONCE_ASK] = "nonce_ask",
		[PEER_NONCE] = "nonce", [PEER_LOST] = "lost",	  [PEER_REPLAYED] = "replayed",
		[PEER_PING] = "ping",	[PEER_PONG] = "pong",	  [PEER_BYE] = "bye",
	};

	return type < PEER_TYPE_END && names[type] ? names[type] : "invalid";
}

const char *peer_verdict_name(enum peer_verdict verdict)
{
	static const char *const names[PEER_VERDICT_COUNT] = {
		[PEER_OK] = "good",
		[PEER_MORE] = "not complete",
		[PEER_BAD_LENGTH] = "wrong length",
		[PEER_BAD_TYPE] = "unknown type",
		[PEER_BAD_RESERVED] = "reserved bits set",
		[PEER_BAD_VALUE] = "value out of range",
		[PEER_BAD_VERSION] = "another protocol or version",
	};

	return verdict < PEER_VERDICT_COUNT ? names[verdict] : "invalid";
}

const char *peer_transport_name(enum peer_transport transport)
{
	static const char *const names[PEER_TRANSPORT_END] = {
		[PEER_TRANSPORT_IB] = "InfiniBand",
		[PEER_TRANSPORT_ROCE] = "RoCE",
		[PEER_TRANSPORT_IWARP] = "iWARP",
	};

	return transport < PEER_TRANSPORT_END && names[transport] ? names[transport] : "invalid";
}

const char *peer_bye_text(enum peer_bye why)
{
	switch (why) {
	case PEER_BYE_SHUTDOWN:
		return "The other daemon ended.";
	case PEER_BYE_CROSSED:
		return "Both dialled at once; the other session stays.";
	case PEER_BYE_REPLACED:
		return "A newer session took its place.";
	case PEER_BYE_SELF:
		return "The address is this daemon's own.";
	case PEER_BYE_VERSION:
		return "The other daemon speaks another version.";
	case PEER_BYE_PROTOCOL:
		return "The other daemon understood no message of this one.";
	case PEER_BYE_BUSY:
		return "The other daemon has too much to do.";
	case PEER_BYE_NOT_ALLOWED:
		return "The other daemon does not accept this one at its address.";
	case PEER_BYE_END:
		break;
	}
	return "The other daemon gave no reason.";
}
