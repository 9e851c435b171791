/* SPDX-License-Identifier: MIT */
#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "os/clock.h"
#include "tool.h"
#include "top.h"

/* Lines above the rows: daemon, totals, view, heads; and one below. */
#define HEAD_LINES 4
#define FOOT_LINES 1

struct screen {
	struct top_feed *feed;
	struct top_options *options;
	struct top_table table;
	struct top_order order;
	size_t first; /* row at the top */
	bool has_help, is_typing;
	char typed[80];
};

static volatile sig_atomic_t is_told_to_end;

static void on_signal(int sig)
{
	(void)sig;
	is_told_to_end = 1;
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* --- drawing ---------------------------------------------------------------------------------- */

static void draw_line(int y, const char *text, attr_t attributes)
{
	move(y, 0);
	clrtoeol();
	attrset(attributes);
	addnstr(text, COLS * 4); /* bytes; what is too long is cut at the edge */
	attrset(A_NORMAL);
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"1 2 3      connections, links, hosts; Tab: the next",
		"< >        sort by the column to the left, to the right",
		"r          the other way round",
		"/          filter: words that each must be in a line; Esc: none",
		"up down    scroll; Home: to the top",
		"+ -        refresh less, more often",
		"q          quit",
		"",
		"TX/s RX/s  bytes of a second, over TCP and lanes together",
		"MSG/s      messages of a second on lanes: what went into a ring, or out, at once",
		"INLINE     of the messages between hosts, those that a device posted inline",
		"LANE       tcp, ring (this host), rdma and its device (between hosts)",
		"REASON     of the last change of lane; shunt why PID tells more",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines) && (int)i + HEAD_LINES < LINES - FOOT_LINES; i++)
		draw_line(HEAD_LINES + (int)i, lines[i], A_NORMAL);
}

static void draw_rows(struct screen *screen)
{
	int room = LINES - HEAD_LINES - FOOT_LINES;
	char line[TOP_LINE_BYTES];

	if (screen->first >= screen->table.n)
		screen->first = screen->table.n ? screen->table.n - 1 : 0;
	for (int i = 0; i < room; i++) {
		size_t row = screen->first + (size_t)i;

		if (row < screen->table.n)
			draw_line(HEAD_LINES + i, top_table_line(&screen->table, row, COLS, line),
				  A_NORMAL);
	}
}

static void draw(struct screen *screen)
{
	const struct top_options *options = screen->options;
	char daemon[TOP_LINE_BYTES], line[TOP_LINE_BYTES];

	erase();
	top_summary(screen->feed, daemon, line);
	draw_line(0, daemon, screen->feed->asker.fd < 0 ? A_BOLD : A_NORMAL);
	draw_line(1, line, A_NORMAL);
	snprintf(line, sizeof(line), "%s: %zu%s%s, every %.1f s", top_view_name(options->view),
		 screen->table.n, options->filter[0] ? " with " : "", options->filter,
		 options->delay_s);
	draw_line(2, line, A_BOLD);
	draw_line(3, top_table_heads(&screen->table, &screen->order, COLS, line), A_REVERSE);
	if (screen->has_help)
		draw_help();
	else
		draw_rows(screen);
	if (screen->is_typing)
		snprintf(line, sizeof(line), "filter: %s_", screen->typed);
	else
		snprintf(line, sizeof(line),
			 "1 connections 2 links 3 hosts  <> sort  r reverse  / filter  ? help  "
			 "q quit");
	draw_line(LINES - 1, line, screen->is_typing ? A_BOLD : A_DIM);
	refresh();
}

/* --- what is shown ---------------------------------------------------------------------------- */

static void make(struct screen *screen)
{
	top_table_deinit(&screen->table);
	top_view_make(screen->options->view, screen->feed, &screen->table);
	top_table_filter(&screen->table, screen->options->filter);
	top_table_sort(&screen->table, &screen->order);
}

static void change_view(struct screen *screen, unsigned int view)
{
	screen->options->view = view % TOP_VIEWS;
	screen->order = top_view_order(screen->options->view);
	screen->first = 0;
}

/* --- keys ------------------------------------------------------------------------------------- */

