#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/clickhouse/exporter_internal.h"

enum { PASSWORD_MOST = 4096 };

/* The contrib exporter's; one that is not ours is taken as what the server can. */
static const char *const compressions[] = { "auto", "zstd", "gzip", "lz4",   "deflate",
					    "br",   "none", "true", "false", NULL };

#define FIELD(name_, kind_, member, default_, help_, ...)                                        \
	{                                                                                        \
		.name = (name_), .kind = (kind_), .offset = offsetof(struct clickhouse, member), \
		.default_text = (default_), .help = (help_), ##__VA_ARGS__                       \
	}
#define PART(section, name_, kind_, member, default_, help_)            \
	{                                                               \
		.name = (name_), .kind = (kind_),                       \
		.offset = offsetof(struct clickhouse, section.member) - \
			  offsetof(struct clickhouse, section),         \
		.default_text = (default_), .help = (help_)             \
	}

static const struct config_field engine_fields[] = {
	PART(table_engine, "name", CONFIG_STRING, name, NULL,
	     "MergeTree, ReplicatedMergeTree; default: the second where there is a cluster_name"),
	PART(table_engine, "params", CONFIG_STRING, params, NULL,
	     "default: '/clickhouse/tables/{shard}/DATABASE/TABLE', '{replica}'"),
	{ 0 },
};

static const struct config_field tls_fields[] = {
	PART(tls, "insecure", CONFIG_BOOL, insecure, "false",
	     "read for compatibility: the endpoint says whether there is TLS"),
	PART(tls, "insecure_skip_verify", CONFIG_BOOL, insecure_skip_verify, "false",
	     "TLS with any certificate"),
	PART(tls, "ca_file", CONFIG_STRING, ca_file, NULL,
	     "roots for the server's certificate; default: the system's"),
	PART(tls, "cert_file", CONFIG_STRING, cert_file, NULL,
	     "our certificate, for servers that ask"),
	PART(tls, "key_file", CONFIG_STRING, key_file, NULL, "its key"),
	PART(tls, "server_name_override", CONFIG_STRING, server_name_override, NULL,
	     "the name that the server's certificate must have"),
	{ 0 },
};

const struct config_field clickhouse_fields[] = {
	FIELD("endpoint", CONFIG_STRING, endpoint, "http://127.0.0.1:8123",
	      "HTTP port of the server: http://user@host:8123/database, or https://"),
	FIELD("username", CONFIG_STRING, username, NULL,
	      "default: the endpoint's, else \"default\""),
	FIELD("password", CONFIG_SECRET, password, NULL, "of that user"),
	FIELD("password_file", CONFIG_STRING, password_file, NULL,
	      "a file whose first line is the password"),
	FIELD("database", CONFIG_STRING, database, NULL,
	      "default: the endpoint's path, else \"default\""),
	FIELD("connection_params", CONFIG_MAP, connection_params, NULL,
	      "settings of ClickHouse's for each call"),
	FIELD("tls", CONFIG_SECTION, tls, NULL, "TLS to an https:// endpoint",
	      .fields = tls_fields),
	FIELD("ttl", CONFIG_DURATION, ttl_ns, "0",
	      "how long to keep data, in whole days; 0 = forever"),
	FIELD("cluster_name", CONFIG_STRING, cluster_name, NULL,
	      "make the tables ON CLUSTER, and Distributed ones over them"),
	FIELD("table_engine", CONFIG_SECTION, table_engine, NULL, "of the tables",
	      .fields = engine_fields),
	FIELD("create_schema", CONFIG_BOOL, create_schema, "true",
	      "make the tables; else they must be there (store ddl)"),
	FIELD("async_insert", CONFIG_BOOL, async_insert, "false",
	      "let the server put inserts together; they are still waited for "
	      "(wait_for_async_insert)"),
	FIELD("wait_for_async_insert", CONFIG_BOOL, wait_for_async_insert, "true",
	      "read for compatibility: what is acknowledged is in the tables"),
	FIELD("compress", CONFIG_ENUM, compress, "auto",
	      "of what is inserted; auto: none to this machine, else zstd, which is gzip where the "
	      "server is too old for it",
	      .choices = compressions),
	FIELD("insert_quorum", CONFIG_UINT32, insert_quorum, "0",
	      "replicas that must have an insert (0: the one we talk to)"),
	FIELD("max_rows", CONFIG_UINT32, max_rows, "100000", "of samples, in one go", .min = 1000,
	      .max = 1000000),
	FIELD("max_bytes", CONFIG_SIZE, max_bytes, "32MiB", "of requests, in one go",
	      .min = 1 << 20, .max = 1 << 30),
	FIELD("flush_interval", CONFIG_DURATION, flush_interval_ns, "1s",
	      "least time between two inserts, unless enough waits"),
	FIELD("dedup_window", CONFIG_DURATION, dedup_window_ns, "10m",
	      "how long a request is known again when its sender repeats it"),
	FIELD("tenant", CONFIG_STRING, tenant, NULL, "whose samples these are"),
	SENDING_FIELDS(struct clickhouse, sending, "30s"),
	{ 0 },
};

