/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/plan.h"
#include "sim/run.h"
#include "sim/sched.h"

/*
 * shunt-sim --seed N --runs K [--jobs J] [--seeds FILE] [--cover] [--verbose]
 *
 * Runs the seeds of FILE, then N … N+K-1, in J processes, and ends with what they have covered;
 * --cover makes it a failure if something was never seen. Prints TAP. The first failure of each
 * process is one line with seed and step. With --verbose the runs are traced.
 */

#define JOBS_MAX 64
#define SEEDS_MAX 4096

struct options {
	uint64_t seed, runs;
	unsigned int jobs;
	const char *seeds;
	bool verbose, need_cover;
};

struct totals {
	uint64_t runs, failed, steps;
	uint64_t covered[COVER_COUNT];
};

static uint64_t kept[SEEDS_MAX];
static size_t kept_count;

static int seeds_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256];

	if (!file) {
		perror(path);
		return -1;
	}
	while (fgets(line, sizeof(line), file) && kept_count < SEEDS_MAX)
		if (line[0] >= '0' && line[0] <= '9')
			kept[kept_count++] = strtoull(line, NULL, 10);
	fclose(file);
	return 0;
}

/* The code under test has crashed: say where, for the seed to be kept. */
static void on_crash(int signal)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "# seed %lu step %lu: died of signal %d\nnot ok 1\n",
			 plan.seed, sched.steps, signal);

	if (write(STDOUT_FILENO, line, (size_t)n) < n)
		_exit(2);
	_exit(1);
}

static void run_one(uint64_t seed, struct totals *totals, bool verbose)
{
	unsigned int i;

	totals->runs++;
	if (!run_seed(seed, verbose)) {
		totals->failed++;
		printf("# seed %lu step %lu: %s\n", seed, sched.failed_step, sched.failure);
		fflush(stdout);
	}
	totals->steps += sched.steps;
	for (i = 0; i < COVER_COUNT; i++)
		totals->covered[i] += covered[i];
}

/* Every @jobs-th seed, beginning with the @job-th. */
static void run_share(const struct options *options, unsigned int job, struct totals *totals)
{
	uint64_t i;

	for (i = job; i < kept_count + options->runs && !totals->failed; i += options->jobs)
		run_one(i < kept_count ? kept[i] : options->seed + i - kept_count, totals,
			options->verbose);
	run_deinit();
}

static void totals_add(struct totals *sum, const struct totals *more)
{
	unsigned int i;

	sum->runs += more->runs;
	sum->failed += more->failed;
	sum->steps += more->steps;
	for (i = 0; i < COVER_COUNT; i++)
		sum->covered[i] += more->covered[i];
}

static int run_jobs(const struct options *options, struct totals *totals)
{
	int pipes[JOBS_MAX][2], status, rc = 0;
	struct totals share;
	unsigned int job;

	for (job = 0; job < options->jobs; job++) {
		memset(&share, 0, sizeof(share));
		if (pipe(pipes[job]))
			return -1;
		switch (fork()) {
		case -1:
			return -1;
		case 0:
			run_share(options, job, &share);
			fflush(stdout);
			_exit(write(pipes[job][1], &share, sizeof(share)) != sizeof(share));
		}
		close(pipes[job][1]);
	}
	for (job = 0; job < options->jobs; job++) {
		if (read(pipes[job][0], &share, sizeof(share)) == sizeof(share))
			totals_add(totals, &share);
		close(pipes[job][0]);
	}
	while (wait(&status) > 0)
		if (status)
			rc = -1;
	return rc;
}

static int report(const struct options *options, const struct totals *totals)
{
	unsigned int i, missing = 0;

	printf("%sok 1 - %lu runs without a fault, %lu steps\n", totals->failed ? "not " : "",
	       totals->runs, totals->steps);
	for (i = 0; i < COVER_COUNT; i++) {
		printf("# %10lu runs saw: %s\n", totals->covered[i], cover_name(i));
		missing += !totals->covered[i];
	}
	if (options->need_cover)
		printf("%sok 2 - each of these was seen\n", missing ? "not " : "");
	printf("1..%d\n", options->need_cover ? 2 : 1);
	return totals->failed || (options->need_cover && missing);
}

static int usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [--seed N] [--runs K] [--jobs J] [--seeds FILE] [--cover] [--verbose]\n",
		name);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},
		{"runs", required_argument, NULL, 'r'},
		{"jobs", required_argument, NULL, 'j'},
		{"seeds", required_argument, NULL, 'f'},
		{"cover", no_argument, NULL, 'c'},
		{"verbose", no_argument, NULL, 'v'},
		{0},
	};
	struct options options = {.seed = 1, .runs = 1, .jobs = 1};
	struct totals totals = {0};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			options.seed = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			options.runs = strtoull(optarg, NULL, 10);
			break;
		case 'j':
			options.jobs = (unsigned int)strtoul(optarg, NULL, 10);
			break;
		case 'f':
			options.seeds = optarg;
			break;
		case 'c':
			options.need_cover = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			return usage(argv[0]);
		}
	}
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGABRT, on_crash);
	if (!options.jobs || options.jobs > JOBS_MAX || optind != argc)
		return usage(argv[0]);
	if (options.seeds && seeds_read(options.seeds))
		return 2;
	if (options.jobs == 1)
		run_share(&options, 0, &totals);
	else if (run_jobs(&options, &totals))
		return 2;
	return report(&options, &totals);
}
