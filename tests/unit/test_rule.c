/* SPDX-License-Identifier: MIT */
#include <libconfig.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "peer_conf.h"
#include "rule_conf.h"

#include "lib/tap.h"

/* Read "rules = (@text);". The result; what is wrong goes to @ret_error. */
static int read_rules(const char *text, struct rule_list *list, struct section_error *ret_error)
{
	char whole[4096];
	config_t file;
	int rc = -1;

	snprintf(whole, sizeof(whole), "rules = (%s);", text);
	config_init(&file);
	if (CHECK(config_read_string(&file, whole)))
		rc = rule_conf_read(config_lookup(&file, "rules"), list, ret_error);
	config_destroy(&file);
	return rc;
}

/* What most cases ask about: redis as a service, called from 10.1.2.3. */
static struct rule_subject redis(void)
{
	struct rule_subject subject = {
		.program = "/usr/bin/redis-server",
		.unit = "/system.slice/system-redis.slice/redis@main.service",
		.uid = 107,
		.port = 6379,
	};

	CHECK(peer_address_parse("10.1.2.3", &subject.to));
	return subject;
}

/* The number of the rule of @text that decides about @subject; 0: none. */
static unsigned int decides(const char *text, const struct rule_subject *subject)
{
	static struct rule_list list;
	struct section_error error = {0, ""};
	const struct rule *rule;

	CHECK_EQ(read_rules(text, &list, &error), 0);
	CHECK_STR(error.text, "");
	rule = rules_find(&list, subject);
	return rule ? rule_number(&list, rule) : 0;
}

static const struct {
	const char *condition;
	bool matches;
} conditions[] = {
	{"", true},
	{"program = \"redis-server\";", true},
	{"program = \"redis-*\";", true},
	{"program = \"redis\";", false},
	{"program = \"/usr/bin/redis-server\";", true},
	{"program = \"/usr/*\";", true},
	{"program = \"*/bin/redis-?erver\";", true},
	{"program = \"/usr/sbin/*\";", false},
	{"program = \"usr*\";", false},
	{"user = 107;", true},
	{"user = \"107\";", true},
	{"user = 108;", false},
	{"user = \"root\";", false},
	{"unit = \"redis@main.service\";", true},
	{"unit = \"redis@main\";", true},
	{"unit = \"redis@*\";", true},
	{"unit = \"redis\";", false},
	{"unit = \"system.slice\";", true},
	{"unit = \"system\";", false},
	{"unit = \"system-redis.slice\";", true},
	{"unit = \"/system.slice/*\";", true},
	{"unit = \"/system.slice\";", false},
	{"unit = \"/user.slice/*\";", false},
	{"direction = \"in\";", true},
	{"direction = \"out\";", false},
	{"direction = \"any\";", true},
	{"port = 6379;", true},
	{"port = \"6379\";", true},
	{"port = 6380;", false},
	{"port = \"6000-6999\";", true},
	{"port = \"6379-6379\";", true},
	{"port = \"1-6378\";", false},
	{"port = \"6380-65535\";", false},
	{"to = \"10.1.2.3\";", true},
	{"to = \"10.1.2.4\";", false},
	{"to = \"10.0.0.0/8\";", true},
	{"to = \"10.1.2.0/30\";", true},
	{"to = \"10.1.2.2/31\";", true},
	{"to = \"10.1.2.4/30\";", false},
	{"to = \"11.0.0.0/8\";", false},
	{"to = \"0.0.0.0/0\";", true},
	{"to = \"::/0\";", false},
	{"to = \"::ffff:10.1.2.3\";", true},
	{"program = \"redis-server\"; user = 107; unit = \"redis*\"; direction = \"in\"; "
	 "port = 6379; to = \"10.0.0.0/8\";",
	 true},
	{"program = \"redis-server\"; port = 1;", false},
};

TAP_CASE(each_condition_by_itself)
{
	struct rule_subject subject = redis();
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++) {
		snprintf(text, sizeof(text), "{ %s action = \"tcp\"; }", conditions[i].condition);
		if (!CHECK_EQ(decides(text, &subject), conditions[i].matches ? 1 : 0))
			tap_diag("%s", conditions[i].condition);
	}
}

