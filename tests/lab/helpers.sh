# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For the cases that are shell scripts: . "$LAB/helpers.sh"
#
# A fork takes some 45 ms in an emulated guest: prefer one process that does much.

results=0
failures=0

# check NAME COMMAND...: a result; it is ok if the command succeeds, else what it said is shown.
check()
{
	results=$((results + 1))
	_name=$1
	shift
	if "$@" >/run/lab/last 2>&1; then
		echo "ok $results - $_name"
	else
		failures=$((failures + 1))
		sed 's/^/# /' /run/lab/last
		echo "not ok $results - $_name"
	fi
}

# skip NAME REASON
skip()
{
	results=$((results + 1))
	echo "ok $results - $1 # SKIP $2"
}

# nothing REASON: the whole case is skipped; its last line.
nothing()
{
	echo "1..0 # SKIP $1"
	exit
}

# The last line of a case.
finish()
{
	echo "1..$results"
	[ "$failures" -eq 0 ] && [ "$results" -gt 0 ]
	exit
}

# within SECONDS COMMAND...: wait until the command succeeds.
within()
{
	_ticks=$(($1 * 10))
	shift
	while ! "$@"; do
		_ticks=$((_ticks - 1))
		[ $_ticks -gt 0 ] || return 1
		sleep 0.1
	done
}

# veth A B ADDRESS_A ADDRESS_B [MTU]: two ends of a veth pair in this namespace whose traffic really
# crosses it: what is local to go to ADDRESS_B leaves by A, with source ADDRESS_A, and vice versa. (Linux
# 6.12's rxe serves the initial namespace only.) What names its source speaks to itself by its own
# address, as on any host.
veth()
{
	modprobe veth || return
	ip link add "$1" mtu "${5:-1500}" type veth peer name "$2" mtu "${5:-1500}" || return
	for _end in "$1" "$2"; do
		_conf=/proc/sys/net/ipv4/conf/$_end
		echo 1 >"$_conf/accept_local"
		echo 0 >"$_conf/rp_filter"
		# Answer and ask for this end's own address only.
		echo 1 >"$_conf/arp_ignore"
		echo 2 >"$_conf/arp_announce"
	done
	read -r _a <"/sys/class/net/$1/ifindex"
	read -r _b <"/sys/class/net/$2/ifindex"
	# The local table is asked last, see stage2.sh.
	ip -batch - <<-LINES
		addr add $3/24 dev $1
		addr add $4/24 dev $2
		link set $1 up
		link set $2 up
		rule add pref $((100 + _a)) iif lo from $3 to $3 lookup local
		rule add pref $((100 + _b)) iif lo from $4 to $4 lookup local
		rule add pref $((200 + _a)) iif lo to $4 lookup $((1000 + _a))
		rule add pref $((200 + _b)) iif lo to $3 lookup $((1000 + _b))
		route add $4/32 dev $1 src $3 table $((1000 + _a))
		route add $3/32 dev $2 src $4 table $((1000 + _b))
	LINES
}

# veth_up END OWN_ADDRESS PEER_ADDRESS: after `ip link set END down`, which loses its routes.
veth_up()
{
	read -r _a <"/sys/class/net/$1/ifindex"
	ip -batch - <<-LINES
		link set $1 up
		route replace $3/32 dev $1 src $2 table $((1000 + _a))
	LINES
}

# veth_del A B
veth_del()
{
	read -r _a <"/sys/class/net/$1/ifindex"
	read -r _b <"/sys/class/net/$2/ifindex"
	ip -batch - <<-LINES
		rule del pref $((100 + _a))
		rule del pref $((100 + _b))
		rule del pref $((200 + _a))
		rule del pref $((200 + _b))
		link del $1
	LINES
}

# rxe NETDEV, siw NETDEV: a device of that name in front of it, e.g. rxe_va.
rxe()
{
	modprobe -a rdma_rxe ib_uverbs rdma_ucm && rdma link add "rxe_$1" type rxe netdev "$1"
}

siw()
{
	modprobe -a siw ib_uverbs rdma_ucm && rdma link add "siw_$1" type siw netdev "$1"
}

have_siw()
{
	modinfo siw >/dev/null 2>&1
}

# active DEVICE: is its first port active?
active()
{
	read -r _state <"/sys/class/infiniband/$1/ports/1/state" && [ "$_state" = "4: ACTIVE" ]
}

# pair SERVER CLIENT: both are command lines; the server is given a second's start, and ended after.
pair()
{
	timeout 30 sh -c "exec $1" >/run/pair.out 2>&1 &
	_server=$!
	sleep 1
	timeout 30 sh -c "exec $2"
	_status=$?
	kill $_server 2>/dev/null
	wait $_server 2>/dev/null
	[ $_status -eq 0 ] || cat /run/pair.out
	return $_status
}
