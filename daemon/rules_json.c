/* SPDX-License-Identifier: MIT */
#include "rule_conf.h"
#include "rules_json.h"

static json_t *rule_json(const struct rule_list *list, const struct rule *rule)
{
	json_t *keys = json_object();
	char text[RULE_VALUE_BYTES];

	for (uint32_t key = RULE_KEY_PROGRAM; key <= RULE_KEY_ACTION; key <<= 1) {
		if (rule->has & key)
			json_object_set_new(
				keys, rule_key_name((enum rule_key)key),
				json_string(rule_value_text(rule, (enum rule_key)key, text)));
	}
	return json_pack("{s:i, s:i, s:o}", "number", (int)rule_number(list, rule), "line",
			 rule->line, "keys", keys);
}

json_t *rules_json(const struct rule_list *list, uint32_t *ret_count)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < list->n; i++)
		json_array_append_new(array, rule_json(list, &list->rules[i]));
	*ret_count = list->n;
	return json_pack("{s:o}", "rules", array);
}
