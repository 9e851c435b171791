/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "fabric.h"
#include "fault.h"
#include "resource.h"
#include "transport.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct list resource_qps = LIST_INIT(resource_qps);
static struct list regions = LIST_INIT(regions);
static uint64_t pinned_bytes;
static uint32_t next_key = 1;

/* Pages are pinned, whatever part of them is meant. */
#define PAGE_BYTES 4096u

struct dbl_qp *resource_qp(uint64_t guid, uint32_t qpn)
{
	struct list *node;

	list_for_each (node, &resource_qps) {
		struct dbl_qp *qp = list_entry(node, struct dbl_qp, link);

		if (qp->ibv.qp_num == qpn && qp->device->desc.guid == guid)
			return qp;
	}
	return NULL;
}

void resource_break_qps(struct dbl_device *device)
{
	struct list *node;

	list_for_each (node, &resource_qps) {
		struct dbl_qp *qp = list_entry(node, struct dbl_qp, link);

		if (qp->device == device && qp->attr.qp_state >= IBV_QPS_INIT)
			transport_break(qp);
	}
}

void resource_orphan(struct dbl_context *context)
{
	struct list *node, *tmp;

	list_for_each_safe (node, tmp, &resource_qps) {
		struct dbl_qp *qp = list_entry(node, struct dbl_qp, link);

		if (qp->ibv.context != &context->verbs.context)
			continue;
		requester_reset(qp);
		fabric_forget_qp(qp->device->desc.guid, qp->ibv.qp_num);
		list_unlink(&qp->link);
	}
	list_for_each_safe (node, tmp, &regions) {
		struct dbl_mr *mr = list_entry(node, struct dbl_mr, link);

		if (mr->ibv.context == &context->verbs.context)
			list_unlink(&mr->link);
	}
}

void resource_forget(void)
{
	list_init(&resource_qps);
	list_init(&regions);
	pinned_bytes = 0;
}

/* Whether the kernel would let this process pin without a limit. */
static bool has_ipc_lock(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

int resource_pin(const struct dbl_device *device, uint64_t bytes)
{
	uint64_t limit = UINT64_MAX;
	struct rlimit rlimit;

	if (device->desc.memlock != STATE_UNSET)
		limit = (uint64_t)device->desc.memlock;
	else if (!has_ipc_lock() && getrlimit(RLIMIT_MEMLOCK, &rlimit) == 0 &&
		 rlimit.rlim_cur != RLIM_INFINITY)
		limit = rlimit.rlim_cur;
	bytes = u64_align_up(bytes, PAGE_BYTES);
	if (bytes > limit || pinned_bytes > limit - bytes)
		return ENOMEM;
	pinned_bytes += bytes;
	return 0;
}

void resource_unpin(uint64_t bytes)
{
	pinned_bytes -= u64_align_up(bytes, PAGE_BYTES);
}

DBL_API struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct dbl_context *context = dbl_context(ibv);
	struct dbl_pd *pd = calloc(1, sizeof(*pd));
	int rc = pd ? 0 : ENOMEM;

	pthread_mutex_lock(&dbl_lock);
	if (rc == 0)
		rc = fault_errno("alloc_pd", context->device->desc.name);
	if (rc == 0)
		rc = device_check(context->device);
	if (rc == 0) {
		pd->ibv.context = ibv;
		pd->ibv.handle = context->next_handle++;
		context->pds++;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc) {
		free(pd);
		errno = rc;
		return NULL;
	}
	return &pd->ibv;
}

DBL_API int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct dbl_pd *pd = (struct dbl_pd *)ibv;
	int rc = EBUSY;

	pthread_mutex_lock(&dbl_lock);
	if (pd->users == 0) {
		dbl_context(ibv->context)->pds--;
		rc = 0;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc == 0)
		free(pd);
	return rc;
}

/* The first and last page whole. */
static uint64_t span_bytes(const void *addr, size_t length)
{
	uint64_t start = u64_align_down((uintptr_t)addr, PAGE_BYTES);

	return u64_align_up((uintptr_t)addr + length, PAGE_BYTES) - start;
}

static int check_region(const struct dbl_context *context, unsigned access)
{
	const struct dbl_device *device = context->device;
	uint32_t most = device->desc.max_mr == STATE_UNSET ? device->p->max_mr
							   : (uint32_t)device->desc.max_mr;
	int rc = fault_errno("reg_mr", device->desc.name);

	if (rc)
		return rc;
	if (device_check(device))
		return EIO;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return device_count_mrs(device) >= most ? ENOMEM : 0;
}

/*
 * Keys are told apart: one that a peer may use is none for local work, so that mixing them up shows
 * as it does not on devices where the two are equal.
 */
static void fill_region(struct dbl_mr *mr, struct ibv_pd *pd, void *addr, size_t length)
{
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->ibv.handle = next_key;
	mr->ibv.lkey = (next_key << 8) | 0x11;
	mr->ibv.rkey = (next_key << 8) | 0x99;
	next_key++;
	list_push_back(&regions, &mr->link);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned access)
{
	struct dbl_context *context = dbl_context(pd->context);
	struct dbl_mr *mr = calloc(1, sizeof(*mr));
	int rc = mr ? 0 : ENOMEM;

	pthread_mutex_lock(&dbl_lock);
	if (rc == 0)
		rc = length ? check_region(context, access) : EINVAL;
	if (rc == 0) {
		mr->pinned = span_bytes(addr, length);
		rc = resource_pin(context->device, mr->pinned);
	}
	if (rc == 0) {
		mr->access = access;
		mr->iova = iova;
		fill_region(mr, pd, addr, length);
		context->mrs++;
		((struct dbl_pd *)pd)->users++;
	}
	pthread_mutex_unlock(&dbl_lock);
	if (rc) {
		free(mr);
		errno = rc;
		return NULL;
	}
	return &mr->ibv;
}

DBL_API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

DBL_API struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       int access)
{
	return reg_mr(pd, addr, length, iova, (unsigned)access);
}

DBL_API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE);
}

DBL_API int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct dbl_mr *mr = (struct dbl_mr *)ibv;

	pthread_mutex_lock(&dbl_lock);
	list_unlink(&mr->link);
	resource_unpin(mr->pinned);
	dbl_context(ibv->context)->mrs--;
	((struct dbl_pd *)ibv->pd)->users--;
	pthread_mutex_unlock(&dbl_lock);
	free(mr);
	return 0;
}

static void *resolve(const struct dbl_mr *mr, uint64_t addr, uint64_t length, unsigned access)
{
	if ((mr->access & access) != access)
		return NULL;
	if (addr < mr->iova || length > mr->ibv.length || addr - mr->iova > mr->ibv.length - length)
		return NULL;
	return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
}

void *resource_local(struct ibv_pd *pd, uint32_t lkey, uint64_t addr, uint64_t length,
		     unsigned access)
{
	struct list *node;

	list_for_each (node, &regions) {
		struct dbl_mr *mr = list_entry(node, struct dbl_mr, link);

		if (mr->ibv.pd == pd && mr->ibv.lkey == lkey)
			return resolve(mr, addr, length, access);
	}
	return NULL;
}

void *resource_remote(struct ibv_pd *pd, uint32_t rkey, uint64_t addr, uint64_t length,
		      unsigned access)
{
	struct list *node;

	list_for_each (node, &regions) {
		struct dbl_mr *mr = list_entry(node, struct dbl_mr, link);

		if (mr->ibv.pd == pd && mr->ibv.rkey == rkey)
			return resolve(mr, addr, length, access);
	}
	return NULL;
}
