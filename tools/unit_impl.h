/* SPDX-License-Identifier: MIT */
#pragma once

/* Between the files of tools/unit.h. */

#define UNIT_DIRS 9u

/* Where units are, the first counts; without a leading slash. */
extern const char *const unit_dirs[UNIT_DIRS];
