/* SPDX-License-Identifier: MIT */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * librdmacm opens a context of its own on every device that one of its ids gets bound to, and keeps
 * it when the last id is gone. For soft devices the kernel waits with a removal until the last
 * context is closed, so librdmacm has to let go too:
 *
 *   other devices remain   rdma_get_devices() makes it compare its list with the present one and
 *                          close what is gone
 *   none remains           it then returns before it compares (rdma-core 44 to 64). Its context is
 *                          left alone, but the two descriptors in it become /dev/null: the kernel
 *                          has its device back, and librdmacm closes /dev/null some day
 *
 * Comparing, it opens every device that there is at that moment, also one that has just come and is
 * gone before anybody else has seen it: so what it holds is looked at again from time to time.
 * Both are proven on real drivers by tests/lab/cases/cm_removal.sh. So that the second way finds
 * the contexts, whoever binds an id notes it. Descriptors are looked at again before they are
 * touched: librdmacm may have closed them, and the numbers be somebody else's.
 *
 * Any thread.
 */

/* Whether librdmacm may hold a device that is not among the @n of @names. */
bool cm_context_holds_other(const char *const *names, size_t n);

/* Remember the context of @id, if it has one: after it was bound, resolved or requested. */
void cm_context_note(const struct rdma_cm_id *id);

/*
 * Make librdmacm let go of all devices that the host has no longer. Their ids must be destroyed.
 * Blocks as opening devices does. Returns how many contexts were put on /dev/null.
 */
unsigned int cm_context_drop_gone(void);
