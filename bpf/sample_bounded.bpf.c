/* sample_bounded.bpf.c - sample.bpf.c for kernels without bpf_loop, 5.10 to 5.16 (portable.h). */
#define BOUNDED_LOOPS
#include "sample.bpf.c"
