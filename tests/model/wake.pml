/*
 * The sleep and wake protocol of a lane, with a kill between any two steps.
 *
 * Theory of operation
 * -------------------
 * A lane joins two sides, 0 (A) and 1 (B). Each side is up to two processes that share one half
 * and one state page through fork, and each process has any number of threads. Three kinds of thread:
 *
 *   Writer  produces into its side's ring, sleeps for space        (prod, under the tx lock)
 *   Reader  consumes the peer's ring, sleeps for data              (cons, under the rx lock)
 *   Ender   changes a state word, never sleeps                     (tx_end, under the tx lock)
 *
 * tx_end stands for every state word (tx_end, leave, rx_stop, stop_ack, closing): all sleepers of both
 * sides care about it. A Writer stops for good when its own side has ended; a Reader stops when the
 * peer has ended and its ring is drained. The other two pairs (a Writer seeing the peer's end, a Reader
 * seeing its own) are news that the thread must take note of once, after which it sleeps again.
 *
 * Ringing, one step each (lib/core/wake.h: wake_ring_needed()):
 *   L_STORE     store the word
 *   L_FENCE     full fence; partner: L_ARMFENCE
 *   L_LOADARM   load the matching arm of the peer: prod -> arm_data, cons -> arm_space, state -> both
 *   L_LOADRUNG  load the remembered value, compare
 *   L_RING      differs: write the bell
 *   L_REMEMBER  only then store the loaded value (never a later one) as rung
 *   L_OWN...    a state word repeats the last four for the own arms and the own bell
 * Sleeping (wake_arm(), wake_may_sleep(); lib/client/wait.c blocks):
 *   L_CHECK     is there something to do? under the lock
 *   L_REGISTER  first sleep: the thread's own epoll watches the bell and its process's kick, edge-triggered
 *   L_ARM       fetch-add arm_data or arm_space of the own side
 *   L_ARMFENCE  full fence; partner: L_FENCE
 *   L_RECHECK   load all wake-relevant words again, one by one
 *   L_SLEEP     epoll_wait on { bell, kick, TCP }
 *   L_WAKE      the edges are consumed, nothing is read; back to L_CHECK, and through a new L_ARM
 * Locks: L_LOCK, L_UNLOCK; L_RECOVER is a survivor taking a dead holder's lock: it rings both bells.
 * Lock waiting is a plain blocking wait here: the futex word is not part of this model.
 *
 * Why it works: rung == arm means that, after arm reached that value, somebody wrote the bell.
 * A sleeper that armed with that value or an earlier one therefore has an edge pending, or has used it
 * and will arm anew. arm only grows, so a value never comes back (a parity bit does come back), and the
 * remembered value needs no lock: a late L_REMEMBER can only set it back, which costs one more ring.
 *
 * The bell: level[] is "readable" of the pipe, edge is one bit per thread, its entry on the ready
 * list of its own epoll. A write sets every registered bit of that side. epoll_wait looks at the level
 * again when it harvests: an entry whose bell was drained meanwhile is dropped without a word.
 *
 * Death: -DKILLS=n kills up to n processes, each between any two steps. Every step is guarded by LIVE,
 * so a dead thread stays where it is, with what it holds. The daemon, which has no bells, then kicks every
 * process that holds the lane on either side, one after the other, at its leisure, and when all
 * processes of a side are dead, the kernel shows HUP to the other side's sleepers.
 *
 * The kick: one per process, kicked[] is "readable" and stays it for ever; kick_edge is one bit per thread.
 * It says no more than that something may have happened: who takes the edge looks at all words again.
 *
 * Memory: sequentially consistent, or with -DTSO each thread has a one-entry store buffer for L_STORE
 * and L_ARM, flushed at any later moment; a fence waits for it. On x86 a locked fetch-add can't be
 * delayed; delaying it here covers machines whose relaxed atomics can. Unlocking is a release and thus
 * waits. A killed thread's store has retired and becomes visible.
 *
 * Properties, judged when nothing can move any more (every run ends: the bytes are bounded by TOTAL,
 * and after each call a thread may stay away for ever, so every prefix of every run ends, too):
 *   lost == 0        no live sleeper is blocked while what it waits for is there
 *   stuck == 0       no live process holds a lock: locks are the only other thing to be blocked on
 * and at every step 0 <= prod - cons <= SIZE, and a Reader that reports the end has drained the ring.
 *
 * Configuration (-D): A0_W, A0_R, A0_E, A1_W ... B1_E = number of Writers, Readers, Enders in that
 * process (A0, A1, B0, B1); SIZE, TOTAL; KILLS, VICTIMS (mask: 1 A0, 2 A1, 4 B0, 8 B1); TSO; RING_OUTSIDE = the lock is released before
 * L_LOADARM, so that no system call is made under it; NO_DAEMON = nobody watches the processes;
 * SILENT_RECOVERY = only the daemon repairs, who takes a lock over rings nothing;
 * HEAL = only wake-ups that a survivor's later store of the same kind didn't repair count as lost.
 *
 * Mutations (-D), each of which must be found: MUT_NO_RECHECK, MUT_NO_FENCE_RING, MUT_NO_FENCE_ARM,
 * MUT_REMEMBER_FIRST, MUT_DRAIN, MUT_PARITY, MUT_NO_OWN_BELL, MUT_NO_RECOVERY_RING,
 * MUT_SHARED_EPOLL (a forked child waits on its parent's epoll), MUT_CLEAR_EDGE (the edge is thrown
 * away after arming), MUT_LOAD_FIRST (arm is loaded before the word is stored),
 * MUT_STATE_DATA_ONLY (a state word looks at arm_data only), MUT_NO_HUP (TCP isn't watched),
 * MUT_KICK_OWN_SIDE, MUT_KICK_PEER (only the dead one's side, only the other side is kicked),
 * MUT_KICK_MISSED (A0 is not known to hold the lane), MUT_KICK_CLEAR (the kick's edge is thrown away
 * behind the re-check; before it that does no harm, since nobody remembers a kick as done).
 */

