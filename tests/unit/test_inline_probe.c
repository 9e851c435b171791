/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/prng.h"
#include "base/util.h"
#include "core/inline_probe.h"

#include "lib/tap.h"

/*
 * The strategy against every model of a provider: a limit, and how it rounds what it grants. The
 * expected answer comes from the model alone.
 */
enum rounding {
	ROUND_ECHO,
	ROUND_BLOCKS, /* a header of 4 bytes in blocks of 64: 1 → 60, 61 → 124 */
	ROUND_POW2,   /* the same in a power of two of bytes */
	ROUND_LIMIT,  /* the limit for any request but 0 */
	ROUND_MIN16,  /* at least 16 */
	ROUND_CLAMP,  /* never refuses: grants the limit instead */
	ROUND_ZERO,   /* never refuses, grants nothing */
	ROUND_COUNT,
};

struct model {
	uint32_t limit;
	enum rounding rounding;
};

static uint32_t round_up(const struct model *model, uint32_t asked)
{
	uint32_t bytes = 64;

	switch (model->rounding) {
	case ROUND_BLOCKS:
		return (uint32_t)u64_align_up(asked + 4, 64) - 4;
	case ROUND_POW2:
		while (bytes < asked + 4)
			bytes *= 2;
		return bytes - 4;
	case ROUND_LIMIT:
		return asked ? model->limit : 0;
	case ROUND_MIN16:
		return (uint32_t)u64_max(16, asked);
	default:
		return asked;
	}
}

/* Whether the model creates a queue pair for @asked, and what it says it has. */
static bool model_create(const struct model *model, uint32_t asked, uint32_t *ret_granted)
{
	if (model->rounding == ROUND_CLAMP) {
		*ret_granted = (uint32_t)u64_min(asked, model->limit);
		return true;
	}
	if (model->rounding == ROUND_ZERO) {
		*ret_granted = 0;
		return true;
	}
	/* Whole blocks only: a request that would need more than the limit is refused. */
	if (asked > 0 && (asked > model->limit || round_up(model, asked) > model->limit))
		return false;
	*ret_granted = round_up(model, asked);
	return true;
}

/* The largest size that any request up to @wanted is granted, by trying all. */
static uint32_t model_best(const struct model *model, uint32_t wanted)
{
	uint32_t granted = 0;

	for (uint32_t asked = wanted; asked > 0; asked--) {
		if (model_create(model, asked, &granted))
			return granted;
	}
	return 0;
}

static uint32_t expected(const struct model *model, const struct inline_ask *ask)
{
	uint32_t wanted = (uint32_t)u64_min(ask->ask, ask->cap);
	uint32_t best;

	if (wanted < ask->floor || wanted == 0)
		return 0;
	best = model_best(model, wanted);
	return best < ask->floor ? 0 : (uint32_t)u64_min(best, ask->cap);
}

/* Run the search on @model; the posts succeed. @refusal: the errno of a refusal. */
static void run(struct inline_probe *probe, const struct inline_ask *ask, const struct model *model,
		int refusal)
{
	uint32_t asked, granted = 0;

	inline_probe_init(probe, ask);
	while (inline_probe_next(probe, &asked)) {
		if (model_create(model, asked, &granted))
			inline_probe_granted(probe, granted);
		else
			inline_probe_failed(probe, refusal);
	}
	if (probe->state == INLINE_VERIFY)
		inline_probe_judge(probe, INLINE_VERIFIED, inline_probe_candidate(probe));
}

static const struct inline_ask no_hints = {.ask = 256, .floor = 32, .cap = INLINE_BYTES_MAX};
static const uint32_t asks[] = {0, 31, 32, 33, 64, 100, 255, 256, 512, 1024};
static const uint32_t caps[] = {INLINE_BYTES_MAX, 0, 16, 32, 96, 220, 236, 1000};
static const struct {
	uint32_t n, bytes[4];
} hint_lists[] = {{0, {0}},
		  {3, {216, 101, 48}},
		  {1, {96}},
		  {4, {48, 5000, 216, 101}},
		  {4, {250, 240, 230, 220}},
		  {4, {40, 41, 42, 43}}};

