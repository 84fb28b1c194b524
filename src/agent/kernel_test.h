/*
 * kernel_test.h - can tests load BPF programs here? A reason why not (a chroot without /sys, an
 * emulated CPU, a user who may not), to skip aloud; NULL when they can, and a failure is a failure.
 */
#pragma once
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *no_kernel_for_tests(void)
{
	if (geteuid() != 0)
		return "not root";
	if (access("/sys/devices/system/cpu/possible", R_OK) != 0 ||
	    access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return "no /sys here, or a kernel without BTF";
	if (syscall(SYS_bpf, -1, NULL, 0) < 0 && errno == ENOSYS)
		return "no bpf(2) here: an emulated CPU, or a kernel without it";
	return NULL;
}
