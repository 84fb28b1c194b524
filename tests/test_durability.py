"""Acknowledged means kept: several sinks of which one fails, repeated requests, slow sinks, full disks, kill -9 in the middle of load."""

import collections
import concurrent.futures
import json
import pathlib
import random
import threading
import time

import pytest

import clients
import fixtures
import handmade
import program
import receivers
from ports import free_port

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")


def on_small_disk(directory, size):
    """Wrapper words that run a program with a tiny file system at directory, which only it sees."""
    return ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', str(directory))


def inside(server, path):
    """A path as the server's own mount namespace has it."""
    return pathlib.Path(f"/proc/{server.pid}/root{path}")


def jsonl_marks(directory):
    """Marks in the whole lines of all files, a line that is no JSON is an error unless it is the torn last one of its file."""
    found = collections.Counter()
    for file in sorted(pathlib.Path(directory).rglob("*.jsonl")):
        lines = file.read_bytes().split(b"\n")
        for line in lines[:-1]:
            json.loads(line)
            found.update(set(handmade.marks_in(line.decode())))
    return found


class Load:
    """Senders that post marked bodies until told to stop; what was acknowledged is remembered, what was not can be sent again."""

    def __init__(self, address, prefix, threads=4):
        self.acknowledged, self.unanswered, self.statuses = set(), {}, collections.Counter()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self._prefix, self._address = prefix, address
        self._pool = [threading.Thread(target=self._run) for _ in range(threads)]
        for t in self._pool:
            t.start()

    def _next(self):
        with self._lock:
            self._count += 1
            return f"mark-{self._prefix}-{self._count}"

    def _run(self):
        with clients.channel(self._address) as ch:
            while not self._stop.is_set():
                mark = self._next()
                body = handmade.marked(mark)
                code, _ = clients.export_status(ch, body)
                with self._lock:
                    self.statuses[code] += 1
                    if code == clients.OK:
                        self.acknowledged.add(mark)
                    else:
                        self.unanswered[mark] = body
                if code != clients.OK:
                    return

    def wait(self, count):
        """Until so many are acknowledged, or the senders were refused."""
        program.wait_for(lambda: len(self.acknowledged) >= count or not any(t.is_alive() for t in self._pool), what=f"{count} acknowledged")
        return self

    def stop(self):
        self._stop.set()
        for t in self._pool:
            t.join(program.HANG)
        return self


# ---- fan-out ----

@pytest.mark.root
def test_full_disk_is_told_and_nothing_half_written_shows_as_whole(as_root, backend, tmp_path):
    """One of two sinks has no room: the sender is asked to come again; the other sink goes on; with room again all is well."""
    disk = tmp_path / "disk"
    disk.mkdir()
    server = backend("-receiver", "stdout,filesystem", "-filesystem.dir", disk / "profiles", "-filesystem.format", "jsonl",
                     "-metrics-address", "127.0.0.1:0", wrapper=on_small_disk(disk, "256k"))
    acknowledged, refused = set(), None
    with clients.channel(server.grpc) as ch:
        for i in range(3000):
            code, text = clients.export_status(ch, handmade.marked(f"mark-disk-{i}"))
            if code == clients.OK:
                acknowledged.add(f"mark-disk-{i}")
            else:
                refused = (code, text)
                break
        assert acknowledged and refused is not None, "256 KiB never got full"
        assert refused[0] == clients.UNAVAILABLE and "No space left" in refused[1], refused
        assert refused[1] == 'exporter "filesystem" can\'t keep the profiles: No space left on device', "where files lie is not the sender's business"
        assert str(disk / "profiles") in server.wait_line("Exporting failed"), "but its owner's"
        a = clients.post(server.http, handmade.marked("mark-disk-9999"))
        assert a.status == 503 and clients.retry_delay(a.rpc_status) is not None or "retry-after" in a.headers, a
        kept = jsonl_marks(inside(server, disk / "profiles"))
        assert set(kept) == acknowledged and set(kept.values()) == {1}
        for old in inside(server, disk / "profiles").rglob("*.jsonl"):
            old.write_bytes(b"")
        program.wait_for(lambda: clients.export_status(ch, handmade.marked("mark-disk-10000"))[0] == clients.OK, what="room again")
    assert "mark-disk-10000" in jsonl_marks(inside(server, disk / "profiles"))
    shown = server.stdout.decode()
    assert all(m in shown for m in acknowledged), "stdout had all that was taken"