/* The whole space for one list of hints; returns the largest excess over the budget. */
static uint32_t sweep(size_t hints, bool *ret_exact)
{
	struct inline_ask ask = {.floor = 32, .n_hints = hint_lists[hints].n};
	uint32_t excess = 0;
	bool exact = true;

	memcpy(ask.hints, hint_lists[hints].bytes, sizeof(hint_lists[hints].bytes));
	for (size_t a = 0; a < ARRAY_SIZE(asks); a++) {
		for (size_t c = 0; c < ARRAY_SIZE(caps); c++) {
			ask.ask = asks[a];
			ask.cap = caps[c];
			for (int r = 0; r < ROUND_COUNT; r++) {
				for (uint32_t limit = 0; limit <= 1100; limit++) {
					struct model model = {limit, r};
					uint32_t budget = inline_probe_budget(&ask);
					struct inline_probe probe;

					run(&probe, &ask, &model, EINVAL);
					exact = exact && probe.used == expected(&model, &ask) &&
						probe.state == INLINE_OVER &&
						inline_reason_is_good(probe.reason) ==
							(probe.used > 0);
					if (probe.creations > budget)
						excess = (uint32_t)u64_max(excess, probe.creations -
											   budget);
				}
			}
		}
	}
	*ret_exact = exact;
	return excess;
}

TAP_CASE(every_model_is_found_exactly_within_the_budget)
{
	bool exact;

	CHECK_EQ(sweep(0, &exact), 0);
	CHECK(exact);
}

/* Wrong hints cost a few creations, never a byte: one for each that is refused, and one for the
 * proof that fails, less what they narrow down. */
TAP_CASE(hints_never_cost_exactness)
{
	for (size_t i = 1; i < ARRAY_SIZE(hint_lists); i++) {
		bool exact;
		uint32_t excess = sweep(i, &exact);

		tap_diag("hint list %zu: at most %u creations over the budget", i, excess);
		CHECK(exact);
		CHECK(excess <= INLINE_HINT_EXCESS);
	}
}

TAP_CASE(the_budgets_are_those_promised)
{
	struct inline_ask ask = no_hints;

	CHECK_EQ(inline_probe_budget(&ask), 10);
	ask.ask = 1024;
	CHECK_EQ(inline_probe_budget(&ask), 12);
	ask.floor = 0;
	CHECK_EQ(inline_probe_budget(&ask), 12);
	ask.ask = 256;
	CHECK_EQ(inline_probe_budget(&ask), 10);
	ask.cap = 0;
	CHECK_EQ(inline_probe_budget(&ask), 1);
}

TAP_CASE(right_hints_are_proven_by_one_more_byte)
{
	static const struct {
		uint32_t limit, creations;
	} cases[] = {{216, 4}, {101, 5}, {48, 6}};
	struct inline_ask ask = no_hints;

	ask.n_hints = 3;
	memcpy(ask.hints, (const uint32_t[]){48, 216, 101}, 3 * sizeof(uint32_t));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct model model = {cases[i].limit, ROUND_ECHO};
		struct inline_probe probe;

		run(&probe, &ask, &model, EINVAL);
		CHECK_EQ(probe.used, cases[i].limit);
		CHECK_EQ(probe.creations, cases[i].creations);
		CHECK(probe.exact);
	}
}

TAP_CASE(refusals_are_told_from_errors)
{
	static const int refusals[] = {0, EINVAL, ENOSPC};
	static const int errors[] = {ENOMEM, EPERM, EACCES, EAGAIN, EBUSY, EIO, ENODEV, EOPNOTSUPP};
	struct model model = {96, ROUND_ECHO};

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct inline_probe probe;

		run(&probe, &no_hints, &model, refusals[i]);
		CHECK_EQ(probe.used, 96);
		CHECK_EQ(probe.reason, INLINE_USABLE);
		CHECK_EQ(probe.error, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct inline_probe probe;

		run(&probe, &no_hints, &model, errors[i]);
		CHECK_EQ(probe.used, 0);
		CHECK_EQ(probe.creations, 2);
		CHECK_EQ(probe.reason, INLINE_STOPPED);
		CHECK_EQ(probe.error, errors[i]);
	}
}

TAP_CASE(without_any_queue_pair_the_problem_is_not_inline)
{
	static const struct {
		int error;
		enum inline_reason reason;
	} cases[] = {{EINVAL, INLINE_NO_QP},
		     {ENOMEM, INLINE_NO_QP},
		     {0, INLINE_NO_QP},
		     {EPERM, INLINE_NO_QP},
		     {EOPNOTSUPP, INLINE_NO_RC}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inline_probe probe;
		uint32_t bytes = 1;

		inline_probe_init(&probe, &no_hints);
		CHECK(inline_probe_next(&probe, &bytes));
		CHECK_EQ(bytes, 0);
		inline_probe_failed(&probe, cases[i].error);
		CHECK(!inline_probe_next(&probe, &bytes));
		CHECK_EQ(probe.reason, cases[i].reason);
		CHECK_EQ(probe.error, cases[i].error);
		CHECK_EQ(probe.creations, 1);
	}
}

