/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/inline_probe.h"
#include "fabric/device_conf.h"
#include "fabric/frontier.h"
#include "fabric/trial.h"
#include "fabric/verify.h"

/*
 * The probe of a device: what core/inline_probe.h wants tried is tried, posted, and written down.
 * It creates and destroys queue pairs and at the end has left nothing on the device.
 *
 * Blocks, some milliseconds on a real device and at most some seconds: on the device's control
 * thread, or in a process that has nothing else to do.
 */

/* Steps written down. Chosen: more than any probe can take (INLINE_HINTS_MAX, 16 halvings). */
#define PROBE_STEPS_MAX 32u

struct probe_step {
	enum inline_state state; /* what the step was for */
	uint32_t asked;		 /* bytes */
	uint32_t granted;	 /* bytes; of BASE to WHOLE: if it was created; of VERIFY: judged */
	int error;		 /* errno; 0: it succeeded, or errno was left alone */
	bool ok;		 /* created; of VERIFY: verified */
	uint32_t us;		 /* time that it took */
};

/* What to find out, and whom to tell. */
struct probe_order {
	struct trial_shape shape; /* as the queue pairs that will carry data */
	struct inline_ask ask;
	bool use; /* false: the settings say not to use the device */
	/* Called after each step, on the calling thread; may be NULL. */
	void (*on_step)(void *ctx, const struct probe_step *step);
	void *ctx;
};

/* The settings that an order follows from; the daemon and shunt probe have the same. */
struct probe_settings {
	uint32_t depth;	     /* of send and receive queue, work requests */
	uint32_t sges;	     /* pieces of memory of a send */
	uint32_t ask, floor; /* bytes inline */
	const struct device_conf *devices;
};

struct probe_report {
	struct trial_shape shape; /* of the order */
	struct inline_ask ask;
	/* The result. */
	uint32_t used; /* bytes that may be posted inline: 0 if not good */
	enum inline_reason reason;
	int error; /* errno that belongs to the reason; 0: none, or errno was left alone */
	/* How it came about, bytes: what the device granted at the end, and what was sent. */
	uint32_t granted, verified;
	uint32_t send_wr_granted; /* depth of the queue pair that has it */
	uint32_t port;		  /* that it was verified on; 0: none */
	bool exact;		  /* the device has no byte more */
	bool is_cached;		  /* nothing was tried: it is an earlier report */
	uint32_t creations;	  /* queue pairs asked of the device */
	uint32_t us;
	uint32_t n_steps;
	struct probe_step steps[PROBE_STEPS_MAX];
	char detail[VERIFY_DETAIL_BYTES]; /* of the posts, for people; or empty */
	struct frontier frontier;	  /* n is 0 until somebody asks for it */
};

/* The order for the device of @info as @settings say, with nobody to tell. Pure. */
void probe_order_init(struct probe_order *order, const struct device_info *info,
		      const struct probe_settings *settings);

/*
 * Probe @device. @ret_report: filled in any case. A device that fails in every way gives a report
 * that says so; there is no other error.
 */
void probe_run(const struct device *device, const struct probe_order *order,
	       struct probe_report *ret_report);

/* Whether the result is worth keeping: not for what a port, a path or a shortage decided. */
bool probe_is_lasting(const struct probe_report *report);

/* Whether the device can carry connections at all: with no inline, perhaps, but with queue pairs.
 */
bool probe_is_usable(const struct probe_report *report);

#define PROBE_CAUSE_BYTES 256u

/*
 * What probably lies behind the error of @report, and what to do, as one sentence for people: the
 * limit on locked memory, permissions, a depth beyond what the device has. Empty where there is
 * nothing to say. Reads this process's limits. Returns @text.
 */
const char *probe_cause(const struct device_info *info, const struct probe_report *report,
			char text[PROBE_CAUSE_BYTES]);
