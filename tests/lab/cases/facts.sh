#!/bin/sh
# SPDX-License-Identifier: MIT
# What the drivers answer to good and bad use is what facts/ says: so it can stand for them where there
# is no guest, and the verbs test double is compared with it.
. "$LAB/helpers.sh"

program=$LAB_BUILD/tests/lab/verbs-facts
[ -x "$program" ] || nothing "the build has no RDMA"

# facts TYPE ADDRESS
facts()
{
	"$program" "$2" >/run/facts || return
	diff -U 0 "$LAB/facts/$1.txt" /run/facts
}

veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va
check rxe facts rxe 10.77.0.1
if have_siw; then
	siw vb && within 5 active siw_vb
	check siw facts siw 10.77.0.2
	rdma link del siw_vb
else
	skip siw "no siw module could be built"
fi
rdma link del rxe_va
veth_del va vb
finish
