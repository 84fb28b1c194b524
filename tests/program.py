"""Starts and watches the program under test. Everything listens on 127.0.0.1, port 0; nothing outlives its test."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

from fixtures import ROOT

LONG = os.environ.get("FLAMETAP_LONG", "") not in ("", "0")
HANG = 60.0  # seconds; what a test waits for comes much sooner, but for a hang or a machine that does other work


def path():
    return pathlib.Path(os.environ.get("FLAMETAP") or ROOT / "build" / "release" / "flametap").resolve()


def existing_path():
    found = path()
    assert found.exists(), f"no program at {found}: build it (./run --build-only) or set FLAMETAP"
    return found


def is_sanitized():
    """A build with ASan or TSan: slower and larger, so bounds of memory and time do not hold."""
    return any(mark in path().read_bytes() for mark in (b"__asan_init", b"__tsan_init"))


def environment(**more):
    """A known environment: UTC, no colours asked for, no proxy, nothing of the caller's OTEL_*."""
    keep = {k: v for k, v in os.environ.items()
            if not k.upper().endswith("_PROXY") and not k.startswith("OTEL_") and k not in ("NO_COLOR", "TZ")}
    return keep | {"TZ": "UTC", "LC_ALL": "C.UTF-8"} | more


def run(*words, stdin=b"", timeout=2 * HANG, env=None, check=None, name=None, cwd=None):
    """Runs a command to its end. check: the exit status it must have."""
    done = subprocess.run([str(name or existing_path()), *map(str, words)], input=stdin, capture_output=True, timeout=timeout,
                          env=env or environment(), cwd=cwd, check=False)
    if check is not None:
        assert done.returncode == check, f"exit {done.returncode}, not {check}: {words}\n{done.stderr.decode(errors='replace')[-4000:]}"
    return done


def wait_for(condition, timeout=HANG, what="condition", every=0.01):
    """Polls until condition() is true and returns its value; slow machines only make it slower."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {timeout} s in vain for {what}"
        time.sleep(every)


class Server:
    """A running `flametap backend` or `collector`. stdout goes to a file, stderr is read line by line.

    Used as a context manager it is stopped with SIGTERM at the end and must then exit with status 0, unless it was killed.
    """

    def __init__(self, *words, env=None, name=None, wrapper=(), stdout=None, ready=True, timeout=HANG, own_metrics=False):
        if "--config" in words and not own_metrics:  # by default they are on one fixed port, 8888
            words = (*words, "--set", "service.telemetry.metrics.level=none")
        self._dir = tempfile.TemporaryDirectory(prefix="flametap-test-")
        if words[:1] == ("backend",) and not any("spool-dir" in str(w) for w in words):
            # The default is the machine's own: it may hold what an earlier test left there unsent.
            words = (*words, "-spool-dir", f"{self._dir.name}/spool")
        self.stdout_path = pathlib.Path(stdout or pathlib.Path(self._dir.name) / "stdout")
        self.lines = []
        self._seen = threading.Condition()
        self.words = [str(w) for w in words]
        with open(self.stdout_path, "wb") as out:
            self.process = subprocess.Popen([*wrapper, str(name or existing_path()), *self.words], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.PIPE, env=env or environment())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.killed = False
        if ready:
            self.wait_line(r"Everything is ready|ready", timeout)

    def _read(self):
        for raw in self.process.stderr:
            with self._seen:
                self.lines.append(raw.decode(errors="replace").rstrip("\n"))
                self._seen.notify_all()
        with self._seen:
            self._seen.notify_all()

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        return "\n".join(self.lines)

    def find_line(self, pattern, after=0):
        for line in self.lines[after:]:
            if re.search(pattern, line):
                return line
        return None

    def wait_line(self, pattern, timeout=HANG, after=0):
        end = time.monotonic() + timeout
        with self._seen:
            while True:
                line = self.find_line(pattern, after)
                if line is not None:
                    return line
                left = end - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    break
                self._seen.wait(min(left, 0.2))
        raise AssertionError(f"no line {pattern!r} (exit {self.process.poll()}) in:\n{self.log[-6000:]}")

    def _endpoint(self, pattern):
        line = self.wait_line(pattern + r".*endpoint=")
        return re.search(r"endpoint=\"?([^\s\"]+)", line).group(1)

    @property
    def grpc(self):
        return self._endpoint(r"Starting (gRPC|GRPC) server")

    @property
    def http(self):
        return self._endpoint(r"Starting HTTP server")

    @property
    def metrics_address(self):
        return self._endpoint(r"(?i)metrics")

    @property
    def stdout(self):
        return self.stdout_path.read_bytes()

    def wait_stdout(self, size, timeout=HANG):
        wait_for(lambda: self.stdout_path.stat().st_size >= size, timeout, f"{size} bytes of stdout")
        return self.stdout

    def alive(self):
        return self.process.poll() is None

    def status(self, key):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise KeyError(key)

    @property
    def peak_rss_kib(self):
        return self.status("VmHWM")

    @property
    def rss_kib(self):
        return self.status("VmRSS")

    def metrics(self):
        """Name with labels -> value, of the program's own metrics (needs -metrics-address)."""
        import clients
        answer = clients.http_request(self.metrics_address, "GET", "/metrics")
        assert answer.status == 200, answer
        return parse_metrics(answer.body.decode())

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait(HANG)
        self._reader.join(HANG)

    def stop(self, timeout=HANG):
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(HANG)
            raise AssertionError(f"did not stop within {timeout} s of SIGTERM:\n{self.log[-4000:]}") from None
        self._reader.join(HANG)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.killed:
            self.process.stderr.close()
            self._dir.cleanup()
            return
        if kind is not None:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(HANG)
            self._reader.join(HANG)
            print(f"--- log of {self.words}\n{self.log[-8000:]}")
            return
        status = self.stop()
        log = self.log
        self.process.stderr.close()
        self._dir.cleanup()
        assert status == 0, f"exit status {status}:\n{log[-6000:]}"
        assert not re.search(r"AddressSanitizer|runtime error:|ThreadSanitizer|LeakSanitizer", log), log[-8000:]


def backend(*words, **options):
    """`flametap backend` on ports of the system's choice."""
    given = " ".join(map(str, words))
    ports = [w for name in ("grpc-address", "http-address") if f"-{name}" not in given
             for w in (f"-{name}", "127.0.0.1:0")]
    return Server("backend", *ports, *words, **options)


def parse_metrics(text):
    out = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            out[name] = float(value)
    return out


def metric_sum(metrics, name, **labels):
    """The sum of all series of a family that carry these labels."""
    total = 0.0
    for series, value in metrics.items():
        family, _, rest = series.partition("{")
        if family == name and all(f'{k}="{v}"' in rest for k, v in labels.items()):
            total += value
    return total


def interrupt_when_done(server):
    server.signal(signal.SIGINT)
    return server.process.wait(HANG)
