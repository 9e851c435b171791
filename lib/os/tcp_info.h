/* SPDX-License-Identifier: MIT */
#pragma once

#include <linux/tcp.h>

/* The whole TCP_INFO of @fd (the kernel's struct, not libc's shorter one). 0; -EOPNOTSUPP when the
 * kernel does not count tcpi_bytes_sent and tcpi_bytes_retrans (before 4.19); getsockopt(2)'s. */
int tcp_info_read(int fd, struct tcp_info *ret_info);