#ifndef A0_W
#define A0_W 0
#endif
#ifndef A0_R
#define A0_R 0
#endif
#ifndef A0_E
#define A0_E 0
#endif
#ifndef A1_W
#define A1_W 0
#endif
#ifndef A1_R
#define A1_R 0
#endif
#ifndef A1_E
#define A1_E 0
#endif
#ifndef B0_W
#define B0_W 0
#endif
#ifndef B0_R
#define B0_R 0
#endif
#ifndef B0_E
#define B0_E 0
#endif
#ifndef B1_W
#define B1_W 0
#endif
#ifndef B1_R
#define B1_R 0
#endif
#ifndef B1_E
#define B1_E 0
#endif
#ifndef SIZE
#define SIZE 1
#endif
#ifndef TOTAL
#define TOTAL 2
#endif
#ifndef VICTIMS
#define VICTIMS 15
#endif
#ifndef KILLS
#define KILLS 0
#endif

#define NT (A0_W+A0_R+A0_E+A1_W+A1_R+A1_E+B0_W+B0_R+B0_E+B1_W+B1_R+B1_E)

#define DATA 0
#define SPACE 1

/* want[t]: what a thread at L_SLEEP waits for, 0 elsewhere; for the judge only */
#define W_DATA 2
#define W_SPACE 4
#define W_OWN_END 8
#define W_PEER_END 16

/* words of the two halves */
byte prod[2];
byte cons[2];
bit tx_end[2];
byte arm[4]; /* 2 * side + DATA or SPACE */

/* words of the two state pages */
byte rung[4];     /* 2 * side + kind: that side's memory of the peer's arm */
byte rung_own[4]; /* 2 * side + kind: that side's memory of its own arm */
byte tx_lock[2];  /* 0, or holder's process + 1 */
byte rx_lock[2];