TAP_CASE(the_first_that_matches_decides)
{
	struct rule_subject subject = redis();
	static const char text[] = "{ program = \"redis-cli\"; action = \"tcp\"; },"
				   "{ port = 6379; action = \"accelerate\"; },"
				   "{ program = \"redis-server\"; action = \"tcp\"; },"
				   "{ action = \"tcp\"; }";

	CHECK_EQ(decides(text, &subject), 2);
	subject.port = 1;
	CHECK_EQ(decides(text, &subject), 3);
	subject.program = "/usr/bin/redis-cli";
	CHECK_EQ(decides(text, &subject), 1);
	subject.program = "/usr/bin/other";
	CHECK_EQ(decides(text, &subject), 4);
	CHECK_EQ(decides("", &subject), 0);
}

TAP_CASE(six_byte_families_and_odd_prefixes)
{
	struct rule_subject subject = redis();

	REQUIRE(peer_address_parse("fd12:3456:789a::1", &subject.to));
	CHECK_EQ(decides("{ to = \"fd00::/8\"; action = \"tcp\"; }", &subject), 1);
	CHECK_EQ(decides("{ to = \"fd12:3456:7880::/41\"; action = \"tcp\"; }", &subject), 1);
	CHECK_EQ(decides("{ to = \"fd12:3456:7800::/41\"; action = \"tcp\"; }", &subject), 0);
	CHECK_EQ(decides("{ to = \"fd12:3456:789a::1\"; action = \"tcp\"; }", &subject), 1);
	CHECK_EQ(decides("{ to = \"0.0.0.0/0\"; action = \"tcp\"; }", &subject), 0);
}

TAP_CASE(what_is_not_known_fulfils_no_condition)
{
	struct rule_subject subject = redis();

	subject.program = subject.unit = NULL;
	CHECK_EQ(decides("{ program = \"*\"; action = \"tcp\"; }", &subject), 0);
	CHECK_EQ(decides("{ unit = \"*\"; action = \"tcp\"; }", &subject), 0);
	CHECK_EQ(decides("{ action = \"tcp\"; }", &subject), 1);
	subject.unit = "/";
	CHECK_EQ(decides("{ unit = \"*\"; action = \"tcp\"; }", &subject), 0);
	CHECK_EQ(decides("{ unit = \"/\"; action = \"tcp\"; }", &subject), 1);
}

TAP_CASE(the_first_difference_is_named)
{
	static struct rule_list list;
	struct section_error error = {0, ""};
	struct rule_subject subject = redis();

	REQUIRE(read_rules("{ program = \"redis-*\"; user = 1; port = 5; action = \"tcp\"; }",
			   &list, &error) == 0);
	CHECK_EQ(rule_differs(&list.rules[0], &subject), RULE_KEY_USER);
	subject.uid = 1;
	CHECK_EQ(rule_differs(&list.rules[0], &subject), RULE_KEY_PORT);
	subject.port = 5;
	CHECK_EQ(rule_differs(&list.rules[0], &subject), 0);
	CHECK_STR(rule_key_name(RULE_KEY_PORT), "port");
}

TAP_CASE(a_rule_survives_being_told)
{
	static const char text[] =
		"{ program = \"/opt/*\"; user = \"root\"; unit = \"a.slice\"; direction = "
		"\"out\"; port = \"7-9\"; to = \"fd00::/8\"; action = \"tcp\"; },\n"
		"{ port = 7; to = \"10.0.0.1\"; direction = \"any\"; action = \"accelerate\"; }";
	static struct rule_list list;
	struct section_error error = {0, ""};
	char whole[RULE_TEXT_BYTES], value[RULE_VALUE_BYTES];

	REQUIRE(read_rules(text, &list, &error) == 0);
	CHECK_EQ(list.rules[1].line, 2);
	CHECK_STR(rule_text(&list.rules[0], whole),
		  "{ program = \"/opt/*\"; user = \"root\"; unit = \"a.slice\"; direction = "
		  "\"out\"; port = \"7-9\"; to = \"fd00::/8\"; action = \"tcp\"; }");
	CHECK_STR(rule_text(&list.rules[1], whole),
		  "{ port = \"7\"; to = \"10.0.0.1\"; action = \"accelerate\"; }");
	for (uint32_t i = 0; i < list.n; i++) {
		struct rule copy;

		memset(&copy, 0, sizeof(copy));
		for (uint32_t key = 1; key <= RULE_KEY_ACTION; key <<= 1) {
			if (list.rules[i].has & key)
				CHECK_EQ(rule_conf_set(&copy, rule_key_name(key),
						       rule_value_text(&list.rules[i], key, value),
						       &error),
					 0);
		}
		copy.line = list.rules[i].line;
		CHECK_EQ(copy.has, list.rules[i].has);
		CHECK_EQ(copy.uid, list.rules[i].uid);
		CHECK_EQ(copy.prefix, list.rules[i].prefix);
		CHECK(peer_address_same(&copy.to, &list.rules[i].to));
		CHECK_EQ(copy.port_hi, list.rules[i].port_hi);
		CHECK_EQ(copy.is_out, list.rules[i].is_out);
		CHECK_EQ(copy.action, list.rules[i].action);
	}
}