@pytest.mark.root
@pytest.mark.parametrize("form", ["json", "jsonl", "otlp"])
def test_full_disk_in_every_file_format(as_root, backend, tmp_path, form):
    disk = tmp_path / "disk"
    disk.mkdir()
    server = backend("-receiver", "filesystem", "-filesystem.dir", disk / "p", "-filesystem.format", form,
                     wrapper=on_small_disk(disk, "128k"))
    with clients.channel(server.grpc) as ch:
        codes = [clients.export_status(ch, fixtures.body("v1.11.0-oncpu-start").bytes + b"\xba\x3e\x01" + bytes([i % 128]))[0]
                 for i in range(60)]
    assert clients.UNAVAILABLE in codes and set(codes) <= {clients.OK, clients.UNAVAILABLE}
    files = [f for f in inside(server, disk / "p").rglob("*") if f.is_file()]
    if form == "otlp":
        return
    for f in files:
        for line in f.read_text().split("\n"):
            if line:
                json.loads(line) if form == "jsonl" else None
        if form == "json":
            json.loads(f.read_text())


def test_slow_sink_neither_blocks_nor_doubles_the_others(backend, tmp_path):
    """A peer that answers nothing for a while: with a spool before it the sender and the other sinks do not wait."""
    gate = threading.Event()
    with receivers.GrpcReceiver(lambda b, n: (gate.wait(4 * program.HANG), b"")[1]) as r:
        server = backend("-receiver", "stdout,otlp", "-otlp.endpoint", r.address, "-otlp.insecure", "-spool-dir", tmp_path / "spool")
        marks = [f"mark-slow-{i}" for i in range(8)]
        with clients.channel(server.grpc) as ch:
            for m in marks:
                assert clients.export(ch, handmade.marked(m)) == b"", "it does not wait for the slow peer, which waits for the test"
        assert not r.bodies
        assert handmade.marks_in(server.stdout.decode()) == marks
        gate.set()
        program.wait_for(lambda: len(r.bodies) >= len(marks), what="what waited in the spool")
        time.sleep(0.3)
        arrived = collections.Counter(m for b in r.bodies for m in handmade.marks_in(b.decode("latin-1")))
    assert arrived == collections.Counter(marks)


def test_repeated_request_is_acknowledged_but_not_sent_twice(backend, tmp_path):
    with receivers.GrpcReceiver() as r:
        server = backend("-receiver", "stdout,otlp", "-otlp.endpoint", r.address, "-otlp.insecure", "-spool-dir", tmp_path / "spool",
                         "-metrics-address", "127.0.0.1:0")
        with clients.channel(server.grpc) as ch:
            for m in ("mark-twice-1", "mark-twice-1", "mark-twice-2", "mark-twice-1"):
                assert clients.export(ch, handmade.marked(m)) == b""
        program.wait_for(lambda: len(r.bodies) >= 2, what="both bodies")
        time.sleep(0.5)
        arrived = collections.Counter(m for b in r.bodies for m in handmade.marks_in(b.decode("latin-1")))
        assert arrived == {"mark-twice-1": 1, "mark-twice-2": 1}
        duplicates = sum(v for k, v in server.metrics().items() if "duplicate" in k)
        assert duplicates == 2, [k for k in server.metrics() if "spool" in k]
    assert server.stdout.decode().count("mark-twice-1") == 3, "stdout shows whatever arrives"


