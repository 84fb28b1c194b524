/*
 * names.h - what a frame of Ruby is called: "Module::Class#method", "Class.method", "block in
 * Class#method", "<main>"; file and line. C functions are named the same way, without a file.
 */
#pragma once
#include "agent/runtimes/frame_names.h"

extern const struct frame_names_ops ruby_names;
