#include "pipeline/fanout.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* A request of which some branches are done while the sender will repeat it. */
struct memory {
	struct hash128 hash;
	uint64_t kept, refused; /* branches, by bit */
	uint64_t expires_ns;    /* monotonic; 0 = free slot */
};

struct fanout {
	struct consumer consumer;
	struct consumer **branches;
	uint32_t count;
	uint64_t dedup_window_ns;
	struct metric *skipped, *forgotten;

	pthread_mutex_t lock; /* guards the memory */
	struct memory *memory;
	uint32_t next; /* slot to use next: the oldest */
	atomic_uint remembered;
};

struct branch {
	struct completion completion;
	struct join *join;
	struct outcome outcome;
};

/* One request on its way through all branches. */
struct join {
	struct fanout *fanout;
	struct batch *batch; /* for its hash, should it be needed */
	struct completion *done;
	atomic_uint waiting;
	uint64_t kept, refused; /* before this repetition */
	struct branch branches[];
};

static struct memory *memory_find(struct fanout *f, struct hash128 hash)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (uint32_t i = 0; i < FANOUT_MEMORY; i++) {
		struct memory *m = &f->memory[i];

		if (m->expires_ns && m->expires_ns <= now_ns) {
			m->expires_ns = 0;
			atomic_fetch_sub(&f->remembered, 1);
		}
		if (m->expires_ns && m->hash.lo == hash.lo && m->hash.hi == hash.hi)
			return m;
	}
	return NULL;
}

static void recall(struct join *j)
{
	struct fanout *f = j->fanout;
	const struct memory *m;

	if (atomic_load(&f->remembered) == 0)
		return; /* the usual case costs no hash */
	pthread_mutex_lock(&f->lock);
	m = memory_find(f, batch_request_hash(j->batch));
	if (m) {
		j->kept = m->kept;
		j->refused = m->refused;
	}
	pthread_mutex_unlock(&f->lock);
}

static void remember(struct join *j, uint64_t kept, uint64_t refused)
{
	struct fanout *f = j->fanout;
	struct hash128 hash = batch_request_hash(j->batch);
	struct memory *m;

	pthread_mutex_lock(&f->lock);
	m = memory_find(f, hash);
	if (!m) {
		m = &f->memory[f->next];
		f->next = (f->next + 1) % FANOUT_MEMORY;
		if (!m->expires_ns)
			atomic_fetch_add(&f->remembered, 1);
		else if (f->forgotten)
			metric_add(f->forgotten, 1);
		*m = (struct memory){ .hash = hash };
	}
	m->kept |= kept;
	m->refused |= refused;
	m->expires_ns = clock_monotonic_ns() + f->dedup_window_ns;
	pthread_mutex_unlock(&f->lock);
}

static void forget(struct join *j)
{
	struct fanout *f = j->fanout;
	struct memory *m;

	pthread_mutex_lock(&f->lock);
	m = memory_find(f, batch_request_hash(j->batch));
	if (m) {
		m->expires_ns = 0;
		atomic_fetch_sub(&f->remembered, 1);
	}
	pthread_mutex_unlock(&f->lock);
}

static const struct outcome *first_of(const struct join *j, enum outcome_kind kind)
{
	for (uint32_t i = 0; i < j->fanout->count; i++)
		if (j->branches[i].outcome.kind == kind)
			return &j->branches[i].outcome;
	return NULL;
}

static struct outcome joined(const struct join *j, const struct outcome *retry, uint64_t refused)
{
	struct outcome o = { .kind = OUTCOME_OK };
	const struct outcome *permanent = first_of(j, OUTCOME_PERMANENT);

	for (uint32_t i = 0; i < j->fanout->count; i++) {
		const struct outcome *b = &j->branches[i].outcome;

		if (b->rejected_profiles > o.rejected_profiles)
			o.rejected_profiles = b->rejected_profiles;
		if (b->warning[0] && !o.warning[0])
			memcpy(o.warning, b->warning, sizeof(o.warning));
	}
	if (!retry && refused) {
		if (permanent)
			return *permanent;
		o.kind = OUTCOME_PERMANENT;
		err_set(&o.err, ERR_INVALID, "refused for good by one of several exporters");
		return o;
	}
	if (!retry)
		return o;
	o = *retry;
	for (uint32_t i = 0; i < j->fanout->count; i++) /* the longest wait that one asks for */
		if (j->branches[i].outcome.retry_after_ns > o.retry_after_ns)
			o.retry_after_ns = j->branches[i].outcome.retry_after_ns;
	return o;
}

