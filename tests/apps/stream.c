/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "os/clock.h"
#include "stream_net.h"
#include "stream_io.h"
#include "stream_pattern.h"

/*
 * A checksummed stream in both directions at once between two processes. Each has one thread that
 * sends and one that receives, with operations of random sizes and kinds. Every byte is checked
 * against what belongs at its offset; behind the last one goes a checksum of the whole direction;
 * behind that must come EOF. Whatever moves the bytes underneath, and however often it changes,
 * none may be lost, repeated or out of order.
 */

/* How far ahead of its rate a sender gets before it sleeps. Chosen: full speed in bursts of this
 * length, so that rings fill up and run empty, too. */
#define BURST_NS 5000000u

/* Between two looks at a connection that is held. Chosen: far below what its other end waits. */
#define HOLD_LOOK_MS 20

/* Exit statuses, beside 0. */
#define EXIT_WRONG 1   /* a wrong byte, or an error of a call */
#define EXIT_CALL 2    /* a wrong command line */
#define EXIT_TIMEOUT 3 /* not done in time */

struct options {
	uint64_t bytes, seed, max_op, rate, timeout_s;
	bool native, simple, hold;
};

struct direction {
	const struct options *options;
	struct stream_io *io;
	const char *name;
	uint64_t key;
	struct prng prng;
	struct stream_sum sum;
	_Atomic uint64_t offset; /* the watchdog looks */
	bool failed;
};

static const char help[] =
	"Usage: stream [OPTION]... pair | listen PORT [ADDRESS] | connect HOST PORT\n"
	"Send a checked pattern both ways at once over one TCP connection.\n"
	"\n"
	"  pair              both ends, as two processes\n"
	"  --bytes N[KMG]    how many bytes each way (16M)\n"
	"  --max-op N[KMG]   largest operation (256K)\n"
	"  --rate N[KMG]     at most so many bytes per second each way (0: no limit)\n"
	"  --seed N          of sizes, kinds of calls and pattern; the same on both ends (1)\n"
	"  --native          through the native API instead of socket calls\n"
	"  --simple          send and recv only\n"
	"  --hold            when done, do not close before end of file on standard input, and\n"
	"                    look at the connection now and then\n"
	"  --timeout S       give up after so many seconds and say where (300)\n"
	"\n"
	"Prints one line of JSON per process. Exit status: 0 all bytes right, 1 not, 2 wrong "
	"call,\n"
	"3 timeout.\n";

static void fail(struct direction *dir, uint64_t offset, const char *what, ssize_t rc)
{
	fprintf(stderr, "stream %d: %s at offset %" PRIu64 ": %s%s%s\n", (int)getpid(), dir->name,
		offset, what, rc < 0 ? ": " : "", rc < 0 ? strerror((int)-rc) : "");
	dir->failed = true;
}

static void show_wrong(struct direction *dir, uint64_t offset, const uint8_t *buf, size_t len)
{
	uint64_t want;
	uint64_t got = 0;
	int64_t from = pattern_where(dir->key, offset, buf, len < 64 ? len : 64);

	pattern_fill(dir->key, offset, &want, sizeof(want));
	memcpy(&got, buf, size_min(len, sizeof(got)));
	fail(dir, offset, "wrong byte", 0);
	fprintf(stderr, "  there: %016" PRIx64 ", should be: %016" PRIx64 " (little-endian)\n", got,
		want);
	if (from < 0)
		fprintf(stderr, "  these %zu bytes belong nowhere near\n", len);
	else
		fprintf(stderr, "  these bytes belong at %" PRId64 ": %" PRId64 " bytes %s\n", from,
			from > (int64_t)offset ? from - (int64_t)offset : (int64_t)offset - from,
			from > (int64_t)offset ? "lost" : "repeated");
}

static bool take(void *ctx, uint64_t offset, const void *buf, size_t len)
{
	struct direction *dir = ctx;
	ssize_t bad = pattern_check(dir->key, offset, buf, len);

	if (bad >= 0) {
		show_wrong(dir, offset + (uint64_t)bad, (const uint8_t *)buf + bad,
			   len - (size_t)bad);
		return false;
	}
	stream_sum_add(&dir->sum, buf, len);
	return true;
}

static void give(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct direction *dir = ctx;

	pattern_fill(dir->key, offset, buf, len);
	stream_sum_add(&dir->sum, buf, len);
}

