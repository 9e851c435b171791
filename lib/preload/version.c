/* SPDX-License-Identifier: MIT */

/*
 * For who looks at the file, or at a program that has it in memory: which version this is. Found by
 * the word before it (tools/library.h), since running the library to ask would change what is
 * asked.
 */
__attribute__((used)) static const char library_version[] = "SHUNT_LIBRARY_VERSION=" SHUNT_VERSION;
