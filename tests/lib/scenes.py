# SPDX-License-Identifier: MIT
"""Hosts that are made up in a mount namespace, by a shell script that root runs there."""

# A host's /dev without its devices, and a /sys/class with one RDMA device as rdma_rxe makes it.
DEV = """
T=$(mktemp -d)
mount -t tmpfs none "$T"
chmod 755 "$T"
for node in null zero full random urandom tty; do
	touch "$T/$node" && mount --bind "/dev/$node" "$T/$node"
done
mkdir -m 1777 "$T/shm" && mkdir -m 755 "$T/infiniband"
touch "$T/infiniband/uverbs0" "$T/infiniband/rdma_cm"
chmod 666 "$T/infiniband/"*
mount --rbind "$T" /dev
"""
SYS = """
mount -t tmpfs none /sys/class
chmod 755 /sys/class
mkdir -p /sys/class/infiniband/rxe0 /sys/class/infiniband_verbs/uverbs0/device
echo "1: CA" >/sys/class/infiniband/rxe0/node_type
echo 6 >/sys/class/infiniband_verbs/abi_version
echo rxe0 >/sys/class/infiniband_verbs/uverbs0/ibdev
echo 2 >/sys/class/infiniband_verbs/uverbs0/abi_version
echo 231:192 >/sys/class/infiniband_verbs/uverbs0/dev
"""