/* kernel */
bit level[2];
byte watch[2]; /* one bit per thread whose epoll holds the bell */
byte edge;     /* one bit per thread */
#if KILLS > 0
bit kicked[4]; /* by process */
byte kick_watch; /* one bit per thread whose epoll holds its process's kick */
byte kick_edge;  /* one bit per thread */
byte dead_side; /* of the death that the daemon is at */
#endif
bit dead[4];   /* A0 A1 B0 B1; absent processes count as dead */
byte deaths;   /* not yet noticed by the daemon */

/* the judge's */
byte want[NT];
byte side_of[NT];
byte proc_of[NT];
byte healed; /* one bit per 2 * side + kind: a survivor's store, begun after a kill, was rung to its end */
bit killed;
byte i;
bit lost;
bit stuck;

/* a step of a live thread; a dead one leaves from wherever it stands, so that its place is no state */
#if KILLS > 0
#define LIVE !dead[p]
#define OR_DIE :: dead[p] -> goto L_DEAD
#else
#define LIVE true
#define OR_DIE
#endif
#define STEP(x) if :: d_step { LIVE -> x } OR_DIE fi
/* steps that can't matter in a configuration are left out of it */
#if A0_E + A1_E + B0_E + B1_E > 0
#define STATE_STEP(x) STEP(x)
#else
#define STATE_STEP(x) skip
#endif
#if A0_E + A1_E + B0_E + B1_E + KILLS > 0
#define END_STEP(x) STEP(x)
#else
#define END_STEP(x) skip
#endif
#define PEER (1 - s)
#define HUP(x) (dead[2 * (x)] && dead[2 * (x) + 1])
/* the only two statements that change an amount */
#define PRODUCE(x) prod[x]++; assert(prod[x] - cons[1 - (x)] <= SIZE)
#define CONSUME(x) cons[x]++; assert(prod[1 - (x)] - cons[x] >= 0)
#define RING(b) level[b] = 1; edge = edge | watch[b]

#ifdef MUT_SHARED_EPOLL
#define BIT (1 << s)
#else
#define BIT (1 << t)
#endif

#ifdef MUT_PARITY
#define ARM(x) (arm[x] & 1)
#else
#define ARM(x) arm[x]
#endif

#ifdef TSO
#define B_PROD 1
#define B_CONS 2
#define B_END 3
#define B_ARM 4 /* + 2 * side + kind, up to 7 */
byte buf[NT];
#define STORE_PROD buf[t] = B_PROD
#define STORE_CONS buf[t] = B_CONS
#define STORE_END buf[t] = B_END
#define STORE_ARM(k) buf[t] = B_ARM + 2 * s + k
#define FENCED (buf[t] == 0)
#define APPLY(n) if \
	:: buf[n] == B_PROD -> PRODUCE(side_of[n]) \
	:: buf[n] == B_CONS -> CONSUME(side_of[n]) \
	:: buf[n] == B_END -> tx_end[side_of[n]] = 1 \
	:: buf[n] >= B_ARM -> arm[buf[n] - B_ARM]++ \
	:: else \
	fi; buf[n] = 0

active proctype store_buffers()
{
	byte n;
	do
	:: atomic { buf[0] != 0 -> n = 0 }; d_step { APPLY(n) }
	:: atomic { NT > 1 && buf[1 % NT] != 0 -> n = 1 % NT }; d_step { APPLY(n) }
	:: atomic { NT > 2 && buf[2 % NT] != 0 -> n = 2 % NT }; d_step { APPLY(n) }
	:: atomic { NT > 3 && buf[3 % NT] != 0 -> n = 3 % NT }; d_step { APPLY(n) }
	:: atomic { NT > 4 && buf[4 % NT] != 0 -> n = 4 % NT }; d_step { APPLY(n) }
	:: atomic { NT > 5 && buf[5 % NT] != 0 -> n = 5 % NT }; d_step { APPLY(n) }
	od
}
#else
#define STORE_PROD PRODUCE(s)
#define STORE_CONS CONSUME(s)
#define STORE_END tx_end[s] = 1
#define STORE_ARM(k) arm[2 * s + k]++
#define FENCED true
#endif

