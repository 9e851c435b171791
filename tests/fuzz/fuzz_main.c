/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

#include "fuzz/fuzz.h"

/*
 * Runs a fuzz target without a fuzzer: every file of the corpus folder, every shorter piece of it,
 * each of its bits turned, and a fixed number of random changes with a fixed seed. Prints TAP: one
 * line per file; a broken promise aborts.
 */

#define INPUT_BYTES 65536u
#define RANDOM_ROUNDS 20000u

static uint8_t input[INPUT_BYTES], changed[INPUT_BYTES];
static unsigned long runs;

/* In memory of its own and of exactly its size, so that a sanitizer sees a read beyond it. */
static void run(const uint8_t *data, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	if (!exact)
		abort();
	memcpy(exact, data, len);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	runs++;
}

static void run_neighbours(size_t len)
{
	/* Long inputs have too many neighbours for a test: take some. */
	size_t step = len / 512 + 1;

	for (size_t cut = 0; cut < len; cut += step)
		run(input, cut);
	for (size_t bit = 0; bit < len * 8; bit += step) {
		input[bit / 8] ^= (uint8_t)(1u << bit % 8);
		run(input, len);
		input[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void run_random(size_t len, uint64_t seed)
{
	struct prng prng;

	prng_init(&prng, seed);
	for (unsigned int round = 0; round < RANDOM_ROUNDS; round++) {
		size_t n = len;

		memcpy(changed, input, len);
		for (uint64_t i = prng_below(&prng, 8); i > 0 && len > 0; i--)
			changed[prng_below(&prng, len)] = (uint8_t)prng_next(&prng);
		if (prng_chance(&prng, 10) && len > 0)
			n = prng_below(&prng, len);
		run(changed, n);
	}
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int run_file(const char *folder, const char *name, uint64_t seed)
{
	char path[4096];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	len = fread(input, 1, sizeof(input), file);
	fclose(file);
	run(input, len);
	run_neighbours(len);
	run_random(len, seed);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent **entries;
	int n, failed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &entries, visible, by_name);
	if (n <= 0) {
		printf("1..1\nnot ok 1 - no corpus in %s\n", argv[1]);
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		int rc = run_file(argv[1], entries[i]->d_name, (uint64_t)i + 1);

		printf("%sok %d - %s\n", rc ? "not " : "", i + 1, entries[i]->d_name);
		failed |= rc;
		free(entries[i]);
	}
	free(entries);
	printf("# %lu inputs\n", runs);
	return failed ? 1 : 0;
}
