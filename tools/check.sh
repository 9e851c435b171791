#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Build everything, run every test, and end with a line "N passed, N failed[, N skipped]".
#
#	tools/check.sh [--only SUITE]... [--long] [--list]
#
#	--only SUITE	this suite only; may be given again
#	--long		also: a ThreadSanitizer build, five minutes of fuzzing per target, the suite
#			package (the Debian packages in clean roots), and what tests do beyond
#			their usual measure when SHUNT_LONG is set
#	--list		print the names of the suites and end
#
# A suite is a folder of tests/ and a meson suite of that name. build/ is the plain build;
# build-asan/ (ASan and UBSan) runs some of the suites again; build-clang/ must build without
# a warning; with --long, build-tsan/ and build-fuzz/. A fuzz target is tests/fuzz/fuzz-NAME of the
# build with -Dfuzz=true; its corpus is tests/fuzz/corpus/NAME.
#
# Exit status 0 if something ran and nothing failed, 2 for a wrong call, else 1.

set -u
cd "$(dirname "$0")/.." || exit 2

SUITES=(unit sim model fuzz conformance apps double lab bench package)
# Not of the usual run: making two clean roots takes minutes.
LONG_SUITES=(package)
ASAN_SUITES=(unit sim fuzz conformance double)
TSAN_SUITES=(unit sim conformance)
FUZZ_SECONDS=300

# Debian packages: without the first list there is nothing to run; the others serve one thing each.
PACKAGES=(gcc libc6-dev meson ninja-build pkg-config python3 libconfig-dev libjansson-dev
	libsystemd-dev libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev libgnutls28-dev
	libncurses-dev)
