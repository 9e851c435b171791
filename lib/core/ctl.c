/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "core/ctl.h"
#include "core/ring.h"

/*
 * The codec is two tables: what fields a message has, with width and range, and what messages
 * there are. Encoding and decoding walk the same rows, so they can not disagree.
 */

enum field_kind {
	FIELD_U32,  /* lo <= value <= hi */
	FIELD_S32,  /* the same, signed */
	FIELD_U64,  /* any value */
	FIELD_RING, /* u64, a size that a ring may have */
};

struct field {
	uint16_t offset; /* in struct ctl_msg */
	uint8_t kind;
	int64_t lo, hi;
};

struct rule {
	const char *name;
	const struct field *fields;
	uint8_t field_count;
	uint8_t side;
	uint8_t min_fds, max_fds;
};

#define AT(member) offsetof(struct ctl_msg, u.member)
#define U32(member, lo, hi)                                                                        \
	{                                                                                          \
		AT(member), FIELD_U32, lo, hi                                                      \
	}
#define S32(member, lo)                                                                            \
	{                                                                                          \
		AT(member), FIELD_S32, lo, INT32_MAX                                               \
	}
#define U64(member)                                                                                \
	{                                                                                          \
		AT(member), FIELD_U64, 0, 0                                                        \
	}
#define RING(member)                                                                               \
	{                                                                                          \
		AT(member), FIELD_RING, 0, 0                                                       \
	}
#define EPOCH(member) U32(member, 1, UINT32_MAX)
#define REASON(member) U32(member, 0, REASON_COUNT - 1)
#define TOTALS(member)                                                                             \
	U64(member.tcp_tx), U64(member.tcp_rx), U64(member.lane_tx), U64(member.lane_rx),          \
		U64(member.rx_changes)

/* Times that one side tells the other are below a day: anything more is nonsense. */
#define DAY_MS 86400000

static const struct field hello_fields[] = {
	U32(hello.version, 0, UINT32_MAX),
	U32(hello.flags, 0, CTL_HELLO_TOOL),
};
static const struct field register_fields[] = {
	S32(reg.fd, 0),
	EPOCH(reg.epoch),
	U32(reg.flags, 0, 0),
};
static const struct field mapped_fields[] = {
	EPOCH(mapped.epoch),
};
static const struct field drained_fields[] = {
	EPOCH(drained.epoch),
	REASON(drained.reason),
	TOTALS(drained.totals),
};
static const struct field state_fields[] = {
	U32(state.state, 0, CTL_STATE_COUNT - 1), REASON(state.reason), S32(state.fd, 0),
	U32(state.epoch, 0, UINT32_MAX),	  TOTALS(state.totals),
};
static const struct field adopt_fields[] = {
	S32(adopt.fd, 0),
	EPOCH(adopt.epoch),
	U32(adopt.flags, 0, CTL_LANE_REMOTE),
	TOTALS(adopt.totals),
};
static const struct field closed_fields[] = {
	REASON(closed.reason),
	U32(closed.epochs, 0, UINT32_MAX),
	U32(closed.demotions, 0, UINT32_MAX),
	TOTALS(closed.totals),
};
static const struct field query_fields[] = {
	U32(query.kind, 0, CTL_QUERY_COUNT - 1),
	S32(query.pid, -1),
	S32(query.fd, -1),
};
static const struct field demote_req_fields[] = {
	S32(demote_req.pid, 1),
	S32(demote_req.fd, -1),
};
static const struct field welcome_fields[] = {
	U32(welcome.version, CTL_VERSION, CTL_VERSION),
	U32(welcome.slot, 0, UINT32_MAX),
	U32(welcome.spin_us, 0, 1000000),
	U32(welcome.promote_after, 0, UINT32_MAX),
	U32(welcome.demote_wait_ms, 0, DAY_MS),
	U32(welcome.resume_timeout_s, 0, DAY_MS / 1000),
	U32(welcome.backoff_min_ms, 0, DAY_MS),
	U32(welcome.backoff_max_ms, 0, DAY_MS),
	RING(welcome.ring_bytes),
};
static const struct field registered_fields[] = {
	EPOCH(registered.epoch),
	U32(registered.held, 0, 1),
};
static const struct field refused_fields[] = {
	REASON(refused.reason),
	U32(refused.retry_ms, 0, DAY_MS),
};
static const struct field pair_fields[] = {
	EPOCH(pair.epoch),	   U32(pair.role, 0, 1),       U32(pair.flags, 0, CTL_LANE_REMOTE),
	RING(pair.own_ring_bytes), RING(pair.peer_ring_bytes),
};
static const struct field peer_fields[] = {
	EPOCH(peer.epoch),
};
static const struct field unpair_fields[] = {
	EPOCH(unpair.epoch),
	REASON(unpair.reason),
};
static const struct field demote_fields[] = {
	REASON(demote.reason),
};
static const struct field answer_fields[] = {
	{AT(answer.result), FIELD_S32, -4095, 0}, /* the kernel's range of -errno */
	U32(answer.count, 0, UINT32_MAX),
};

