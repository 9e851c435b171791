/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "core/peer_msg.h"
#include "core/ring.h"

/*
 * One table says what each type consists of, in wire order; encoding, decoding and checking walk
 * it. Ranges are those of single fields; what several fields must be together is in fits().
 */

enum field_kind {
	FIELD_U8,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_BYTES, /* copied as they are */
	FIELD_TEXT,  /* printable ASCII, the rest of it zero, the last byte too */
	FIELD_RING,  /* a u64 that is a good ring size */
};

struct field {
	uint16_t at, size; /* in struct peer_msg, or in the element of a list */
	uint8_t kind;
	uint64_t lo, hi;
};

#define FIELD_IN(type, name, kind, lo, hi)                                                         \
	{                                                                                          \
		offsetof(type, name), sizeof(((type *)0)->name), kind, lo, hi                      \
	}
#define U8(name, lo, hi) FIELD_IN(struct peer_msg, u.name, FIELD_U8, lo, hi)
#define U16(name, lo, hi) FIELD_IN(struct peer_msg, u.name, FIELD_U16, lo, hi)
#define U32(name, lo, hi) FIELD_IN(struct peer_msg, u.name, FIELD_U32, lo, hi)
#define U64(name, lo, hi) FIELD_IN(struct peer_msg, u.name, FIELD_U64, lo, hi)
#define BYTES(name) FIELD_IN(struct peer_msg, u.name, FIELD_BYTES, 0, 0)
#define TEXT(name) FIELD_IN(struct peer_msg, u.name, FIELD_TEXT, 0, 0)
#define RING(name) FIELD_IN(struct peer_msg, u.name, FIELD_RING, 0, 0)
#define ADDRESS(name) U8(name.family, 0, 6), BYTES(name.addr), U16(name.port, 0, UINT16_MAX)
#define TOKEN(name) U32(name.index, 0, UINT32_MAX), U32(name.generation, 0, UINT32_MAX)

static const struct field hello_fields[] = {
	U32(hello.magic, PEER_MAGIC, PEER_MAGIC),
	U16(hello.version, PEER_VERSION, PEER_VERSION),
	BYTES(hello.uuid),
	TEXT(hello.software),
	U16(hello.n_rdma, 0, PEER_RDMA_MAX),
};
static const struct field rdma_fields[] = {
	FIELD_IN(struct peer_rdma, transport, FIELD_U8, 1, PEER_TRANSPORT_END - 1),
	FIELD_IN(struct peer_rdma, gid_type, FIELD_U8, 0, 2),
	FIELD_IN(struct peer_rdma, prefix, FIELD_U8, 0, 128),
	FIELD_IN(struct peer_rdma, gid, FIELD_BYTES, 0, 0),
	FIELD_IN(struct peer_rdma, address.family, FIELD_U8, 0, 6),
	FIELD_IN(struct peer_rdma, address.addr, FIELD_BYTES, 0, 0),
	FIELD_IN(struct peer_rdma, address.port, FIELD_U16, 0, UINT16_MAX),
	FIELD_IN(struct peer_rdma, device, FIELD_TEXT, 0, 0),
};
static const struct field offer_fields[] = {
	U64(offer.id, 1, UINT64_MAX),
	ADDRESS(offer.local),
	ADDRESS(offer.remote),
	U64(offer.acked_bytes, 0, UINT64_MAX),
	U64(offer.received_bytes, 0, UINT64_MAX),
	U64(offer.written_bytes, 0, UINT64_MAX),
	U8(offer.sent_syn, 0, 1),
	RING(offer.ring_bytes),
	U32(offer.epoch, 1, UINT32_MAX),
	U64(offer.answers, 0, UINT64_MAX),
};
static const struct field withdraw_fields[] = {U64(withdraw.id, 1, UINT64_MAX)};
static const struct field match_fields[] = {
	U64(match.own_id, 1, UINT64_MAX),
	U64(match.your_id, 1, UINT64_MAX),
	TOKEN(match.token),
	U32(match.epoch, 1, UINT32_MAX),
	U32(match.rkey, 0, UINT32_MAX),
	U64(match.address, 0, UINT64_MAX),
	RING(match.ring_bytes),
	U64(match.link, 0, UINT64_MAX),
};
static const struct field refuse_fields[] = {
	U64(refuse.your_id, 1, UINT64_MAX),
	U16(refuse.reason, 1, REASON_COUNT - 1),
};
static const struct field nonce_ask_fields[] = {
	U64(nonce_ask.id, 1, UINT64_MAX),
	U16(nonce_ask.from, 0, PEER_RDMA_MAX - 1),
	U16(nonce_ask.to, 0, PEER_RDMA_MAX - 1),
};
static const struct field nonce_fields[] = {
	U64(nonce.id, 1, UINT64_MAX),
	U16(nonce.reason, 0, REASON_COUNT - 1),
	BYTES(nonce.nonce),
};
static const struct field lane_at_fields[] = {
	U64(lane_at.id, 1, UINT64_MAX),
	ADDRESS(lane_at.local),
	ADDRESS(lane_at.remote),
	U32(lane_at.epoch, 1, UINT32_MAX),
	U64(lane_at.offset, 0, UINT64_MAX),
};
static const struct field ping_fields[] = {U64(ping.serial, 0, UINT64_MAX)};
static const struct field bye_fields[] = {U16(bye.why, 1, PEER_BYE_END - 1)};