#if defined(MUT_NO_FENCE_RING) || !defined(TSO)
#define RING_FENCE skip
#else
#define RING_FENCE if :: d_step { LIVE && FENCED -> skip } OR_DIE fi
#endif
#if defined(MUT_NO_FENCE_ARM) || !defined(TSO)
#define ARM_FENCE skip
#else
#define ARM_FENCE if :: d_step { LIVE && FENCED -> skip } OR_DIE fi
#endif

#if KILLS > 0
/* sets the edge of every thread of process q that watches */
#define KICK(q) kicked[q] = 1; \
	for (i : 0 .. NT - 1) { if :: proc_of[i] == q && (kick_watch & (1 << i)) -> kick_edge = kick_edge | (1 << i) \
				   :: else fi }; i = 0
#define KICK_EDGE (kick_edge & (1 << t))
#define TAKE_KICK kick_edge = kick_edge & ~(1 << t)
#define WATCH_KICK kick_watch = kick_watch | (1 << t); kick_edge = kick_edge | (kicked[p] << t)
#else
#define KICK_EDGE false
#define TAKE_KICK skip
#define WATCH_KICK skip
#endif

/* the lock word: a free one is taken; a dead holder's is taken over, and both bells rung */
#if defined(MUT_NO_RECOVERY_RING) || defined(SILENT_RECOVERY)
#define RECOVER_RING skip
#else
#define RECOVER_RING STEP(RING(0)); STEP(RING(1))
#endif
#define LOCK(l) \
	if \
	:: d_step { LIVE && l == 0 -> l = p + 1 } \
	:: d_step { LIVE && l != 0 && dead[(l + 3) % 4] -> l = p + 1 }; RECOVER_RING \
	OR_DIE \
	fi
#define UNLOCK(l) if :: d_step { LIVE && FENCED -> l = 0 } OR_DIE fi

#ifdef RING_OUTSIDE
#define UNLOCK_BEFORE_RING(l) UNLOCK(l)
#define UNLOCK_AFTER_RING(l) skip
#else
#define UNLOCK_BEFORE_RING(l) skip
#define UNLOCK_AFTER_RING(l) UNLOCK(l)
#endif

#ifdef HEAL
#define NOTE_KILL killed = 1
#define HEAL_BEGIN after = killed
#define HEAL_END(k) STEP(healed = healed | (after << (2 * PEER + k)))
#define COUNTS(n) (healed & (1 << (2 * side_of[n] + ((want[n] & W_DATA) -> DATA : SPACE))))
#else
#define NOTE_KILL skip
#define HEAL_BEGIN skip
#define HEAL_END(k) skip
#define COUNTS(n) true
#endif

/* what L_RING and L_REMEMBER are for one peer arm */
#ifdef MUT_REMEMBER_FIRST
#define RING_THEN_REMEMBER(k) \
	STEP(rung[2 * s + k] = v); \
	STEP(RING(PEER))
#else
#define RING_THEN_REMEMBER(k) \
	STEP(RING(PEER)); \
	STEP(rung[2 * s + k] = v)
#endif

/* without Enders, rung changes only under the ringer's own lock: loading it is no step of its own then */
#if A0_E + A1_E + B0_E + B1_E > 0 || defined(RING_OUTSIDE)
#define LOADRUNG_TOO(k) skip
#define LOADRUNG(k) L_LOADRUNG: STEP(differs = (v != rung[2 * s + k]))
#else
#define LOADRUNG_TOO(k) differs = (v != rung[2 * s + k])
#define LOADRUNG(k) skip
#endif

