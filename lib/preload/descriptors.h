/* SPDX-License-Identifier: MIT */
#pragma once

/* fcntl() with F_DUPFD or F_DUPFD_CLOEXEC: the new descriptor or -errno. */
long descriptors_fcntl_dup(int fd, int cmd, long arg);