EXTRA_PACKAGES=(binutils clang-14 clang-format-14)
declare -A SUITE_PACKAGES=([unit]="mandoc" [model]="spin" [fuzz]="clang-14" [apps]="systemd python3-prometheus-client python3-pyte"
	[double]="ibverbs-utils rdmacm-utils perftest redis-server redis-tools iperf3"
	[bench]="valgrind" [package]="mmdebstrap iproute2"
	[lab]="qemu-system-x86 busybox-static kmod iproute2 zstd xz-utils make gcc-12
		ibverbs-utils rdmacm-utils")

only=()
long=0
results=$(mktemp) || exit 2
progress=$(mktemp) || exit 2
started=$SECONDS

say()
{
	printf '[%4d s] %s\n' $((SECONDS - started)) "$*"
}

usage()
{
	echo "usage: tools/check.sh [--only SUITE]... [--long] [--list]" >&2
	echo "suites: ${SUITES[*]}" >&2
	exit 2
}

contains()
{
	local wanted=$1 name

	shift
	for name in "$@"; do
		[ "$name" = "$wanted" ] && return 0
	done
	return 1
}

# A result of a step that is no meson test: RESULT (pass, fail, skip) NAME.
note()
{
	printf '%s %s\n' "$1" "$2" >>"$results"
	[ "$1" = pass ] || say "$(tr '[:lower:]' '[:upper:]' <<<"$1"): $2"
}

# The last thing, however the script ends: count, and let the count decide.
# shellcheck disable=SC2317 # it is a trap
finish()
{
	local status=$?

	trap - EXIT
	[ "$status" -eq 0 ] || note fail "check.sh itself ended with status $status"
	say "done"
	python3 tools/check_count.py "$results"
	status=$?
	rm -f "$results" "$progress"
	exit "$status"
}

missing_of()
{
	local package

	for package in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			echo "$package"
	done
}

# Install those of the packages that are missing: on Debian and as root, else say what to do.
install_missing()
{
	local missing

	command -v dpkg-query >/dev/null || return 0
	mapfile -t missing < <(missing_of "$@")
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" -ne 0 ]; then
		say "missing packages; as root: apt-get install ${missing[*]}"
		return 1
	fi
	say "installing: ${missing[*]}"
	apt-get update -qq &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			"${missing[@]}" >/dev/null
}

# promtool is in a package with a server and its pages, of which the program alone is unpacked.
get_promtool()
{
	command -v promtool >/dev/null && return 0
	[ -x build-tools/usr/bin/promtool ] && return 0
	command -v apt-get >/dev/null || return 1
	say "unpacking promtool of Debian's prometheus into build-tools/"
	mkdir -p build-tools &&
		(cd build-tools && apt-get download -qq prometheus >/dev/null 2>&1 &&
			dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool &&
			rm -f prometheus_*.deb)
}

install_all()
{
	local suite

	if ! install_missing "${PACKAGES[@]}"; then
		command -v meson >/dev/null || return 1
		say "going on without them"
	fi
	install_missing "${EXTRA_PACKAGES[@]}" || say "what needs these will be skipped"
	for suite in "${run_suites[@]}"; do
		[ -n "${SUITE_PACKAGES[$suite]:-}" ] || continue
		# shellcheck disable=SC2086 # a list of names
		install_missing ${SUITE_PACKAGES[$suite]} || say "suite $suite may be incomplete"
	done
	contains apps "${run_suites[@]}" || return 0
	get_promtool || say "no promtool: a test of suite apps will fail"
}

# Configure (if need be) and build DIR with the given meson options; output only when it fails.
build()
{
	local dir=$1 log=build-logs/$1.log

	shift
	mkdir -p build-logs
	say "building $dir/"
	{ [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@"; } >"$log" 2>&1 &&
		ninja -C "$dir" >>"$log" 2>&1 && return 0
	tail -n 60 "$log"
	say "building $dir/ failed; all of it is in $log"
	return 1
}

has_suite()
{
	meson introspect --tests "$1" | python3 -c '
import json, sys
sys.exit(not any(s.split(":")[-1] == sys.argv[1] for t in json.load(sys.stdin) for s in t["suite"]))
' "$2"
}

# Run one suite in one build; its results are counted from the log that meson writes. What a test adds
# to $SHUNT_LAB_PROGRESS is shown as it comes: meson shows what it prints when it has ended.
run_suite()
{
	local dir=$1 suite=$2 log=meson-logs/check-$2.json follower

	if ! has_suite "$dir" "$suite"; then
		say "******** suite $suite: NOT RUN, $dir/ has no such tests ********"
		return
	fi
	say "==== suite $suite in $dir/ ===="
	rm -f "$dir/$log"
	: >"$progress"
	tail -q -f -n +1 -s 0.5 --pid=$$ "$progress" &
	follower=$!
	meson test -C "$dir" --no-rebuild --suite "$suite" --logbase "check-$suite" \
		--print-errorlogs --timeout-multiplier "$timeouts" 2>&1 |
		grep -v -e '^ninja: ' -e '^Full log' -e '^$' -e ': *0 *$'
	kill "$follower"
	wait "$follower" 2>/dev/null
	if [ -f "$dir/$log" ]; then
		printf 'log %s:%s %s\n' "$dir" "$suite" "$dir/$log" >>"$results"
	else
		note fail "suite $suite in $dir/ left no log"
	fi
}

# The suites of the list in DIR, as far as they are to run.
run_suites_in()
{
	local dir=$1 suite

	shift
	for suite in "${run_suites[@]}"; do
		contains "$suite" "$@" && run_suite "$dir" "$suite"
	done
}

wants_any()
{
	local suite

	for suite in "$@"; do
		contains "$suite" "${run_suites[@]}" && return 0
	done
	return 1
}

check_clang()
{
	if ! command -v clang >/dev/null; then
		note skip "clang build: no clang here"
	elif CC=clang build build-clang -Dwerror=true; then
		note pass "clang build"
	else
		note fail "clang build"
	fi
}

# One target, in a process of its own; a finding stays in build-fuzz/ as NAME-crash-…
fuzz_one()
{
	local target=$1 name=${1##*/fuzz-} corpus=build-fuzz/corpus/${1##*/fuzz-}

	mkdir -p "$corpus"
	[ -d "tests/fuzz/corpus/$name" ] && cp -n "tests/fuzz/corpus/$name"/* "$corpus"/
	if "$target" -max_total_time=$FUZZ_SECONDS -timeout=10 -print_final_stats=1 \
		-artifact_prefix="build-fuzz/$name-" "$corpus" >"build-fuzz/$name.log" 2>&1; then
		note pass "fuzzing $name for $FUZZ_SECONDS s"
	else
		tail -n 40 "build-fuzz/$name.log"
		note fail "fuzzing $name: see build-fuzz/$name.log"
	fi
}

fuzz_all()
{
	local target targets=()

	if ! command -v clang >/dev/null; then
		note skip "fuzzing: no clang here"
		return
	fi
	if ! CC=clang build build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false; then
		note fail "fuzzing: build"
		return
	fi
	for target in build-fuzz/tests/fuzz/fuzz-*; do
		[ -f "$target" ] && [ -x "$target" ] && targets+=("$target")
	done
	if [ ${#targets[@]} -eq 0 ]; then
		say "******** fuzzing: NOT RUN, there are no targets ********"
		return
	fi
	say "==== fuzzing ${#targets[@]} targets, $FUZZ_SECONDS s each, $(nproc) at a time ===="
	for target in "${targets[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
			wait -n
		done
		fuzz_one "$target" &
	done
	wait
}

while [ $# -gt 0 ]; do
	case $1 in
	--only)
		[ $# -ge 2 ] || usage
		if ! contains "$2" "${SUITES[@]}"; then
			echo "tools/check.sh: there is no suite $2" >&2
			usage
		fi
		only+=("$2")
		shift 2
		;;
	--long)
		long=1
		shift
		;;
	--list)
		printf '%s\n' "${SUITES[@]}"
		rm -f "$results" "$progress"
		exit 0
		;;
	*)
		usage
		;;
	esac
done

run_suites=("${only[@]}")
for suite in "${SUITES[@]}"; do
	[ ${#only[@]} -eq 0 ] || break
	[ $long -eq 0 ] && contains "$suite" "${LONG_SUITES[@]}" || run_suites+=("$suite")
done
timeouts=1
if [ $long -eq 1 ]; then
	timeouts=6
	export SHUNT_LONG=1
fi
export SHUNT_LAB_PROGRESS=$progress
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

trap finish EXIT
trap 'exit 130' INT TERM

install_all || exit 1
build build -Dwerror=true || exit 1
contains unit "${run_suites[@]}" && check_clang
run_suites_in build "${SUITES[@]}"
if wants_any "${ASAN_SUITES[@]}"; then
	if build build-asan -Db_sanitize=address,undefined; then
		run_suites_in build-asan "${ASAN_SUITES[@]}"
	else
		note fail "build under ASan and UBSan"
	fi
fi
if [ $long -eq 1 ] && wants_any "${TSAN_SUITES[@]}"; then
	if build build-tsan -Db_sanitize=thread; then
		run_suites_in build-tsan "${TSAN_SUITES[@]}"
	else
		note fail "build under TSan"
	fi
fi
[ $long -eq 1 ] && wants_any fuzz && fuzz_all
exit 0
