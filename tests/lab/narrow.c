/* SPDX-License-Identifier: MIT */
/*
 * A library to preload into a program in the guest: the device below it seems to have a smaller
 * inline limit, or one that means nothing. $SHUNT_LAB_INLINE chooses:
 *
 *	N	at most N bytes: more is refused with EINVAL, less is passed on, and no grant is
 *		reported above N
 *	0	whatever is asked, success and a grant of 0
 *	ignored	whatever is asked is granted, but IBV_SEND_INLINE is taken off each request, so
 *		that the provider reads the data by its lkey
 *
 * It covers ibv_create_qp() and ibv_create_qp_ex(), in librdmacm too, and ibv_query_qp(). The
 * second and ibv_post_send() are inline functions over the operations of a context, which are
 * replaced when the context is opened.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define VISIBLE __attribute__((visibility("default")))
#define CONTEXTS_MAX 32

enum mode { MODE_LIMIT, MODE_IGNORED };

/* A context that is open, and its provider's own operations. */
struct opened {
	struct ibv_context *context;
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
};

static struct {
	enum mode mode;
	uint32_t limit;
	pthread_mutex_t lock;
	struct opened opened[CONTEXTS_MAX];
} narrow = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("narrow: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

__attribute__((constructor)) static void narrow_init(void)
{
	const char *text = getenv("SHUNT_LAB_INLINE");
	char *end;

	if (text && strcmp(text, "ignored") == 0) {
		narrow.mode = MODE_IGNORED;
		return;
	}
	if (!text || !*text)
		die("SHUNT_LAB_INLINE is not set");
	narrow.limit = (uint32_t)strtoul(text, &end, 10);
	if (*end)
		die("SHUNT_LAB_INLINE=%s is neither a number nor \"ignored\"", text);
}

/* The function that this library stands before. */
static void *next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	if (!fn)
		die("no %s in the libraries behind this one", name);
	return fn;
}

/* What to ask the provider for instead of @cap's inline size: 0, or -EINVAL to refuse. */
static int narrow_ask(struct ibv_qp_cap *cap)
{
	if (narrow.mode == MODE_IGNORED || narrow.limit == 0)
		cap->max_inline_data = 0;
	else if (cap->max_inline_data > narrow.limit)
		return -EINVAL;
	return 0;
}

/* What to report of a grant, when @asked was asked. */
static void narrow_grant(struct ibv_qp_cap *cap, uint32_t asked)
{
	if (narrow.mode == MODE_IGNORED)
		cap->max_inline_data = asked;
	else if (cap->max_inline_data > narrow.limit)
		cap->max_inline_data = narrow.limit;
}

VISIBLE struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) = next("ibv_create_qp");
	uint32_t asked = attr->cap.max_inline_data;
	struct ibv_qp *qp;

	if (narrow_ask(&attr->cap) < 0) {
		errno = EINVAL;
		return NULL;
	}
	qp = real(pd, attr);
	if (qp)
		narrow_grant(&attr->cap, asked);
	else
		attr->cap.max_inline_data = asked;
	return qp;
}

VISIBLE int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			 struct ibv_qp_init_attr *init)
{
	int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *) =
		next("ibv_query_qp");
	int ret = real(qp, attr, mask, init);

	if (ret == 0 && narrow.mode == MODE_LIMIT) {
		narrow_grant(&attr->cap, 0);
		narrow_grant(&init->cap, 0);
	}
	return ret;
}

/* The entry of @context, NULL for a free one; it stays until the context is closed. */
static struct opened *find_opened(const struct ibv_context *context)
{
	struct opened *found = NULL;

	pthread_mutex_lock(&narrow.lock);
	for (int i = 0; i < CONTEXTS_MAX && !found; i++) {
		if (narrow.opened[i].context == context)
			found = &narrow.opened[i];
	}
	pthread_mutex_unlock(&narrow.lock);
	if (!found)
		die(context ? "a context that was not seen opening" : "too many open contexts");
	return found;
}

/* One by one, since the chain belongs to the caller. */
static int post_send_by_reference(struct ibv_qp *qp, struct ibv_send_wr *wr,
				  struct ibv_send_wr **bad)
{
	const struct opened *opened = find_opened(qp->context);

	for (; wr; wr = wr->next) {
		struct ibv_send_wr one = *wr;
		struct ibv_send_wr *ignored;
		int ret;

		one.next = NULL;
		one.send_flags &= ~(unsigned int)IBV_SEND_INLINE;
		ret = opened->post_send(qp, &one, &ignored);
		if (ret) {
			*bad = wr;
			return ret;
		}
	}
	return 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const struct opened *opened = find_opened(context);
	uint32_t asked = attr->cap.max_inline_data;
	struct ibv_qp *qp;

	/* The posting functions of such a queue pair could not be narrowed. */
	if (narrow.mode == MODE_IGNORED && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (narrow_ask(&attr->cap) < 0) {
		errno = EINVAL;
		return NULL;
	}
	qp = opened->create_qp_ex(context, attr);
	if (qp)
		narrow_grant(&attr->cap, asked);
	else
		attr->cap.max_inline_data = asked;
	return qp;
}

VISIBLE struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*real)(struct ibv_device *) = next("ibv_open_device");
	struct ibv_context *context = real(device);
	struct verbs_context *verbs;
	struct opened *opened;

	if (!context)
		return NULL;
	opened = find_opened(NULL);
	opened->post_send = context->ops.post_send;
	if (narrow.mode == MODE_IGNORED)
		context->ops.post_send = post_send_by_reference;
	verbs = verbs_get_ctx_op(context, create_qp_ex);
	if (verbs) {
		opened->create_qp_ex = verbs->create_qp_ex;
		verbs->create_qp_ex = create_qp_ex;
	}
	opened->context = context;
	return context;
}

VISIBLE int ibv_close_device(struct ibv_context *context)
{
	int (*real)(struct ibv_context *) = next("ibv_close_device");
	struct opened *opened = find_opened(context);

	*opened = (struct opened){0};
	return real(context);
}
