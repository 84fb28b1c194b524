/*
 * probabilistic_sampler: keeps a percentage of the samples.
 *
 * Options and decisions are the Collector's (it has no profiles there): samples that belong to a
 * trace go or stay with it. Of the others a profile goes or stays as a whole, by its profile_id or
 * its place in the request.
 */
#include "components/processors/processors.h"
#include "components/processors/sampler_hash.h"
#include "components/processors/selected.h"

enum sampler_mode { SAMPLER_HASH_SEED, SAMPLER_EQUALIZING, SAMPLER_PROPORTIONAL };
enum sampler_source { SOURCE_TRACE_ID, SOURCE_RECORD };
static const char *const modes[] = { "hash_seed", "equalizing", "proportional", NULL };
static const char *const sources[] = { "traceID", "record", NULL };

struct sampler {
	int mode, attribute_source;
	uint32_t hash_seed, sampling_precision;
	double percentage;
	bool fail_closed;
	const char *from_attribute, *sampling_priority;

	const struct component_host *host;
	struct metric *dropped, *kept;
};

#define OFF(member) .offset = offsetof(struct sampler, member)

/* clang-format off */
static const struct config_field sampler_fields[] = {
	{ .name = "sampling_percentage", .kind = CONFIG_DOUBLE, OFF(percentage), .default_text = "0", .min = 0, .max = 1000,
	  .help = "of the samples; 100 and more: all" },
	{ .name = "mode", .kind = CONFIG_ENUM, OFF(mode), .default_text = "hash_seed", .choices = modes,
	  .help = "hash_seed: by a hash; the others: by the trace_id's own random bits" },
	{ .name = "hash_seed", .kind = CONFIG_UINT32, OFF(hash_seed), .default_text = "0",
	  .help = "must be the same for all samplers of a tier, and differ between tiers" },
	{ .name = "sampling_precision", .kind = CONFIG_UINT32, OFF(sampling_precision), .default_text = "4", .min = 1, .max = 14,
	  .help = "accepted: thresholds are exact" },
	{ .name = "fail_closed", .kind = CONFIG_BOOL, OFF(fail_closed), .default_text = "true",
	  .help = "drop samples without from_attribute" },
	{ .name = "attribute_source", .kind = CONFIG_ENUM, OFF(attribute_source), .default_text = "traceID", .choices = sources,
	  .help = "what decides: the trace, or the sample's from_attribute (record)" },
	{ .name = "from_attribute", .kind = CONFIG_STRING, OFF(from_attribute), .help = "a sample's attribute (with record)" },
	{ .name = "sampling_priority", .kind = CONFIG_STRING, OFF(sampling_priority),
	  .help = "an attribute with the sample's own percentage" },
	{ 0 },
};
/* clang-format on */

static bool sampler_check(void *state, struct err *err)
{
	const struct sampler *s = state;

	if (s->attribute_source == SOURCE_RECORD && !s->from_attribute)
		return err_set(err, ERR_INVALID,
			       "\"attribute_source: record\" needs a \"from_attribute\"");
	if (s->mode != SAMPLER_HASH_SEED && s->attribute_source == SOURCE_RECORD)
		return err_set(err, ERR_INVALID,
			       "\"attribute_source: record\" needs \"mode: hash_seed\"");
	return true;
}

static struct metric *counter(const struct component_host *h, const char *sampled)
{
	static const char *const labels[] = { "processor", "sampled", NULL };
	struct str values[] = { str_cstr(h->id), str_cstr(sampled) };

	return metric_get(
		metrics_family(h->metrics, METRIC_COUNTER,
			       "otelcol_processor_probabilistic_sampler_count_profile_samples",
			       "Samples that the probabilistic_sampler kept (true) or dropped.",
			       labels, 0),
		values);
}

static bool sampler_start(void *state, const struct component_host *host, struct err *err)
{
	struct sampler *s = state;

	(void)err;
	s->host = host;
	s->kept = counter(host, "true");
	s->dropped = counter(host, "false");
	return true;
}

