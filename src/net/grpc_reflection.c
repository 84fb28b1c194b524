/*
 * grpc_reflection.c - server reflection, v1 and v1alpha (the same messages), from serialized
 * FileDescriptorProtos.
 *
 * Symbols are looked up by walking the descriptors: a few small files, asked by a person's tool.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "net/proto_text.h"
#include "net/server_internal.h"

enum { NESTING_MOST = 32, FILES_MOST = 256 };

/* grpc/reflection/v1/reflection.proto */
enum {
	ASK_HOST = 1,
	ASK_FILE = 3,
	ASK_SYMBOL = 4,
	ASK_EXTENSION = 5,
	ASK_EXTENSION_NUMBERS = 6,
	ASK_SERVICES = 7,
	ANSWER_HOST = 1,
	ANSWER_REQUEST = 2,
	ANSWER_FILES = 4,
	ANSWER_EXTENSIONS = 5,
	ANSWER_SERVICES = 6,
	ANSWER_ERROR = 7,
};
/* google/protobuf/descriptor.proto */
enum {
	FILE_PACKAGE = 2,
	FILE_DEPENDENCY = 3,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6,
	FILE_EXTENSION = 7
};
enum {
	MESSAGE_NAME = 1,
	MESSAGE_FIELD = 2,
	MESSAGE_NESTED = 3,
	MESSAGE_ENUM = 4,
	MESSAGE_EXTENSION = 6,
	MESSAGE_ONEOF = 8
};
enum { ANY_NAME = 1, ENUM_VALUE = 2, SERVICE_METHOD = 2 };
enum { FIELD_EXTENDEE = 2, FIELD_NUMBER = 3 };

struct grpc_reflection {
	struct net_app *app;
	const struct net_proto_file *files;
	size_t count;
	struct grpc_stream_method method;
};

/* Takes "name" or "name." off the front of a dotted symbol. */
static bool take_name(struct str *symbol, struct str name, bool *whole)
{
	if (!name.len || !str_has_prefix(*symbol, name))
		return false;
	*whole = symbol->len == name.len;
	if (*whole)
		return true;
	if (symbol->ptr[name.len] != '.')
		return false;
	*symbol = str_skip(*symbol, name.len + 1);
	return true;
}

static bool child_named(struct str parent, uint32_t field, struct str symbol)
{
	struct proto_field f;

	while (proto_next(&parent, &f))
		if (f.number == field && f.is_bytes &&
		    str_equal(proto_find(f.bytes, ANY_NAME), symbol))
			return true;
	return false;
}

static bool enum_has(struct str type, struct str symbol)
{
	bool whole;

	return take_name(&symbol, proto_find(type, ANY_NAME), &whole) &&
	       (whole || child_named(type, ENUM_VALUE, symbol));
}

static bool service_has(struct str service, struct str symbol)
{
	bool whole;

	return take_name(&symbol, proto_find(service, ANY_NAME), &whole) &&
	       (whole || child_named(service, SERVICE_METHOD, symbol));
}

static bool message_has(struct str message, struct str symbol, unsigned depth)
{
	struct str all = message;
	struct proto_field f;
	bool whole;

	if (depth > NESTING_MOST || !take_name(&symbol, proto_find(message, MESSAGE_NAME), &whole))
		return false;
	if (whole || child_named(all, MESSAGE_FIELD, symbol) ||
	    child_named(all, MESSAGE_EXTENSION, symbol) || child_named(all, MESSAGE_ONEOF, symbol))
		return true;
	while (proto_next(&message, &f)) {
		if (f.number == MESSAGE_NESTED && f.is_bytes &&
		    message_has(f.bytes, symbol, depth + 1))
			return true;
		if (f.number == MESSAGE_ENUM && f.is_bytes && enum_has(f.bytes, symbol))
			return true;
	}
	return false;
}

