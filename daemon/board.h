/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "core/notice.h"

/*
 * The daemon's side of the notice page (core/notice.h): hands out slots and posts mail.
 */
struct board {
	int fd; /* sealed; passed to every client */
	struct notice_page *page;
	uint32_t slots, free_count;
	uint32_t *free; /* stack of free slots */
};

/* No slot is free. */
#define BOARD_FULL UINT32_MAX

/*
 * Make a page with @slots slots, and put this thread's id where the kernel marks its death. The
 * calling thread must be the one that lives as long as the daemon; its robust mutex list is
 * replaced, so the daemon must not use robust mutexes. 0, or -errno.
 */
int board_init(struct board *board, uint32_t slots);

/* Release it: clients see the daemon as dead from here on. */
void board_deinit(struct board *board);

/* A free slot, or BOARD_FULL. */
uint32_t board_take(struct board *board);

/* Give @slot back; BOARD_FULL is ignored. Its counter goes on for the next session. */
void board_give(struct board *board, uint32_t slot);

/* Tell the session of @slot that a message is in its socket (call it after sending). */
void board_post(struct board *board, uint32_t slot);
