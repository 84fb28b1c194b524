#include "agent/sample/variant.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "base/cleanup.h"

static bool has_helper(enum bpf_func_id helper)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, helper, NULL) != 0;
}

/* Loads `return 0` with a mention of such a map. */
static bool has_growing_hash(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, create, .map_flags = BPF_F_NO_PREALLOC);
	AUTO(fd_close) int map = bpf_map_create(BPF_MAP_TYPE_HASH, NULL, 4, 4, 1, &create);
	AUTO(fd_close) int program = -1;
	const struct bpf_insn code[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = map },
		{ .code = 0 }, /* its upper half */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	if (map < 0)
		return true;
	program = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, NULL, "GPL", code, ARRAY_LEN(code), NULL);
	return program >= 0 || errno != EINVAL;
}

struct kernel_features kernel_features_probe(void)
{
	struct kernel_features f = { .ring_buffer = true, .task_read = true };

	f.loop = has_helper(BPF_FUNC_loop);
	f.growing_hash = f.loop && has_growing_hash();
	if (f.growing_hash)
		return f;
	f.ring_buffer = libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) != 0;
	f.task_read = has_helper(BPF_FUNC_probe_read_kernel);
	return f;
}

bool variant_choose(const struct kernel_features *f, enum variant *out, struct err *err)
{
	if (!f->ring_buffer)
		return err_set(err, ERR_UNSUPPORTED,
			       "this kernel has no BPF ring buffer; Linux 5.10 or newer is needed");
	if (!f->task_read)
		return err_set(err, ERR_UNSUPPORTED,
			       "this kernel has no bpf_probe_read_kernel; Linux 5.10 or newer is "
			       "needed");
	*out = f->loop && f->growing_hash ? VARIANT_LOOP : VARIANT_BOUNDED;
	return true;
}

bool maps_are_locked_memory(void)
{
	/* A helper of the same release as the accounting by control group. */
	return !has_helper(BPF_FUNC_ktime_get_coarse_ns);
}
