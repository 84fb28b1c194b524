/* extension.h - the extension `web`: the page and its API beside a store. For components/all.c. */
#pragma once
#include "pipeline/component.h"

struct web_door;

extern const struct component_ops web_extension;
/* Of a started extension's state: where a receiver takes what is sent to the page (intake.h). */
struct web_door *web_extension_door(void *state);
