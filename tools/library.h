/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* Bytes of a version, terminator included. */
#define LIBRARY_VERSION_BYTES 32u

/*
 * Which version the library in the file @path is of, by the word that lib/preload/version.c puts
 * into it. 0, with an empty text where there is none; -errno of reading the file; -EFBIG for one
 * that is larger than any such library.
 */
int library_version(const char *path, char ret_version[LIBRARY_VERSION_BYTES]);
