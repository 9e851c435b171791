/* SPDX-License-Identifier: MIT */
#include "client/process.h"

static struct proc_id self;

const struct proc_id *process_id(void)
{
	return &self;
}

void process_note_self(void)
{
	struct proc_id id;

	self = (struct proc_id){0};
	if (proc_id_self(&id) == 0)
		self = id;
}
