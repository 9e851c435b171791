/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * systemctl(1) of the running system. Everything blocks until it is done.
 */

/*
 * Run it with @argv (argv[0] is its name, NULL behind the last). @ret_text: what it printed, to be
 * freed; NULL: its output is ours. Its exit status; 127: there is none, 128 and more: it was
 * killed.
 */
int systemctl(const char *const argv[], char **ret_text);

/* One property of the unit @name. False: it was not told, or is longer than @size. */
bool systemctl_value(const char *name, const char *property, char *ret_value, size_t size);

/* As systemctl(), of the actions on one unit, or none (NULL); tells of failures. True: done. */
bool systemctl_do(const char *verb, const char *name);
