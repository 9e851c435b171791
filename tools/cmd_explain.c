/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "explain.h"
#include "peer_conf.h"
#include "tool.h"

struct explain_options {
	const char *program, *user, *unit, *to, *config;
	bool is_in, is_out, as_json;
};

static int parse(int argc, char **argv, struct explain_options *options)
{
	static const struct option longs[] = {
		{"program", required_argument, NULL, 'p'}, {"user", required_argument, NULL, 'u'},
		{"unit", required_argument, NULL, 'n'},	   {"to", required_argument, NULL, 't'},
		{"config", required_argument, NULL, 'c'},  {"in", no_argument, NULL, 'i'},
		{"out", no_argument, NULL, 'o'},	   {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},	   {NULL, 0, NULL, 0},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		switch (opt) {
		case 'p':
			options->program = optarg;
			break;
		case 'u':
			options->user = optarg;
			break;
		case 'n':
			options->unit = optarg;
			break;
		case 't':
			options->to = optarg;
			break;
		case 'c':
			options->config = optarg;
			break;
		case 'i':
			options->is_in = true;
			break;
		case 'o':
			options->is_out = true;
			break;
		case 'j':
			options->as_json = true;
			break;
		default:
			return tool_other_option("explain", opt, argv);
		}
	}
	if (optind < argc)
		return tool_usage("explain", "one argument too many: %s", argv[optind]);
	if (!options->program || !*options->program)
		return tool_usage("explain", "which program? --program is missing");
	if (!options->to)
		return tool_usage("explain", "to whom? --to is missing");
	if (options->is_in && options->is_out)
		return tool_usage("explain", "--in and --out exclude each other");
	return TOOL_GO_ON;
}

static int set_question(const struct explain_options *options, struct explain_question *question)
{
	memset(question, 0, sizeof(*question));
	question->subject.is_out = !options->is_in;
	explain_set_program(question, options->program);
	if (!explain_set_user(question, options->user))
		return tool_usage("explain", "there is no user \"%s\" on this host", options->user);
	if (options->unit && (!*options->unit || !explain_set_unit(question, options->unit)))
		return tool_usage("explain", "\"%s\" is not the name of a unit", options->unit);
	if (!explain_set_to(question, options->to))
		return tool_usage("explain",
				  "\"%s\" is not ADDRESS:PORT, such as 10.0.0.5:6379 or "
				  "[fd00::5]:6379",
				  options->to);
	return TOOL_GO_ON;
}

/* What the connection has where a rule asks for @key. */
static const char *asked_text(const struct explain_question *question, enum rule_key key,
			      char text[RULE_VALUE_BYTES])
{
	const struct rule_subject *subject = &question->subject;

	switch (key) {
	case RULE_KEY_PROGRAM:
		return question->program;
	case RULE_KEY_USER:
		return question->user;
	case RULE_KEY_UNIT:
		return subject->unit ? subject->unit : "none";
	case RULE_KEY_DIRECTION:
		return subject->is_out ? "out" : "in";
	case RULE_KEY_PORT:
		snprintf(text, RULE_VALUE_BYTES, "%u", (unsigned int)subject->port);
		return text;
	case RULE_KEY_TO:
		return peer_address_text(&subject->to, text);
	case RULE_KEY_ACTION:
		break;
	}
	return "";
}

static void print_question(const struct explain_question *question)
{
	char address[PEER_ADDRESS_TEXT];

	printf("%s", question->program);
	if (strcmp(question->program, question->asked) != 0)
		printf(" (%s)", question->asked);
	else if (!question->is_found)
		printf(" (which is not here)");
	printf(", user %s, unit %s, %s %s, server's port %u\n", question->user,
	       question->unit[0] ? question->unit : "none",
	       question->subject.is_out ? "calls" : "is called by",
	       peer_address_text(&question->subject.to, address),
	       (unsigned int)question->subject.port);
}

