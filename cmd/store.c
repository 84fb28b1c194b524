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
#include "store/salvage/check.h"
#include "store/clickhouse/schema.h"
#include "store/db.h"
#include "store/schema/references.h"
#include "store/salvage/salvage.h"
#include "store/schema/schema.h"

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

/* On a terminal: one line, anew once a second and at the end. */
struct progress {
	uint64_t next_ns;
};

static void show_progress(void *arg, uint32_t pages, uint32_t of)
{
	struct progress *p = arg;
	uint64_t now;

	if (!isatty(STDERR_FILENO))
		return;
	now = clock_monotonic_ns();
	if (now < p->next_ns && pages < of)
		return;
	fprintf(stderr, "\rSalvaging: %u of %u pages %s", pages, of, pages < of ? "" : "\n");
	p->next_ns = now + SECOND_NS;
}

static void print_empty(const char *path, const struct store_salvaged *s)
{
	bool first = true;

	for (int kind = 1; kind < KIND_COUNT; kind++) {
		if (!s->empty[kind])
			continue;
		if (first)
			printf("%s: what could not be read is empty:", path);
		printf("%s %llu of %s", first ? "" : ",", (unsigned long long)s->empty[kind],
		       store_table((enum store_kind)kind));
		first = false;
	}
	if (!first)
		printf("\n");
}

static void print_salvaged(const char *path, const struct store_salvaged *s)
{
	struct err why;

	if (!db_is_whole(path, &why))
		printf("%s\n", why.msg);
	if (s->lost_pages.len)
		printf("%s: not readable: %.*s\n", path, (int)s->lost_pages.len, s->lost_pages.ptr);
	printf("%s: %llu requests with %llu samples saved to %s; not readable: %llu requests, "
	       "and %llu samples of those saved\n",
	       path, (unsigned long long)s->requests, (unsigned long long)s->samples, out,
	       (unsigned long long)s->lost_requests, (unsigned long long)s->lost_samples);
	if (s->lost_requests)
		printf("%s: samples of requests that could not be read are saved without them: "
		       "they answer questions, and are not exported\n",
		       path);
	print_empty(path, s);
	if (s->lost_origins)
		printf("%s: %llu requests saved as if they came now, and not known again when "
		       "repeated: when they came could not be read\n",
		       path, (unsigned long long)s->lost_origins);
	if (s->names || s->lost_names)
		printf("%s: names found later of %llu addresses saved; not readable: of %llu\n",
		       path, (unsigned long long)s->names, (unsigned long long)s->lost_names);
}

static bool salvage(const char *path, struct err *err)
{
	struct store_salvaged s = { 0 };
	struct progress progress = { 0 };
	bool ok;

	if (!out)
		return err_set(err, ERR_INVALID, "salvage needs -o FILE, the new store");
	if (access(out, F_OK) == 0)
		return err_set(err, ERR_INVALID, "%s is there already", out);
	ok = store_salvage(path, out, show_progress, &progress, &s, err);
	if (ok)
		print_salvaged(path, &s);
	buf_release(&s.lost_pages);
	return ok;
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