static void type(struct screen *screen, int key)
{
	size_t len = strlen(screen->typed);

	if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		memcpy(screen->options->filter, screen->typed, sizeof(screen->typed));
		screen->is_typing = false;
		screen->first = 0;
	} else if (key == 27) {
		screen->is_typing = false;
	} else if (key == KEY_BACKSPACE || key == 127 || key == 8) {
		if (len)
			screen->typed[len - 1] = '\0';
	} else if (key >= ' ' && key < 127 && len + 1 < sizeof(screen->typed)) {
		screen->typed[len] = (char)key;
		screen->typed[len + 1] = '\0';
	}
}

static void scroll_by(struct screen *screen, int rows)
{
	if (rows < 0 && screen->first < (size_t)-rows)
		screen->first = 0;
	else
		screen->first += (size_t)rows; /* drawing sees to the end */
}

static void change_delay(struct top_options *options, double factor)
{
	options->delay_s *= factor;
	if (options->delay_s < 0.1)
		options->delay_s = 0.1;
	if (options->delay_s > 600)
		options->delay_s = 600;
}

/* False: quit. */
static bool press(struct screen *screen, int key)
{
	size_t columns = screen->table.n_columns;

	if (screen->is_typing) {
		type(screen, key);
		return true;
	}
	if (key >= '1' && key < '1' + TOP_VIEWS)
		change_view(screen, (unsigned int)(key - '1'));
	else if (key == '\t')
		change_view(screen, screen->options->view + 1u);
	else if (key == '<' || key == KEY_LEFT)
		screen->order.column = (screen->order.column + columns - 1) % columns;
	else if (key == '>' || key == KEY_RIGHT)
		screen->order.column = (screen->order.column + 1) % columns;
	else if (key == 'r')
		screen->order.is_reverse = !screen->order.is_reverse;
	else if (key == '+' || key == '-')
		change_delay(screen->options, key == '+' ? 2 : 0.5);
	else if (key == KEY_DOWN || key == KEY_NPAGE)
		scroll_by(screen, key == KEY_DOWN ? 1 : LINES - HEAD_LINES - FOOT_LINES);
	else if (key == KEY_UP || key == KEY_PPAGE)
		scroll_by(screen, key == KEY_UP ? -1 : -(LINES - HEAD_LINES - FOOT_LINES));
	else if (key == KEY_HOME)
		screen->first = 0;
	else if (key == 27)
		screen->options->filter[0] = '\0';
	else if (key == '?' || key == 'h')
		screen->has_help = !screen->has_help;
	else if (key == '/') {
		screen->is_typing = true;
		memcpy(screen->typed, screen->options->filter, sizeof(screen->typed));
	}
	return key != 'q';
}

/* Keys until the next refresh is due. False: quit. */
static bool wait_keys(struct screen *screen)
{
	uint64_t until = clock_now_ns() + (uint64_t)(screen->options->delay_s * 1e9), now;

	while (!is_told_to_end && (now = clock_now_ns()) < until) {
		int key;

		timeout((int)u64_min((until - now) / 1000000u + 1, 200));
		key = getch();
		if (key == ERR)
			continue;
		if (!press(screen, key))
			return false;
		make(screen);
		draw(screen);
	}
	return !is_told_to_end;
}

int top_screen(struct top_feed *feed, struct top_options *options)
{
	struct screen screen = {.feed = feed, .options = options};
	SCREEN *terminal = newterm(NULL, stdout, stdin);

	if (!terminal) {
		tool_say("can't use this terminal (TERM); shunt top --batch needs none");
		return TOOL_FAILED;
	}
	catch_signals();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	screen.order = top_view_order(options->view);
	do {
		top_feed_ask(feed);
		make(&screen);
		if (options->sort[0]) {
			size_t column = top_table_find(&screen.table, options->sort);

			if (column < screen.table.n_columns)
				screen.order.column = column;
			options->sort[0] = '\0';
			make(&screen);
		}
		draw(&screen);
	} while (!(options->count && --options->count == 0) && wait_keys(&screen));
	endwin();
	delscreen(terminal);
	top_table_deinit(&screen.table);
	return TOOL_OK;
}
