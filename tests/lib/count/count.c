/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/count/count.h"

#undef ibv_reg_mr

#define EXPORTED __attribute__((visibility("default")))
/* The allocator itself, below what is counted here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *at, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static struct count_file *file;
static _Thread_local struct count_thread *own __attribute__((tls_model("initial-exec")));

/* Where the double's two libraries are loaded. */
static struct {
	uintptr_t from, to;
} left_out[2];
static unsigned int n_left_out;

static int note_library(struct dl_phdr_info *info, __attribute__((unused)) size_t size,
			__attribute__((unused)) void *arg)
{
	uintptr_t from = UINTPTR_MAX, to = 0;

	if (!strstr(info->dlpi_name, "/libibverbs.so") && !strstr(info->dlpi_name, "/librdmacm.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		from = at < from ? at : from;
		to = at + part->p_memsz > to ? at + part->p_memsz : to;
	}
	if (n_left_out < 2) {
		left_out[n_left_out].from = from;
		left_out[n_left_out++].to = to;
	}
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("COUNT_FILE"), *program = getenv("COUNT_PROGRAM");
	void *at;
	int fd;

	if (!path || !program || strcmp(program, program_invocation_short_name) != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED
		    : mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* A test that counts nothing must not pass. */
	if (at == MAP_FAILED)
		abort();
	close(fd);
	dl_iterate_phdr(note_library, NULL);
	file = at;
}

static struct count_thread *thread(void)
{
	uint32_t i;

	if (own || !file)
		return own;
	i = atomic_fetch_add(&file->n_threads, 1);
	own = &file->threads[i < COUNT_THREADS ? i : COUNT_THREADS - 1];
	atomic_store(&own->tid, gettid());
	return own;
}

static bool is_left_out(uintptr_t caller)
{
	for (unsigned int i = 0; i < n_left_out; i++) {
		if (caller >= left_out[i].from && caller < left_out[i].to)
			return true;
	}
	return false;
}

static void count_alloc(void *caller)
{
	struct count_thread *to = thread();

	if (to && !is_left_out((uintptr_t)caller))
		atomic_fetch_add(&to->n[COUNT_ALLOC], 1);
}

static void keep(enum count_what what, const void *object, unsigned int value)
{
	struct count_thread *to = thread();
	struct count_event *event;
	struct timespec now;
	uint32_t i;

	if (!to)
		return;
	atomic_fetch_add(&to->n[what], 1);
	i = atomic_fetch_add(&file->n_events, 1);
	if (i >= COUNT_EVENTS)
		return;
	event = &file->events[i];
	clock_gettime(CLOCK_MONOTONIC, &now);
	event->object = (uintptr_t)object;
	event->tid = atomic_load(&to->tid);
	event->what = (uint16_t)what;
	event->value = (uint16_t)value;
	atomic_store(&event->ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* --- memory ----------------------------------------------------------------------------------- */

EXPORTED void *malloc(size_t bytes)
{
	count_alloc(__builtin_return_address(0));
	return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t n, size_t bytes)
{
	count_alloc(__builtin_return_address(0));
	return __libc_calloc(n, bytes);
}

EXPORTED void *realloc(void *at, size_t bytes)
{
	count_alloc(__builtin_return_address(0));
	return __libc_realloc(at, bytes);
}

EXPORTED int posix_memalign(void **ret_at, size_t align, size_t bytes)
{
	void *at;

	count_alloc(__builtin_return_address(0));
	at = __libc_memalign(align, bytes);
	if (!at)
		return ENOMEM;
	*ret_at = at;
	return 0;
}

EXPORTED void *aligned_alloc(size_t align, size_t bytes)
{
	count_alloc(__builtin_return_address(0));
	return __libc_memalign(align, bytes);
}

/* --- verbs ------------------------------------------------------------------------------------ */

/* The function of this name in the library behind. */
#define BEHIND(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

#define COUNTED(what, object, type, name, params, args)                                            \
	EXPORTED type name params                                                                  \
	{                                                                                          \
		type result = BEHIND(name) args;                                                   \
                                                                                                   \
		keep(what, object, 0);                                                             \
		return result;                                                                     \
	}

COUNTED(COUNT_CREATE_QP, NULL, struct ibv_qp *, ibv_create_qp,
	(struct ibv_pd * pd, struct ibv_qp_init_attr *attr), (pd, attr))
COUNTED(COUNT_DESTROY_QP, NULL, int, ibv_destroy_qp, (struct ibv_qp * qp), (qp))
COUNTED(COUNT_REG_MR, NULL, struct ibv_mr *, ibv_reg_mr,
	(struct ibv_pd * pd, void *at, size_t bytes, int access), (pd, at, bytes, access))
COUNTED(COUNT_REG_MR, NULL, struct ibv_mr *, ibv_reg_mr_iova2,
	(struct ibv_pd * pd, void *at, size_t bytes, uint64_t iova, unsigned int access),
	(pd, at, bytes, iova, access))
COUNTED(COUNT_DEREG_MR, NULL, int, ibv_dereg_mr, (struct ibv_mr * mr), (mr))
COUNTED(COUNT_CREATE_CQ, NULL, struct ibv_cq *, ibv_create_cq,
	(struct ibv_context * context, int entries, void *user, struct ibv_comp_channel *channel,
	 int vector),
	(context, entries, user, channel, vector))

/* --- connection manager ----------------------------------------------------------------------- */

COUNTED(COUNT_RESOLVE_ADDR, id, int, rdma_resolve_addr,
	(struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int timeout_ms),
	(id, from, to, timeout_ms))
COUNTED(COUNT_CONNECT, id, int, rdma_connect,
	(struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
COUNTED(COUNT_ACCEPT, id, int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param),
	(id, param))
COUNTED(COUNT_ESTABLISH, id, int, rdma_establish, (struct rdma_cm_id * id), (id))
COUNTED(COUNT_DESTROY_ID, id, int, rdma_destroy_id, (struct rdma_cm_id * id), (id))

EXPORTED int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret_event)
{
	int rc = BEHIND(rdma_get_cm_event)(channel, ret_event);

	if (rc == 0)
		keep(COUNT_CM_EVENT, (*ret_event)->id, (*ret_event)->event);
	return rc;
}
