/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "board.h"
#include "base/util.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/syswait.h"

_Static_assert(NOTICE_OWNER_DIED == FUTEX_OWNER_DIED, "the bit that the kernel sets");

/* At this thread's death the kernel walks this list and marks the word at each entry's offset. */
static struct robust_list_head robust_head;
static struct robust_list robust_entry;

static void register_death(struct notice_page *page)
{
	char *word = (char *)&page->head.alive;

	atomic_store(&page->head.alive, (uint32_t)sys_gettid());
	robust_entry.next = &robust_head.list;
	robust_head.list.next = &robust_entry;
	robust_head.futex_offset = word - (char *)&robust_entry;
	robust_head.list_op_pending = NULL;
	SYS_CALL(set_robust_list, &robust_head, sizeof(robust_head));
}

int board_init(struct board *board, uint32_t slots)
{
	uint64_t bytes = u64_align_up(notice_bytes(slots), 4096);
	void *map;
	int rc;

	*board = (struct board){.fd = -1, .slots = slots, .free_count = slots};
	board->free = calloc(slots, sizeof(*board->free));
	if (!board->free)
		return -ENOMEM;
	for (uint32_t i = 0; i < slots; i++)
		board->free[i] = slots - 1 - i;
	board->fd = memfd_make("shunt-notice", bytes);
	if (board->fd < 0) {
		rc = board->fd;
		goto free_slots;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, board->fd, 0);
	if (map == MAP_FAILED) {
		rc = -errno;
		goto close_fd;
	}
	rc = memfd_seal_writers(board->fd);
	if (rc < 0) {
		munmap(map, bytes);
		goto close_fd;
	}
	board->page = map;
	board->page->head.slots = slots;
	register_death(board->page);
	return 0;

close_fd:
	fd_close(board->fd);
free_slots:
	free(board->free);
	return rc;
}

void board_deinit(struct board *board)
{
	robust_head.list.next = &robust_head.list;
	atomic_store(&board->page->head.alive, NOTICE_OWNER_DIED);
	munmap(board->page, u64_align_up(notice_bytes(board->slots), 4096));
	fd_close(board->fd);
	free(board->free);
	board->free = NULL;
}

uint32_t board_take(struct board *board)
{
	return board->free_count ? board->free[--board->free_count] : BOARD_FULL;
}

void board_give(struct board *board, uint32_t slot)
{
	if (slot == BOARD_FULL)
		return;
	assert(board->free_count < board->slots);
	board->free[board->free_count++] = slot;
}

void board_post(struct board *board, uint32_t slot)
{
	/* Release: pairs with the acquire in notice_mail(). */
	if (slot != BOARD_FULL)
		atomic_fetch_add_explicit(&board->page->slot[slot].mail, 1, memory_order_release);
}
