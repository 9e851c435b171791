/* SPDX-License-Identifier: MIT */

/* Behind each expansion of calls.def: the rows mean nothing again. */
#undef CALL
#undef LIBC
#undef ALIAS
#undef CHECKED
#undef BEFORE
#undef BEFORE_HIDDEN
#undef HAND
#undef HAND_HIDDEN
