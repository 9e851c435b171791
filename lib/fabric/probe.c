/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/util.h"
#include "fabric/probe.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/sys.h"

struct probe_run {
	const struct device *device;
	const struct probe_order *order;
	struct probe_report *report;
	struct inline_probe probe;
	struct ibv_cq *cq;
	struct trial base; /* without inline: it receives */
	struct trial best; /* the last one that was granted inline */
};

static uint32_t us_since(uint64_t start_ns)
{
	return (uint32_t)u64_min((clock_now_ns() - start_ns) / 1000, UINT32_MAX);
}

/* Write the step down, log it, and tell who wants to know. */
static void note(struct probe_run *run, const struct probe_step *step)
{
	struct probe_report *report = run->report;

	if (report->n_steps < PROBE_STEPS_MAX)
		report->steps[report->n_steps++] = *step;
	log_debug("%s: probe %s: asked for %u, %s %u, error %d, %u us", run->device->info.name,
		  inline_state_name(step->state), step->asked, step->ok ? "got" : "refused",
		  step->granted, step->error, step->us);
	if (run->order->on_step)
		run->order->on_step(run->order->ctx, step);
}

/* One creation, and what the strategy makes of it. */
static void try_one(struct probe_run *run, uint32_t bytes)
{
	struct probe_step step = {.state = run->probe.state, .asked = bytes};
	uint64_t start_ns = clock_now_ns();
	struct trial trial;
	int rc;

	rc = trial_create(run->device, &run->order->shape, run->cq, bytes, &trial);
	step.us = us_since(start_ns);
	step.ok = rc == 0;
	if (rc) {
		step.error = rc < 0 ? -rc : 0;
		note(run, &step);
		inline_probe_failed(&run->probe, step.error);
		return;
	}
	step.granted = trial.cap.max_inline_data;
	note(run, &step);
	if (step.state == INLINE_BASE) {
		run->base = trial;
	} else {
		trial_destroy(run->device, &run->best);
		run->best = trial;
	}
	inline_probe_granted(&run->probe, step.granted);
}

static void verify(struct probe_run *run)
{
	struct probe_report *report = run->report;
	struct verify_pair pair = {run->best.qp, run->base.qp, run->cq};
	struct verify_result result = {0};
	struct probe_step step = {.state = INLINE_VERIFY,
				  .asked = inline_probe_candidate(&run->probe)};
	uint64_t start_ns = clock_now_ns();
	int rc = verify_inline(run->device, &pair, step.asked, &result);

	step.us = us_since(start_ns);
	step.error = -rc;
	step.ok = rc == 0 && result.verdict == INLINE_VERIFIED;
	step.granted = step.ok ? result.bytes : 0;
	note(run, &step);
	if (rc < 0) {
		snprintf(report->detail, sizeof(report->detail),
			 "the messages that prove it could not be sent: %s", strerror(-rc));
		inline_probe_broke(&run->probe, -rc);
		return;
	}
	report->port = result.port;
	report->verified = step.granted;
	memcpy(report->detail, result.detail, sizeof(report->detail));
	log_debug("%s: probe verify: %s", run->device->info.name, result.detail);
	inline_probe_judge(&run->probe, result.verdict, result.bytes);
}

/* Without a completion queue there is no queue pair either. */
static void search(struct probe_run *run)
{
	struct probe_step step = {.state = INLINE_BASE};
	uint32_t bytes;
	int rc = trial_cq_create(run->device, &run->order->shape, &run->cq);

	if (rc < 0) {
		step.error = -rc;
		note(run, &step);
		snprintf(run->report->detail, sizeof(run->report->detail),
			 "no completion queue can be created: %s", strerror(-rc));
		inline_probe_failed(&run->probe, -rc);
		run->probe.creations = 0;
		run->probe.reason = INLINE_NO_QP;
		return;
	}
	while (inline_probe_next(&run->probe, &bytes))
		try_one(run, bytes);
	if (run->probe.state == INLINE_VERIFY)
		verify(run);
}

void probe_order_init(struct probe_order *order, const struct device_info *info,
		      const struct probe_settings *settings)
{
	const struct device_match match = {info->vendor_id, info->part_id, info->driver,
					   info->name};
	struct device_policy policy;

	device_conf_policy(settings->devices, &match, &policy);
	*order = (struct probe_order){
		.shape =
			{
				.send_wr = settings->depth,
				.recv_wr = settings->depth,
				.send_sge = settings->sges,
				.recv_sge = 1,
			},
		.ask =
			{
				.ask = settings->ask,
				.floor = settings->floor,
				.cap = policy.inline_cap,
				.n_hints = policy.n_hints,
			},
		.use = policy.use,
	};
	memcpy(order->ask.hints, policy.hints, sizeof(policy.hints));
}

