#!/bin/sh
# Runs the sleep and wake model (wake.pml) in all its configurations, then every mutation of it.
#
# usage: run.sh [--long] [SCRATCH_DIR]
#
# Prints TAP. A configuration passes when spin has visited every reachable state without an error
# (exhaustive, partial order reduction, no bitstate hashing and no hash compaction). A mutation passes
# when spin finds the error that it must cause; its configuration without the mutation is always one
# of those that pass, so that the error is the mutation's.
# --long adds the same shapes with more bytes or victims: minutes, and up to LONG_MEM_MB of memory.

set -u

MEM_MB=2000      # the default run stays far below it
LONG_MEM_MB=8000 # chosen: the largest of --long fits
DEPTH=100000
here=$(cd "$(dirname "$0")" && pwd)
long=no
if [ "${1:-}" = --long ]; then
	long=yes
	MEM_MB=$LONG_MEM_MB
	shift
fi

for tool in spin cc; do
	if ! command -v $tool >/dev/null 2>&1; then
		package=$tool
		[ $tool = cc ] && package=gcc
		echo "1..0 # SKIP $tool is missing (apt-get install $package)"
		exit 0
	fi
done

if [ $# -gt 0 ]; then
	mkdir -p "$1" || exit 1
	scratch=$(cd "$1" && pwd) || exit 1
	own_scratch=no
else
	scratch=$(mktemp -d) || exit 1
	own_scratch=yes
fi

# shapes: who lives where
DATA2='-DA0_W=1 -DB0_R=1 -DB1_R=1'         # two processes of one side sleep for data
SPACE2='-DA0_W=1 -DA1_W=1 -DB0_R=1'        # two processes of one side sleep for space
PAIR='-DA0_W=1 -DB0_R=1'                   # one Writer, one Reader
DUPLEX='-DA0_W=1 -DA1_R=1 -DB0_W=1 -DB1_R=1' # both directions, a process per direction
BOTH='-DA0_W=1 -DA1_R=1 -DB0_W=1'         # one side sleeps for data and for space
END='-DA0_W=1 -DA1_E=1 -DB0_R=1'           # one process ends while its sibling sleeps for space
OWNEND='-DA0_W=1 -DB0_R=1 -DB1_E=1'        # one process ends while its sibling sleeps for data
RACE='-DA0_E=1 -DA1_R=1 -DB0_W=1'          # state word and cons ring the same arm under two locks
# a kill that neither daemon nor survivor repairs; only wake-ups that a later store should have repaired count
UNREPAIRED='-DKILLS=1 -DVICTIMS=1 -DHEAL -DMUT_NO_RECOVERY_RING -DSIZE=2 -DTOTAL=2'
THREADS='-DA0_W=1 -DB0_R=2'                # two threads of one process sleep for data

# name | flags of the model
configs="
two data sleepers in two processes|$DATA2 -DTOTAL=2
two data sleepers, ring of two|$DATA2 -DSIZE=2 -DTOTAL=2
two space sleepers in two processes|$SPACE2 -DTOTAL=2
both directions, room for all|$DUPLEX -DSIZE=2 -DTOTAL=1
one side asleep for data and space|$BOTH -DTOTAL=1
end with a sibling asleep for space|$END -DTOTAL=2
end with a sibling asleep for data|$OWNEND -DTOTAL=1
two ringers of one arm under two locks|$RACE -DTOTAL=1
pair, TSO|$PAIR -DTSO -DTOTAL=3
two data sleepers, TSO|$DATA2 -DTSO -DTOTAL=1
two space sleepers, TSO|$SPACE2 -DTSO -DTOTAL=1
end, TSO|$END -DTSO -DTOTAL=1
pair, two kills|$PAIR -DKILLS=2 -DTOTAL=2
pair, kill without a daemon|$PAIR -DKILLS=1 -DNO_DAEMON -DTOTAL=2
two data sleepers, kill|$DATA2 -DKILLS=1 -DTOTAL=1
two data threads of one process, kill|$THREADS -DKILLS=1 -DTOTAL=1
two space sleepers, kill of one Writer|$SPACE2 -DKILLS=1 -DVICTIMS=1 -DTOTAL=1
two space sleepers, kill of the Reader|$SPACE2 -DKILLS=1 -DVICTIMS=4 -DTOTAL=1
end with a sibling asleep for space, kill|$END -DKILLS=1 -DTOTAL=1
end with a sibling asleep for data, kill of the Ender|$OWNEND -DKILLS=1 -DVICTIMS=8 -DSIZE=2 -DTOTAL=1
pair, TSO, kill|$PAIR -DTSO -DKILLS=1 -DTOTAL=2
two space sleepers, rung outside the lock|$SPACE2 -DRING_OUTSIDE -DTOTAL=2
end, rung outside the lock|$END -DRING_OUTSIDE -DTOTAL=2
two space sleepers, rung outside the lock, kill of one|$SPACE2 -DRING_OUTSIDE -DKILLS=1 -DVICTIMS=1 -DTOTAL=1
two space sleepers, kill, the daemon alone repairs|$SPACE2 -DSILENT_RECOVERY -DKILLS=1 -DVICTIMS=1 -DTOTAL=1
kill that nobody repairs, but the next store does|$SPACE2 $UNREPAIRED
"
long_configs="
two data sleepers, TSO, two bytes|$DATA2 -DTSO -DTOTAL=2
both directions|$DUPLEX -DTOTAL=1
two space sleepers, kill of one Writer, two bytes|$SPACE2 -DKILLS=1 -DVICTIMS=1 -DTOTAL=2
two space sleepers, kill of the Reader, two bytes|$SPACE2 -DKILLS=1 -DVICTIMS=4 -DTOTAL=2
two data sleepers, kill, two bytes|$DATA2 -DKILLS=1 -DTOTAL=2
two space sleepers, rung outside the lock, kill|$SPACE2 -DRING_OUTSIDE -DKILLS=1 -DTOTAL=2
end with a sibling asleep for data, kill|$OWNEND -DKILLS=1 -DTOTAL=1
end with a sibling asleep for data, two bytes|$OWNEND -DTOTAL=2
two ringers of one arm under two locks, two bytes|$RACE -DTOTAL=2
"
mutations="
no re-check after arming|$DATA2 -DTOTAL=2 -DMUT_NO_RECHECK
no fence between store and load of arm, TSO|$PAIR -DTSO -DTOTAL=3 -DMUT_NO_FENCE_RING
no fence between arm and re-check, TSO|$PAIR -DTSO -DTOTAL=3 -DMUT_NO_FENCE_ARM
arm loaded before the store|$PAIR -DTOTAL=2 -DMUT_LOAD_FIRST
remembered before rung, kill in between|$SPACE2 $UNREPAIRED -DMUT_REMEMBER_FIRST
bell drained by the first sleeper to wake|$DATA2 -DTOTAL=2 -DMUT_DRAIN
parity instead of a counter|$DATA2 -DTOTAL=2 -DMUT_PARITY
edge thrown away after arming|$DATA2 -DTOTAL=2 -DMUT_CLEAR_EDGE
one epoll for parent and child|$DATA2 -DTOTAL=2 -DMUT_SHARED_EPOLL
own bell not rung, sibling asleep for space|$END -DTOTAL=2 -DMUT_NO_OWN_BELL
own bell not rung, sibling asleep for data|$OWNEND -DTOTAL=1 -DMUT_NO_OWN_BELL
state word looks at arm_data only|$RACE -DTOTAL=1 -DMUT_STATE_DATA_ONLY
death without a ring|$SPACE2 -DKILLS=1 -DVICTIMS=1 -DTOTAL=1 -DMUT_NO_RECOVERY_RING
death that only the next taker of the lock would repair|$SPACE2 -DKILLS=1 -DVICTIMS=1 -DTOTAL=1 -DNO_DAEMON
only the side of the dead is kicked|$SPACE2 -DSILENT_RECOVERY -DKILLS=1 -DVICTIMS=1 -DTOTAL=1 -DMUT_KICK_OWN_SIDE
only the other side is kicked|$END -DKILLS=1 -DTOTAL=1 -DMUT_KICK_PEER
a holder that the daemon does not know|$END -DKILLS=1 -DTOTAL=1 -DMUT_KICK_MISSED
edge of the kick thrown away behind the re-check|$SPACE2 -DSILENT_RECOVERY -DKILLS=1 -DVICTIMS=1 -DTOTAL=1 -DMUT_KICK_CLEAR
hang-up of TCP not watched|$PAIR -DKILLS=1 -DNO_DAEMON -DTOTAL=2 -DMUT_NO_HUP
"
[ $long = yes ] && configs="$configs$long_configs"

number=0
failed=0
total=$(printf '%s%s' "$configs" "$mutations" | grep -c '|')

# build DIR MODEL_FLAGS CC_FLAG: makes a verifier and runs it; what went wrong is in its files
build() {
	rm -rf "$1"
	mkdir -p "$1"
	(cd "$1" && spin -a $2 "$here/wake.pml" >spin.out 2>&1 &&
		cc $3 -w -DSAFETY -DCOLLAPSE -DMEMLIM=$MEM_MB -o pan pan.c >cc.out 2>&1 &&
		# -E: sleepers blocked at the end are judged by the model itself
		./pan -E -m$DEPTH >pan.out 2>&1
		true)
	touch "$1/pan.out"
}

complete() { # DIR: every state was visited, or the first error was reached, within all limits
	! grep -Eq 'max search depth too small|out of memory|not completed: memory|reached -DMEMLIM' \
		"$1/pan.out"
}

figures() { # DIR
	awk '/depth reached/ { sub(/,/, "", $6); depth = $6 }
	     /states, stored/ { states = $1 }
	     /total actual memory/ { mem = $1 }
	     /elapsed time/ { time = $4 }
	     END { printf "%s states, depth %s, %s s, %s MiB", states, depth, time, mem }' "$1/pan.out"
}

report() { # VERDICT NAME FIGURES DIR
	number=$((number + 1))
	if [ "$1" = ok ]; then
		echo "ok $number - $2: $3"
		rm -rf "$4"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $number - $2: $3"
	cat "$4"/spin.out "$4"/cc.out 2>/dev/null | head -20 | sed 's/^/# /'
	grep -E 'violated|rror|limit|memory|depth' "$4/pan.out" | head -10 | sed 's/^/# /'
	echo "# kept: $4 (trail: cd there, spin -t -p -g $5 $here/wake.pml)"
}

echo "1..$total"
# a list has one entry a line
IFS_LINES='
'
run_list() { # KIND LIST
	old_ifs=$IFS
	IFS=$IFS_LINES
	for line in $2; do
		IFS=$old_ifs
		name=${line%%|*}
		flags=${line#*|}
		dir=$scratch/wake-$((number + 1))
		# a mutation is found at once: there compiling is what takes time
		optimize=-O1
		[ "$1" = mutation ] && optimize=-O0
		build "$dir" "$flags" $optimize
		verdict='not ok'
		if [ "$1" = config ]; then
			grep -q 'errors: 0$' "$dir/pan.out" && complete "$dir" && verdict=ok
			what=$(figures "$dir")
		else
			grep -q 'assertion violated *!(lost)' "$dir/pan.out" && complete "$dir" && verdict=ok
			what="lost wake-up found, $(figures "$dir")"
			[ "$verdict" = ok ] || what='lost wake-up NOT found'
		fi
		report "$verdict" "$([ "$1" = config ] || echo 'mutation: ')$name" "$what" "$dir" "$flags"
		IFS=$IFS_LINES
	done
	IFS=$old_ifs
}

run_list config "$configs"
run_list mutation "$mutations"

[ $own_scratch = yes ] && [ $failed -eq 0 ] && rmdir "$scratch"
echo "# $((number - failed)) passed, $failed failed"
[ $failed -eq 0 ]
