/* extension.h - the extension `web`: the page and its API beside a store. For components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops web_extension;
