#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Build the Debian packages in a clean root, and look at them with lintian.
#
#	tools/package.sh [--root ROOT] [--no-lint] OUTPUT
#
#	--root ROOT	where the root is kept, to be used again (build/package/root)
#	--no-lint	without lintian
#	OUTPUT		a directory for the packages
#
# Needs root, Debian, and mmdebstrap. The root has the same release and gets its packages from the
# same places as this machine. What is built is what git knows of the working tree, changes included.
# The packages do not depend on the time or on the place where they are built.
#
# Exit status: 0 the packages are in OUTPUT and lintian has nothing to say, 3 something that is
# needed can't be had, else 1; 2 for a wrong call.

set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

# What debian/control asks for is installed as well.
TOOLS=(build-essential debhelper lintian)
root=$PWD/build/package/root
lint=1
output=
work=

die()
{
	printf 'package.sh: %s\n' "$1" >&2
	exit "${2:-1}"
}

usage()
{
	echo "usage: tools/package.sh [--root ROOT] [--no-lint] OUTPUT" >&2
	exit 2
}

# What is mounted in the root goes with this shell, which has a mount namespace of its own.
# shellcheck disable=SC2317 # it is a trap
cleanup()
{
	[ -z "$work" ] || rm -rf "$work"
}

in_root()
{
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

build_depends()
{
	sed -n '/^Build-Depends:/,/^[^ ]/p' debian/control |
		sed -n 's/^ \([a-z0-9.+-]*\).*/\1/p' | grep -v '^debhelper-compat$'
}

# A root that has what is needed; made once, and again when the list changes.
make_root()
{
	local list

	list=$(printf '%s\n' "${TOOLS[@]}"; build_depends) || exit 1
	[ -f "$root/.packages" ] && [ "$(cat "$root/.packages")" = "$list" ] && return
	rm -rf "$root"
	mkdir -p "$root" || exit 1
	tests/package/root.sh "$root" "$(tr '\n' ',' <<<"$list")" >"$work/root.log" 2>&1 || {
		tail -n 20 "$work/root.log" >&2
		die "no root could be made in $root" 3
	}
	printf '%s\n' "$list" >"$root/.packages"
}

build_packages()
{
	rm -rf "$root/build"
	mkdir -p "$root/build/shunt"
	git ls-files -z --cached --others --exclude-standard |
		tar -c --null --files-from=- --ignore-failed-read 2>/dev/null |
		tar -x --no-same-owner -C "$root/build/shunt" || die "the source could not be copied"
	# Not the machine's network: nothing may be fetched to build this.
	in_root unshare --net sh -c 'cd /build/shunt && dpkg-buildpackage -us -uc -b' \
		>"$work/build.log" 2>&1 || {
		tail -n 60 "$work/build.log" >&2
		die "dpkg-buildpackage failed"
	}
}

lint_packages()
{
	in_root sh -c 'cd /build && lintian --allow-root --fail-on error,warning,info --display-info *.changes' \
		>"$work/lint.log" 2>&1 && [ ! -s "$work/lint.log" ] && return
	cat "$work/lint.log" >&2
	die "lintian has something to say"
}

while [ $# -gt 0 ]; do
	case $1 in
	--root)
		[ $# -ge 2 ] || usage
		root=$2
		shift
		;;
	--no-lint) lint=0 ;;
	-*) usage ;;
	*)
		[ -z "$output" ] || usage
		output=$1
		;;
	esac
	shift
done
[ -n "$output" ] || usage
[ "$(id -u)" -eq 0 ] || die "must be root, to make a root and to work in it" 3
for program in mmdebstrap unshare dpkg; do
	command -v "$program" >/dev/null || die "there is no program $program" 3
done
if [ -z "${SHUNT_PACKAGE_INSIDE:-}" ]; then
	options=(--root "$root")
	[ "$lint" -eq 1 ] || options+=(--no-lint)
	SHUNT_PACKAGE_INSIDE=1 exec unshare --mount "$0" "${options[@]}" "$output"
fi
trap cleanup EXIT
work=$(mktemp -d) || exit 1
make_root
mount -t proc proc "$root/proc" || die "/proc can't be mounted in $root"
build_packages
[ "$lint" -eq 0 ] || lint_packages
mkdir -p "$output" && cp "$root"/build/*.deb "$root"/build/*.changes "$root"/build/*.buildinfo "$output" ||
	die "the packages could not be copied to $output"
