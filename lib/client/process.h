/* SPDX-License-Identifier: MIT */
#pragma once

#include "os/proc.h"

/* Who this process is, as noted at the start of the library and after each fork. pid 0: it could
 * not be found out, so others take it for alive. */
const struct proc_id *process_id(void);
void process_note_self(void);
