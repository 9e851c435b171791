/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * A fuzz target: one function that takes any bytes and aborts if a promise is broken. With the
 * option fuzz=true (clang) each target is a libFuzzer program; else it is linked with fuzz_main.c
 * and runs its corpus, and small changes of it, as an ordinary test.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