/* ---- one message ---- */

static double number_of(const struct any_value *v, double otherwise)
{
	if (v && v->kind == ANY_INT)
		return (double)v->integer;
	return v && v->kind == ANY_DOUBLE ? v->real : otherwise;
}

static bool keeps_record(const struct sampler *s, const struct profiles *p,
			 const struct sample *sample, double percentage)
{
	const struct any_value *v =
		profiles_attribute(p, sample->attributes, str_cstr(s->from_attribute));

	if (!v || (v->kind != ANY_STRING && v->kind != ANY_BYTES) || !v->string.len)
		return !s->fail_closed;
	return sampler_keeps_hash(v->string, s->hash_seed, percentage);
}

static bool keeps_trace(const struct sampler *s, const uint8_t trace_id[16], double percentage)
{
	if (s->mode != SAMPLER_HASH_SEED)
		return sampler_keeps_trace(trace_id, percentage);
	return sampler_keeps_hash(str_from(trace_id, 16), s->hash_seed, percentage);
}

/* Of samples without a trace: their profile's. */
struct profile_key {
	uint64_t lo, hi;
	uint32_t place;
};

static bool keeps_profile(const struct sampler *s, const struct profile *profile,
			  const struct profile_key *key, double percentage)
{
	struct str bytes = str_from(profile->profile_id, sizeof(profile->profile_id));

	if (id_is_zero(profile->profile_id, sizeof(profile->profile_id)))
		bytes = str_from(key, offsetof(struct profile_key, place) + sizeof(key->place));
	return sampler_keeps_hash(bytes, s->hash_seed, percentage);
}

static bool keeps(const struct sampler *s, const struct profiles *p, const struct profile *profile,
		  const struct sample *sample, const struct profile_key *key)
{
	const struct link *l = &p->dict.links[sample->link.v];
	double percentage = s->percentage;

	if (s->sampling_priority)
		percentage = number_of(
			profiles_attribute(p, sample->attributes, str_cstr(s->sampling_priority)),
			percentage);
	if (s->attribute_source == SOURCE_RECORD)
		return keeps_record(s, p, sample, percentage);
	if (!id_is_zero(l->trace_id, sizeof(l->trace_id)))
		return keeps_trace(s, l->trace_id, percentage);
	return keeps_profile(s, profile, key, percentage);
}

/* How many samples go. */
static uint64_t decide(const struct sampler *s, struct batch *batch, struct selected *keep)
{
	struct hash128 hash = batch_request_hash(batch);
	const struct profiles *p = batch->profiles;
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];
		struct profile_key key = { hash.lo, hash.hi, i };
		uint32_t gone = 0;

		for (uint32_t k = 0; k < profile->samples.count; k++) {
			uint32_t at = profile->samples.first + k;

			keep->samples[at] = keeps(s, p, profile, &p->samples[at], &key);
			gone += !keep->samples[at];
		}
		keep->profiles[i] = !gone || gone < profile->samples.count;
		dropped += gone;
	}
	return dropped;
}

static void sampler_consume(void *state, struct batch *batch, struct completion *done)
{
	struct selected keep = selected_new(batch->profiles);
	uint64_t all = batch->profiles->sample_count, dropped;
	struct sampler *s = state;

	dropped = decide(s, batch, &keep);
	if (!dropped)
		consumer_consume(s->host->next, batch, done);
	else if (!selected_hand_on(s->host, batch, &keep, done))
		all = dropped = 0; /* they come again */
	metric_add(s->kept, (int64_t)(all - dropped));
	metric_add(s->dropped, (int64_t)dropped);
	selected_release(&keep);
}

const struct component_ops probabilistic_sampler_processor = {
	.type = "probabilistic_sampler",
	.summary = "keeps a percentage of the samples",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct sampler),
	.fields = sampler_fields,
	.check = sampler_check,
	.start = sampler_start,
	.consume = sampler_consume,
};
