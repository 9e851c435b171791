/* SPDX-License-Identifier: MIT */
#include "double.h"

/*
 * rsockets: programs that use the CM alone refer to them, too (rping). Whatever their arguments,
 * they fail with -1, which is the same in a register for all of their types.
 */
#define RSOCKET(name)                                                                              \
	DBL_API long name(void);                                                                   \
	DBL_API long name(void)                                                                    \
	{                                                                                          \
		dbl_unsupported(#name);                                                            \
		return -1;                                                                         \
	}                                                                                          \
	_Static_assert(1, "")

RSOCKET(raccept);
RSOCKET(rbind);
RSOCKET(rclose);
RSOCKET(rconnect);
RSOCKET(rfcntl);
RSOCKET(rgetpeername);
RSOCKET(rgetsockname);
RSOCKET(rgetsockopt);
RSOCKET(riomap);
RSOCKET(riounmap);
RSOCKET(riowrite);
RSOCKET(rlisten);
RSOCKET(rpoll);
RSOCKET(rread);
RSOCKET(rreadv);
RSOCKET(rrecv);
RSOCKET(rrecvfrom);
RSOCKET(rrecvmsg);
RSOCKET(rselect);
RSOCKET(rsend);
RSOCKET(rsendmsg);
RSOCKET(rsendto);
RSOCKET(rsetsockopt);
RSOCKET(rshutdown);
RSOCKET(rsocket);
RSOCKET(rwrite);
RSOCKET(rwritev);
