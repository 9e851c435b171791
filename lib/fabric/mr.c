/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "fabric/mr.h"
#include "os/fd.h"
#include "os/log.h"
#include "os/memfd.h"

static int half_map(struct mr_half *half, int fd, int protection)
{
	void *map = mmap(NULL, half_bytes(half->ring_bytes), protection, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	half->ctl = map;
	return 0;
}

static int half_register(struct mr_half *half, const struct device *device, int access)
{
	errno = 0;
	half->region =
		ibv_reg_mr(device->pd, half_ring(half->ctl), (size_t)half->ring_bytes, access);
	if (half->region)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

static struct mr_half *half_new(uint64_t ring_bytes)
{
	struct mr_half *half = calloc(1, sizeof(*half));

	if (half) {
		list_init(&half->link);
		half->fd = -1;
		half->ring_bytes = ring_bytes;
	}
	return half;
}

struct mr_half *mr_half_free(struct mr_half *half)
{
	int rc;

	if (!half)
		return NULL;
	assert(!list_is_linked(&half->link));
	if (half->region) {
		rc = ibv_dereg_mr(half->region);
		if (rc)
			log_debug("a memory region stays: error %d", rc);
	}
	if (half->ctl)
		munmap(half->ctl, half_bytes(half->ring_bytes));
	fd_close(half->fd);
	free(half);
	return NULL;
}

int mr_half_make(const struct device *device, uint64_t ring_bytes, struct mr_half **ret_half)
{
	struct mr_half *half = half_new(ring_bytes);
	int rc;

	if (!half)
		return -ENOMEM;
	half->fd = memfd_make("shunt-half", half_bytes(ring_bytes));
	rc = half->fd < 0 ? half->fd : half_map(half, half->fd, PROT_READ | PROT_WRITE);
	if (rc == 0)
		rc = half_register(half, device, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (rc < 0) {
		mr_half_free(half);
		return rc;
	}
	*ret_half = half;
	return 0;
}

int mr_half_attach(const struct device *device, int fd, uint64_t ring_bytes,
		   struct mr_half **ret_half)
{
	struct mr_half *half;
	/* Unsealed, its owner could take the pages away under the device. */
	int rc = memfd_check(fd, half_bytes(ring_bytes), MEMFD_SEALS_WRITERS);

	if (rc < 0)
		return rc;
	half = half_new(ring_bytes);
	if (!half)
		return -ENOMEM;
	rc = half_map(half, fd, PROT_READ);
	if (rc == 0)
		rc = half_register(half, device, 0);
	if (rc < 0) {
		mr_half_free(half);
		return rc;
	}
	*ret_half = half;
	return 0;
}

static void job_run(struct control_job *job)
{
	struct mr_job *self = container_of(job, struct mr_job, job);

	switch (self->work) {
	case MR_MAKE:
		self->result = mr_half_make(self->device, self->ring_bytes, &self->half);
		break;
	case MR_ATTACH:
		self->result = mr_half_attach(self->device, self->client_fd, self->ring_bytes,
					      &self->half);
		break;
	case MR_FREE:
		self->half = mr_half_free(self->half);
		self->result = 0;
		break;
	}
}

static void budget_give(struct mr_job *job)
{
	job->budget->pinned -= job->ring_bytes;
	job->budget->count--;
}

static void job_done(struct control_job *job)
{
	struct mr_job *self = container_of(job, struct mr_job, job);

	if (job->cancelled && self->work == MR_FREE)
		job_run(job); /* the thread has ended: nothing else will do it */
	else if (job->cancelled)
		self->result = -ECANCELED;
	if (self->work == MR_FREE || self->result < 0)
		budget_give(self);
	self->done(self);
}

int mr_submit(struct control *control, struct mr_job *job)
{
	struct mr_budget *budget = job->budget;
	int rc;

	job->job = (struct control_job){.run = job_run, .done = job_done};
	if (job->work == MR_FREE) {
		job->ring_bytes = job->half->ring_bytes;
		return control_submit(control, &job->job);
	}
	if (job->ring_bytes > budget->max || budget->pinned > budget->max - job->ring_bytes)
		return MR_OVER_BUDGET;
	job->half = NULL;
	rc = control_submit(control, &job->job);
	if (rc == 0) {
		budget->pinned += job->ring_bytes;
		budget->count++;
	}
	return rc;
}

static void store_made(struct mr_job *job)
{
	struct mr_store *store = container_of(job, struct mr_store, job);

	store->is_making = false;
	store->error = job->result;
	if (job->result < 0)
		return; /* the next tick tries again */
	list_push_back(&store->ready, &job->half->link);
	store->n_ready++;
	mr_store_tick(store);
}

void mr_store_init(struct mr_store *store, const struct device *device, struct control *control,
		   struct mr_budget *budget, uint64_t ring_bytes, uint32_t keep)
{
	memset(store, 0, sizeof(*store));
	store->device = device;
	store->control = control;
	store->budget = budget;
	store->ring_bytes = ring_bytes;
	store->keep = keep;
	list_init(&store->ready);
}

struct mr_half *mr_store_take(struct mr_store *store)
{
	struct list *node = list_pop_front(&store->ready);

	if (!node)
		return NULL;
	store->n_ready--;
	mr_store_tick(store);
	return list_entry(node, struct mr_half, link);
}

void mr_store_tick(struct mr_store *store)
{
	if (store->is_making || store->is_stopped || store->n_ready >= store->keep)
		return;
	store->job = (struct mr_job){
		.device = store->device,
		.budget = store->budget,
		.work = MR_MAKE,
		.ring_bytes = store->ring_bytes,
		.done = store_made,
	};
	store->is_making = mr_submit(store->control, &store->job) == 0;
}

void mr_store_stop(struct mr_store *store)
{
	store->is_stopped = true;
}

bool mr_store_is_quiet(const struct mr_store *store)
{
	return !store->is_making;
}

void mr_store_deinit(struct mr_store *store)
{
	struct list *node;

	while ((node = list_pop_front(&store->ready)) != NULL) {
		store->budget->pinned -= store->ring_bytes;
		store->budget->count--;
		store->n_ready--;
		mr_half_free(list_entry(node, struct mr_half, link));
	}
}
