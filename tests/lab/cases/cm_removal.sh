#!/bin/sh
# SPDX-License-Identifier: MIT
# `rdma link del` waits until nobody has the device open any more, librdmacm included: what it takes to
# make librdmacm let go in a process that lives on. The facts that the daemon's removal rests on.
. "$LAB/helpers.sh"

program=$LAB_BUILD/tests/lab/cm-removal
[ -x "$program" ] || nothing "the build has no RDMA"
mkfifo /run/stay

ready()
{
	grep -q ready /run/removal.out
}

# The program is there and listens, until `leave`.
enter()
{
	: >/run/removal.out
	"$program" "$1" "$2" "$3" </run/stay >/run/removal.out 2>&1 &
	exec 3>/run/stay
	within 10 ready
}

leave()
{
	exec 3>&-
	wait
}

# removal DEVICE ADDRESS HOW
removal()
{
	enter "$1" "$2" "$3" || return
	timeout 5 rdma link del "$1"
	_status=$?
	leave
	cat /run/removal.out
	echo "status $_status"
	[ $_status -eq 0 ] && grep -q "gave up $1" /run/removal.out
}

for type in rxe siw; do
	if [ $type = siw ] && ! have_siw; then
		skip siw "no siw module could be built"
		continue
	fi
	veth va vb 10.77.0.1 10.77.0.2 && $type va && $type vb
	within 5 active ${type}_va && within 5 active ${type}_vb
	check ${type}_resync_drops_one_of_two removal ${type}_va 10.77.0.1 resync
	check ${type}_null_drops_the_last removal ${type}_vb 10.77.0.2 null
	veth_del va vb
done
finish
