#include "agent/unwind/patterns.h"

#include <elf.h>

enum { SMALL_FRAME_MOST = 160 }; /* bytes of code */

struct unwind_rule patterns_signal_rule(uint16_t elf_machine)
{
	/*
	 * x86-64 (arch/x86/include/asm/sigframe.h): the handler's return has taken the address of
	 * the restorer off; SP is at the ucontext, whose uc_mcontext begins at byte 40.
	 * arm64 (arch/arm64/kernel/signal.c): SP is at the siginfo, 128 bytes; in the ucontext
	 * behind it uc_mcontext begins at byte 176, with the fault address before the registers.
	 */
	return (struct unwind_rule){ .kind = UNWIND_SIGNAL,
				     .cfa_offset = elf_machine == EM_X86_64 ? 40 : 128 + 176 + 8 };
}

static bool begins_with(struct bytes code, const uint8_t *form, size_t len)
{
	return code.len >= len && memcmp(code.ptr, form, len) == 0;
}

bool patterns_is_sigreturn(uint16_t elf_machine, struct bytes code)
{
	/* mov $15, %rax; syscall, with the three ways to write the constant */
	static const uint8_t rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	/* mov x8, #139; svc #0 */
	static const uint8_t arm[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };

	if (elf_machine == EM_X86_64)
		return begins_with(code, rax, sizeof(rax)) || begins_with(code, eax, sizeof(eax));
	return begins_with(code, arm, sizeof(arm));
}

static bool pads_x86_64(uint8_t byte)
{
	switch (byte) {
	case 0x90: /* nop */
	case 0xcc: /* int3 */
	case 0xf4: /* hlt */
	case 0x66: /* prefixes of longer ones */
	case 0x2e:
	case 0x0f: /* 0f 1f /0: nop with an operand */
	case 0x1f:
	case 0x00:
	case 0x40:
	case 0x44:
	case 0x80:
	case 0x84:
		return true;
	default:
		return false;
	}
}

static bool pads_arm64(struct bytes code)
{
	for (size_t i = 0; i + 4 <= code.len; i += 4) {
		uint32_t word;

		memcpy(&word, code.ptr + i, sizeof(word));
		if (word != 0xd503201f && word != 0 && (word & 0xffe0001f) != 0xd4200000)
			return false; /* neither nop, nor zero (udf), nor brk */
	}
	return true;
}

bool patterns_is_padding(uint16_t elf_machine, struct bytes code)
{
	if (elf_machine != EM_X86_64)
		return pads_arm64(code);
	for (size_t i = 0; i < code.len; i++)
		if (!pads_x86_64(code.ptr[i]))
			return false;
	return true;
}

/* How many bytes of code make (or undo) a frame of *bytes; 0: something else. */
static size_t makes_frame(struct bytes code, uint32_t *bytes)
{
	static const uint8_t sub[] = { 0x48, 0x83, 0xec };

	*bytes = 8;
	if (code.len && code.ptr[0] == 0x50) /* push %rax */
		return 1;
	if (code.len < 4 || !begins_with(code, sub, sizeof(sub)))
		return 0;
	*bytes = code.ptr[3];
	return *bytes && *bytes < 0x80 && *bytes % 8 == 0 ? 4 : 0;
}

static size_t undoes_frame(struct bytes code, uint32_t bytes)
{
	static const uint8_t add[] = { 0x48, 0x83, 0xc4 };

	if (bytes == 8 && code.len && (code.ptr[0] == 0x58 || code.ptr[0] == 0x59))
		return 1; /* pop %rax, %rcx */
	return code.len >= 4 && begins_with(code, add, sizeof(add)) && code.ptr[3] == bytes ? 4 : 0;
}

bool patterns_small_frame(struct bytes code, uint64_t phase, struct small_frame *out)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct bytes body, end;
	size_t at = (16 - phase % 16) % 16, len;

	if (code.len > SMALL_FRAME_MOST || at >= code.len ||
	    !patterns_is_padding(EM_X86_64, (struct bytes){ code.ptr, at }))
		return false;
	out->begin = at;
	if (begins_with((struct bytes){ code.ptr + at, code.len - at }, endbr64, sizeof(endbr64)))
		at += sizeof(endbr64);
	body = (struct bytes){ code.ptr + at, code.len - at };
	len = makes_frame(body, &out->bytes);
	if (!len)
		return false;
	out->made = at + len;
	/* The last return with nothing but padding behind it. */
	for (len = code.len; len > out->made + 1 && code.ptr[len - 1] != 0xc3;)
		len--;
	end = (struct bytes){ code.ptr + len, code.len - len };
	if (len <= out->made + 1 || !patterns_is_padding(EM_X86_64, end))
		return false;
	out->undone = len - 1;
	for (size_t back = 1; back <= 4 && out->made + back <= out->undone; back += 3) {
		end = (struct bytes){ code.ptr + out->undone - back, back };
		if (undoes_frame(end, out->bytes) == back)
			return true;
	}
	return false;
}

bool patterns_plt_entry(struct bytes code, uint8_t *threshold)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t at = 0;

	if (code.len < 16)
		return false;
	if (begins_with(code, endbr64, sizeof(endbr64)))
		at = sizeof(endbr64);
	if (code.ptr[at] == 0x68) { /* push $index; jmp */
		*threshold = at + 5;
		return true;
	}
	if (code.ptr[at] == 0xf2) /* bnd */
		at++;
	if (code.ptr[at] != 0xff || code.ptr[at + 1] != 0x25)
		return false;
	/* jmp *slot(%rip), with push $index; jmp behind it or nothing */
	*threshold = at == 0 && code.ptr[6] == 0x68 ? 11 : 16;
	return true;
}