/* An error in the middle of the search keeps what was granted before. */
TAP_CASE(an_error_keeps_the_last_success)
{
	struct inline_probe probe;
	uint32_t bytes = 0;

	inline_probe_init(&probe, &no_hints);
	inline_probe_granted(&probe, 0);
	inline_probe_failed(&probe, EINVAL);
	while (inline_probe_next(&probe, &bytes) && bytes > 96)
		inline_probe_failed(&probe, EINVAL);
	CHECK_EQ(probe.state, INLINE_BISECT);
	inline_probe_granted(&probe, bytes);
	inline_probe_failed(&probe, ENOMEM);
	CHECK_EQ(probe.state, INLINE_VERIFY);
	CHECK_EQ(inline_probe_candidate(&probe), bytes);
	inline_probe_judge(&probe, INLINE_VERIFIED, bytes);
	CHECK_EQ(probe.used, bytes);
	CHECK_EQ(probe.reason, INLINE_USABLE_STOPPED);
	CHECK_EQ(probe.error, ENOMEM);
	CHECK(!probe.exact);
}

/* Grants that fit nothing: above what was refused, below what was asked, enormous. */
TAP_CASE(a_device_that_contradicts_itself_ends_the_search)
{
	struct inline_probe probe;
	uint32_t bytes = 0;

	inline_probe_init(&probe, &no_hints);
	inline_probe_granted(&probe, 0);
	inline_probe_failed(&probe, EINVAL);
	inline_probe_granted(&probe, 4000000000u);
	CHECK_EQ(inline_probe_candidate(&probe), 255);

	inline_probe_init(&probe, &no_hints);
	inline_probe_granted(&probe, 0);
	inline_probe_failed(&probe, EINVAL);
	inline_probe_granted(&probe, 40);
	CHECK_EQ(inline_probe_candidate(&probe), 40);

	inline_probe_init(&probe, &no_hints);
	inline_probe_granted(&probe, 77);
	inline_probe_granted(&probe, UINT32_MAX);
	CHECK_EQ(inline_probe_candidate(&probe), INLINE_BYTES_MAX);
	CHECK(!inline_probe_next(&probe, &bytes));
}

/* Answers without any sense, 200,000 searches of them: each ends, in few steps, with a result that
 * keeps to the settings. */
TAP_CASE(any_device_at_all_comes_to_an_end)
{
	static const int errors[] = {0, EINVAL, ENOSPC, ENOMEM, EIO};
	uint32_t most = 0;
	struct prng prng;
	bool good = true, good_budget = true;

	prng_init(&prng, 1);
	for (int i = 0; i < 200000; i++) {
		struct inline_ask ask = {
			.ask = (uint32_t)prng_below(&prng, 1100),
			.floor = (uint32_t)prng_below(&prng, 70),
			.cap = (uint32_t)prng_below(&prng, 1100),
			.n_hints = (uint32_t)prng_below(&prng, INLINE_HINTS_MAX + 2),
		};
		struct inline_probe probe;
		uint32_t bytes;

		for (size_t h = 0; h < INLINE_HINTS_MAX; h++)
			ask.hints[h] = (uint32_t)prng_below(&prng, 1100);
		inline_probe_init(&probe, &ask);
		while (inline_probe_next(&probe, &bytes) && probe.creations < 100) {
			uint32_t near = bytes + (uint32_t)prng_below(&prng, 40);

			switch (prng_below(&prng, 16)) {
			case 0:
				inline_probe_granted(&probe, (uint32_t)prng_next(&prng));
				break;
			case 1:
				inline_probe_failed(&probe, errors[prng_below(&prng, 5)]);
				break;
			case 2:
				inline_probe_granted(&probe, near > 20 ? near - 20 : 0);
				break;
			default:
				if (prng_below(&prng, 2))
					inline_probe_granted(&probe, bytes);
				else
					inline_probe_failed(&probe, EINVAL);
			}
		}
		if (probe.state == INLINE_VERIFY)
			inline_probe_judge(&probe, INLINE_VERIFIED, inline_probe_candidate(&probe));
		most = (uint32_t)u64_max(most, probe.creations);
		good_budget = good_budget && probe.creations <= inline_probe_budget(&probe.ask) +
									INLINE_HINT_EXCESS;
		good = good && probe.state == INLINE_OVER && probe.used <= ask.cap &&
		       (probe.used == 0 || probe.used >= ask.floor) &&
		       inline_reason_is_good(probe.reason) == (probe.used > 0);
	}
	tap_diag("at most %u creations", most);
	CHECK(good);
	CHECK(good_budget);
}