struct rule {
	const struct field *fields;
	size_t count;
};

#define RULE(fields)                                                                               \
	{                                                                                          \
		fields, sizeof(fields) / sizeof((fields)[0])                                       \
	}

static const struct rule rules[PEER_TYPE_END] = {
	[PEER_HELLO] = RULE(hello_fields),	 [PEER_OFFER] = RULE(offer_fields),
	[PEER_WITHDRAW] = RULE(withdraw_fields), [PEER_MATCH] = RULE(match_fields),
	[PEER_REFUSE] = RULE(refuse_fields),	 [PEER_NONCE_ASK] = RULE(nonce_ask_fields),
	[PEER_NONCE] = RULE(nonce_fields),	 [PEER_LOST] = RULE(lane_at_fields),
	[PEER_REPLAYED] = RULE(lane_at_fields),	 [PEER_PING] = RULE(ping_fields),
	[PEER_PONG] = RULE(ping_fields),	 [PEER_BYE] = RULE(bye_fields),
};

static const struct rule rdma_rule = RULE(rdma_fields);

static const struct rule *rule_of(uint64_t type)
{
	return type < PEER_TYPE_END && rules[type].fields ? &rules[type] : NULL;
}

static size_t rule_bytes(const struct rule *rule)
{
	size_t bytes = 0;

	for (size_t i = 0; i < rule->count; i++)
		bytes += rule->fields[i].size;
	return bytes;
}

static bool is_integer(const struct field *field)
{
	return field->kind != FIELD_BYTES && field->kind != FIELD_TEXT;
}

static uint64_t load(const void *object, const struct field *field)
{
	const char *at = (const char *)object + field->at;
	uint64_t value = 0;
	uint32_t u32;
	uint16_t u16;

	switch (field->size) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		memcpy(&u16, at, 2);
		return u16;
	case 4:
		memcpy(&u32, at, 4);
		return u32;
	default:
		memcpy(&value, at, 8);
		return value;
	}
}

static void store(void *object, const struct field *field, uint64_t value)
{
	char *at = (char *)object + field->at;
	const uint32_t u32 = (uint32_t)value;
	const uint16_t u16 = (uint16_t)value;

	switch (field->size) {
	case 1:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case 2:
		memcpy(at, &u16, 2);
		break;
	case 4:
		memcpy(at, &u32, 4);
		break;
	default:
		memcpy(at, &value, 8);
		break;
	}
}

static bool text_ok(const char *text, size_t size)
{
	size_t len = 0;

	while (len < size && text[len] >= ' ' && text[len] <= '~')
		len++;
	if (len == size)
		return false;
	for (size_t i = len; i < size; i++) {
		if (text[i])
			return false;
	}
	return true;
}

static bool field_ok(const void *object, const struct field *field)
{
	uint64_t value;

	if (field->kind == FIELD_BYTES)
		return true;
	if (field->kind == FIELD_TEXT)
		return text_ok((const char *)object + field->at, field->size);
	value = load(object, field);
	if (field->kind == FIELD_RING)
		return ring_size_ok(value);
	return value >= field->lo && value <= field->hi;
}

static bool all_ok(const void *object, const struct rule *rule)
{
	for (size_t i = 0; i < rule->count; i++) {
		if (!field_ok(object, &rule->fields[i]))
			return false;
	}
	return true;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/* In the one form of each address, since addresses are compared as bytes. */
static bool address_ok(const struct peer_address *address, bool may_be_none)
{
	switch (address->family) {
	case 4:
		return is_zero(address->addr + 4, 12);
	case 6:
		return true;
	default:
		return may_be_none && address->family == 0 && is_zero(address->addr, 16) &&
		       address->port == 0;
	}
}

static bool rdma_ok(const struct peer_rdma *rdma)
{
	return all_ok(rdma, &rdma_rule) && address_ok(&rdma->address, true) &&
	       (rdma->gid_type != 0) == (rdma->transport == PEER_TRANSPORT_ROCE) &&
	       (rdma->address.family != 0 || rdma->prefix == 0) &&
	       (rdma->address.family != 4 || rdma->prefix <= 32);
}

/* The two ends of one connection. */
static bool ends_ok(const struct peer_address *local, const struct peer_address *remote)
{
	return address_ok(local, false) && address_ok(remote, false) &&
	       local->family == remote->family && local->port && remote->port;
}

/* What several fields must be together. */
static bool fits(const struct peer_msg *msg)
{
	const struct peer_offer *offer = &msg->u.offer;
	const struct peer_hello *hello = &msg->u.hello;

	switch (msg->type) {
	case PEER_HELLO:
		for (size_t i = 0; i < hello->n_rdma; i++) {
			if (!rdma_ok(&hello->rdma[i]))
				return false;
		}
		return !is_zero(hello->uuid, PEER_UUID_BYTES);
	case PEER_OFFER:
		return ends_ok(&offer->local, &offer->remote) &&
		       offer->acked_bytes <= offer->written_bytes;
	case PEER_LOST:
	case PEER_REPLAYED:
		return ends_ok(&msg->u.lane_at.local, &msg->u.lane_at.remote);
	case PEER_NONCE:
		return msg->u.nonce.reason == REASON_NONE ||
		       is_zero(msg->u.nonce.nonce, PEER_NONCE_BYTES);
	default:
		return true;
	}
}

bool peer_msg_ok(const struct peer_msg *msg)
{
	const struct rule *rule = rule_of(msg->type);

	return rule && all_ok(msg, rule) && fits(msg);
}

static uint8_t *put(uint8_t *at, const void *object, const struct rule *rule)
{
	for (size_t i = 0; i < rule->count; i++) {
		const struct field *field = &rule->fields[i];
		uint64_t value;

		if (!is_integer(field)) {
			memcpy(at, (const char *)object + field->at, field->size);
			at += field->size;
			continue;
		}
		value = load(object, field);
		for (int shift = (field->size - 1) * 8; shift >= 0; shift -= 8)
			*at++ = (uint8_t)(value >> shift);
	}
	return at;
}

static uint64_t get_integer(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size; i++)
		value = value << 8 | at[i];
	return value;
}