static void join_finish(struct join *j)
{
	const struct outcome *retry = first_of(j, OUTCOME_RETRY);
	uint64_t kept = j->kept, refused = j->refused;
	struct completion *done = j->done;
	struct outcome o;

	for (uint32_t i = 0; i < j->fanout->count; i++) {
		uint64_t bit = UINT64_C(1) << i;

		if ((j->kept | j->refused) & bit)
			continue;
		if (j->branches[i].outcome.kind == OUTCOME_OK)
			kept |= bit;
		else if (j->branches[i].outcome.kind == OUTCOME_PERMANENT)
			refused |= bit;
	}
	if (retry && (kept | refused) != (j->kept | j->refused))
		remember(j, kept, refused);
	else if (!retry && (j->kept | j->refused))
		forget(j);
	o = joined(j, retry, refused);
	batch_unref(j->batch);
	free(j);
	completion_done(done, &o);
}

static void join_arrived(struct join *j)
{
	if (atomic_fetch_sub_explicit(&j->waiting, 1, memory_order_acq_rel) == 1)
		join_finish(j);
}

static void branch_done(struct completion *c, const struct outcome *o)
{
	struct branch *b = CONTAINER_OF(c, struct branch, completion);

	b->outcome = *o;
	join_arrived(b->join);
}

static struct join *join_new(struct fanout *f, struct batch *batch, struct completion *done)
{
	struct join *j = calloc(1, sizeof(*j) + f->count * sizeof(j->branches[0]));

	assert(j);
	j->fanout = f;
	j->batch = batch;
	j->done = done;
	for (uint32_t i = 0; i < f->count; i++) {
		j->branches[i].completion.done = branch_done;
		j->branches[i].join = j;
	}
	return j;
}

static void fanout_consume(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct fanout *f = CONTAINER_OF(self, struct fanout, consumer);
	struct join *j = join_new(f, batch, done);
	uint64_t settled;

	recall(j);
	settled = j->kept | j->refused;
	/* One more than branches: the join outlives this loop even when all answer inside it. */
	atomic_init(&j->waiting, f->count - (unsigned)__builtin_popcountll(settled) + 1);
	for (uint32_t i = 0; i < f->count; i++) {
		if (settled & UINT64_C(1) << i) {
			if (f->skipped)
				metric_add(f->skipped, 1);
			continue;
		}
		consumer_consume(f->branches[i], batch_ref(batch), &j->branches[i].completion);
	}
	join_arrived(j);
}

static void metrics_init(struct fanout *f, const struct fanout_options *o)
{
	static const char *const labels[] = { "fanout", NULL };
	struct str value = str_cstr(o->name);

	f->skipped = metric_get(
		metrics_family(o->metrics, METRIC_COUNTER, "flametap_fanout_skipped_total",
			       "Repeated requests not handed again to an exporter or pipeline that "
			       "had kept them already.",
			       labels, 0),
		&value);
	f->forgotten = metric_get(
		metrics_family(o->metrics, METRIC_COUNTER, "flametap_fanout_forgotten_total",
			       "Half-kept requests forgotten before their repetition, as too many "
			       "were waiting: a repetition is kept twice by some exporters.",
			       labels, 0),
		&value);
}

struct fanout *fanout_new(const struct fanout_options *options)
{
	struct fanout *f = calloc(1, sizeof(*f));

	assert(f && options->count >= 1 && options->count <= FANOUT_BRANCHES_MOST);
	f->consumer.consume = fanout_consume;
	f->count = options->count;
	f->dedup_window_ns = options->dedup_window_ns;
	f->branches = calloc(f->count, sizeof(struct consumer *));
	f->memory = calloc(FANOUT_MEMORY, sizeof(*f->memory));
	assert(f->branches && f->memory);
	memcpy(f->branches, options->branches, f->count * sizeof(struct consumer *));
	pthread_mutex_init(&f->lock, NULL);
	if (options->metrics)
		metrics_init(f, options);
	return f;
}

struct consumer *fanout_consumer(struct fanout *f)
{
	return &f->consumer;
}

void fanout_free(struct fanout *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	free(f->memory);
	free(f->branches);
	free(f);
}
