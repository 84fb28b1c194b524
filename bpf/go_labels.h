/*
 * go_labels.h - the labels of the goroutine that a thread runs (pprof.Do, SetGoroutineLabels),
 * copied into a record of their own. Compiled for BPF and as plain C, as unwind.h; whoever includes
 * this file gives it env_read() before.
 *
 * They are copied at the sample, and not later by address: a server makes and drops them with each
 * request, and by then other labels may lie there, or the process be gone.
 *
 *   thread pointer + tls_offset -> g -> m -> curg, the goroutine (while g may be the one that the
 *   scheduler or a signal handler runs on) -> labels, and there
 *     up to 1.23      hmap *: { count, flags u8, B u8, noverflow u16, hash0 u32, buckets }; of the
 *                     2^B buckets each { tophash u8[8], keys string[8], values string[8],
 *                     overflow }
 *     from 1.24 on    { array, length, capacity } of { key string, value string }
 *   where a string is { pointer, length }.
 *
 * Source: Go's src/runtime/runtime2.go, src/runtime/map.go (up to 1.23; map_noswiss.go after) and
 * src/runtime/pprof/label.go of each version; the offsets come from user space
 * (src/agent/runtimes/go/recognise.c).
 */
#pragma once
#include "records.h"

#ifndef UNWIND_INLINE
#define UNWIND_INLINE static inline __attribute__((always_inline))
#endif

enum {
	GO_BUCKET_SLOTS = 8,
	GO_BUCKET_BYTES = 8 + 2 * 16 * GO_BUCKET_SLOTS + 8,
	GO_TOPHASH_EMPTY_REST = 0, /* neither here nor behind it */
	GO_TOPHASH_LEAST = 5,      /* of slots in use; those below tell of slots that are not */
	GO_BUCKETS_LOG_MOST = 4,
	/* Slots of 2^4 buckets, and as many that overflow. */
	GO_LABELS_STEPS_MOST = 2 * GO_BUCKET_SLOTS << GO_BUCKETS_LOG_MOST,
};

struct go_label { /* as it lies there */
	__u64 key, key_bytes;
	__u64 value, value_bytes;
};

/* Where the copying stands: what is in memory, the verifier need not follow. */
struct go_labels {
	__u64 at;         /* the next label, or the bucket */
	__u64 array_next; /* bucket in the array */
	__u32 left;       /* labels, or buckets from this one on */
	__u32 slot;       /* in the bucket */
	__u32 form;       /* enum go_labels_form */
	__u32 padding;
	__u8 tops[GO_BUCKET_SLOTS];
	struct go_label label;
	struct labels_record record; /* directly before its text: what is sent is one piece */
	__u8 text[LABELS_ROOM];
};

enum go_labels_found { GO_LABELS_NONE, GO_LABELS_SOME, GO_LABELS_UNREADABLE };

/* The labels of the goroutine of this thread; 0: it has none, or the thread is not Go's. */
UNWIND_INLINE enum go_labels_found go_labels_of_thread(struct unwind_cursor *c,
						       const struct go_runtime *r, __u64 *labels)
{
	__u64 g = 0, m = 0, current = 0;

	if (!env_read(c, &g, 8, c->tp + (__s64)r->tls_offset))
		return GO_LABELS_UNREADABLE;
	if (!g)
		return GO_LABELS_NONE;
	if (!env_read(c, &m, 8, g + r->g_m))
		return GO_LABELS_UNREADABLE;
	if (!m)
		return GO_LABELS_NONE;
	if (!env_read(c, &current, 8, m + r->m_curg))
		return GO_LABELS_UNREADABLE;
	if (!current)
		return GO_LABELS_NONE;
	if (!env_read(c, labels, 8, current + r->g_labels))
		return GO_LABELS_UNREADABLE;
	return *labels ? GO_LABELS_SOME : GO_LABELS_NONE;
}