/* Small sizes as likely as large ones: uniform in the number of digits. */
static size_t op_size(struct direction *dir, uint64_t left)
{
	uint64_t max = u64_min(dir->options->max_op, left), top = 1;
	unsigned int bits = 0;

	while (bits < 40 && (1ull << bits) < dir->options->max_op)
		bits++;
	top = 1ull << prng_below(&dir->prng, bits + 1);
	return (size_t)u64_min(max, 1 + prng_below(&dir->prng, top));
}

static void keep_rate(const struct direction *dir, uint64_t begin_ns)
{
	uint64_t due_ns, now_ns = clock_now_ns();
	struct timespec pause;

	if (!dir->options->rate)
		return;
	due_ns = begin_ns + (uint64_t)((double)dir->offset * 1e9 / (double)dir->options->rate);
	if (now_ns + BURST_NS < due_ns) {
		due_ns -= now_ns;
		pause = (struct timespec){(time_t)(due_ns / 1000000000), due_ns % 1000000000};
		nanosleep(&pause, NULL);
	}
}

/* Send all of @buf by any calls. */
static bool send_all(struct direction *dir, const uint8_t *buf, size_t len)
{
	ssize_t rc;

	for (size_t done = 0; done < len; done += (size_t)rc) {
		rc = stream_io_send(dir->io, &dir->prng, buf + done, len - done);
		if (rc == -EINTR)
			rc = 0;
		if (rc < 0) {
			fail(dir, dir->offset, "send", rc);
			return false;
		}
		dir->offset += (uint64_t)rc;
	}
	return true;
}

static bool send_step(struct direction *dir, uint8_t *buf, size_t len)
{
	struct stream_sum before = dir->sum;
	ssize_t rc = -EAGAIN;

	if (prng_chance(&dir->prng, 50))
		rc = stream_io_produce(dir->io, dir->offset, len, give, dir);
	if (rc > 0) {
		dir->offset += (uint64_t)rc;
		return true;
	}
	dir->sum = before;
	if (rc != -EAGAIN) {
		fail(dir, dir->offset, "reserve or commit", rc);
		return false;
	}
	give(dir, dir->offset, buf, len);
	return send_all(dir, buf, len);
}

static void *send_main(void *arg)
{
	struct direction *dir = arg;
	const struct options *options = dir->options;
	uint64_t begin_ns = clock_now_ns(), sum;
	uint8_t *buf = malloc(options->max_op);
	bool good = buf != NULL;
	int rc;

	while (good && dir->offset < options->bytes) {
		good = send_step(dir, buf, op_size(dir, options->bytes - dir->offset));
		keep_rate(dir, begin_ns);
	}
	sum = stream_sum_value(&dir->sum);
	if (good && send_all(dir, (const uint8_t *)&sum, sizeof(sum))) {
		rc = stream_io_finish(dir->io);
		if (rc < 0)
			fail(dir, dir->offset, "shutdown", rc);
	}
	dir->failed |= !buf;
	free(buf);
	return NULL;
}

static bool recv_step(struct direction *dir, uint8_t *buf, size_t len)
{
	struct stream_sum before = dir->sum;
	ssize_t rc = -EAGAIN;

	if (prng_chance(&dir->prng, 50))
		rc = stream_io_consume(dir->io, dir->offset, len, take, dir);
	if (rc == -EAGAIN) {
		dir->sum = before;
		rc = stream_io_recv(dir->io, &dir->prng, buf, len);
		if (rc == -EINTR)
			return true;
		if (rc > 0 && !take(dir, dir->offset, buf, (size_t)rc))
			return false;
	}
	if (rc <= 0) {
		if (!dir->failed)
			fail(dir, dir->offset, rc ? "receive" : "early EOF", rc);
		return false;
	}
	dir->offset += (uint64_t)rc;
	return true;
}

