/*
 * store.c - flametap store: check a store wholly, salvage a damaged one, print the tables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "command.h"
#include "flags.h"
#include "store/check.h"
#include "store/clickhouse/schema.h"
#include "store/db.h"
#include "store/store.h"
#include "store/recover.h"
#include "store/salvage.h"
#include "store/schema.h"
#include "store/writer.h"

static const char *out;
static const char *clickhouse, *cluster, *engine, *database, *ttl;

static const struct flag flags[] = {
	FLAG("Output", "o", FLAG_STRING, &out, "FILE", NULL,
	     "salvage: the new store; it must not be there yet"),
	FLAG("DDL of ClickHouse's tables", "clickhouse", FLAG_STRING, &clickhouse, "VERSION", NULL,
	     "for this version of the server: 18.16, 26.9"),
	FLAG("DDL of ClickHouse's tables", "cluster", FLAG_STRING, &cluster, "NAME", NULL,
	     "ON CLUSTER, and Distributed tables over them"),
	FLAG("DDL of ClickHouse's tables", "engine", FLAG_STRING, &engine, "NAME", NULL,
	     "MergeTree or ReplicatedMergeTree"),
	FLAG("DDL of ClickHouse's tables", "database", FLAG_STRING, &database, "NAME", "default",
	     "where the tables of a cluster's servers are"),
	FLAG("DDL of ClickHouse's tables", "ttl", FLAG_DURATION, &ttl, "TIME", "0",
	     "how long to keep what arrived, in days"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap store check flametap.db",
	"flametap store salvage flametap.db.damaged-1763900000 -o saved.db",
	"flametap store ddl",
	"flametap store ddl -clickhouse 26.9 -ttl 720h",
	NULL,
};

static const struct command command = {
	.name = "store",
	.words = "check FILE | salvage FILE | ddl",
	.summary = "Check a store wholly, save what a damaged one still has, print its tables.",
	.examples = examples,
	.flags = flags,
	.words_max = 2,
};

static void print_finding(void *arg, const char *finding)
{
	++*(unsigned *)arg;
	puts(finding);
}

static bool check(const char *path, struct err *err)
{
	unsigned findings = 0;

	if (!store_check(path, print_finding, &findings, err))
		return false;
	if (findings)
		return err_set(err, ERR_INVALID, "%s: %u finding%s", path, findings,
			       findings == 1 ? "" : "s");
	printf("%s: whole\n", path);
	return true;
}

enum { REASONS_MOST = 5 };

struct salvage {
	struct source *from;
	struct store_salvage *beside; /* NULL: it is not a file */
	struct store_writer *to;
	uint64_t requests, lost_requests, samples;
	uint64_t lost_origins, lost_tenants; /* of requests that are saved */
	struct store_lost lost;
	struct store_salvaged_names names;
	struct store_recovered recovered;

	bool shown; /* progress, on a terminal: a line is begun */
	uint64_t of, next_show_ns;
};

static void print_progress(struct salvage *s)
{
	uint64_t done = s->requests + s->lost_requests;
	char of[32] = "";

	if (s->of)
		snprintf(of, sizeof(of), " of %llu", (unsigned long long)s->of);
	fprintf(stderr, "\rSalvaging: %llu%s requests, %llu samples ", (unsigned long long)done, of,
		(unsigned long long)s->samples);
	s->shown = true;
}

/* One line, once a second. */
static void show_progress(struct salvage *s)
{
	uint64_t now;

	if (!isatty(STDERR_FILENO))
		return;
	now = clock_monotonic_ns();
	if (now < s->next_show_ns)
		return;
	if (!s->next_show_ns && s->beside)
		s->of = store_salvage_requests(s->beside);
	print_progress(s);
	s->next_show_ns = now + SECOND_NS;
}

/* Before anything else is said there. */
static void end_progress(struct salvage *s)
{
	if (!s->shown)
		return;
	print_progress(s);
	fputs("\n", stderr);
	s->shown = false;
}

/* With its own time and hash: retention goes on from when it came, and its sender's repetition is
 * known. */
static bool keep(struct salvage *s, const struct profiles *p, uint64_t seq, struct err *err)
{
	struct store_request r = {
		.profiles = p,
		.hash = { seq, ~seq },
		.arrived_unix_ns = clock_realtime_ns(),
		.always = true,
	};
	bool duplicate;

	if (!s->beside || !store_salvage_origin(s->beside, seq, &r))
		s->lost_origins++;
	if (s->beside && !store_salvage_tenant(s->beside, seq, &r))
		s->lost_tenants++;
	if (!store_writer_begin(s->to, err) || !store_writer_put(s->to, &r, &duplicate, err) ||
	    !store_writer_commit(s->to, err))
		return false;
	s->requests++;
	s->samples += p->sample_count;
	return true;
}

