#include "agent/runtimes/hotspot/signature.h"

enum { DIMENSIONS_MOST = 255 };

/* Copies a class name, with dots for slashes if wanted, and without the address of a hidden class,
 * which follows '+' inside of the machine and '/' outside. */
static void put_class(struct str name, bool dots, struct buf *out)
{
	while (name.len) {
		char c = *name.ptr;

		if ((c == '/' || c == '+') && str_has_prefix(str_skip(name, 1), STR("0x"))) {
			buf_lit(out, "/0x0");
			name = str_skip(name, 3);
			while (name.len && ((*name.ptr >= '0' && *name.ptr <= '9') ||
					    (*name.ptr >= 'a' && *name.ptr <= 'f')))
				name = str_skip(name, 1);
			continue;
		}
		buf_char(out, dots && c == '/' ? '.' : c);
		name = str_skip(name, 1);
	}
}

static const char *primitive(char c)
{
	switch (c) {
	case 'B':
		return "byte";
	case 'C':
		return "char";
	case 'D':
		return "double";
	case 'F':
		return "float";
	case 'I':
		return "int";
	case 'J':
		return "long";
	case 'S':
		return "short";
	case 'V':
		return "void";
	case 'Z':
		return "boolean";
	default:
		return NULL;
	}
}

/* One type off the front of *rest. */
static bool put_type(struct str *rest, struct buf *out)
{
	uint32_t dimensions = 0;
	ptrdiff_t end;

	while (rest->len && *rest->ptr == '[' && dimensions < DIMENSIONS_MOST) {
		*rest = str_skip(*rest, 1);
		dimensions++;
	}
	if (!rest->len)
		return false;
	if (*rest->ptr == 'L') {
		end = str_find(*rest, ';');
		if (end < 2)
			return false;
		put_class(str_from(rest->ptr + 1, (size_t)end - 1), true, out);
		*rest = str_skip(*rest, (size_t)end + 1);
	} else if (primitive(*rest->ptr)) {
		buf_str(out, str_cstr(primitive(*rest->ptr)));
		*rest = str_skip(*rest, 1);
	} else {
		return false;
	}
	while (dimensions--)
		buf_lit(out, "[]");
	return true;
}

static bool put_arguments(struct str arguments, struct buf *out)
{
	buf_char(out, '(');
	for (bool first = true; arguments.len; first = false) {
		if (!first)
			buf_lit(out, ", ");
		if (!put_type(&arguments, out))
			return false;
	}
	buf_char(out, ')');
	return true;
}

static bool put_all(struct str klass, struct str name, struct str signature, struct buf *out)
{
	ptrdiff_t close = str_find(signature, ')');
	struct str result;

	if (close < 1 || *signature.ptr != '(')
		return false;
	result = str_skip(signature, (size_t)close + 1);
	if (!put_type(&result, out) || result.len)
		return false;
	buf_char(out, ' ');
	put_class(klass, true, out);
	buf_char(out, '.');
	buf_str(out, name);
	return put_arguments(str_from(signature.ptr + 1, (size_t)close - 1), out);
}

bool java_method_name(struct str klass, struct str name, struct str signature, struct buf *out)
{
	size_t begin = out->len;

	if (put_all(klass, name, signature, out))
		return true;
	out->len = begin;
	put_class(klass, true, out);
	buf_char(out, '.');
	buf_str(out, name);
	buf_lit(out, "(...)");
	return false;
}

void java_system_name(struct str klass, struct str name, struct str signature, struct buf *out)
{
	put_class(klass, false, out);
	buf_char(out, '.');
	buf_str(out, name);
	put_class(signature, false, out);
}