#define RULE(fields, name, side, min_fds, max_fds)                                                 \
	{                                                                                          \
		name, fields, sizeof(fields) / sizeof((fields)[0]), side, min_fds, max_fds         \
	}

static const struct rule rules[CTL_TYPE_END] = {
	[CTL_HELLO] = RULE(hello_fields, "hello", CTL_FROM_CLIENT, 0, 1),
	[CTL_REGISTER] = RULE(register_fields, "register", CTL_FROM_CLIENT, 1, 1),
	[CTL_CANCEL] = {"cancel", NULL, 0, CTL_FROM_CLIENT, 0, 0},
	[CTL_MAPPED] = RULE(mapped_fields, "mapped", CTL_FROM_CLIENT, 0, 0),
	[CTL_DRAINED] = RULE(drained_fields, "drained", CTL_FROM_CLIENT, 0, 0),
	[CTL_STATE] = RULE(state_fields, "state", CTL_FROM_CLIENT, 0, 0),
	/* The TCP socket; between hosts also both halves and both bells. */
	[CTL_ADOPT] = RULE(adopt_fields, "adopt", CTL_FROM_CLIENT, 1, 5),
	[CTL_CLOSED] = RULE(closed_fields, "closed", CTL_FROM_CLIENT, 0, 0),
	[CTL_QUERY] = RULE(query_fields, "query", CTL_FROM_CLIENT, 0, 0),
	[CTL_DEMOTE_REQ] = RULE(demote_req_fields, "demote_req", CTL_FROM_CLIENT, 0, 0),
	/* The notice page, the session's kick. */
	[CTL_WELCOME] = RULE(welcome_fields, "welcome", CTL_FROM_DAEMON, 2, 2),
	[CTL_REGISTERED] = RULE(registered_fields, "registered", CTL_FROM_DAEMON, 0, 0),
	[CTL_REFUSED] = RULE(refused_fields, "refused", CTL_FROM_DAEMON, 0, 0),
	/* Own half (writable), own bell, the peer's bell. */
	[CTL_PAIR] = RULE(pair_fields, "pair", CTL_FROM_DAEMON, 3, 3),
	/* The peer's half, sealed. */
	[CTL_PEER] = RULE(peer_fields, "peer", CTL_FROM_DAEMON, 1, 1),
	[CTL_UNPAIR] = RULE(unpair_fields, "unpair", CTL_FROM_DAEMON, 0, 0),
	[CTL_DEMOTE] = RULE(demote_fields, "demote", CTL_FROM_DAEMON, 0, 0),
	/* JSON text in a memfd, for a query that succeeded. */
	[CTL_ANSWER] = RULE(answer_fields, "answer", CTL_FROM_DAEMON, 0, 1),
};

static const struct rule *rule_of(uint64_t type)
{
	return type < CTL_TYPE_END && rules[type].name ? &rules[type] : NULL;
}

static size_t field_bytes(const struct field *field)
{
	return field->kind == FIELD_U64 || field->kind == FIELD_RING ? 8 : 4;
}

static size_t rule_bytes(const struct rule *rule)
{
	size_t bytes = CTL_HEADER_BYTES;

	for (size_t i = 0; i < rule->field_count; i++)
		bytes += field_bytes(&rule->fields[i]);
	return bytes;
}

static bool field_ok(const struct field *field, uint64_t value)
{
	switch (field->kind) {
	case FIELD_U32:
		return (int64_t)value >= field->lo && (int64_t)value <= field->hi;
	case FIELD_S32:
		return (int32_t)value >= field->lo && (int32_t)value <= field->hi;
	case FIELD_RING:
		return ring_size_ok(value);
	default:
		return true;
	}
}