# ---- kill -9 ----

@pytest.mark.long
def test_kill_in_load_loses_nothing_acknowledged_in_jsonl(tmp_path):
    """100 times (10 daily): every acknowledged body is in a whole line after kill -9; numbering and files go on after restart."""
    rounds = 100 if program.LONG else 10
    rng = random.Random(1)
    acknowledged = set()
    for n in range(rounds):
        with program.backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", "jsonl") as server:
            load = Load(server.grpc, f"j{n:03d}").wait(5)
            time.sleep(rng.uniform(0, 0.3))
            server.kill()
            acknowledged |= load.stop().acknowledged
    found = jsonl_marks(tmp_path / "p")
    assert len(acknowledged) > rounds * 3
    assert acknowledged - set(found) == set(), f"{len(acknowledged - set(found))} of {len(acknowledged)} lost"
    assert max(found.values()) == 1
    # after all these kills a good run appends whole lines
    with program.backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", "jsonl") as server, \
            clients.channel(server.grpc) as ch:
        clients.export(ch, handmade.marked("mark-after-1"))
    assert "mark-after-1" in jsonl_marks(tmp_path / "p")


@pytest.mark.long
def test_kill_in_load_keeps_the_spool_whole(tmp_path):
    """100 times (10 daily) with nobody to send to; senders repeat what was not answered, as OTLP clients do. In the end a receiver
    appears, and every body acknowledged in any life arrives there exactly once."""
    rounds = 100 if program.LONG else 10
    rng = random.Random(2)
    acknowledged, repeat = set(), {}
    address = unused_address()
    words = ("-receiver", "otlp", "-otlp.endpoint", address, "-otlp.insecure", "-spool-dir", str(tmp_path / "spool"))
    for n in range(rounds):
        with program.backend(*words) as server:
            with clients.channel(server.grpc) as ch:
                for mark, body in list(repeat.items()):
                    if clients.export_status(ch, body)[0] == clients.OK:
                        acknowledged.add(mark)
                        del repeat[mark]
            load = Load(server.grpc, f"s{n:03d}").wait(5)
            time.sleep(rng.uniform(0, 0.3))
            server.kill()
            load.stop()
            acknowledged |= load.acknowledged
            repeat |= load.unanswered
    with receivers.GrpcReceiver(address=address) as r, program.backend(*words) as server:
        with clients.channel(server.grpc) as ch:
            for mark, body in repeat.items():
                assert clients.export_status(ch, body)[0] == clients.OK
                acknowledged.add(mark)

        def arrived():
            return collections.Counter(m for b in list(r.bodies) for m in set(handmade.marks_in(b.decode("latin-1"))))

        program.wait_for(lambda: acknowledged <= set(arrived()), what="everything acknowledged", every=0.2)
        time.sleep(1)
        found = arrived()
        assert len(acknowledged) > rounds * 3
        doubled = {m: c for m, c in found.items() if c > 1}
        assert not doubled, doubled


@pytest.mark.long
def test_kill_while_sending_is_at_least_once(tmp_path):
    """With a peer that takes: all acknowledged arrive; only what was on its way at a kill may come twice."""
    rounds = 20 if program.LONG else 5
    rng = random.Random(3)
    acknowledged = set()
    with receivers.GrpcReceiver() as r:
        words = ("-receiver", "otlp", "-otlp.endpoint", r.address, "-otlp.insecure", "-spool-dir", str(tmp_path / "spool"))
        for n in range(rounds):
            with program.backend(*words) as server:
                load = Load(server.grpc, f"a{n:03d}").wait(5)
                time.sleep(rng.uniform(0, 0.3))
                server.kill()
                acknowledged |= load.stop().acknowledged
        with program.backend(*words):
            def arrived():
                return collections.Counter(m for b in list(r.bodies) for m in set(handmade.marks_in(b.decode("latin-1"))))

            program.wait_for(lambda: acknowledged <= set(arrived()), what="everything acknowledged", every=0.2)
        doubled = sum(c - 1 for c in arrived().values())
        assert doubled <= rounds * 16, f"{doubled} duplicates after {rounds} kills"