static bool file_has(struct str file, struct str symbol)
{
	struct str package = proto_find(file, FILE_PACKAGE);
	struct proto_field f;
	bool whole;

	if (package.len && (!take_name(&symbol, package, &whole) || whole))
		return false;
	while (proto_next(&file, &f)) {
		if (!f.is_bytes)
			continue;
		if ((f.number == FILE_MESSAGE && message_has(f.bytes, symbol, 0)) ||
		    (f.number == FILE_ENUM && enum_has(f.bytes, symbol)) ||
		    (f.number == FILE_SERVICE && service_has(f.bytes, symbol)) ||
		    (f.number == FILE_EXTENSION &&
		     str_equal(proto_find(f.bytes, ANY_NAME), symbol)))
			return true;
	}
	return false;
}

static size_t find_file(const struct grpc_reflection *x, struct str name)
{
	for (size_t i = 0; i < x->count; i++)
		if (str_is(name, x->files[i].name))
			return i;
	return SIZE_MAX;
}

static size_t find_symbol(const struct grpc_reflection *x, struct str symbol)
{
	for (size_t i = 0; i < x->count; i++)
		if (file_has(x->files[i].descriptor, symbol))
			return i;
	return SIZE_MAX;
}

/* The file and all that it imports, each once, as grpc-go does; clients need them all anyway. */
static void put_file(const struct grpc_reflection *x, size_t i, bool *seen, unsigned depth,
		     struct buf *out)
{
	struct str file = x->files[i].descriptor;
	struct proto_field f;

	if (seen[i] || depth > NESTING_MOST)
		return;
	seen[i] = true;
	proto_put_bytes(out, 1, file);
	while (proto_next(&file, &f)) {
		size_t other = f.number == FILE_DEPENDENCY && f.is_bytes ? find_file(x, f.bytes)
									 : SIZE_MAX;

		if (other != SIZE_MAX)
			put_file(x, other, seen, depth + 1, out);
	}
}

static void answer_error(struct buf *out, int status, const char *what, struct str name)
{
	struct buf error, text;

	buf_init(&error, 0);
	buf_init(&text, 0);
	buf_printf(&text, "%s: %.*s", what, STR_ARG(str_head(name, 200)));
	proto_put_number(&error, 1, (uint64_t)status);
	proto_put_bytes(&error, 2, buf_view(&text));
	proto_put_bytes(out, ANSWER_ERROR, buf_view(&error));
	buf_release(&error);
	buf_release(&text);
}

static void answer_file(const struct grpc_reflection *x, size_t i, const char *what,
			struct str name, struct buf *out)
{
	bool seen[FILES_MOST] = { false };
	struct buf files;

	if (i == SIZE_MAX) {
		answer_error(out, GRPC_NOT_FOUND, what, name);
		return;
	}
	buf_init(&files, 0);
	put_file(x, i, seen, 0, &files);
	proto_put_bytes(out, ANSWER_FILES, buf_view(&files));
	buf_release(&files);
}

/* Each service once, in the order of registration, of those that we can describe: a tool that
 * lists asks for each of them next, and fails over the first that is unknown. */
static void answer_services(const struct grpc_reflection *x, struct buf *out)
{
	const struct net_app *app = x->app;
	struct buf list, one;

	buf_init(&list, 0);
	buf_init(&one, 0);
	for (uint32_t i = 0; i < app->method_count; i++) {
		struct str path = str_skip(str_cstr(app->methods[i].path), 1);
		struct str name = str_head(path, (size_t)str_find(path, '/'));
		bool known = find_symbol(x, name) == SIZE_MAX;

		for (uint32_t k = 0; k < i && !known; k++) {
			struct str before = str_skip(str_cstr(app->methods[k].path), 1);

			known = before.len > name.len && before.ptr[name.len] == '/' &&
				str_has_prefix(before, name);
		}
		if (known)
			continue;
		buf_reset(&one);
		proto_put_bytes(&one, 1, name);
		proto_put_bytes(&list, 1, buf_view(&one));
	}
	proto_put_bytes(out, ANSWER_SERVICES, buf_view(&list));
	buf_release(&list);
	buf_release(&one);
}

/* "extension_number of containing_type": calls found(number, file) for each extension of the type.
 */