/* The checksum behind the last byte, and EOF behind that. */
static void recv_trailer(struct direction *dir)
{
	uint64_t sum, mine = stream_sum_value(&dir->sum);
	uint8_t buf[sizeof(sum)];
	size_t done = 0;
	ssize_t rc;

	while (done < sizeof(buf)) {
		rc = stream_io_recv(dir->io, &dir->prng, buf + done, sizeof(buf) - done);
		if (rc <= 0 && rc != -EINTR) {
			fail(dir, dir->offset, rc ? "receive" : "early EOF", rc);
			return;
		}
		done += rc > 0 ? (size_t)rc : 0;
		dir->offset += rc > 0 ? (uint64_t)rc : 0;
	}
	memcpy(&sum, buf, sizeof(sum));
	if (sum != mine)
		fail(dir, dir->offset, "the checksums differ", 0);
	rc = stream_io_recv(dir->io, &dir->prng, buf, sizeof(buf));
	if (rc != 0)
		fail(dir, dir->offset, rc < 0 ? "waiting for EOF" : "bytes where EOF belongs", rc);
}

static void *recv_main(void *arg)
{
	struct direction *dir = arg;
	const struct options *options = dir->options;
	uint8_t *buf = malloc(options->max_op);
	bool good = buf != NULL;

	while (good && dir->offset < options->bytes)
		good = recv_step(dir, buf, op_size(dir, options->bytes - dir->offset));
	if (good)
		recv_trailer(dir);
	dir->failed |= !buf;
	free(buf);
	return NULL;
}

static void print_lanes(FILE *out, struct stream_io *io)
{
	struct stream_lanes lanes;

	if (!io->native)
		return;
	stream_io_lanes(io, &lanes);
	fprintf(out,
		", \"epoch\": %u, \"demotions\": %u, \"lane_tx\": %" PRIu64
		", \"lane_rx\": %" PRIu64 ", \"now\": {\"tx\": %u, \"rx\": %u}, \"reason\": \"%s\"",
		lanes.epoch, lanes.demotions, lanes.lane_tx_bytes, lanes.lane_rx_bytes,
		lanes.tx_lane, lanes.rx_lane, lanes.reason);
}

static void print_result(FILE *out, struct direction dirs[2], uint64_t begin_ns)
{
	fprintf(out, "{\"pid\": %d, \"tx\": %" PRIu64 ", \"rx\": %" PRIu64 ", \"seconds\": %.3f",
		(int)getpid(), (uint64_t)dirs[0].offset, (uint64_t)dirs[1].offset,
		(double)(clock_now_ns() - begin_ns) * 1e-9);
	print_lanes(out, dirs[0].io);
	fprintf(out, ", \"ok\": %s}\n", dirs[0].failed || dirs[1].failed ? "false" : "true");
	fflush(out);
}

/* Wait for both threads; a direction that fails lets nobody wait for the other. */
static bool join_in_time(pthread_t threads[2], struct direction dirs[2], uint64_t timeout_s)
{
	struct timespec until;
	bool joined[2] = {false, false};

	for (uint64_t i = 0; i < timeout_s * 10; i++) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 100000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		for (int k = 0; k < 2; k++) {
			if (!joined[k])
				joined[k] = !pthread_timedjoin_np(threads[k], NULL, &until);
			if (joined[k] && dirs[k].failed)
				return true;
		}
		if (joined[0] && joined[1])
			return true;
	}
	return false;
}

/*
 * Until the end of standard input, look at the connection now and then, as a program with an event
 * loop would: a lane whose daemon has died can be brought to the next one by its own program alone,
 * and the other end may still wait for what was written last.
 */
static void hold(struct stream_io *io)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	do {
		while (poll(&input, 1, HOLD_LOOK_MS) == 0)
			stream_io_look(io);
	} while (read(STDIN_FILENO, &byte, 1) > 0);
}

static int run(const struct options *options, int fd, int role)
{
	struct stream_io io;
	struct direction dirs[2];
	uint64_t begin_ns = clock_now_ns();
	pthread_t threads[2];
	int rc;

	rc = stream_io_open(&io, fd, options->native);
	if (rc < 0) {
		fprintf(stderr, "stream: attaching: %s\n", strerror(-rc));
		return EXIT_WRONG;
	}
	io.simple = options->simple;
	for (int k = 0; k < 2; k++) {
		dirs[k] = (struct direction){
			.options = options, .io = &io, .name = k ? "receiving" : "sending"};
		dirs[k].key = options->seed * 0x2545f4914f6cdd1dull + (uint64_t)(role ^ k);
		prng_init(&dirs[k].prng, options->seed * 4 + (uint64_t)role * 2 + (uint64_t)k);
		if (pthread_create(&threads[k], NULL, k ? recv_main : send_main, &dirs[k])) {
			fputs("stream: no thread\n", stderr);
			_exit(EXIT_WRONG);
		}
	}
	if (!join_in_time(threads, dirs, options->timeout_s)) {
		fprintf(stderr, "stream: not done after %" PRIu64 " s: ", options->timeout_s);
		print_result(stderr, dirs, begin_ns);
		_exit(EXIT_TIMEOUT);
	}
	print_result(stdout, dirs, begin_ns);
	if (options->hold)
		hold(&io);
	if (dirs[0].failed || dirs[1].failed)
		_exit(EXIT_WRONG); /* the other thread may still be at it */
	return stream_io_close(&io) < 0 ? EXIT_WRONG : EXIT_SUCCESS;
}