TAP_CASE(as_many_as_are_read_and_one_more)
{
	static const char one[] = "{ port = 1; action = \"tcp\"; },";
	static char text[RULES_MAX * sizeof(one) + 64];
	static struct rule_list list;
	struct section_error error = {0, ""};
	config_t file;

	for (unsigned int n = RULES_MAX; n <= RULES_MAX + 1; n++) {
		strcpy(text, "rules = (");
		for (unsigned int i = 1; i < n; i++)
			strcat(text, one);
		strcat(text, "{ action = \"tcp\"; } );");
		config_init(&file);
		REQUIRE(config_read_string(&file, text));
		CHECK_EQ(rule_conf_read(config_lookup(&file, "rules"), &list, &error),
			 n > RULES_MAX ? SECTION_BAD : 0);
		config_destroy(&file);
		CHECK_EQ(list.n, RULES_MAX);
	}
	CHECK_STR(error.text, "rules has 129 entries, but at most 128 are read");
}

#define PROGRAM_WRONG                                                                              \
	"program of a rule must be a name, such as \"redis-server\", or a full path, of at most "  \
	"255 characters; with * and ? as in file names"
#define UNIT_WRONG                                                                                 \
	"unit of a rule must be the name of a unit, such as \"redis.service\", or the path of a "  \
	"control group that begins with /, of at most 255 characters; with * and ? as in file "    \
	"names"
#define USER_WRONG                                                                                 \
	"user of a rule must be the name of a user in quotes, or a number from 0 to 4294967294"
#define PORT_WRONG                                                                                 \
	"port of a rule must be a number from 1 to 65535, or a range in quotes, such as "          \
	"\"8000-8999\""
#define TO_WRONG                                                                                   \
	"to of a rule must be an IP address or network in quotes, such as \"10.0.0.2\", "          \
	"\"10.0.0.0/8\" or \"fd00::/8\""
#define DIRECTION_WRONG                                                                            \
	"direction of a rule must be \"in\" (the program accepted the connection), \"out\" (it "   \
	"made it) or \"any\""
#define ACTION_WRONG "action of a rule must be \"accelerate\" or \"tcp\""

