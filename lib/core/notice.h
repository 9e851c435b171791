/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The notice page: written by the daemon alone, mapped read-only by every client, so that a client
 * learns of mail and of the daemon's death by loads instead of system calls.
 *
 * `alive` holds the daemon's thread id in the form of a futex that the daemon's robust list names:
 * the kernel sets NOTICE_OWNER_DIED when the daemon ends, however it ends. `mail` of a session's
 * slot moves after each message to that session was put into its socket; a client that saw it
 * move reads the socket until it would block. The memory is sealed against shrinking, growing and
 * new writable mappings; the slot number comes with WELCOME and is checked against the file's size.
 */

#define NOTICE_LINE_BYTES 64u
#define NOTICE_OWNER_DIED 0x40000000u /* FUTEX_OWNER_DIED of linux/futex.h */

struct notice_head {
	alignas(NOTICE_LINE_BYTES) _Atomic uint32_t alive;
	uint32_t slots; /* how many follow; never changes */
};

struct notice_slot {
	alignas(NOTICE_LINE_BYTES) _Atomic uint64_t mail;
};

struct notice_page {
	struct notice_head head;
	struct notice_slot slot[];
};

_Static_assert(sizeof(struct notice_head) == NOTICE_LINE_BYTES, "the head is one line");
_Static_assert(sizeof(struct notice_slot) == NOTICE_LINE_BYTES, "a slot is one line");

/* Bytes of a page with @slots slots. */
static inline size_t notice_bytes(uint32_t slots)
{
	return sizeof(struct notice_head) + (size_t)slots * sizeof(struct notice_slot);
}

/* Slots that surely exist in a page of @bytes bytes. */
static inline uint32_t notice_slots_in(uint64_t bytes)
{
	if (bytes < sizeof(struct notice_head))
		return 0;
	bytes = (bytes - sizeof(struct notice_head)) / sizeof(struct notice_slot);
	return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* Whether the daemon of @page still runs. One load; any context. */
static inline bool notice_alive(const struct notice_page *page)
{
	uint32_t word = atomic_load_explicit(&page->head.alive, memory_order_relaxed);

	return word != 0 && !(word & NOTICE_OWNER_DIED);
}

/*
 * The mail counter of @slot. Acquire: pairs with the release in the daemon's notice_post(), so
 * that the message that made it move is in the socket already.
 */
static inline uint64_t notice_mail(const struct notice_page *page, uint32_t slot)
{
	return atomic_load_explicit(&page->slot[slot].mail, memory_order_acquire);
}
