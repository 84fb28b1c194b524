/* all.c - every component of the program. No constructors, no linker sections: what is not here is
 * not in. */
#include "agent/profiling.h"
#include "components/exporters/exporters.h"
#include "components/extensions/extensions.h"
#include "components/processors/processors.h"
#include "components/receivers/receivers.h"
#include "store/exporters.h"
#include "web/extension.h"
#include "web/receiver.h"

/* clang-format off */
const struct component_ops *const components_all[] = {
	/* receivers */
	&otlp_receiver,
	&profiling_receiver,
	&pyroscope_receiver,

	/* processors */
	&memory_limiter_processor,
	&batch_processor,
	&queuebatch_processor,
	&filter_processor,
	&transform_processor,
	&resource_processor,
	&attributes_processor,
	&resourcedetection_processor,
	&probabilistic_sampler_processor,

	/* exporters */
	&stdout_exporter,
	&customprofilesexporter_exporter,
	&filesystem_exporter,
	&prometheus_exporter,
	&nop_exporter,
	&otlp_grpc_exporter,
	&otlp_http_exporter,
	&sqlite_exporter,
	&clickhouse_exporter,

	/* extensions */
	&file_storage_extension,
	&web_extension,
	NULL,
};
/* clang-format on */