TAP_CASE(the_posts_decide)
{
	static const struct {
		enum inline_verdict verdict;
		uint32_t bytes, used;
		enum inline_reason reason;
	} cases[] = {
		{INLINE_VERIFIED, 220, 220, INLINE_USABLE},
		{INLINE_VERIFIED, 128, 128, INLINE_USABLE_PATH},
		{INLINE_VERIFIED, 31, 0, INLINE_BELOW_FLOOR},
		{INLINE_PATH_FAILED, 220, 0, INLINE_UNVERIFIED},
		{INLINE_POST_FAILED, 220, 0, INLINE_POST_REFUSED},
		{INLINE_SEND_FAILED, 220, 0, INLINE_IGNORED},
		{INLINE_DATA_WRONG, 220, 0, INLINE_CORRUPT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inline_probe probe;

		inline_probe_init(&probe, &no_hints);
		inline_probe_granted(&probe, 0);
		inline_probe_granted(&probe, 220);
		REQUIRE(probe.state == INLINE_VERIFY);
		inline_probe_judge(&probe, cases[i].verdict, cases[i].bytes);
		CHECK_EQ(probe.state, INLINE_OVER);
		CHECK_EQ(probe.used, cases[i].used);
		CHECK_EQ(probe.reason, cases[i].reason);
	}
}

TAP_CASE(posts_that_could_not_be_made_are_told_as_such)
{
	struct inline_probe probe;

	inline_probe_init(&probe, &no_hints);
	inline_probe_granted(&probe, 0);
	inline_probe_granted(&probe, 220);
	inline_probe_broke(&probe, ENOMEM);
	CHECK_EQ(probe.state, INLINE_OVER);
	CHECK_EQ(probe.used, 0);
	CHECK_EQ(probe.reason, INLINE_STOPPED);
	CHECK_EQ(probe.error, ENOMEM);
}

TAP_CASE(why_it_is_not_more)
{
	static const struct {
		uint32_t ask, cap, limit, used;
		enum inline_reason reason;
	} cases[] = {
		{256, INLINE_BYTES_MAX, 96, 96, INLINE_USABLE},
		{256, INLINE_BYTES_MAX, 256, 256, INLINE_USABLE_ASKED},
		{256, INLINE_BYTES_MAX, 512, 256, INLINE_USABLE_ASKED},
		{256, 236, 828, 236, INLINE_USABLE_CAPPED},
		{256, 236, 200, 200, INLINE_USABLE},
		{128, 236, 828, 128, INLINE_USABLE_ASKED},
		{256, 0, 828, 0, INLINE_OFF},
		{0, 236, 828, 0, INLINE_OFF},
		{256, 16, 828, 0, INLINE_POLICY_BELOW_FLOOR},
		{20, 236, 828, 0, INLINE_POLICY_BELOW_FLOOR},
		{256, 236, 31, 0, INLINE_BELOW_FLOOR},
		{256, 236, 32, 32, INLINE_USABLE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inline_ask ask = {.ask = cases[i].ask, .floor = 32, .cap = cases[i].cap};
		struct model model = {cases[i].limit, ROUND_ECHO};
		struct inline_probe probe;

		run(&probe, &ask, &model, EINVAL);
		CHECK_EQ(probe.used, cases[i].used);
		CHECK_EQ(probe.reason, cases[i].reason);
	}
}

TAP_CASE(the_state_machine_is_the_diagram)
{
	static const char *const possible[INLINE_STATE_COUNT] = {
		/* granted, refused, broke, judged */
		[INLINE_BASE] = "grb-",	 [INLINE_WHOLE] = "grb-",  [INLINE_HINT] = "grb-",
		[INLINE_PROVE] = "grb-", [INLINE_BISECT] = "grb-", [INLINE_VERIFY] = "---j",
		[INLINE_OVER] = "----",
	};

	for (int state = 0; state < INLINE_STATE_COUNT; state++) {
		for (int event = 0; event < INLINE_EVENT_COUNT; event++)
			CHECK_EQ(inline_can(state, event), possible[state][event] != '-');
	}
	CHECK(!inline_can(INLINE_STATE_COUNT, INLINE_EV_GRANTED));
	CHECK(!inline_can(INLINE_BASE, INLINE_EVENT_COUNT));
}

TAP_CASE(every_reason_has_a_name_and_a_sentence)
{
	for (int i = 0; i < INLINE_REASON_COUNT; i++) {
		const char *text = inline_reason_text(i);

		CHECK(strlen(inline_reason_name(i)) > 1);
		CHECK(text[strlen(text) - 1] == '.');
		for (int j = 0; j < i; j++)
			CHECK(strcmp(inline_reason_name(i), inline_reason_name(j)) != 0);
	}
	CHECK_STR(inline_reason_name(INLINE_REASON_COUNT), "invalid");
	CHECK_STR(inline_state_name(INLINE_STATE_COUNT), "invalid");
	CHECK_STR(inline_state_name(INLINE_VERIFY), "verify");
}