static void print_rule(const struct rule_list *list, const struct rule *rule,
		       const struct explain_question *question)
{
	uint32_t differs = rule_differs(rule, &question->subject);
	char text[RULE_TEXT_BYTES], value[RULE_VALUE_BYTES];

	printf("  rule %u, line %d: %s\n", rule_number(list, rule), rule->line,
	       rule_text(rule, text));
	if (differs)
		printf("    does not match: %s is %s\n", rule_key_name((enum rule_key)differs),
		       asked_text(question, (enum rule_key)differs, value));
	else
		puts("    matches, and decides");
}

static void print_text(const struct explain_source *source, const struct rule *decides,
		       const struct explain_question *question)
{
	uint32_t last = decides ? rule_number(&source->list, decides) : source->list.n;

	print_question(question);
	if (question->is_script)
		puts("It is a script: what runs, and what rules see, is its interpreter; ask about "
		     "that.");
	printf("Rules %s %s: %u, looked at in order\n",
	       source->is_daemon ? "of the daemon in" : "in the file", source->where,
	       (unsigned int)source->list.n);
	for (uint32_t i = 0; i < last; i++)
		print_rule(&source->list, &source->list.rules[i], question);
	if (decides && decides->action == RULE_TCP)
		printf("It stays on TCP, by rule %u.\n", last);
	else if (decides)
		printf("It is accelerated, by rule %u, if its other end is.\n", last);
	else
		puts("No rule matches: it is accelerated, if its other end is.");
}

static json_t *looked_at(const struct rule_list *list, const struct rule *rule,
			 const struct explain_question *question)
{
	uint32_t differs = rule_differs(rule, &question->subject);
	json_t *keys = json_object();
	char value[RULE_VALUE_BYTES];

	for (uint32_t key = RULE_KEY_PROGRAM; key <= RULE_KEY_ACTION; key <<= 1) {
		if (rule->has & key)
			json_object_set_new(
				keys, rule_key_name((enum rule_key)key),
				json_string(rule_value_text(rule, (enum rule_key)key, value)));
	}
	return json_pack("{s:i, s:i, s:o, s:b, s:s?}", "number", (int)rule_number(list, rule),
			 "line", rule->line, "keys", keys, "matches", differs == 0, "differs",
			 differs ? rule_key_name((enum rule_key)differs) : NULL);
}

static void print_json(const struct explain_source *source, const struct rule *decides,
		       const struct explain_question *question)
{
	uint32_t last = decides ? rule_number(&source->list, decides) : source->list.n;
	json_t *rules = json_array(), *json;
	char address[PEER_ADDRESS_TEXT];

	for (uint32_t i = 0; i < last; i++)
		json_array_append_new(rules,
				      looked_at(&source->list, &source->list.rules[i], question));
	json = json_pack("{s:s, s:o, s:s, s:s, s:o, s:{s:s, s:b, s:s, s:s?, s:s, s:s, s:i}}",
			 "action", decides && decides->action == RULE_TCP ? "tcp" : "accelerate",
			 "rule", decides ? json_integer((json_int_t)last) : json_null(), "source",
			 source->is_daemon ? "daemon" : "file", "where", source->where, "rules",
			 rules, "connection", "program", question->program, "script",
			 question->is_script, "user", question->user, "unit",
			 question->subject.unit, "direction",
			 question->subject.is_out ? "out" : "in", "address",
			 peer_address_text(&question->subject.to, address), "port",
			 (int)question->subject.port);
	if (json)
		answer_print(json);
	else
		tool_say("what is asked about is no UTF-8, as JSON must be");
	json_decref(json);
}

int cmd_explain(int argc, char **argv)
{
	static struct explain_question question; /* large, as is the source */
	static struct explain_source source;
	struct explain_options options = {.as_json = false};
	const struct rule *decides;
	int rc = parse(argc, argv, &options);

	if (rc == TOOL_GO_ON)
		rc = set_question(&options, &question);
	if (rc != TOOL_GO_ON)
		return rc;
	rc = explain_rules(options.config, &source);
	if (rc != TOOL_OK)
		return rc;
	decides = rules_find(&source.list, &question.subject);
	if (options.as_json)
		print_json(&source, decides, &question);
	else
		print_text(&source, decides, &question);
	return TOOL_OK;
}