static uint64_t load_le(const uint8_t *bytes, size_t width)
{
	uint64_t value = 0;

	for (size_t i = 0; i < width; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static void store_le(uint8_t *bytes, size_t width, uint64_t value)
{
	for (size_t i = 0; i < width; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t member_get(const struct ctl_msg *msg, const struct field *field)
{
	const char *at = (const char *)msg + field->offset;
	uint64_t wide;
	uint32_t narrow;

	if (field_bytes(field) == 8) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static void member_set(struct ctl_msg *msg, const struct field *field, uint64_t value)
{
	char *at = (char *)msg + field->offset;
	uint32_t narrow = (uint32_t)value;

	if (field_bytes(field) == 8)
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &narrow, sizeof(narrow));
}

enum ctl_verdict ctl_decode(enum ctl_side side, const void *bytes, size_t len, size_t fd_count,
			    struct ctl_msg *ret_msg)
{
	const uint8_t *at = bytes;
	const struct rule *rule;
	struct ctl_msg msg;

	if (len < CTL_HEADER_BYTES)
		return CTL_BAD_LENGTH;
	rule = rule_of(load_le(at, 2));
	if (!rule || rule->side != side)
		return CTL_BAD_TYPE;
	if (len != rule_bytes(rule) || load_le(at + 2, 2) != len)
		return CTL_BAD_LENGTH;
	if (load_le(at + 4, 4) != 0)
		return CTL_BAD_RESERVED;
	if (fd_count < rule->min_fds || fd_count > rule->max_fds)
		return CTL_BAD_FDS;

	memset(&msg, 0, sizeof(msg));
	msg.type = (enum ctl_type)load_le(at, 2);
	msg.token = load_le(at + 8, 8);
	at += CTL_HEADER_BYTES;
	for (size_t i = 0; i < rule->field_count; i++) {
		const struct field *field = &rule->fields[i];
		uint64_t value = load_le(at, field_bytes(field));

		if (!field_ok(field, value))
			return CTL_BAD_VALUE;
		member_set(&msg, field, value);
		at += field_bytes(field);
	}
	*ret_msg = msg;
	return CTL_OK;
}

bool ctl_msg_ok(const struct ctl_msg *msg)
{
	const struct rule *rule = rule_of(msg->type);

	if (!rule)
		return false;
	for (size_t i = 0; i < rule->field_count; i++) {
		if (!field_ok(&rule->fields[i], member_get(msg, &rule->fields[i])))
			return false;
	}
	return true;
}

size_t ctl_encode(const struct ctl_msg *msg, void *bytes)
{
	const struct rule *rule = rule_of(msg->type);
	uint8_t *at = bytes;

	assert(ctl_msg_ok(msg));
	assert(rule_bytes(rule) <= CTL_MAX_BYTES);
	store_le(at, 2, (uint64_t)msg->type);
	store_le(at + 2, 2, rule_bytes(rule));
	store_le(at + 4, 4, 0);
	store_le(at + 8, 8, msg->token);
	at += CTL_HEADER_BYTES;
	for (size_t i = 0; i < rule->field_count; i++) {
		const struct field *field = &rule->fields[i];

		store_le(at, field_bytes(field), member_get(msg, field));
		at += field_bytes(field);
	}
	return rule_bytes(rule);
}

size_t ctl_min_fds(enum ctl_type type)
{
	const struct rule *rule = rule_of(type);

	return rule ? rule->min_fds : 0;
}

size_t ctl_max_fds(enum ctl_type type)
{
	const struct rule *rule = rule_of(type);

	return rule ? rule->max_fds : 0;
}

const char *ctl_type_name(enum ctl_type type)
{
	const struct rule *rule = rule_of(type);

	return rule ? rule->name : "invalid";
}

const char *ctl_state_name(enum ctl_state state)
{
	static const char *const names[CTL_STATE_COUNT] = {
		[CTL_STATE_TCP] = "tcp",	 [CTL_STATE_REGISTERED] = "registered",
		[CTL_STATE_MAPPED] = "mapped",	 [CTL_STATE_RING] = "ring",
		[CTL_STATE_LEAVING] = "leaving", [CTL_STATE_PINNED] = "pinned",
		[CTL_STATE_RESET] = "reset",
	};

	return state < CTL_STATE_COUNT ? names[state] : "invalid";
}

const char *ctl_verdict_name(enum ctl_verdict verdict)
{
	static const char *const names[CTL_VERDICT_COUNT] = {
		[CTL_OK] = "well formed",
		[CTL_BAD_LENGTH] = "wrong length",
		[CTL_BAD_TYPE] = "unknown type",
		[CTL_BAD_RESERVED] = "reserved bits set",
		[CTL_BAD_VALUE] = "value out of range",
		[CTL_BAD_FDS] = "wrong number of descriptors",
	};

	return verdict < CTL_VERDICT_COUNT ? names[verdict] : "invalid";
}