/* from the store to the end of ringing, for prod and cons */
#ifdef MUT_LOAD_FIRST
#define STORE_AND_LOADARM(store, k, l) \
	L_LOADARM: STEP(v = ARM(2 * PEER + k); LOADRUNG_TOO(k)); \
	L_STORE: STEP(store; HEAL_BEGIN); \
	L_FENCE: RING_FENCE; \
	UNLOCK_BEFORE_RING(l)
#else
#define STORE_AND_LOADARM(store, k, l) \
	L_STORE: STEP(store; HEAL_BEGIN); \
	L_FENCE: RING_FENCE; \
	UNLOCK_BEFORE_RING(l); \
	L_LOADARM: STEP(v = ARM(2 * PEER + k); LOADRUNG_TOO(k))
#endif
#define STORE_AND_RING(store, k, l) \
	STORE_AND_LOADARM(store, k, l); \
	LOADRUNG(k); \
	if \
	:: differs -> L_RING: L_REMEMBER: RING_THEN_REMEMBER(k) \
	:: else \
	fi; \
	HEAL_END(k); \
	v = 0; differs = 0; \
	UNLOCK_AFTER_RING(l)

/*
 * Going to sleep is one step with the last load: nothing is loaded or stored in between, and an edge
 * that comes in between is still there afterwards.
 */
#define WANTS(what) want[t] = (found -> 0 : (what) | (seen_own -> 0 : W_OWN_END) | \
					    (seen_peer -> 0 : W_PEER_END))
#if defined(MUT_NO_RECHECK)
#define RECHECK(there, what) STEP(found = 0; WANTS(what))
#elif A0_E + A1_E + B0_E + B1_E > 0
#define RECHECK(there, what) \
	STEP(found = (there)); \
	STEP(found = found || (!seen_own && tx_end[s])); \
	STEP(found = found || (!seen_peer && tx_end[PEER]); WANTS(what))
#else
#define RECHECK(there, what) STEP(found = (there); WANTS(what))
#endif
#ifdef MUT_CLEAR_EDGE
#define FORGET_EDGE STEP(edge = edge & ~BIT)
#else
#define FORGET_EDGE skip
#endif
#ifdef MUT_KICK_CLEAR
#define FORGET_KICK STEP(TAKE_KICK)
#else
#define FORGET_KICK skip
#endif
#ifdef MUT_DRAIN
#define DRAIN level[s] = 0
#else
#define DRAIN skip
#endif
#ifdef MUT_NO_HUP
#define HUP_WAKES false
#else
#define HUP_WAKES HUP(PEER)
#endif

/* HUP has no re-check of its own: it is level-triggered for a wait that begins after it */
#define SLEEP(k, there, what) \
	if \
	:: registered \
	:: else -> L_REGISTER: STEP(edge = edge | (level[s] * BIT); watch[s] = watch[s] | BIT; \
				    WATCH_KICK; registered = 1) \
	fi; \
	L_ARM: STEP(STORE_ARM(k)); \
	FORGET_EDGE; \
	L_ARMFENCE: ARM_FENCE; \
	L_RECHECK: RECHECK(there, what); \
	if \
	:: found \
	:: else -> \
		FORGET_KICK; \
		L_SLEEP: do \
		:: d_step { LIVE && (edge & BIT) && level[s] -> \
			edge = edge & ~BIT; want[t] = 0; DRAIN }; break \
		:: d_step { LIVE && (edge & BIT) && !level[s] -> edge = edge & ~BIT } \
		:: d_step { LIVE && KICK_EDGE -> TAKE_KICK; want[t] = 0 }; break \
		:: d_step { LIVE && HUP_WAKES -> want[t] = 0 }; break \
		OR_DIE \
		od \
	fi; \
	L_WAKE: found = 0

#define THERE_DATA (prod[PEER] != cons[s])
#define THERE_SPACE (prod[s] - cons[PEER] < SIZE)