static const struct {
	const char *text;
	int line;
	const char *message;
} broken[] = {
	{"{ }", 1, "a rule must have an action: \"accelerate\" or \"tcp\""},
	{"{ port = 1; }", 1, "a rule must have an action: \"accelerate\" or \"tcp\""},
	{"{ port = 1;\naction = \"drop\"; }", 2, ACTION_WRONG},
	{"{ action = 1; }", 1, ACTION_WRONG},
	{"{ action = true; }", 1, ACTION_WRONG},
	{"{ action = \"TCP\"; }", 1, ACTION_WRONG},
	{"\"tcp\"", 1,
	 "an entry of rules must look like: { program = \"redis-server\"; action = \"tcp\"; }"},
	{"{ programm = \"x\"; action = \"tcp\"; }", 1,
	 "unknown key programm of a rule; there are program, user, unit, direction, port, to, "
	 "action"},
	{"{ program = \"\"; action = \"tcp\"; }", 1, PROGRAM_WRONG},
	{"{ program = 5; action = \"tcp\"; }", 1, PROGRAM_WRONG},
	{"{ program = \"bin/redis\"; action = \"tcp\"; }", 1, PROGRAM_WRONG},
	{"{ program = \"a\\nb\"; action = \"tcp\"; }", 1, PROGRAM_WRONG},
	{"{ unit = \"\"; action = \"tcp\"; }", 1, UNIT_WRONG},
	{"{ unit = \"system.slice/x.service\"; action = \"tcp\"; }", 1, UNIT_WRONG},
	{"{ unit = [ \"a\" ]; action = \"tcp\"; }", 1, UNIT_WRONG},
	{"\n\n{ user = \"\"; action = \"tcp\"; }", 3, USER_WRONG},
	{"{ user = -1; action = \"tcp\"; }", 1,
	 "there is no user -1 on this host: create it first, or write its number"},
	{"{ user = 4294967295L; action = \"tcp\"; }", 1,
	 "user of a rule is 4294967295, but a number must be from 0 to 4294967294"},
	{"{ user = \"12x\"; action = \"tcp\"; }", 1,
	 "user of a rule is 12x, but a number must be from 0 to 4294967294"},
	{"{ user = \"no-such-user\"; action = \"tcp\"; }", 1,
	 "there is no user no-such-user on this host: create it first, or write its number"},
	{"{ user = 1.5; action = \"tcp\"; }", 1, USER_WRONG},
	{"{ direction = \"both\"; action = \"tcp\"; }", 1, DIRECTION_WRONG},
	{"{ direction = 1; action = \"tcp\"; }", 1, DIRECTION_WRONG},
	{"{ port = 0; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = 65536; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = -1; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"1-\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"-5\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"1-2-3\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"http\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"1 - 2\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"0-5\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"99999999999999999999\"; action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = ( 1, 2 ); action = \"tcp\"; }", 1, PORT_WRONG},
	{"{ port = \"9-8\"; action = \"tcp\"; }", 1,
	 "port of a rule is 9-8, but the first must not be above the last: \"8-9\""},
	{"{ to = \"\"; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = 10; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = \"example.org\"; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = \"10.0.0\"; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = \"10.0.0.1:80\"; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = \"/8\"; action = \"tcp\"; }", 1, TO_WRONG},
	{"{ to = \"10.0.0.0/33\"; action = \"tcp\"; }", 1,
	 "to of a rule is 10.0.0.0/33, but behind the / must be a number from 0 to 32"},
	{"{ to = \"10.0.0.0/\"; action = \"tcp\"; }", 1,
	 "to of a rule is 10.0.0.0/, but behind the / must be a number from 0 to 32"},
	{"{ to = \"10.0.0.0/255.0.0.0\"; action = \"tcp\"; }", 1,
	 "to of a rule is 10.0.0.0/255.0.0.0, but behind the / must be a number from 0 to 32"},
	{"{ to = \"fd00::/129\"; action = \"tcp\"; }", 1,
	 "to of a rule is fd00::/129, but behind the / must be a number from 0 to 128"},
	{"{ to = \"10.0.0.1/8\"; action = \"tcp\"; }", 1,
	 "to of a rule is 10.0.0.1/8, which is an address in a network, not the network: that is "
	 "\"10.0.0.0/8\""},
	{"{ to = \"fd00:1::/9\"; action = \"tcp\"; }", 1,
	 "to of a rule is fd00:1::/9, which is an address in a network, not the network: that is "
	 "\"fd00::/9\""},
	{"{ action = \"tcp\"; },\n{ port = 1; action = \"accelerate\"; }", 2,
	 "this rule is never looked at: the one before it, without any condition, decides about "
	 "everything, and must be the last"},
};

TAP_CASE(what_is_wrong_is_named_with_its_line)
{
	static struct rule_list list;

	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		struct section_error error = {0, ""};

		list.n = 77;
		CHECK_EQ(read_rules(broken[i].text, &list, &error), SECTION_BAD);
		CHECK_EQ(list.n, 77);
		if (!CHECK_STR(error.text, broken[i].message) ||
		    !CHECK_EQ(error.line, broken[i].line))
			tap_diag("%s", broken[i].text);
	}
}

TAP_CASE(the_section_is_a_list)
{
	static const char *const texts[] = {"rules = 5;", "rules = { action = \"tcp\"; };",
					    "rules = [ \"tcp\" ];"};
	static struct rule_list list;
	config_t file;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct section_error error = {0, ""};

		config_init(&file);
		REQUIRE(config_read_string(&file, texts[i]));
		CHECK_EQ(rule_conf_read(config_lookup(&file, "rules"), &list, &error), SECTION_BAD);
		CHECK_STR(error.text, "rules must be a list of groups: rules = ( { program = "
				      "\"redis-server\"; action = \"tcp\"; } );");
		config_destroy(&file);
	}
}
