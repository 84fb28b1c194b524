#include "pipeline/sending.h"

#include <stddef.h>

#define OFF(type, member) .offset = offsetof(type, member)

static const char *const sizers[] = { "requests", "items", "bytes", NULL };

/* clang-format off */
const struct config_field retry_fields[] = {
	{ .name = "enabled", .kind = CONFIG_BOOL, OFF(struct retry_options, enabled), .default_text = "true",
	  .help = "send failed requests again" },
	{ .name = "initial_interval", .kind = CONFIG_DURATION, OFF(struct retry_options, initial_interval_ns),
	  .default_text = "5s", .help = "wait after the first failure" },
	{ .name = "randomization_factor", .kind = CONFIG_DOUBLE, OFF(struct retry_options, randomization_factor),
	  .default_text = "0.5", .min = 0, .max = 1, .help = "each wait is this part longer or shorter, by chance" },
	{ .name = "multiplier", .kind = CONFIG_DOUBLE, OFF(struct retry_options, multiplier), .default_text = "1.5",
	  .min = 0, .max = 1000, .help = "each wait is this much longer than the one before" },
	{ .name = "max_interval", .kind = CONFIG_DURATION, OFF(struct retry_options, max_interval_ns),
	  .default_text = "30s", .help = "longest wait" },
	{ .name = "max_elapsed_time", .kind = CONFIG_DURATION, OFF(struct retry_options, max_elapsed_time_ns),
	  .default_text = "5m", .help = "a request is dropped after this time; 0 and in front of a spool: never" },
	{ 0 },
};

const struct config_field queue_fields[] = {
	{ .name = "enabled", .kind = CONFIG_BOOL, OFF(struct queue_options, enabled), .default_text = "true",
	  .help = "answer once queued; else once the peer took it" },
	{ .name = "num_consumers", .kind = CONFIG_UINT32, OFF(struct queue_options, num_consumers), .default_text = "10",
	  .min = 1, .max = 1000, .help = "requests in flight at once" },
	{ .name = "queue_size", .kind = CONFIG_UINT64, OFF(struct queue_options, queue_size), .default_text = "1000",
	  .min = 1, .max = 1e15, .help = "most that waits, counted by sizer" },
	{ .name = "sizer", .kind = CONFIG_ENUM, OFF(struct queue_options, sizer), .default_text = "requests",
	  .choices = sizers, .help = "what queue_size counts: requests, items (samples) or bytes" },
	{ .name = "max_mib", .kind = CONFIG_SIZE_MIB, OFF(struct queue_options, max_bytes), .default_text = "64",
	  .min = 1, .max = 1 << 20, .help = "most memory that waits, whatever the sizer" },
	{ .name = "block_on_overflow", .kind = CONFIG_BOOL, OFF(struct queue_options, block_on_overflow),
	  .help = "let senders wait when the queue is full, rather than refuse" },
	{ .name = "wait_for_result", .kind = CONFIG_BOOL, OFF(struct queue_options, wait_for_result),
	  .help = "answer once the peer took it, though queued" },
	{ .name = "storage", .kind = CONFIG_STRING, OFF(struct queue_options, storage),
	  .help = "id of a storage extension: the queue is a spool on disk" },
	{ 0 },
};
/* clang-format on */

uint64_t retry_interval_ns(const struct retry_options *o, uint32_t failures, double chance)
{
	double ns = (double)o->initial_interval_ns, most = (double)o->max_interval_ns;
	double factor = 1 + o->randomization_factor * (2 * chance - 1);

	for (uint32_t i = 1; i < failures && ns < most && i < 1000; i++)
		ns *= o->multiplier;
	if (ns > most)
		ns = most;
	return (uint64_t)(ns * factor);
}
