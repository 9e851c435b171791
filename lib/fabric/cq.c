/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "fabric/cq.h"
#include "os/log.h"
#include "os/sys.h"

int cq_set_init(struct cq_set *set, const struct device *device)
{
	int flags;

	*set = (struct cq_set){.device = device};
	list_init(&set->cqs);
	errno = 0;
	set->channel = ibv_create_comp_channel(device->verbs);
	if (!set->channel)
		return errno > 0 ? -errno : -EIO;
	flags = sys_fcntl(set->channel->fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys_fcntl(set->channel->fd, F_SETFL, flags | O_NONBLOCK);
	if (flags < 0) {
		ibv_destroy_comp_channel(set->channel);
		set->channel = NULL;
		return flags;
	}
	return 0;
}

static void cq_free(struct cq_set *set, struct cq *cq)
{
	int rc = ibv_destroy_cq(cq->verbs);

	if (rc)
		log_debug("%s: a completion queue stays: error %d", set->device->info.name, rc);
	list_unlink(&cq->link);
	set->count--;
	free(cq);
}

void cq_set_deinit(struct cq_set *set)
{
	struct list *node, *next;

	if (!set->channel)
		return;
	list_for_each_safe (node, next, &set->cqs) {
		struct cq *cq = list_entry(node, struct cq, link);

		assert(cq->admitted == 0);
		cq_free(set, cq);
	}
	ibv_destroy_comp_channel(set->channel);
	set->channel = NULL;
}

static int cq_new(struct cq_set *set, uint32_t least, struct cq **ret_cq)
{
	uint32_t max = set->device->info.max_cqe, entries;
	struct cq *cq;

	if (max == 0 || max > INT32_MAX)
		max = INT32_MAX;
	if (least > max)
		return -EINVAL;
	entries = least > CQ_ENTRIES ? least : (uint32_t)u64_min(CQ_ENTRIES, max);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	errno = 0;
	cq->verbs = ibv_create_cq(set->device->verbs, (int)entries, NULL, set->channel, 0);
	if (!cq->verbs) {
		free(cq);
		return errno > 0 ? -errno : -EIO;
	}
	/* Providers round up; what they say is only believed if it is more. */
	cq->entries = entries;
	if (cq->verbs->cqe > 0 && (uint32_t)cq->verbs->cqe > entries)
		cq->entries = (uint32_t)cq->verbs->cqe;
	list_push_back(&set->cqs, &cq->link);
	set->count++;
	*ret_cq = cq;
	return 0;
}

int cq_set_take(struct cq_set *set, uint32_t entries, struct cq **ret_cq)
{
	struct cq *cq = NULL;
	struct list *node;
	int rc;

	list_for_each (node, &set->cqs) {
		cq = list_entry(node, struct cq, link);
		if (cq->entries - cq->admitted >= entries)
			break;
		cq = NULL;
	}
	if (!cq) {
		rc = cq_new(set, entries, &cq);
		if (rc < 0)
			return rc;
	}
	cq->admitted += entries;
	*ret_cq = cq;
	return 0;
}

void cq_set_give(struct cq_set *set, struct cq *cq, uint32_t entries)
{
	assert(cq->admitted >= entries);
	cq->admitted -= entries;
	if (cq->admitted == 0)
		cq_free(set, cq);
}