static void tell_lost(struct salvage *s, const struct err *why)
{
	if (s->lost_requests++ >= REASONS_MOST)
		return;
	end_progress(s);
	fprintf(stderr, "not readable: %s\n", why->msg);
}

/* Over a place that cannot be read in larger and larger steps. */
static bool salvage_all(struct salvage *s, struct err *err)
{
	uint64_t after = 0, step = 1;

	while (after < (uint64_t)1 << 62) {
		struct profiles *p = NULL;
		uint64_t seq = 0;
		bool ok;

		if (!s->from->ops->next_request(s->from, after, &seq, &p, err)) {
			if (seq)
				tell_lost(s, err);
			after = seq ? seq : after + step;
			step = seq ? 1 : step * 2;
			continue;
		}
		if (!p)
			return true;
		ok = keep(s, p, seq, err);
		profiles_free(p);
		if (!ok)
			return false;
		show_progress(s);
		after = seq;
		step = 1;
	}
	return true;
}

static void print_recovered(const char *path, const struct store_recovered *r)
{
	if (r->lost.len)
		printf("%s: read page by page; not readable: %.*s\n", path, (int)r->lost.len,
		       r->lost.ptr);
	if (r->requests || r->profiles)
		printf("%s: made up for samples that had lost theirs: %llu requests, %llu "
		       "profiles\n",
		       path, (unsigned long long)r->requests, (unsigned long long)r->profiles);
}

static void print_saved(const char *path, const struct salvage *s)
{
	const struct store_lost *lost = &s->lost;
	const struct store_salvaged_names *names = &s->names;
	struct err why;

	if (!db_is_whole(path, &why))
		printf("%s\n", why.msg);
	print_recovered(path, &s->recovered);
	printf("%s: %llu requests with %llu samples saved to %s; not readable: %llu requests, "
	       "and %llu samples of those saved\n",
	       path, (unsigned long long)s->requests, (unsigned long long)s->samples, out,
	       (unsigned long long)s->lost_requests, (unsigned long long)lost->samples);
	if (lost->stacks || lost->attributes || lost->links)
		printf("%s: samples saved without what could not be read: %llu without their "
		       "stack, %llu without their attributes, %llu without their link\n",
		       path, (unsigned long long)lost->stacks, (unsigned long long)lost->attributes,
		       (unsigned long long)lost->links);
	if (lost->profile_attributes)
		printf("%s: %llu profiles saved without their attributes: these could not be "
		       "read\n",
		       path, (unsigned long long)lost->profile_attributes);
	if (lost->types)
		printf("%s: %llu profiles saved as of the type \"type not readable (series N)\": "
		       "what their values count could not be read\n",
		       path, (unsigned long long)lost->types);
	if (lost->functions || lost->mappings || lost->build_ids || lost->attributes_of_code)
		printf("%s: code of stacks saved without what could not be read: %llu times "
		       "without a function, %llu times without its file, %llu times without its "
		       "build id, %llu times without its attributes\n",
		       path, (unsigned long long)lost->functions,
		       (unsigned long long)lost->mappings, (unsigned long long)lost->build_ids,
		       (unsigned long long)lost->attributes_of_code);
	if (lost->notes)
		printf("%s: %llu requests saved without their notes (fields of other wire "
		       "versions), if they had any: these could not be read\n",
		       path, (unsigned long long)lost->notes);
	if (s->lost_origins)
		printf("%s: %llu requests saved as if they came now, and not known again when "
		       "repeated: when they came could not be read\n",
		       path, (unsigned long long)s->lost_origins);
	if (s->lost_tenants)
		printf("%s: %llu requests saved without their tenant: it could not be read\n", path,
		       (unsigned long long)s->lost_tenants);
	if (names->addresses || names->lost || names->cut)
		printf("%s: names found later of %llu addresses saved; not readable: of %llu%s\n",
		       path, (unsigned long long)names->addresses, (unsigned long long)names->lost,
		       names->cut ? ", and a part of their table" : "");
}

