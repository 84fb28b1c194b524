/*
 * signature.h - names of Java methods for people, from what class files have.
 *
 *   java/util/Map$Entry, get, (ILjava/lang/String;[[J)V
 *     -> void java.util.Map$Entry.get(int, java.lang.String, long[][])
 *
 * Hidden classes (lambdas, method handles) are named after the address of a mirror, as in
 * Main$$Lambda+0x00007f3a1c000a00 or Main$$Lambda$14/0x0000000800c03000: that would make a new name
 * of each run, so the address becomes 0x0. Source: JVMS 4.3. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include "base/buf.h"
#include "base/str.h"

/* Appends. False: the signature is no method descriptor; then only class and name were appended,
 * with "(...)" behind. */
bool java_method_name(struct str klass, struct str name, struct str signature, struct buf *out);
/* "java/lang/Object.<init>()V": as the virtual machine has it, hidden classes masked too. */
void java_system_name(struct str klass, struct str name, struct str signature, struct buf *out);
