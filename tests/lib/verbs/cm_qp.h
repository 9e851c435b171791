/* SPDX-License-Identifier: MIT */
#pragma once

struct cm_id;

/* The library's handling of a QP that was created on an id. Not under dbl_lock. */

/* To RTR and RTS. 0 or an errno value. */
int cm_qp_ready(struct cm_id *id);

/* Active, on the peer's answer: the QP, then the last message. 0 or an errno value. */
int cm_qp_finish(struct cm_id *id);

/* To ERR, if there is a QP. */
void cm_qp_to_error(struct cm_id *id);
