/* SPDX-License-Identifier: MIT */
#pragma once

#include "sim/side.h"

/*
 * The programs at both ends, the process that stops and kills them, and what they do to a lane of
 * their own will.
 */

/* Start both sides as planned. */
void app_start(void);