proctype writer(byte t; byte s; byte p)
{
	byte v;
	bit differs, found, seen_own, seen_peer, over, after, registered;

L_CALL:
	if
	:: goto L_AWAY
	:: true
	fi;
L_CHECK:
	L_LOCK: LOCK(tx_lock[s]);
	END_STEP(over = tx_end[s] || HUP(PEER));
	STATE_STEP(seen_peer = seen_peer || tx_end[PEER]);
	/* with its bytes used up a Writer still waits for space: the wait is what is examined */
	STEP(found = THERE_SPACE; over = over || (found && prod[s] == TOTAL));
	if
	:: !over && found ->
		STORE_AND_RING(STORE_PROD, DATA, tx_lock[s]);
		found = 0;
		goto L_CALL
	:: else ->
		L_UNLOCK: UNLOCK(tx_lock[s])
	fi;
	if
	:: over -> goto L_AWAY
	:: else
	fi;
	SLEEP(SPACE, THERE_SPACE, W_SPACE);
	goto L_CHECK;
L_AWAY:
L_DEAD:
	v = 0; differs = 0; found = 0; seen_own = 0; seen_peer = 0; over = 0; after = 0; registered = 0
}

proctype reader(byte t; byte s; byte p)
{
	byte v;
	bit differs, found, seen_own, seen_peer, over, after, registered;

L_CALL:
	if
	:: goto L_AWAY
	:: true
	fi;
L_CHECK:
	L_LOCK: LOCK(rx_lock[s]);
	/* tx_end and HUP before prod: what is seen after them is all that will come */
	END_STEP(over = tx_end[PEER] || HUP(PEER));
	STATE_STEP(seen_own = seen_own || tx_end[s]);
	STEP(found = THERE_DATA);
	if
	:: found ->
		STORE_AND_RING(STORE_CONS, SPACE, rx_lock[s]);
		found = 0;
		goto L_CALL
	:: else ->
		END_STEP(assert(!over || prod[PEER] == cons[s]));
		L_UNLOCK: UNLOCK(rx_lock[s])
	fi;
	if
	:: over -> goto L_AWAY
	:: else
	fi;
	SLEEP(DATA, THERE_DATA, W_DATA);
	goto L_CHECK;
L_AWAY:
L_DEAD:
	v = 0; differs = 0; found = 0; seen_own = 0; seen_peer = 0; over = 0; after = 0; registered = 0
}

proctype ender(byte t; byte s; byte p)
{
	byte v, w;
	bit differs;

L_LOCK:	LOCK(tx_lock[s]);
L_STORE: STEP(STORE_END);
L_FENCE: RING_FENCE;
	UNLOCK_BEFORE_RING(tx_lock[s]);
L_LOADARM:
	STEP(v = ARM(2 * PEER + DATA));
#ifdef MUT_STATE_DATA_ONLY
	STEP(w = rung[2 * s + SPACE]);
#else
	STEP(w = ARM(2 * PEER + SPACE));
#endif
L_LOADRUNG:
	STEP(differs = (v != rung[2 * s + DATA]));
	STEP(differs = differs || (w != rung[2 * s + SPACE]));
	if
	:: differs ->
L_RING:		STEP(RING(PEER));
L_REMEMBER:	STEP(rung[2 * s + DATA] = v);
		STEP(rung[2 * s + SPACE] = w)
	:: else
	fi;
#ifndef MUT_NO_OWN_BELL
L_OWN_LOADARM:
	STEP(v = ARM(2 * s + DATA));
	STEP(w = ARM(2 * s + SPACE));
L_OWN_LOADRUNG:
	STEP(differs = (v != rung_own[2 * s + DATA]));
	STEP(differs = differs || (w != rung_own[2 * s + SPACE]));
	if
	:: differs ->
L_OWN_RING:	STEP(RING(s));
L_OWN_REMEMBER:	STEP(rung_own[2 * s + DATA] = v);
		STEP(rung_own[2 * s + SPACE] = w)
	:: else
	fi;
#endif
	UNLOCK_AFTER_RING(tx_lock[s]);
L_DEAD:
	v = 0; w = 0; differs = 0
}

