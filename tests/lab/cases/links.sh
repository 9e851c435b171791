#!/bin/sh
# SPDX-License-Identifier: MIT
# Links between two devices, by the daemon's own code: 50 at once, then without a pause until one of the
# devices is taken away, which the kernel gets back at once.
. "$LAB/helpers.sh"

program=$LAB_BUILD/tests/lab/links
[ -x "$program" ] || nothing "the build has no RDMA"

is_busy()
{
	grep -q busy /run/links || ! kill -0 "$1"
}

# removal TYPE: the first device goes while links are made on it.
removal()
{
	"$program" "${1}_va" 10.77.0.1 "${1}_vb" 10.77.0.2 50 >/run/links 2>&1 &
	_program=$!
	within 50 is_busy $_program
	sleep 1
	timeout 5 rdma link del "${1}_va"
	_deleted=$?
	wait $_program
	_ended=$?
	cat /run/links
	echo "rdma link del: status $_deleted; links: status $_ended"
	[ $_deleted -eq 0 ] && [ $_ended -eq 0 ]
}

for type in rxe siw; do
	if [ $type = siw ] && ! have_siw; then
		skip siw "no siw module could be built"
		continue
	fi
	veth va vb 10.77.0.1 10.77.0.2 && $type va && $type vb
	within 5 active ${type}_va && within 5 active ${type}_vb
	check ${type}_goes_while_links_are_made removal $type
	sed 's/^/# /' /run/links
	rdma link del ${type}_vb
	veth_del va vb
done
finish
