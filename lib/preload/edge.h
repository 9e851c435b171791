/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The edge of the library: the one place that turns -errno into errno and -1. All below it returns
 * -errno and leaves errno alone.
 */

/* @result, or errno set from it and -1. */
long edge_result(long result);

/* Set errno from @error, 0 or -errno; whether it was an error. */
int edge_failed(int error);
