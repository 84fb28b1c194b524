/*
 * names.h - what a frame of V8 is called: a function's name as V8's own profiler has it, the
 * script's name, line and column. Memory: frame_names.h. Threads: any.
 */
#pragma once
#include "agent/runtimes/frame_names.h"

extern const struct frame_names_ops v8_names;
