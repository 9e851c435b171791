#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Make a clean Debian root with mmdebstrap: of this machine's release, from this machine's sources.
#
#	tests/package/root.sh DIRECTORY|FILE.tar PACKAGE[,PACKAGE]...

set -u -o pipefail
[ $# -eq 2 ] || exit 2
sources=$(mktemp) || exit 1
trap 'rm -f "$sources"' EXIT
# shellcheck disable=SC1091 # every Debian has it
release=$(. /etc/os-release && echo "$VERSION_CODENAME") || exit 1

# Of all places that apt knows, Debian's own.
list()
{
	# shellcheck disable=SC2016 # apt fills these in
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' | sort -u
}

list >"$sources"
if [ ! -s "$sources" ]; then
	apt-get update -qq
	list >"$sources"
fi
[ -s "$sources" ] || {
	echo "root.sh: apt knows no place of Debian's" >&2
	exit 1
}
mmdebstrap --mode=root --variant=minbase --include="${2%,}" \
	--aptopt='Apt::Install-Recommends "false"' "$release" "$1" "$sources"
