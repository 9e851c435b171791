#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Show what Shunt does on this machine: build it, start a private daemon, and measure two unmodified
# programs (qperf) over plain TCP and over Shunt, side by side.
#
#	tools/demo.sh [--seconds N]
#
#	--seconds N	how long each measurement takes (1)
#
# Installs the Debian packages that it needs if it may (as root), builds into build/, touches nothing
# else, and takes about a minute and a half.
#
# Exit status: 0 if everything ran and Shunt's connections really were on the ring, as the daemon's
# counters tell; 2 for a wrong call; else 1.

set -u
cd "$(dirname "$0")/.." || exit 1

PACKAGES=(gcc libc6-dev meson ninja-build pkg-config python3 libconfig-dev libjansson-dev
	libsystemd-dev qperf)
SIZES=(1 64 512 1K 4K 16K 64K)
# Of the bytes of a measurement, at least so much must have gone over the ring: a connection starts
# on TCP and moves after a few operations.
RING_PCT_MIN=90

seconds=1
started=$SECONDS
shunt=$PWD/build/tools/shunt
dir=
pids=()

say()
{
	printf '[%3d s] %s\n' $((SECONDS - started)) "$*"
}

die()
{
	printf 'demo.sh: %s\n' "$*" >&2
	exit 1
}

# End what was started here, by its pid, and remove what was made.
# shellcheck disable=SC2317 # it is a trap
cleanup()
{
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null
	wait 2>/dev/null
	[ -z "$dir" ] || rm -rf "$dir"
}

install_packages()
{
	local package missing=()

	command -v dpkg-query >/dev/null || {
		say "this is no Debian: taking for granted that these are here: ${PACKAGES[*]}"
		return
	}
	for package in "${PACKAGES[@]}"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] && return
	[ "$(id -u)" -eq 0 ] || die "missing packages; as root: apt-get install ${missing[*]}"
	say "installing: ${missing[*]}"
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "${missing[@]}" >/dev/null; } ||
		die "apt-get could not install ${missing[*]}"
}

build()
{
	say "building into build/"
	{ [ -f build/build.ninja ] || meson setup build; } >"$dir/build.log" 2>&1 &&
		ninja -C build daemon/shuntd tools/shunt lib/preload/libshunt-preload.so \
			>>"$dir/build.log" 2>&1 && return
	tail -n 40 "$dir/build.log" >&2
	die "the build failed"
}

# Wait until the command that follows succeeds.
wait_for()
{
	local what=$1 _

	shift
	for _ in $(seq 100); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.05
	done
	die "$what did not come up"
}

# A port that nobody listens on now.
free_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_daemon()
{
	build/daemon/shuntd 2>"$dir/shuntd.log" &
	pids+=($!)
	wait_for "the daemon" "$shunt" status
}

