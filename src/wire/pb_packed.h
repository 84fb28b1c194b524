/*
 * pb_packed.h - packed varints of one and two bytes, eight at a time. Private to src/wire.
 *
 * The same as pb_packed_u32() for lists that hold nothing longer, with a caller that has room to
 * spare: the byte in front of the list is the last of its length (below 0x80), PB_PACKED_SLACK
 * bytes behind the list are readable, and `out` has PB_PACKED_SLACK entries more than the list has
 * bytes. Entries behind the returned number may be written. PB_PACKED_BAD: the list is torn or has
 * a longer varint, or this machine has no such instructions; nothing counts.
 */
#pragma once
#include "wire/pb_reader.h"

enum { PB_PACKED_SLACK = 32 };

/* Whether pb_packed_short() ever succeeds here. */
bool pb_packed_short_able(void);
size_t pb_packed_short(const uint8_t *p, size_t len, uint32_t *out);