static int run_pair(const struct options *options)
{
	char port[STREAM_PORT_BYTES];
	int listener = stream_listen("127.0.0.1", "0", port), fd, status, mine;
	pid_t child;

	if (listener < 0)
		return EXIT_WRONG;
	child = fork();
	if (child == 0) {
		close(listener);
		fd = stream_connect("127.0.0.1", port);
		exit(fd < 0 ? EXIT_WRONG : run(options, fd, 0));
	}
	fd = stream_accept(listener);
	mine = child < 0 || fd < 0 ? EXIT_WRONG : run(options, fd, 1);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return EXIT_WRONG;
	if (mine)
		return mine;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_WRONG;
}

static bool parse_count(const char *text, uint64_t *ret_value)
{
	static const char units[] = "KMG";
	const char *unit;
	char *rest;

	errno = 0;
	*ret_value = strtoull(text, &rest, 10);
	if (errno || rest == text)
		return false;
	if (*rest) {
		unit = strchr(units, *rest);
		if (!unit || rest[1])
			return false;
		*ret_value <<= 10 * (unit - units + 1);
	}
	return true;
}

static bool parse_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"bytes", required_argument, NULL, 'b'},   {"max-op", required_argument, NULL, 'm'},
		{"rate", required_argument, NULL, 'r'},	   {"seed", required_argument, NULL, 's'},
		{"timeout", required_argument, NULL, 't'}, {"native", no_argument, NULL, 'n'},
		{"simple", no_argument, NULL, 'i'},	   {"hold", no_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},	   {NULL, 0, NULL, 0},
	};
	bool good = true;
	int opt;

	while (good && (opt = getopt_long(argc, argv, "+", longs, NULL)) != -1) {
		switch (opt) {
		case 'b':
			good = parse_count(optarg, &options->bytes);
			break;
		case 'm':
			good = parse_count(optarg, &options->max_op) && options->max_op;
			break;
		case 'r':
			good = parse_count(optarg, &options->rate);
			break;
		case 's':
			good = parse_count(optarg, &options->seed);
			break;
		case 't':
			good = parse_count(optarg, &options->timeout_s);
			break;
		case 'n':
			options->native = true;
			break;
		case 'i':
			options->simple = true;
			break;
		case 'o':
			options->hold = true;
			break;
		case 'h':
			fputs(help, stdout);
			exit(EXIT_SUCCESS);
		default:
			good = false;
			break;
		}
	}
	return good;
}

int main(int argc, char **argv)
{
	struct options options = {
		.bytes = 16 << 20, .seed = 1, .max_op = 256 << 10, .timeout_s = 300};
	char port[STREAM_PORT_BYTES];
	int fd;

	signal(SIGPIPE, SIG_IGN);
	if (!parse_options(argc, argv, &options)) {
		fputs("stream: wrong option or value; try: stream --help\n", stderr);
		return EXIT_CALL;
	}
	argv += optind;
	argc -= optind;
	if (argc == 1 && strcmp(argv[0], "pair") == 0)
		return run_pair(&options);
	if ((argc == 2 || argc == 3) && strcmp(argv[0], "listen") == 0) {
		fd = stream_listen(argc == 3 ? argv[2] : "127.0.0.1", argv[1], port);
		fd = fd < 0 ? fd : stream_accept(fd);
		return fd < 0 ? EXIT_WRONG : run(&options, fd, 1);
	}
	if (argc == 3 && strcmp(argv[0], "connect") == 0) {
		fd = stream_connect(argv[1], argv[2]);
		return fd < 0 ? EXIT_WRONG : run(&options, fd, 0);
	}
	fputs("stream: pair, listen PORT [ADDRESS] or connect HOST PORT; try: stream --help\n",
	      stderr);
	return EXIT_CALL;
}