static size_t find_extension(const struct grpc_reflection *x, struct str type, uint64_t number,
			     struct buf *numbers)
{
	for (size_t i = 0; i < x->count; i++) {
		struct str file = x->files[i].descriptor;
		struct proto_field f, part;

		while (proto_next(&file, &f)) {
			struct str extension = f.bytes, extendee;
			uint64_t its_number = 0;

			if (f.number != FILE_EXTENSION || !f.is_bytes)
				continue;
			extendee = proto_find(extension, FIELD_EXTENDEE);
			while (proto_next(&extension, &part))
				if (part.number == FIELD_NUMBER)
					its_number = part.value;
			if (!extendee.len || !str_equal(str_skip(extendee, 1), type))
				continue;
			if (numbers)
				proto_put_number(numbers, 2, its_number);
			else if (its_number == number)
				return i;
		}
	}
	return SIZE_MAX;
}

static void answer_extension(const struct grpc_reflection *x, struct str ask, struct buf *out)
{
	struct str type = proto_find(ask, 1);
	struct proto_field f;
	uint64_t number = 0;

	while (proto_next(&ask, &f))
		if (f.number == 2)
			number = f.value;
	answer_file(x, find_extension(x, type, number, NULL), "extension not found", type, out);
}

static void answer_extension_numbers(const struct grpc_reflection *x, struct str type,
				     struct buf *out)
{
	struct buf numbers;

	if (find_symbol(x, type) == SIZE_MAX) {
		answer_error(out, GRPC_NOT_FOUND, "type not found", type);
		return;
	}
	buf_init(&numbers, 0);
	proto_put_bytes(&numbers, 1, type);
	find_extension(x, type, 0, &numbers);
	proto_put_bytes(out, ANSWER_EXTENSIONS, buf_view(&numbers));
	buf_release(&numbers);
}

static bool answer_ask(const struct grpc_reflection *x, const struct proto_field *f,
		       struct buf *out)
{
	switch (f->number) {
	case ASK_FILE:
		answer_file(x, find_file(x, f->bytes), "file not found", f->bytes, out);
		return true;
	case ASK_SYMBOL:
		answer_file(x, find_symbol(x, f->bytes), "symbol not found", f->bytes, out);
		return true;
	case ASK_EXTENSION:
		answer_extension(x, f->bytes, out);
		return true;
	case ASK_EXTENSION_NUMBERS:
		answer_extension_numbers(x, f->bytes, out);
		return true;
	case ASK_SERVICES:
		answer_services(x, out);
		return true;
	default:
		return false;
	}
}

static void reflect(struct net_request *r, struct str message, void *ctx)
{
	const struct grpc_reflection *x = ctx;
	struct str rest = message;
	bool answered = false;
	struct proto_field f;
	struct buf out;

	buf_init(&out, 0);
	proto_put_bytes(&out, ANSWER_HOST, proto_find(message, ASK_HOST));
	proto_put_bytes(&out, ANSWER_REQUEST, message);
	while (!answered && proto_next(&rest, &f))
		answered = f.is_bytes && answer_ask(x, &f, &out);
	if (answered)
		grpc_stream_send(r, buf_view(&out));
	else
		grpc_stream_finish(r, GRPC_INVALID_ARGUMENT,
				   STR("ServerReflectionRequest asks for nothing we know"));
	buf_release(&out);
}

static void reflect_ended(struct net_request *r, void *ctx)
{
	(void)ctx;
	grpc_stream_finish(r, GRPC_OK, STR(""));
}

void net_app_grpc_reflection(struct net_app *app, const struct net_proto_file *files, size_t count)
{
	struct grpc_reflection *x = calloc(1, sizeof(*x));

	assert(x && !app->reflection && count <= FILES_MOST);
	x->app = app;
	x->files = files;
	x->count = count;
	x->method =
		(struct grpc_stream_method){ .message = reflect, .ended = reflect_ended, .ctx = x };
	app->reflection = x;
	app_add_method(app, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		       (struct net_handler){ 0 }, &x->method);
	app_add_method(app, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		       (struct net_handler){ 0 }, &x->method);
}

void reflection_free(struct grpc_reflection *r)
{
	free(r);
}
