"""The official collector as a running peer, built by tests/peers/build-collector.sh."""

import yaml

import program
from ports import free_port


class Collector(program.Server):
    """Listens on both OTLP ports and exports to what the test asks for."""

    def __init__(self, peer, directory, exporters, max_recv_mib=64, service=None, processors=None):
        self.grpc_address, self.http_address = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        config = {
            "receivers": {"otlp": {"protocols": {
                "grpc": {"endpoint": self.grpc_address, "max_recv_msg_size_mib": max_recv_mib},
                "http": {"endpoint": self.http_address}}}},
            "processors": processors or {}, "exporters": exporters,
            "service": {"telemetry": {"metrics": {"level": "none"}} | (service or {}),
                        "pipelines": {"profiles": {"receivers": ["otlp"], "processors": list(processors or {}), "exporters": list(exporters)}}},
        }
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "otelcol.yaml"
        file.write_text(yaml.safe_dump(config))
        super().__init__("--config", file, "--feature-gates=service.profilesSupport", name=peer)

    def __exit__(self, kind, value, trace):
        # Go programs end with 0 on SIGTERM; its log is no business of the sanitizer check
        if kind is not None:
            print(f"--- log of the collector\n{self.log[-4000:]}")
        if self.process.poll() is None:
            self.stop()
        self.process.stderr.close()
        self._dir.cleanup()


def file_exporter(path):
    """Every request as one OTLP/JSON line."""
    return {"file": {"path": str(path), "flush_interval": "50ms"}}


def exported_lines(path):
    return [x for x in path.read_text().splitlines() if x] if path.exists() else []


