/* SPDX-License-Identifier: MIT */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Integers in messages between hosts: big-endian, at any address. */

static inline void put_be16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	memcpy(at, &value, sizeof(value));
}

static inline void put_be32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static inline void put_be64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

static inline uint16_t get_be16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static inline uint32_t get_be32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static inline uint64_t get_be64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}
