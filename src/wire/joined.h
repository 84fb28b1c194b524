/*
 * joined.h - where one protobuf body ends and the next begins, when several were written into one
 * file without lengths between them (cat a.pb b.pb).
 *
 * Protobuf reads such bytes as one message whose tables are appended to each other, so that all
 * indices of the second body point into the first one's tables. What gives a new body away:
 *   - a second dictionary whose string_table begins again with "" (v1.7 and later: request field 2;
 *     v1.6 ProfilesData: field 6). A dictionary may stand behind its resource_profiles (as known
 *     senders write it) or before them; bodies of one version must keep to one order.
 *   - resource_profiles whose Profiles have fields that the versions possible so far have not, or a
 *     dictionary where those have none: a body of another version. Only fields count that are no
 *     other version's under another name.
 *   - gzip, zstd or a JSON object where a field should begin.
 * Up to v1.5 every Profile has its own tables: joined bodies of one version mean what they meant
 * apart, and are read as one.
 */
#pragma once
#include "base/str.h"

/* Bytes of the first body; bytes.len when there is one only. 0 only of no bytes. */
size_t otlp_first_body(struct str bytes);