/* Finds the labels, and how many there are; go_labels_step() then copies one at a time. */
UNWIND_INLINE enum go_labels_found go_labels_begin(struct go_labels *l, struct unwind_cursor *c,
						   const struct go_runtime *r)
{
	__u64 head[3] = { 0, 0, 0 }, labels = 0;
	enum go_labels_found found = go_labels_of_thread(c, r, &labels);
	__u32 log;

	if (found != GO_LABELS_SOME)
		return found;
	l->form = r->form;
	l->slot = 0;
	l->record.bytes = 0;
	l->record.taken = l->record.unreadable = 0;
	if (r->form == GO_LABELS_MAP && !env_read(c, &labels, 8, labels))
		return GO_LABELS_UNREADABLE;
	if (!labels)
		return GO_LABELS_NONE;
	if (!env_read(c, head, sizeof(head), labels))
		return GO_LABELS_UNREADABLE;
	if (r->form == GO_LABELS_MAP) {
		log = head[1] >> 8 & 0xff;
		l->record.there = (__u32)head[0];
		l->at = head[2];
		l->array_next = head[2] + GO_BUCKET_BYTES;
		l->left = 1u << (log < GO_BUCKETS_LOG_MOST ? log : GO_BUCKETS_LOG_MOST);
	} else {
		l->record.there = (__u32)head[1];
		l->at = head[0];
		l->left = (__u32)head[1];
	}
	return l->record.there ? GO_LABELS_SOME : GO_LABELS_NONE;
}

UNWIND_INLINE __u32 go_labels_bytes(__u64 bytes, __u32 most)
{
	__u32 n = bytes > most ? most : (__u32)bytes;

	__asm__ volatile("" : "+r"(n));
	return n & (2 * most - 1); /* nothing but what the verifier wants to see */
}

/* Copies l->label behind those that are there already. */
UNWIND_INLINE void go_labels_copy(struct go_labels *l, struct unwind_cursor *c)
{
	__u32 at = l->record.bytes, key, value;
	struct label_head *head;

	__asm__ volatile("" : "+r"(at));
	at &= LABELS_BYTES_MOST - 8;
	key = go_labels_bytes(l->label.key_bytes, LABEL_KEY_MOST);
	value = go_labels_bytes(l->label.value_bytes, LABEL_VALUE_MOST);
	head = (struct label_head *)(void *)(l->text + at);
	head->key_bytes = (__u16)key;
	head->value_bytes = (__u16)value;
	head->cut = l->label.key_bytes > LABEL_KEY_MOST || l->label.value_bytes > LABEL_VALUE_MOST;
	head->padding = 0;
	if ((key && !env_read(c, l->text + at + sizeof(*head), key, l->label.key)) ||
	    (value && !env_read(c, l->text + at + sizeof(*head) + key, value, l->label.value))) {
		l->record.unreadable++;
		return;
	}
	l->record.bytes = (at + (__u32)sizeof(*head) + key + value + 7) & ~7u;
	l->record.taken++;
}

/* The next slot of the map, its label in l->label if it has one. False: there are no more. */
UNWIND_INLINE bool go_labels_map_slot(struct go_labels *l, struct unwind_cursor *c, bool *filled)
{
	__u64 at = l->at, slot = l->slot & (GO_BUCKET_SLOTS - 1), overflow = 0;
	__u8 top;

	if (!slot && !env_read(c, l->tops, sizeof(l->tops), at))
		return false;
	top = l->tops[slot];
	if (top >= GO_TOPHASH_LEAST) {
		*filled =
			env_read(c, &l->label.key, 16, at + 8 + 16 * slot) &&
			env_read(c, &l->label.value, 16, at + 8 + 16 * GO_BUCKET_SLOTS + 16 * slot);
		if (!*filled)
			l->record.unreadable++;
	}
	l->slot = (__u32)slot + 1;
	if (l->slot < GO_BUCKET_SLOTS && top != GO_TOPHASH_EMPTY_REST)
		return true;
	l->slot = 0;
	if (top != GO_TOPHASH_EMPTY_REST && !env_read(c, &overflow, 8, at + GO_BUCKET_BYTES - 8))
		return false;
	if (overflow) {
		l->at = overflow;
		return true;
	}
	l->at = l->array_next;
	l->array_next += GO_BUCKET_BYTES;
	return --l->left > 0;
}

/* Copies the next label, if there is one in the next place. False: that was the last one. */
UNWIND_INLINE bool go_labels_step(struct go_labels *l, struct unwind_cursor *c)
{
	bool filled = false, more;

	if (l->form == GO_LABELS_MAP) {
		more = go_labels_map_slot(l, c, &filled);
	} else {
		filled = env_read(c, &l->label, sizeof(l->label), l->at);
		if (!filled)
			l->record.unreadable++;
		l->at += sizeof(l->label);
		more = filled && --l->left > 0;
	}
	if (filled)
		go_labels_copy(l, c);
	return more && l->record.taken < LABELS_MOST && l->record.bytes < LABELS_BYTES_MOST;
}
