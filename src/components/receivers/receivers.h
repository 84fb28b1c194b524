/* receivers.h - the receivers of this folder, for components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops otlp_receiver;