static bool open_both(struct salvage *s, const char *path, struct store **store, struct err *err)
{
	struct store_open_options options = { .location = path, .even_if_cut = true };
	struct store_writer_options new = { .path = out, .durability = STORE_DURABLE_PROCESS };

	return store_open(&options, store, err) && store_begin(*store, &s->from, err) &&
	       (strstr(path, "://") || store_salvage_open(path, &s->beside, err)) &&
	       store_writer_open(&new, &s->to, NULL, err);
}

static bool salvage_from(const char *from, const char *path, struct salvage *s, struct err *err)
{
	struct store *store = NULL;
	bool ok = open_both(s, from, &store, err);

	if (ok) {
		s->from->ops->tolerate(s->from, &s->lost);
		ok = salvage_all(s, err);
		end_progress(s);
	}
	ok = ok && (!s->beside || store_salvage_names(s->beside, out, &s->names, err));
	if (ok)
		print_saved(path, s);
	store_writer_close(s->to);
	store_salvage_close(s->beside);
	source_free(s->from);
	store_close(store);
	return ok;
}

static void unlink_recovered(const char *path)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	char name[4096];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if ((size_t)snprintf(name, sizeof(name), "%s%s", path, ends[i]) < sizeof(name))
			unlink(name);
}

/* Through a file beside the new store that has the rows of all pages. */
static bool salvage_pages(const char *path, struct err *err)
{
	struct salvage s = { 0 };
	char between[4096];
	bool ok;

	if ((size_t)snprintf(between, sizeof(between), "%s.recovered", out) >= sizeof(between))
		return err_set(err, ERR_INVALID, "the name %s is too long", out);
	unlink_recovered(between);
	ok = store_recover(path, between, &s.recovered, err) &&
	     salvage_from(between, path, &s, err);
	unlink_recovered(between);
	buf_release(&s.recovered.lost);
	return ok;
}

static bool salvage(const char *path, struct err *err)
{
	struct salvage s = { 0 };
	FILE *there;

	if (!out)
		return err_set(err, ERR_INVALID, "salvage needs -o FILE, the new store");
	there = fopen(out, "rb");
	if (there) {
		fclose(there);
		return err_set(err, ERR_INVALID, "%s is there already", out);
	}
	if (!strstr(path, "://") && access(path, R_OK) == 0 && store_needs_recovery(path))
		return salvage_pages(path, err);
	return salvage_from(path, path, &s, err);
}

static bool print_clickhouse_ddl(struct err *err)
{
	struct ch_schema schema = { .cluster = cluster,
				    .engine = engine,
				    .database = database ? database : "default" };
	struct ch_version version;
	struct buf out_text;

	if (database && !cluster)
		return err_set(err, ERR_INVALID,
			       "-database goes with -cluster: without one the tables are made in "
			       "the database that the client is in");
	if (!ch_version_parse(str_cstr(clickhouse), &version, err) ||
	    !ch_schema_check(&schema, err) ||
	    (ttl && !duration_parse(str_cstr(ttl), &schema.ttl_ns, err)))
		return false;
	schema.features = version.features;
	buf_init(&out_text, 0);
	ch_schema_ddl(&schema, &out_text);
	fwrite(out_text.ptr, 1, out_text.len, stdout);
	buf_release(&out_text);
	return true;
}

static bool print_ddl(struct err *err)
{
	if (clickhouse)
		return print_clickhouse_ddl(err);
	if (cluster || engine || database || ttl)
		return err_set(err, ERR_INVALID,
			       "-cluster, -engine, -database and -ttl go with -clickhouse VERSION");
	printf("%s%s", schema_tables(), schema_views());
	return true;
}

int store_run(int argc, char **argv)
{
	struct words words;
	int status;
	const char *verb;
	struct err err;
	bool ok;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	verb = words.count ? words.items[0] : "";
	if (strcmp(verb, "ddl") == 0 && words.count == 1) {
		free(words.items);
		return print_ddl(&err) ? EXIT_OK : command_usage_error("store", &err);
	}
	if (words.count != 2 || (strcmp(verb, "check") != 0 && strcmp(verb, "salvage") != 0)) {
		err_set(&err, ERR_INVALID, "what to do: check FILE, salvage FILE -o NEW, or ddl");
		free(words.items);
		return command_usage_error("store", &err);
	}
	ok = strcmp(verb, "check") == 0 ? check(words.items[1], &err)
					: salvage(words.items[1], &err);
	if (!ok)
		fprintf(stderr, "flametap store: %s\n", err.msg);
	free(words.items);
	return ok ? EXIT_OK : EXIT_FAILED;
}