# Whether somebody listens on a port: state 0A.
listening()
{
	awk -v port="$(printf ':%04X' "$1")" '$2 ~ port "$" && $4 == "0A" { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# One qperf server: start_server PORT [COMMAND-PREFIX...]
start_server()
{
	local port=$1

	shift
	"$@" qperf -lp "$port" &
	pids+=($!)
	wait_for "qperf's server" listening "$port"
}

# One measurement in ns or bytes per second: measure TEST SIZE PORT [COMMAND-PREFIX...]
measure()
{
	local test=$1 size=$2 port=$3

	shift 3
	timeout $((seconds + 20)) "$@" qperf -lp "$port" 127.0.0.1 -uu -t "$seconds" -m "$size" \
		"$test" 2>"$dir/qperf.err" |
		awk '/(latency|bw) +=/ { print $3; found = 1 } END { exit !found }' ||
		die "qperf $test with $size bytes failed: $(cat "$dir/qperf.err")"
}

# "PROMOTED RING-BYTES TCP-BYTES" of all ends since the daemon started.
counters()
{
	"$shunt" stats --json | python3 -c '
import json, sys
stats = json.load(sys.stdin)
print(stats["promoted"], sum(stats["lane_bytes"].values()), sum(stats["tcp_bytes"].values()))'
}

# As measure() over Shunt; fails unless both ends were promoted and the ring carried the bytes.
measure_shunt()
{
	local before after

	read -ra before < <(counters)
	measure "$1" "$2" "$shunt_port" "$shunt" run --daemon none || exit 1
	sleep 0.1 # the other end's process may still be closing
	read -ra after < <(counters)
	awk -v promoted=$((after[0] - before[0])) -v ring=$((after[1] - before[1])) \
		-v tcp=$((after[2] - before[2])) -v pct="$RING_PCT_MIN" \
		'BEGIN { exit !(promoted >= 2 && ring > 0 && ring >= (ring + tcp) * pct / 100) }' ||
		die "$1 with $2 bytes was not on the ring: ends promoted $((after[0] - before[0]))," \
			"bytes over the ring $((after[1] - before[1])), over TCP $((after[2] - before[2]))"
}

run_tests()
{
	local test=$1 size tcp shunted

	for size in "${SIZES[@]}"; do
		tcp=$(measure "$test" "$size" "$tcp_port") || exit 1
		shunted=$(measure_shunt "$test" "$size") || exit 1
		say "$test, $size bytes: measured"
		echo "$test $size $tcp $shunted" >>"$dir/results"
	done
}

report()
{
	awk '
	function latency(ns) { return ns < 1e4 ? sprintf("%.2f us", ns / 1e3) : sprintf("%.1f us", ns / 1e3) }
	function rate(b) { return b < 1e9 ? sprintf("%.3g MB/s", b / 1e6) : sprintf("%.3g GB/s", b / 1e9) }
	function times(x) { return x >= 9.95 ? sprintf("%.0f times", x) : sprintf("%.1f times", x) }
	function compared(x) { return (x >= 1) ? times(x) " faster" : times(1 / x) " slower" }
	$1 == "tcp_lat" { lat[$2] = $3 / $4; size[n++] = $2; lt[$2] = latency($3); ls[$2] = latency($4) }
	$1 == "tcp_bw" { bw[$2] = $4 / $3; bt[$2] = rate($3); bs[$2] = rate($4) }
	END {
		print ""
		print "           latency, one way (tcp_lat)         bandwidth (tcp_bw)"
		printf "%7s  %9s  %9s  %9s   %10s  %10s  %9s\n", "bytes", "TCP", "Shunt", "lower", \
			"TCP", "Shunt", "higher"
		for (i = 0; i < n; i++) {
			s = size[i]
			printf "%7s  %9s  %9s  %9s   %10s  %10s  %9s\n", s, lt[s], ls[s], times(lat[s]), \
				bt[s], bs[s], times(bw[s])
		}
		print ""
		printf "What this means: with nothing changed but the way they were started, these two"
		printf " programs\nexchange a 64-byte message in %s instead of %s (%s), and stream" \
			"\n64 KiB messages at %s instead of %s (%s).\n", ls["64"], lt["64"], \
			compared(lat["64"]), bs["64K"], bt["64K"], compared(bw["64K"])
	}' "$dir/results" || die "the results could not be read"
}

report_counters()
{
	local now

	read -ra now < <(counters)
	awk -v promoted="${now[0]}" -v ring="${now[1]}" -v tcp="${now[2]}" 'BEGIN {
		printf "By the daemon'\''s counters %d ends of connections were on the ring, and it carried" \
			" %.3f %%\nof the %.3g GB that went through them.\n", promoted, \
			100 * ring / (ring + tcp), (ring + tcp) / 1e9
	}' || die "the counters could not be read"
}

while [ $# -gt 0 ]; do
	case $1 in
	--seconds)
		[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || {
			echo "demo.sh: --seconds needs a number of seconds" >&2
			exit 2
		}
		seconds=$2
		shift 2
		;;
	*)
		echo "usage: tools/demo.sh [--seconds N]" >&2
		exit 2
		;;
	esac
done

trap cleanup EXIT
trap 'exit 1' INT TERM
dir=$(mktemp -d /tmp/shunt-demo.XXXXXX) || exit 1
export SHUNT_RUNTIME_DIR=$dir
export SHUNT_CONF=$dir/shunt.conf
: >"$SHUNT_CONF" # the defaults, whatever is installed here

install_packages
build
say "starting a private daemon, and a qperf server over TCP and one over Shunt"
start_daemon
tcp_port=$(free_port) && start_server "$tcp_port"
shunt_port=$(free_port) && start_server "$shunt_port" "$shunt" run --daemon none
run_tests tcp_lat
run_tests tcp_bw
report
report_counters
