/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Figures in answers to the tool. NULL without memory, as all of jansson's. */

/* JSON's integers have a sign: what is above is shown as the most there is. */
static inline json_t *figure(uint64_t value)
{
	return json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value));
}

/* @part for each of @whole; null when there is nothing to share. */
static inline json_t *figure_per(uint64_t part, uint64_t whole)
{
	return whole ? json_real((double)part / (double)whole) : json_null();
}
