#include "pipeline/batch.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/copy.h"
#include "wire/otlp.h"

enum { HASH_UNKNOWN, HASH_BEING_MADE, HASH_KNOWN };

static struct batch *batch_alloc(struct profiles *profiles, struct budget *budget)
{
	struct batch *b = calloc(1, sizeof(*b));

	assert(b);
	atomic_init(&b->refs, 1);
	b->profiles = profiles;
	b->budget = budget;
	b->charged_bytes = budget ? profiles->arena.reserved_bytes : 0;
	b->transport = "";
	return b;
}

static bool charge(struct budget *budget, size_t bytes, struct err *err)
{
	if (!budget || budget_take(budget, bytes))
		return true;
	return err_set(err, ERR_BUSY, "no memory for %zu more bytes: %zu of %zu are in flight",
		       bytes, budget_used(budget), budget->limit_bytes);
}

struct batch *batch_new(struct profiles *profiles, struct blob *body, struct budget *budget,
			struct err *err)
{
	struct batch *b;

	assert(profiles->sealed);
	if (!charge(budget, profiles->arena.reserved_bytes, err))
		return NULL;
	b = batch_alloc(profiles, budget);
	b->body = body ? blob_ref(body) : NULL;
	b->received_unix_ns = clock_realtime_ns();
	return b;
}

struct batch *batch_ref(struct batch *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void batch_unref(struct batch *b)
{
	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	profiles_free(b->profiles);
	blob_unref(b->body);
	if (b->budget)
		budget_give(b->budget, b->charged_bytes);
	free(b);
}

size_t batch_bytes(const struct batch *b)
{
	return b->profiles->arena.reserved_bytes + (b->body ? b->body->len : 0);
}

uint64_t batch_sample_count(const struct batch *b)
{
	const struct profiles *p = b->profiles;
	uint64_t count = p->sample_count;

	if (p->refused_profile_count == 0)
		return count;
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (p->profiles[i].refused)
			count -= p->profiles[i].samples.count;
	return count;
}

static struct hash128 hash_make(const struct batch *b)
{
	struct hash128 hash;
	struct err ignored;
	struct buf out;

	if (b->body)
		return hash128(blob_view(b->body));
	buf_init(&out, 0);
	/* Without limits the newest version is always encodable; what is left of a failure is no
	 * worse a key. */
	if (!otlp_encode(b->profiles, WIRE_NEWEST, &out, &ignored))
		buf_str(&out, str_cstr(ignored.msg));
	hash = hash128(buf_view(&out));
	buf_release(&out);
	return hash;
}

struct hash128 batch_request_hash(struct batch *b)
{
	unsigned state = HASH_UNKNOWN;

	if (atomic_compare_exchange_strong(&b->request_hash_state, &state, HASH_BEING_MADE)) {
		b->request_hash = hash_make(b);
		atomic_store_explicit(&b->request_hash_state, HASH_KNOWN, memory_order_release);
	}
	/* Two branches of a fan-out rarely ask at once, and then for the microseconds of one hash.
	 */
	while (atomic_load_explicit(&b->request_hash_state, memory_order_acquire) != HASH_KNOWN)
		sched_yield();
	return b->request_hash;
}

void batch_set_request_hash(struct batch *b, struct hash128 hash)
{
	b->request_hash = hash;
	atomic_store_explicit(&b->request_hash_state, HASH_KNOWN, memory_order_release);
}

struct batch *batch_derive(struct batch *from, struct profiles *p, struct err *err)
{
	struct batch *b;

	assert(p->sealed);
	if (!charge(from->budget, p->arena.reserved_bytes, err))
		return NULL;
	b = batch_alloc(p, from->budget);
	b->wire_version = from->wire_version;
	b->received_unix_ns = from->received_unix_ns;
	b->transport = from->transport;
	memcpy(b->peer, from->peer, sizeof(b->peer));
	batch_set_request_hash(b, batch_request_hash(from));
	return b;
}

bool batch_charge_growth(struct batch *b, struct err *err)
{
	size_t bytes = b->profiles->arena.reserved_bytes;

	if (!b->budget || bytes <= b->charged_bytes)
		return true;
	if (!charge(b->budget, bytes - b->charged_bytes, err))
		return false;
	b->charged_bytes = bytes;
	return true;
}

static struct batch *batch_copy(struct batch *b, struct err *err)
{
	struct profiles *copy = profiles_copy(b->profiles);
	struct batch *own = batch_derive(b, copy, err);

	if (!own)
		profiles_free(copy);
	return own;
}

struct batch *batch_make_own(struct batch *b, struct err *err)
{
	struct hash128 hash = batch_request_hash(b);
	struct batch *own = b;

	if (atomic_load_explicit(&b->refs, memory_order_acquire) != 1) {
		own = batch_copy(b, err);
		if (!own)
			return NULL;
		batch_unref(b);
	}
	blob_unref(own->body); /* a copy has none */
	own->body = NULL;
	own->encoding = BATCH_BODY_NONE;
	batch_set_request_hash(own, hash);
	return own;
}