static const uint8_t *get(const uint8_t *at, void *object, const struct rule *rule)
{
	for (size_t i = 0; i < rule->count; i++) {
		const struct field *field = &rule->fields[i];

		if (is_integer(field))
			store(object, field, get_integer(at, field->size));
		else
			memcpy((char *)object + field->at, at, field->size);
		at += field->size;
	}
	return at;
}

size_t peer_encode(const struct peer_msg *msg, void *bytes)
{
	const struct rule *rule = rule_of(msg->type);
	uint8_t *at = bytes;
	uint32_t len;

	assert(peer_msg_ok(msg));
	at = put(at + PEER_HEADER_BYTES, msg, rule);
	for (size_t i = 0; msg->type == PEER_HELLO && i < msg->u.hello.n_rdma; i++)
		at = put(at, &msg->u.hello.rdma[i], &rdma_rule);
	len = (uint32_t)(at - (uint8_t *)bytes);
	at = bytes;
	for (int shift = 24; shift >= 0; shift -= 8)
		*at++ = (uint8_t)(len >> shift);
	*at++ = 0;
	*at++ = (uint8_t)msg->type;
	*at++ = 0;
	*at++ = 0;
	return len;
}

/* The frame @bytes[0, @len) is whole, its header is good. */
static enum peer_verdict decode_body(const uint8_t *bytes, size_t len, const struct rule *rule,
				     struct peer_msg *msg)
{
	const uint8_t *at = bytes + PEER_HEADER_BYTES;
	size_t fixed = PEER_HEADER_BYTES + rule_bytes(rule);
	struct peer_hello *hello = &msg->u.hello;

	if (len < fixed || (msg->type != PEER_HELLO && len != fixed))
		return PEER_BAD_LENGTH;
	at = get(at, msg, rule);
	if (msg->type == PEER_HELLO) {
		if (hello->magic != PEER_MAGIC || hello->version != PEER_VERSION)
			return PEER_BAD_VERSION;
		if (hello->n_rdma > PEER_RDMA_MAX)
			return PEER_BAD_VALUE;
		if (len != fixed + hello->n_rdma * rule_bytes(&rdma_rule))
			return PEER_BAD_LENGTH;
		for (size_t i = 0; i < hello->n_rdma; i++)
			at = get(at, &hello->rdma[i], &rdma_rule);
	}
	return peer_msg_ok(msg) ? PEER_OK : PEER_BAD_VALUE;
}

enum peer_verdict peer_decode(const void *bytes, size_t len, struct peer_msg *ret_msg,
			      size_t *ret_used)
{
	const uint8_t *at = bytes;
	enum peer_verdict verdict;
	const struct rule *rule;
	struct peer_msg msg;
	uint64_t total;

	if (len < PEER_HEADER_BYTES)
		return PEER_MORE;
	total = get_integer(at, 4);
	if (total < PEER_HEADER_BYTES || total > PEER_FRAME_MAX)
		return PEER_BAD_LENGTH;
	rule = rule_of(get_integer(at + 4, 2));
	if (!rule)
		return PEER_BAD_TYPE;
	if (get_integer(at + 6, 2) != 0)
		return PEER_BAD_RESERVED;
	if (len < total)
		return PEER_MORE;
	memset(&msg, 0, sizeof(msg));
	msg.type = (enum peer_type)get_integer(at + 4, 2);
	verdict = decode_body(at, total, rule, &msg);
	if (verdict != PEER_OK)
		return verdict;
	*ret_msg = msg;
	*ret_used = total;
	return PEER_OK;
}
