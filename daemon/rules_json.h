/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "rule.h"

/*
 * The rules for `shunt explain`: in order, each with its number, its line, and its keys as
 * rule_conf_set() takes them. @ret_count: how many. NULL without memory.
 */
json_t *rules_json(const struct rule_list *list, uint32_t *ret_count);
