/*
 * names.h - what a frame of PHP is called: "function", "Class::method", "{closure}" as PHP has
 * it, "{main}", "include", "eval"; file and line.
 */
#pragma once
#include "agent/runtimes/frame_names.h"

extern const struct frame_names_ops php_names;
