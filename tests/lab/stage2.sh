#!/bin/sh
# SPDX-License-Identifier: MIT
# Process 1 of the guest on its final root: mounts, then the cases one after another, their results
# into the folder shared with the host, and out.
#
# The shared folder, /run/lab, has from the host: cases, one line a case (name, seconds, program);
# and environment, a shell file. The guest adds booted, NAME.out and NAME.err while NAME runs,
# NAME.rc with its exit status, last, which is what a check of helpers.sh says, and dmesg.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
export LAB="$1"
unset LD_PRELOAD LD_LIBRARY_PATH
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs -o mode=755 run /run
mkdir -p /dev/pts /dev/shm /run/lab /run/netns /run/lock
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /var/tmp
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /run/lab
. /run/lab/environment
mkdir -p /lib/modules
mount --bind "$LAB_MODULES" /lib/modules
export TMPDIR=/var/tmp
ulimit -n 65536
ip -batch - <<-RULES
	link set lo up
	rule add pref 1000 lookup local
	rule del pref 0
RULES
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
cat /proc/uptime >/run/lab/booted

while read -r name limit program; do
	cd /var/tmp || exit
	timeout -k 5 "$limit" "$program" >"/run/lab/$name.out" 2>"/run/lab/$name.err" </dev/null
	echo $? >"/run/lab/$name.rc"
done </run/lab/cases
dmesg >/run/lab/dmesg
# QEMU's debug-exit port: gone at once, where an orderly power-off takes seconds.
printf '\0' | dd of=/dev/port bs=1 seek=244 2>/dev/null
busybox poweroff -f
