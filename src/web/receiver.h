/* receiver.h - the receiver `pyroscope`: what is sent to a page's address. For components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops pyroscope_receiver;