# ---- the spool's own troubles ----

def fill_spool(spool, prefix, count, *words):
    """Runs a backend without a peer and spools marked bodies; returns the marks that were acknowledged, and the last refusal."""
    address = unused_address()
    marks, refusal = [], None
    with program.backend("-receiver", "otlp", "-otlp.endpoint", address, "-otlp.insecure", "-spool-dir", spool, *words) as server, \
            clients.channel(server.grpc) as ch:
        for i in range(count):
            mark = f"mark-{prefix}-{i}"
            code, text = clients.export_status(ch, handmade.marked(mark))
            if code != clients.OK:
                refusal = (code, text)
                break
            marks.append(mark)
    return address, marks, refusal


def segments(spool):
    """The spool's files with data in them, largest first."""
    return sorted((f for f in pathlib.Path(spool).rglob("*") if f.is_file() and f.stat().st_size > 1000), key=lambda f: -f.stat().st_size)


def drain(spool, address, expected_least):
    """Starts again with a peer; returns the marks that arrive and the log."""
    with receivers.GrpcReceiver(address=address) as r:
        with program.backend("-receiver", "otlp", "-otlp.endpoint", address, "-otlp.insecure", "-spool-dir", spool,
                             "-metrics-address", "127.0.0.1:0") as server:
            program.wait_for(lambda: len(r.bodies) >= expected_least, what=f"{expected_least} bodies (got {len(r.bodies)})\n{server.log}")
            with clients.channel(server.grpc) as ch:
                clients.export(ch, handmade.marked("mark-fresh-1"))
            program.wait_for(lambda: any(b"mark-fresh-1" in b for b in list(r.bodies)), what="a new body behind the old ones")
            time.sleep(0.3)
            found = [m for b in r.bodies for m in handmade.marks_in(b.decode("latin-1"))]
            log = server.log
    found.remove("mark-fresh-1")
    return found, log


def unused_address():
    """Nobody is there until the test says so, and no connection gets the port by chance."""
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("moved", [False, True])
def test_spool_survives_a_restart(tmp_path, moved):
    """What waits goes where the sink sends by then, which is said when it is somewhere else."""
    address, marks, _ = fill_spool(tmp_path / "spool", "restart", 25)
    found, log = drain(tmp_path / "spool", unused_address() if moved else address, len(marks))
    assert sorted(found) == sorted(marks) and len(marks) == 25
    assert ("taken for another endpoint or database" in log) == moved, log[-3000:]


@pytest.mark.parametrize("where", [0.1, 0.35, 0.5, 0.75, 0.9])
def test_spool_with_a_flipped_byte(tmp_path, where):
    """Starts, sets the bad part aside and says so; what is whole is sent."""
    address, marks, _ = fill_spool(tmp_path / "spool", "flip", 20)
    file = segments(tmp_path / "spool")[0]
    data = bytearray(file.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))
    data[int(used * where)] ^= 0x40
    file.write_bytes(data)
    found, log = drain(tmp_path / "spool", address, len(marks) - 1)
    assert len(set(found)) >= len(marks) - 1 and len(found) == len(set(found))
    if len(found) < len(marks):
        assert "Damaged bytes in the spool are set aside" in log, log[-3000:]


@pytest.mark.parametrize("cut", [1, 7, 300])
def test_spool_with_a_torn_tail(tmp_path, cut):
    address, marks, _ = fill_spool(tmp_path / "spool", "torn", 20)
    file = segments(tmp_path / "spool")[0]
    used = len(file.read_bytes().rstrip(b"\0"))
    with open(file, "r+b") as f:
        f.truncate(used - cut)
    found, log = drain(tmp_path / "spool", address, len(marks) - 1)
    assert set(found) >= set(marks[:-1])
    if len(found) < len(marks):
        assert "spool" in log.lower(), log[-3000:]


