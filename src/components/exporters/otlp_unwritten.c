#include "components/exporters/otlp_unwritten.h"

#include "base/buf.h"
#include "base/clock.h"

#define NOTICE_INTERVAL_NS (60 * SECOND_NS)

void otlp_unwritten_init(struct otlp_unwritten *u, const struct component_host *host)
{
	static const char *const labels[] = { "exporter", "reason", NULL };
	struct metric_family *family;

	*u = (struct otlp_unwritten){ 0 };
	if (!host->metrics)
		return;
	family = metrics_family(host->metrics, METRIC_COUNTER, "flametap_exporter_unwritten_total",
				"What the version that is written has no place for.", labels, 0);
	for (unsigned i = 0; i < OTLP_LOSSES; i++) {
		struct str values[] = { str_cstr(host->id),
					str_cstr(otlp_loss_name((enum otlp_loss)i)) };

		u->losses[i] = metric_get(family, values);
	}
}

void otlp_unwritten_note(struct otlp_unwritten *u, const struct profiles *p,
			 enum wire_version version, bool json)
{
	struct otlp_losses lost;
	uint64_t skipped;
	struct buf text;

	if (!otlp_losses(p, version, json, &lost))
		return;
	for (unsigned i = 0; i < OTLP_LOSSES; i++)
		if (lost.count[i] && u->losses[i])
			metric_add(u->losses[i], (int64_t)lost.count[i]);
	if (!log_gate_open(&u->gate, NOTICE_INTERVAL_NS, &skipped))
		return;
	buf_init(&text, 0);
	otlp_losses_append_text(&text, &lost);
	LOG(LOG_WARN, "The wire version that is written has no place for some of a message",
	    LOG_S("from", wire_version_name(p->source_version)),
	    LOG_S("to", wire_version_name(version)), LOG_STR("not_written", buf_view(&text)),
	    LOG_U("more_requests", skipped));
	buf_release(&text);
}
