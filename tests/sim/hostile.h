/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A peer that writes what it likes into its own half, between any two accesses of the other side.
 * Nothing is promised to it, nor to a stream that it takes part in; the other side stays within
 * its memory, and goes on or finds the protocol broken.
 */
void hostile_start(void);
