/* SPDX-License-Identifier: MIT */
#include "preload/calls.h"
#include "preload/edge.h"
#include "preload/state.h"

/*
 * vfork(): the child runs on its parent's memory and stack, so that no C function can be around it.
 * The kernel's call is made here, with a note in the calling thread's own memory while the child is
 * on it: child and parent have the same thread pointer, and the parent sleeps until the child has
 * gone. So the child knows what it is without asking the kernel. libc's own vfork() does the same
 * but for the note.
 */
__thread int shim_vforked __attribute__((tls_model("initial-exec")));

/* What the two returns of the call come to in C: the edge alone sets errno. */
__attribute__((used)) static long vfork_failed(long result)
{
	return edge_result(result);
}

#if defined(__x86_64__)

/* The child returns first, and whatever it calls then overwrites the place of the return address:
 * it waits in %rdi, which the kernel keeps. */
__asm__(".text\n"
	".globl vfork\n"
	".globl __vfork\n"
	".type vfork, @function\n"
	".type __vfork, @function\n"
	"vfork:\n"
	"__vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_register %rip, %rdi\n"
	"	movq shim_vforked@gottpoff(%rip), %rsi\n"
	"	movl $1, %fs:(%rsi)\n"
	"	movl $58, %eax\n"
	"	syscall\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	movl $0, %fs:(%rsi)\n"
	"	cmpq $-4095, %rax\n"
	"	jae 2f\n"
	"1:	ret\n"
	"2:	movq %rax, %rdi\n"
	"	jmp vfork_failed\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n"
	".previous\n");

#elif defined(__aarch64__)

/* The return address is in x30 all the time. clone(CLONE_VM | CLONE_VFORK | SIGCHLD, 0). */
__asm__(".text\n"
	".globl vfork\n"
	".globl __vfork\n"
	".type vfork, %function\n"
	".type __vfork, %function\n"
	"vfork:\n"
	"__vfork:\n"
	"	.cfi_startproc\n"
	"	hint 34\n"
	"	mrs x9, tpidr_el0\n"
	"	adrp x10, :gottprel:shim_vforked\n"
	"	ldr x10, [x10, #:gottprel_lo12:shim_vforked]\n"
	"	add x9, x9, x10\n"
	"	mov w11, #1\n"
	"	str w11, [x9]\n"
	"	mov x0, #0x4111\n"
	"	mov x1, #0\n"
	"	mov x2, #0\n"
	"	mov x3, #0\n"
	"	mov x4, #0\n"
	"	mov x8, #220\n"
	"	svc #0\n"
	"	cbz x0, 1f\n"
	"	str wzr, [x9]\n"
	"	cmn x0, #4095\n"
	"	b.hs 2f\n"
	"1:	ret\n"
	"2:	b vfork_failed\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n"
	".previous\n");

#else

/* A child with memory of its own can do all that a child of vfork() may do. */
__attribute__((visibility("default"))) pid_t vfork(void)
{
	return (pid_t)edge_result(call_fork());
}

__attribute__((visibility("default"))) pid_t __vfork(void);
__attribute__((visibility("default"))) pid_t __vfork(void)
{
	return (pid_t)edge_result(call_fork());
}

#endif
