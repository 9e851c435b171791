/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "sim/app.h"
#include "sim/daemon.h"
#include "sim/hostile.h"
#include "sim/kernel.h"
#include "sim/oracle.h"
#include "sim/plan.h"
#include "sim/remote.h"
#include "sim/run.h"
#include "sim/sched.h"

bool run_seed(uint64_t seed, bool trace)
{
	memset(covered, 0, sizeof(covered));
	sched_init(seed);
	sched.trace = trace;
	kernel_init();
	side_init(&sides[0], 0);
	side_init(&sides[1], 1);
	oracle_init();
	plan_draw(seed);
	if (trace)
		plan_print();
	sched_spawn("net", kernel_net, NULL)->system = true;
	daemon_start();
	if (plan.remote)
		remote_start();
	app_start();
	if (plan.hostile)
		hostile_start();
	sched_run();
	if (!sched.failure[0])
		oracle_end();
	daemon_free();
	return !sched.failure[0];
}

void run_deinit(void)
{
	unsigned int i;

	kernel_deinit();
	for (i = 0; i < SCHED_TASKS_MAX; i++)
		fiber_deinit(&sched.task[i].fiber);
}
