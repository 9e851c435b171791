/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <stdio.h>

#include "fabric/cm_context.h"
#include "lib/tap.h"
#include "rig.h"

/* Longest wait for the last descriptor of a device to be closed. */
#define FREE_MS 5000

const struct qp_spec rig_spec = {
	.send_wr = 64, .recv_wr = 64, .send_sge = 1, .recv_sge = 1, .inline_bytes = 80};

bool rig_open_on(struct rig *rig, struct verbs_host *host, const char *name)
{
	*rig = (struct rig){.host = host};
	snprintf(rig->name, sizeof(rig->name), "%s", name);
	rig->budget =
		(struct pool_budget){.config_max = 1000, .memory_max = 1u << 30, .qp_bytes = 65536};
	return CHECK_OK(control_init(&rig->control, name)) &&
	       CHECK_OK(device_open_name(name, &rig->device)) &&
	       CHECK_OK(cq_set_init(&rig->cqs, rig->device));
}

bool rig_open(struct rig *rig, const char *name, const char *personality)
{
	struct verbs_host *host = verbs_host_new();

	verbs_host_add(host, name, personality, "10.77.0.1");
	verbs_host_enter(host);
	if (!rig_open_on(rig, host, name))
		return false;
	rig->owns_host = true;
	return true;
}

void rig_close(struct rig *rig)
{
	control_deinit(&rig->control);
	CHECK_EQ(rig->cqs.count, 0);
	cq_set_deinit(&rig->cqs);
	rig->device = device_close(rig->device);
	if (rig->has_cm) {
		/* librdmacm holds it, too: until the host has it no longer. */
		if (!rig->is_removed)
			verbs_host_remove(rig->host, rig->name);
		CHECK_EQ(cm_context_drop_gone(), 1);
	}
	CHECK(verbs_host_wait_free(rig->host, rig->name, FREE_MS));
	if (rig->owns_host)
		verbs_host_free(rig->host);
}

bool rig_reap(struct rig *rig, int timeout_ms)
{
	struct pollfd wait = {.fd = control_fd(&rig->control), .events = POLLIN};

	if (poll(&wait, 1, timeout_ms) != 1)
		return false;
	control_reap(&rig->control);
	return true;
}

void rig_pool(struct rig *rig, struct qp_pool *pool, uint32_t min, uint32_t max,
	      void (*on_refused)(struct qp_pool *pool))
{
	const struct qp_pool_config config = {
		.device = rig->device,
		.control = &rig->control,
		.cqs = &rig->cqs,
		.budget = &rig->budget,
		.min = min,
		.max = max,
		.on_refused = on_refused,
	};

	qp_pool_init(pool, &config, &rig_spec, 1);
}

void rig_pool_end(struct rig *rig, struct qp_pool *pool)
{
	qp_pool_stop(pool);
	RIG_AWAIT(rig, qp_pool_is_quiet(pool));
	qp_pool_deinit(pool);
	CHECK_EQ(pool->counts.created, pool->counts.destroyed);
	CHECK_EQ(rig->budget.in_use, 0);
	CHECK_EQ(rig->budget.coming, 0);
}
