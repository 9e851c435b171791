#!/bin/sh
# SPDX-License-Identifier: MIT
# The drivers load; devices come up, carry data, follow their netdev down and up, and go away.
. "$LAB/helpers.sh"

crosses()
{
	read -r _before </sys/class/net/va/statistics/tx_packets
	busybox ping -c 1 -W 2 10.77.0.2 || return
	read -r _after </sys/class/net/va/statistics/tx_packets
	[ "$_after" -gt "$_before" ]
}

down()
{
	! active "$1"
}

rings()
{
	pair "rping -s -a $2 -C 5" "rping -c -I $1 -a $2 -C 5"
}

check veth veth va vb 10.77.0.1 10.77.0.2
check traffic_crosses_the_veth crosses
check rxe rxe va
check rxe_other_end rxe vb
check rxe_active within 5 active rxe_va
check rxe_devinfo ibv_devinfo -d rxe_va
check rxe_ping_pong pair "ibv_rc_pingpong -d rxe_vb -g 1 -n 100" \
	"ibv_rc_pingpong -d rxe_va -g 1 -n 100 10.77.0.2"
check rxe_cm rings 10.77.0.1 10.77.0.2
ip link set va down
check rxe_port_down within 5 down rxe_va
veth_up va 10.77.0.1 10.77.0.2
check rxe_port_up within 5 active rxe_va
check rxe_cm_again rings 10.77.0.1 10.77.0.2
check rxe_del rdma link del rxe_va
check rxe_other_del rdma link del rxe_vb
if have_siw; then
	check siw siw va
	check siw_other_end siw vb
	check siw_active within 5 active siw_va
	check siw_cm rings 10.77.0.1 10.77.0.2
	check siw_del rdma link del siw_va
	check siw_other_del rdma link del siw_vb
else
	skip siw "no siw module could be built"
fi
check veth_del veth_del va vb
finish
