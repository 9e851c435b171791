/* SPDX-License-Identifier: MIT */
#pragma once

#include "unit.h"

/*
 * The drop-in that preloads the library into a service: what it has to say, and what of the
 * service's sandbox is in the way.
 */

#define UNIT_TEXT_BYTES 8192u
#define UNIT_NOTES_MAX 12u
#define UNIT_NOTE_BYTES 512u

struct unit_plan {
	char text[UNIT_TEXT_BYTES]; /* of the drop-in */
	/* What the drop-in can't or should not mend, each with its remedy. */
	unsigned int n_notes;
	char notes[UNIT_NOTES_MAX][UNIT_NOTE_BYTES];
};

/*
 * Plan the drop-in by which the service @name gets @library, an absolute path. 0; positive: the
 * path or what the service preloads already can't be written into a unit, see the one note.
 */
int unit_plan_make(const struct unit_root *root, const char *name, const char *library,
		   const struct unit_settings *settings, struct unit_plan *ret_plan);

/* Whether @text is a drop-in that we wrote. */
bool unit_text_is_ours(const char *text);

/* The library of such a drop-in: false if there is none any more. */
bool unit_text_library(const char *text, char ret_path[PATH_MAX]);

/* Judge the sandbox: append notes to @plan. @ret_binds: folders and files to be shown inside it. */
#define UNIT_BINDS_BYTES 512u
void unit_sandbox_judge(const struct unit_settings *settings, const char *library,
			struct unit_plan *plan, char ret_binds[UNIT_BINDS_BYTES]);

/* Append a note. */
__attribute__((format(printf, 2, 3))) void unit_note(struct unit_plan *plan, const char *format,
						     ...);

/* Next word of @text, as systemd splits and unquotes: what follows it, or NULL: there was none. */
const char *unit_word(const char *text, char *ret_word, size_t size);
