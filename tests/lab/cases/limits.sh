#!/bin/sh
# SPDX-License-Identifier: MIT
# What the devices do with inline data, as they are and behind narrow.so, seen by a program that has
# nothing of Shunt: the facts that the cases with Shunt's own probe are compared with.
. "$LAB/helpers.sh"

program=$LAB_BUILD/tests/lab/inline-limit
[ -x "$program" ] || nothing "the build has no RDMA"

# limits DEVICE ADDRESS INLINE WANTED...: its lines; INLINE is "" for the device as it is.
limits()
{
	_device=$1 _address=$2 _inline=$3
	shift 3
	if [ -n "$_inline" ]; then
		_got=$(SHUNT_LAB_INLINE=$_inline LD_PRELOAD=$LAB_BUILD/tests/lab/narrow.so \
			"$program" "$_device" "$_address")
	else
		_got=$("$program" "$_device" "$_address")
	fi
	_want=$(printf '%s\n' "$@")
	[ "$_got" = "$_want" ] && return
	printf 'wanted:\n%s\ngot:\n%s\n' "$_want" "$_got"
	return 1
}

sent="reference arrived"
inline="inline arrived"

veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va
check rxe limits rxe_va 10.77.0.1 "" "zero 16" "accepted 512 granted 512" "refused 513 EINVAL" \
	"$sent" "$inline"
for limit in 216 101 96 48; do
	check "rxe_$limit" limits rxe_va 10.77.0.1 $limit "zero 16" \
		"accepted $limit granted $limit" "refused $((limit + 1)) EINVAL" "$sent" "$inline"
done
check rxe_none limits rxe_va 10.77.0.1 0 "zero 0" "accepted 1100 granted 0" "$sent"
check rxe_ignored limits rxe_va 10.77.0.1 ignored "zero 0" "accepted 1100 granted 1100" "$sent" \
	"inline failed"
rdma link del rxe_va
if have_siw; then
	siw va && within 5 active siw_va
	check siw limits siw_va 10.77.0.1 "" "zero 0" "accepted 80 granted 80" \
		"refused 81 EINVAL" "$sent" "$inline"
	check siw_48 limits siw_va 10.77.0.1 48 "zero 0" "accepted 48 granted 48" \
		"refused 49 EINVAL" "$sent" "$inline"
	rdma link del siw_va
else
	skip siw "no siw module could be built"
fi
veth_del va vb
finish
