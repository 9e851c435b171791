/* SPDX-License-Identifier: MIT */
/* Prints where a client of this process would look for a daemon. */
#include <stdio.h>

#include "os/rundir.h"

int main(void)
{
	struct rundir dirs[RUNDIR_CANDIDATES_MAX];
	size_t n = rundir_candidates(dirs);

	for (size_t i = 0; i < n; i++)
		printf("%d %s\n", dirs[i].kind, dirs[i].path);
	return 0;
}