#if KILLS > 0
#ifdef TSO
/* what a killed thread has stored becomes visible, at the latest when the kernel takes it off the CPU */
#define RETIRE(q) for (i : 0 .. NT - 1) { if :: proc_of[i] == q -> APPLY(i) :: else fi }; i = 0
#else
#define RETIRE(q) skip
#endif
#define KILL(q) d_step { (VICTIMS & (1 << q)) && !dead[q] -> RETIRE(q); dead[q] = 1; NOTE_KILL; \
			 dead_side = q / 2; deaths++ }

proctype killer()
{
	byte n;

	do
	:: n < KILLS ->
		n++;
		if
		:: KILL(0)
		:: KILL(1)
		:: KILL(2)
		:: KILL(3)
		:: break
		fi
	:: else -> break
	od
}

#ifdef MUT_KICK_OWN_SIDE
#define KICKED(q) (q / 2 == dead_side)
#elif defined(MUT_KICK_PEER)
#define KICKED(q) (q / 2 != dead_side)
#elif defined(MUT_KICK_MISSED)
#define KICKED(q) (q != 0)
#else
#define KICKED(q) true
#endif

#if !defined(NO_DAEMON) && !defined(MUT_NO_RECOVERY_RING)
proctype daemon()
{
	byte q = 4;

	do
	:: d_step { q == 4 && deaths > 0 -> deaths--; q = 0 }
	:: d_step { q < 4 ->
		do
		:: q < 4 && (dead[q] || !KICKED(q)) -> q++
		:: else -> break
		od;
		if
		:: q < 4 -> KICK(q); q++
		:: else
		fi }
	od
}
#endif
#endif

#define SPAWN(role, s, p, count) \
	n = 0; \
	do \
	:: n < count -> \
		side_of[t] = s; proc_of[t] = p; dead[p] = 0; \
		run role(t, s, p); \
		t++; n++ \
	:: else -> break \
	od

#define WAITED_FOR(n) ( \
	((want[n] & W_DATA) && prod[1 - side_of[n]] != cons[side_of[n]]) || \
	((want[n] & W_SPACE) && prod[side_of[n]] - cons[1 - side_of[n]] < SIZE) || \
	((want[n] & W_OWN_END) && tx_end[side_of[n]]) || \
	((want[n] & W_PEER_END) && tx_end[1 - side_of[n]]) || \
	HUP(1 - side_of[n]))

#define HELD(l) (l != 0 && !dead[(l + 3) % 4])

init
{
	byte t, n;

	atomic {
		dead[0] = 1; dead[1] = 1; dead[2] = 1; dead[3] = 1;
		SPAWN(writer, 0, 0, A0_W); SPAWN(reader, 0, 0, A0_R); SPAWN(ender, 0, 0, A0_E);
		SPAWN(writer, 0, 1, A1_W); SPAWN(reader, 0, 1, A1_R); SPAWN(ender, 0, 1, A1_E);
		SPAWN(writer, 1, 2, B0_W); SPAWN(reader, 1, 2, B0_R); SPAWN(ender, 1, 2, B0_E);
		SPAWN(writer, 1, 3, B1_W); SPAWN(reader, 1, 3, B1_R); SPAWN(ender, 1, 3, B1_E);
#if KILLS > 0
		run killer();
#if !defined(NO_DAEMON) && !defined(MUT_NO_RECOVERY_RING)
		run daemon();
#endif
#endif
		t = 0; n = 0
	};

	timeout ->
	d_step {
		for (i : 0 .. NT - 1) {
			lost = lost || (!dead[proc_of[i]] && want[i] && WAITED_FOR(i) && COUNTS(i))
		}
		stuck = HELD(tx_lock[0]) || HELD(tx_lock[1]) || HELD(rx_lock[0]) || HELD(rx_lock[1]);
		assert(!stuck);
		assert(!lost)
	}
}