def test_spool_with_garbage_behind_the_last_record(tmp_path):
    address, marks, _ = fill_spool(tmp_path / "spool", "garbage", 10)
    file = segments(tmp_path / "spool")[0]
    with open(file, "ab") as f:
        f.write(random.Random(4).randbytes(5000))
    found, _ = drain(tmp_path / "spool", address, len(marks))
    assert set(found) == set(marks)


def test_spool_is_bounded(tmp_path):
    """-spool-max-mib: a full spool refuses with a hint, keeps what it took."""
    address, marks, refusal = fill_spool(tmp_path / "spool", "bounded", 5000, "-spool-max-mib", "1")
    assert refusal is not None and refusal[0] == clients.UNAVAILABLE and "full" in refusal[1], refusal
    size = sum(f.stat().st_size for f in (tmp_path / "spool").rglob("*") if f.is_file())
    assert size <= 2 * (1 << 20), size
    found, _ = drain(tmp_path / "spool", address, len(marks))
    assert sorted(found) == sorted(marks)


@pytest.mark.root
def test_spool_on_a_full_disk(as_root, tmp_path):
    """The file system has no room: refused for now, nothing acknowledged is lost, and it goes on when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    address = unused_address()
    with program.backend("-receiver", "otlp", "-otlp.endpoint", address, "-otlp.insecure", "-spool-dir", disk / "spool",
                         wrapper=on_small_disk(disk, "512k")) as server:
        with clients.channel(server.grpc) as ch:
            marks, refused = [], None
            for i in range(2000):
                mark = f"mark-full-{i}"
                code, text = clients.export_status(ch, handmade.marked(mark))
                if code != clients.OK:
                    refused = (code, text)
                    break
                marks.append(mark)
            assert marks and refused is not None and refused[0] == clients.UNAVAILABLE, refused
            assert server.alive()
            with receivers.GrpcReceiver(address=address) as r:
                program.wait_for(lambda: len(r.bodies) >= len(marks), what="what the spool held")
                program.wait_for(lambda: clients.export_status(ch, handmade.marked("mark-full-9999"))[0] == clients.OK, what="room")
                program.wait_for(lambda: any(b"mark-full-9999" in b for b in list(r.bodies)), what="the new one")
                found = {m for b in r.bodies for m in handmade.marks_in(b.decode("latin-1"))}
    assert set(marks) <= found


def test_two_programs_cannot_share_a_spool(backend, tmp_path):
    with receivers.GrpcReceiver() as r:
        words = ("-receiver", "otlp", "-otlp.endpoint", r.address, "-otlp.insecure", "-spool-dir", str(tmp_path / "spool"))
        backend(*words)
        done = program.run("backend", "-grpc-address", "127.0.0.1:0", "-http-address", "127.0.0.1:0", *words)
    assert done.returncode == 1 and b"spool" in done.stderr


def test_senders_at_once_are_all_kept(backend, tmp_path):
    """Group commit: 16 senders through the spool, each body once at the end."""
    with receivers.GrpcReceiver() as r:
        server = backend("-receiver", "otlp", "-otlp.endpoint", r.address, "-otlp.insecure", "-spool-dir", tmp_path / "spool")

        def send(n):
            with clients.channel(server.grpc) as ch:
                for i in range(15):
                    assert clients.export(ch, handmade.marked(f"mark-group{n}-{i}")) == b""

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(send, range(16)))
        program.wait_for(lambda: len(r.bodies) >= 240, what="240 bodies")
        arrived = collections.Counter(m for b in r.bodies for m in handmade.marks_in(b.decode("latin-1")))
    assert len(arrived) == 240 and set(arrived.values()) == {1}
