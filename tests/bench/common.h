/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What the benchmark programs share. Each is two processes of one program and prints one line of
 * JSON; an error ends the program with a line on stderr and status 1.
 */

/* The two CPUs to stay on, "A,B"; -1: wherever the kernel likes. */
struct cpus {
	int cpu[2];
};

/* Print "bench: @what: the error of errno" and end the program. */
__attribute__((noreturn)) void bench_die(const char *what);

/* Parse "A,B" or "none"; ends the program if it is neither. */
struct cpus cpus_parse(const char *text);

/* Pin the calling thread to CPU @which (0 or 1) of @cpus. */
void cpus_pin(const struct cpus *cpus, int which);

/* A number with an optional K, M or G; ends the program if it is none. */
uint64_t count_parse(const char *text);

/* Memory that both processes see, zeroed. */
void *shared_memory(size_t bytes);

/* CPU time, user and system, of this process in ns. */
uint64_t cpu_time_ns(void);

/* A listening socket on a free loopback port, which is set; connections to it. */
int loopback_listen(int backlog, uint16_t *ret_port);
int loopback_connect(uint16_t port);
