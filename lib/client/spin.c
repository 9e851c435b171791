/* SPDX-License-Identifier: MIT */
#include <unistd.h>

#include "client/session.h"
#include "client/spin.h"
#include "os/clock.h"

/* Looks at memory between two looks at the clock. Chosen: the clock costs about 25 ns. */
#define SPIN_CLOCK_EVERY 32
/* A gap between two looks at the clock that says we were not running. Chosen: far above an
 * interrupt, below the scheduler's slice. */
#define SPIN_GAP_NS 200000u
/* Balance of misses at which spinning stops, and the first and the longest pause. Chosen: four
 * misses in a row stop it; at the longest pause a try costs a thousandth of spin_us a wait. */
#define SPIN_MISSES_MAX 8
#define SPIN_SKIP_MIN 16
#define SPIN_SKIP_MAX 1024
/* Most sockets that one spin looks at. Chosen: a round over so many takes about a microsecond. */
#define SPIN_SOCKETS 16u

static bool one_cpu;

void spin_init(void)
{
	one_cpu = sysconf(_SC_NPROCESSORS_ONLN) <= 1;
}

struct looked {
	bool slow; /* the clock was looked at: a microsecond or two have passed */
	bool gap;  /* this thread was not running for a while */
};

static bool look(uint64_t budget_ns, bool (*moved)(void *arg), void *arg, struct looked *ret)
{
	uint64_t start = 0, last = 0, now;

	for (unsigned int i = 1;; i++) {
		if (moved(arg))
			return true;
		spin_relax();
		if (i % SPIN_CLOCK_EVERY)
			continue;
		now = clock_now_ns();
		if (!start)
			start = last = now;
		ret->slow = true;
		if (now - last > SPIN_GAP_NS)
			ret->gap = true;
		last = now;
		if (now - start >= budget_ns)
			return false;
	}
}

static struct spin_memory memory_load(const struct spin_memory *memory)
{
	union {
		uint64_t word;
		struct spin_memory memory;
	} u;

	_Static_assert(sizeof(u.memory) == sizeof(u.word), "loaded and stored as one word");
	u.word = __atomic_load_n((const uint64_t *)memory, __ATOMIC_RELAXED);
	return u.memory;
}

static void memory_store(struct spin_memory *memory, struct spin_memory value)
{
	union {
		struct spin_memory memory;
		uint64_t word;
	} u = {value};

	__atomic_store_n((uint64_t *)memory, u.word, __ATOMIC_RELAXED);
}

static void learn(struct spin_memory *m, bool hit)
{
	m->known = 1;
	if (hit) {
		m->misses = (uint8_t)(m->misses - (m->misses > 0));
		m->skip = SPIN_SKIP_MIN;
		return;
	}
	m->misses += 2;
	if (m->misses < SPIN_MISSES_MAX)
		return;
	m->misses = SPIN_MISSES_MAX - 2; /* one more miss, at the next try, stops it again */
	m->left = m->skip;
	if (m->skip < SPIN_SKIP_MAX)
		m->skip *= 2;
}

bool spin_for(struct spin_memory *memory, bool (*moved)(void *arg), void *arg)
{
	uint64_t budget_ns = (uint64_t)session_settings.spin_us * 1000u;
	struct spin_memory m = memory_load(memory);
	struct looked looked = {0};
	bool hit;

	if (!budget_ns || one_cpu)
		return false;
	if (!m.known)
		m.skip = SPIN_SKIP_MIN;
	m.quick = 0;
	if (m.left) {
		m.left--;
		memory_store(memory, m);
		return false;
	}
	hit = look(budget_ns, moved, arg, &looked);
	m.quick = hit && !looked.slow;
	/* After a gap somebody else needed this CPU, maybe the very process that we wait for. */
	learn(&m, hit && !looked.gap);
	memory_store(memory, m);
	return hit;
}

bool spin_for_many(size_t n, bool (*moved)(void *arg), void *arg)
{
	static __thread struct spin_memory memory
		__attribute__((tls_model("initial-exec"), aligned(8)));

	return n <= SPIN_SOCKETS && spin_for(&memory, moved, arg);
}

bool spin_was_quick(const struct spin_memory *memory)
{
	return memory_load(memory).quick;
}