const char *clickhouse_text(const char *text)
{
	return text && *text ? text : NULL;
}

static bool read_password(struct clickhouse *x, struct err *err)
{
	char bytes[PASSWORD_MOST + 1];
	AUTO(fd_close) int fd = open(x->password_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return err_set_errno(err, "password_file %s", x->password_file);
	n = read(fd, bytes, sizeof(bytes));
	if (n < 0)
		return err_set_errno(err, "password_file %s", x->password_file);
	if (n > PASSWORD_MOST)
		return err_set(err, ERR_LIMIT, "password_file %s has more than %d bytes",
			       x->password_file, PASSWORD_MOST);
	bytes[n] = 0;
	bytes[strcspn(bytes, "\r\n")] = 0;
	x->file_password = strdup(bytes);
	assert(x->file_password);
	explicit_bzero(bytes, sizeof(bytes));
	return true;
}

static bool put_setting(struct buf *b, const struct config_pair *p, struct err *err)
{
	buf_printf(b, "&%s=", p->name);
	for (const char *c = p->name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", *c))
			return err_set(err, ERR_INVALID,
				       "connection_params: \"%s\" is not the name of a setting",
				       p->name);
	for (const char *c = p->value ? p->value : ""; *c; c++)
		if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		    (*c >= 'A' && *c <= 'Z'))
			buf_char(b, *c);
		else
			buf_printf(b, "%%%02X", (unsigned char)*c);
	return true;
}

static bool make_settings(struct clickhouse *x, struct err *err)
{
	struct buf b;
	size_t len;
	bool ok = true;

	buf_init(&b, 0);
	for (uint32_t i = 0; ok && i < x->connection_params.count; i++)
		ok = put_setting(&b, &x->connection_params.items[i], err);
	buf_char(&b, '\0');
	x->settings = buf_take(&b, &len);
	return ok;
}

bool clickhouse_check(void *state, struct err *err)
{
	struct clickhouse *x = state;

	x->schema = (struct ch_schema){ .cluster = x->cluster_name,
					.engine = x->table_engine.name,
					.engine_params = x->table_engine.params,
					.ttl_ns = x->ttl_ns };
	if (!ch_schema_check(&x->schema, err) ||
	    !ch_endpoint_parse(x->endpoint ? x->endpoint : "", &x->at, err))
		return false;
	x->store_name = ch_endpoint_store(&x->at, clickhouse_text(x->database));
	if (clickhouse_text(x->password) && clickhouse_text(x->password_file))
		return err_set(err, ERR_INVALID, "give either password or password_file, not both");
	if ((x->tls.cert_file != NULL) != (x->tls.key_file != NULL))
		return err_set(err, ERR_INVALID, "tls: cert_file and key_file go together");
	return (!clickhouse_text(x->password_file) || read_password(x, err)) &&
	       make_settings(x, err);
}

static bool on_this_machine(const struct clickhouse *x)
{
	struct str host = str_cstr(x->at.base);
	ptrdiff_t scheme = str_search(host, STR("://"));

	host = str_skip(host, (size_t)(scheme < 0 ? 0 : scheme + 3));
	return str_has_prefix(host, STR("127.")) || str_has_prefix(host, STR("[::1]")) ||
	       str_has_prefix(host, STR("localhost:")) || str_has_prefix(host, STR("localhost/"));
}

/* What goes nowhere is packed and unpacked for nothing. */
bool clickhouse_compresses(const struct clickhouse *x)
{
	const char *how = compressions[x->compress];

	if (strcmp(how, "auto") == 0)
		return !on_this_machine(x);
	return strcmp(how, "none") != 0 && strcmp(how, "false") != 0;
}
