/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fabric/worker_impl.h"
#include "os/sys.h"

static void lock(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
}

static void unlock(struct worker *worker)
{
	pthread_mutex_unlock(&worker->lock);
}

void mail_init(struct worker_mail *mail, enum mail_kind kind)
{
	*mail = (struct worker_mail){.kind = kind};
	list_init(&mail->inbox);
	list_init(&mail->outbox);
}

static void wake(int event_fd)
{
	const uint64_t one = 1;

	/* Far from its limit of 2^64 - 2, so the write can't fail. */
	sys_write(event_fd, &one, sizeof(one));
}

static void silence(int event_fd)
{
	uint64_t count;

	sys_read(event_fd, &count, sizeof(count));
}

void mail_ask(struct worker *worker, struct worker_mail *mail, uint32_t what)
{
	lock(worker);
	if (!mail->is_closed) {
		mail->asked |= what;
		/* The end of a link is behind the beginning of its lanes, also if nothing of either
		 * has been taken yet. */
		if (what & ASK_END)
			list_unlink(&mail->inbox);
		if (!list_is_linked(&mail->inbox))
			list_push_back(&worker->inbox, &mail->inbox);
		atomic_store(&worker->has_mail, true);
		wake(worker->mail_fd);
	}
	unlock(worker);
}

/* --- to the thread ---------------------------------------------------------------------------- */

static void take_worker(struct worker *worker, uint32_t asked)
{
	if (asked & ASK_ANSWER)
		atomic_store(&worker->answers, atomic_load(&worker->questions));
	if (!(asked & ASK_STOP))
		return;
	worker->is_stopping = true;
	for (uint32_t i = 0; i < WORKER_LINKS_MAX; i++) {
		struct worker_link *link = atomic_load(&worker->links[i]);

		if (link)
			link_fail(link, "the device goes");
	}
}

static void take_link(struct worker_link *link, uint32_t asked)
{
	if (asked & ASK_BEGIN)
		link_go_up(link);
	if (asked & ASK_END)
		link_asked_to_end(link);
}

static void take_lane(struct worker_lane *lane, uint32_t asked)
{
	if (asked & ASK_BEGIN)
		lane_go(lane);
	if (asked & ASK_END)
		lane_end(lane, WORKER_ASKED, "asked to");
	if (asked & ASK_ALONE)
		lane_end_alone(lane);
}

/* Take all that is in the box. Whether anything was. */
bool mail_take(struct worker *worker)
{
	struct list *node;
	bool any = false;

	if (!atomic_load(&worker->has_mail))
		return false;
	lock(worker);
	silence(worker->mail_fd);
	atomic_store(&worker->has_mail, false);
	while ((node = list_pop_front(&worker->inbox)) != NULL) {
		struct worker_mail *mail = list_entry(node, struct worker_mail, inbox);
		uint32_t asked = TAKE(mail->asked, 0);

		unlock(worker);
		any = true;
		if (mail->kind == MAIL_WORKER)
			take_worker(worker, asked);
		else if (mail->kind == MAIL_LINK)
			take_link(container_of(mail, struct worker_link, mail), asked);
		else
			take_lane(container_of(mail, struct worker_lane, mail), asked);
		lock(worker);
	}
	unlock(worker);
	return any;
}

/* --- to the loop ------------------------------------------------------------------------------ */

/* Under the lock. What is told last goes to the end of the box, so that the last word of a link is
 * behind those of its lanes. */
static void tell(struct worker *worker, struct worker_mail *mail, uint32_t what)
{
	mail->told |= what;
	list_unlink(&mail->outbox);
	list_push_back(&worker->outbox, &mail->outbox);
	wake(worker->out_fd);
}

/* Under the lock. Nothing can be asked that the thread would find when the object is freed. */
static void close_box(struct worker_mail *mail)
{
	mail->is_closed = true;
	mail->asked = 0;
	list_unlink(&mail->inbox);
}

void mail_tell_lane(struct worker_lane *lane, uint32_t what, enum worker_end end, const char *why)
{
	const struct link_lane *core = &lane->core;
	struct worker *worker = lane->link->worker;
	struct worker_report *report = &lane->report;

	lock(worker);
	report->end = end;
	snprintf(report->why, sizeof(report->why), "%s", why);
	report->fed = core->is_frozen ? core->frozen : core->rx.prod;
	report->sent = core->tx.prod;
	report->consumed = core->rx.cons;
	report->reached = core->reached;
	report->told = core->told;
	report->heard = core->heard;
	tell(worker, &lane->mail, what);
	unlock(worker);
}

void mail_tell_over(struct worker_lane *lane, bool link_lost)
{
	struct worker *worker = lane->link->worker;

	lock(worker);
	lane->link_lost = link_lost;
	tell(worker, &lane->mail, TELL_OVER);
	close_box(&lane->mail);
	unlock(worker);
}

void mail_tell_link(struct worker_link *link, uint32_t what, const char *why)
{
	struct worker *worker = link->worker;

	lock(worker);
	if (what & TELL_DOWN)
		snprintf(link->why, sizeof(link->why), "%s", why);
	if (what & TELL_GONE) {
		atomic_store(&worker->links[link->index], NULL);
		worker->n_links--;
		close_box(&link->mail);
	}
	tell(worker, &link->mail, what);
	unlock(worker);
}

static void reap_lane(struct worker_lane *lane, const struct worker_ops *ops, uint32_t told,
		      const struct worker_report *report, bool link_lost)
{
	if (told & TELL_WORDS)
		ops->lane_words(lane, report);
	if (told & TELL_ENDED)
		ops->lane_ended(lane, report);
	if (told & TELL_OVER)
		ops->lane_over(lane, link_lost);
}

static void reap_link(struct worker_link *link, const struct worker_ops *ops, uint32_t told,
		      const char *why)
{
	if (told & TELL_DOWN)
		ops->link_down(link, why);
	if (told & TELL_GONE)
		ops->link_gone(link);
}

/* One of the box, with what belongs to it copied. False: there is none. */
static bool reap_one(struct worker *worker)
{
	const struct worker_ops *ops = worker->config.ops;
	struct worker_report report = {0};
	char why[WORKER_WHY_BYTES] = "";
	struct worker_mail *mail;
	struct list *node;
	bool link_lost = false;
	uint32_t told;

	lock(worker);
	node = list_pop_front(&worker->outbox);
	if (!node) {
		silence(worker->out_fd);
		unlock(worker);
		return false;
	}
	mail = list_entry(node, struct worker_mail, outbox);
	told = TAKE(mail->told, 0);
	if (mail->kind == MAIL_LANE) {
		report = container_of(mail, struct worker_lane, mail)->report;
		link_lost = container_of(mail, struct worker_lane, mail)->link_lost;
	} else if (mail->kind == MAIL_LINK) {
		memcpy(why, container_of(mail, struct worker_link, mail)->why, sizeof(why));
	}
	unlock(worker);
	if (mail->kind == MAIL_LANE)
		reap_lane(container_of(mail, struct worker_lane, mail), ops, told, &report,
			  link_lost);
	else if (mail->kind == MAIL_LINK)
		reap_link(container_of(mail, struct worker_link, mail), ops, told, why);
	return true;
}

void worker_reap(struct worker *worker)
{
	/* The descriptor stays readable until the box was seen empty, so that a limit loses
	 * nothing; other work of the loop gets its turn. */
	for (uint32_t i = 0; i < WORKER_LINKS_MAX && reap_one(worker); i++)
		;
}
