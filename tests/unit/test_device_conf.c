/* SPDX-License-Identifier: MIT */
#include <libconfig.h>
#include <string.h>

#include "base/util.h"
#include "fabric/device_conf.h"

#include "lib/tap.h"

/* The policy of @text, "devices = (…)", for a device; fails a check if it is not good. */
static struct device_policy policy_of(const char *text, const struct device_match *match)
{
	struct section_error error = {0, ""};
	struct device_policy policy = {0};
	struct device_conf conf;
	config_t file;

	device_conf_init(&conf);
	config_init(&file);
	if (text) {
		CHECK(config_read_string(&file, text));
		CHECK_EQ(device_conf_read(config_lookup(&file, "devices"), &conf, &error), 0);
		CHECK_STR(error.text, "");
	}
	device_conf_policy(&conf, match, &policy);
	config_destroy(&file);
	return policy;
}

static const struct device_match mellanox = {0x02c9, 4125, "mlx5", "mlx5_0"};
static const struct device_match intel = {0x8086, 0x1592, "irdma", "rocep1s0f0"};
static const struct device_match alibaba = {0x1ded, 0x107f, "erdma", "erdma_0"};
static const struct device_match soft = {0xffffff, 0, "rxe", "rxe0"};

TAP_CASE(what_is_shipped)
{
	struct device_policy policy = policy_of(NULL, &mellanox);

	CHECK(policy.use);
	CHECK_EQ(policy.inline_cap, 236);
	CHECK_EQ(policy.n_hints, 0);
	policy = policy_of(NULL, &intel);
	CHECK(policy.use);
	CHECK_EQ(policy.inline_cap, INLINE_BYTES_MAX);
	REQUIRE(policy.n_hints == 3);
	CHECK_EQ(policy.hints[0], 216);
	CHECK_EQ(policy.hints[1], 101);
	CHECK_EQ(policy.hints[2], 48);
	policy = policy_of(NULL, &alibaba);
	REQUIRE(policy.n_hints == 1);
	CHECK_EQ(policy.hints[0], 96);
	policy = policy_of(NULL, &soft);
	CHECK(policy.use);
	CHECK_EQ(policy.inline_cap, INLINE_BYTES_MAX);
	CHECK_EQ(policy.n_hints, 0);
}

TAP_CASE(a_section_in_the_file_takes_the_place_of_the_shipped)
{
	CHECK_EQ(policy_of("devices = ();", &mellanox).inline_cap, INLINE_BYTES_MAX);
	CHECK_EQ(policy_of("devices = ( { name = \"rxe*\"; inline_cap = 100; } );", &mellanox)
			 .inline_cap,
		 INLINE_BYTES_MAX);
}

TAP_CASE(the_first_match_that_has_a_key_decides_it)
{
	static const char text[] = "devices = ("
				   "{ name = \"mlx5_0\"; inline_cap = 64; },"
				   "{ vendor_id = 0x02c9; inline_cap = 236; use = \"no\"; },"
				   "{ name = \"*\"; use = \"yes\"; inline_hints = ( 96, 48 ); } );";
	struct device_match second = mellanox;
	struct device_policy policy = policy_of(text, &mellanox);

	CHECK_EQ(policy.inline_cap, 64);
	CHECK(!policy.use);
	CHECK_EQ(policy.n_hints, 2);
	second.name = "mlx5_1";
	policy = policy_of(text, &second);
	CHECK_EQ(policy.inline_cap, 236);
	CHECK(!policy.use);
	policy = policy_of(text, &soft);
	CHECK_EQ(policy.inline_cap, INLINE_BYTES_MAX);
	CHECK(policy.use);
}

TAP_CASE(all_that_an_entry_names_must_match)
{
	static const char text[] = "devices = ("
				   "{ vendor_id = 0x8086; part_id = 0x1592; driver = \"ir?ma\"; "
				   "name = \"roce*\"; inline = \"off\"; } );";
	struct device_match other = intel;

	CHECK_EQ(policy_of(text, &intel).inline_cap, 0);
	other.vendor_id++;
	CHECK(policy_of(text, &other).inline_cap > 0);
	other = intel;
	other.part_id++;
	CHECK(policy_of(text, &other).inline_cap > 0);
	other = intel;
	other.driver = "i40iw";
	CHECK(policy_of(text, &other).inline_cap > 0);
	other = intel;
	other.name = "irdma0";
	CHECK(policy_of(text, &other).inline_cap > 0);
}

TAP_CASE(switches_take_words_and_booleans)
{
	CHECK(!policy_of("devices = ({ name = \"*\"; use = false; });", &soft).use);
	CHECK(policy_of("devices = ({ name = \"*\"; use = true; });", &soft).use);
	CHECK_EQ(policy_of("devices = ({ name = \"*\"; inline = false; inline_cap = 9; });", &soft)
			 .inline_cap,
		 0);
	CHECK_EQ(policy_of("devices = ({ name = \"*\"; inline = \"on\"; inline_cap = 9; });", &soft)
			 .inline_cap,
		 9);
}

TAP_CASE(too_many_entries_are_refused)
{
	struct section_error error = {0, ""};
	struct device_conf conf;
	char text[4096] = "devices = (";
	config_t file;

	for (unsigned int i = 0; i <= DEVICE_RULES_MAX; i++) {
		strcat(text, i ? "," : "");
		strcat(text, "{ name = \"*\"; inline_cap = 9; }");
	}
	strcat(text, ");");
	config_init(&file);
	REQUIRE(config_read_string(&file, text));
	device_conf_init(&conf);
	CHECK_EQ(device_conf_read(config_lookup(&file, "devices"), &conf, &error), SECTION_BAD);
	CHECK_STR(error.text, "devices has 33 entries, but at most 32 are read");
	CHECK_EQ(conf.n, 3);
	config_destroy(&file);
}