void probe_run(const struct device *device, const struct probe_order *order,
	       struct probe_report *ret_report)
{
	struct probe_run run = {.device = device, .order = order, .report = ret_report};
	uint64_t start_ns = clock_now_ns();

	*ret_report = (struct probe_report){.shape = order->shape, .ask = order->ask};
	if (!order->use || !device->info.rc) {
		ret_report->reason = order->use ? INLINE_NO_RC : INLINE_NOT_USED;
		return;
	}
	inline_probe_init(&run.probe, &order->ask);
	search(&run);
	ret_report->used = run.probe.used;
	ret_report->reason = run.probe.reason;
	ret_report->error = run.probe.error;
	ret_report->granted = run.probe.granted;
	ret_report->send_wr_granted = run.best.cap.max_send_wr;
	ret_report->exact = run.probe.exact;
	ret_report->creations = run.probe.creations;
	trial_destroy(device, &run.best);
	trial_destroy(device, &run.base);
	trial_cq_destroy(device, run.cq);
	ret_report->us = us_since(start_ns);
	log_debug("%s: probe: %u bytes inline after %u creations in %u us: %s", device->info.name,
		  ret_report->used, ret_report->creations, ret_report->us,
		  inline_reason_text(ret_report->reason));
}

bool probe_is_lasting(const struct probe_report *report)
{
	switch (report->reason) {
	case INLINE_USABLE:
	case INLINE_USABLE_ASKED:
	case INLINE_USABLE_CAPPED:
	case INLINE_NOT_GRANTED:
	case INLINE_BELOW_FLOOR:
	case INLINE_POST_REFUSED:
	case INLINE_IGNORED:
		return true;
	default:
		return false;
	}
}

bool probe_is_usable(const struct probe_report *report)
{
	switch (report->reason) {
	case INLINE_PENDING:
	case INLINE_NOT_USED:
	case INLINE_NO_RC:
	case INLINE_NO_QP:
		return false;
	default:
		return true;
	}
}

/* Whether @error may come from the limit on locked memory, and how much that is. The kernel says
 * EPERM where nothing may be locked at all. */
static bool is_memlock(int error, uint64_t *ret_bytes)
{
	struct rlimit limit;

	if (sys_prlimit(0, RLIMIT_MEMLOCK, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return false;
	*ret_bytes = limit.rlim_cur;
	return error == ENOMEM || (error == EPERM && limit.rlim_cur == 0);
}

const char *probe_cause(const struct device_info *info, const struct probe_report *report,
			char text[PROBE_CAUSE_BYTES])
{
	uint64_t bytes = 0;

	text[0] = '\0';
	if (report->reason == INLINE_UNVERIFIED)
		snprintf(text, PROBE_CAUSE_BYTES,
			 "Bring a port of %s up and give it an address; it is tried again then.",
			 info->name);
	else if (inline_reason_is_good(report->reason) || probe_is_lasting(report))
		return text;
	else if (is_memlock(report->error, &bytes))
		snprintf(text, PROBE_CAUSE_BYTES,
			 "Probably the limit on locked memory, which is %llu KiB here: raise it "
			 "(LimitMEMLOCK=infinity in the unit, ulimit -l unlimited in a shell).",
			 (unsigned long long)(bytes / 1024));
	else if (report->error == EPERM || report->error == EACCES)
		snprintf(text, PROBE_CAUSE_BYTES,
			 "This user may not: give it access to /dev/infiniband/uverbs* (group "
			 "rdma).");
	else if (report->error == ENOMEM)
		snprintf(text, PROBE_CAUSE_BYTES, "The machine, or the device, is out of memory.");
	else if (report->reason == INLINE_NO_QP && report->shape.send_wr > info->max_qp_wr)
		snprintf(text, PROBE_CAUSE_BYTES,
			 "The device has queues of at most %u entries: set rdma_depth to no more.",
			 info->max_qp_wr);
	else if (report->reason == INLINE_NO_QP && report->shape.send_sge > info->max_sge)
		snprintf(
			text, PROBE_CAUSE_BYTES,
			"The device takes at most %u pieces per request: set rdma_sges to no more.",
			info->max_sge);
	return text;
}
