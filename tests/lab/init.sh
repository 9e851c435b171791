#!/bin/sh
# SPDX-License-Identifier: MIT
# First program of the guest, in the initramfs: the root becomes the host's, read-only, with what is
# written kept in memory, and stage2.sh of the folder lab= goes on there.
fail()
{
	echo "lab: $*"
	poweroff -f
}
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/modules/$module" || fail "no module $module"
done </modules/order
read -r words </proc/cmdline
for word in $words; do
	case $word in lab=*) lab=${word#lab=} ;; esac
done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host || fail "no host root"
mount -t tmpfs -o size=60% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /root ||
	fail "no overlay"
mount --move /dev /root/dev
umount /proc
exec switch_root /root /bin/sh "$lab/stage2.sh" "$lab"
