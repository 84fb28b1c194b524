"""ClickHouse servers for tests, on loopback, in folders of their own.

Debian's 18.16 is the real server, unpacked beside the build (tools/peers; no service is installed). A modern
one is PyPI's chdb-core, the engine as a library, behind a small HTTP server (clickhouse_modern.py). What is not here or does
not start in a minute makes its tests skip, aloud.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from fixtures import ROOT
from ports import free_port

PEERS = ROOT / "build" / "peers"
DEBIAN = PEERS / "clickhouse"
CHDB = PEERS / "chdb"
ZOOKEEPER = PEERS / "zookeeper"
START = 60.0
SESSION_MS = 6000  # after which ZooKeeper gives a server up that died without a word


CONFIG = """<?xml version="1.0"?>
<yandex>
    <logger><level>information</level><log>{dir}/server.log</log><errorlog>{dir}/error.log</errorlog></logger>
    <http_port>{http}</http_port>
    <tcp_port>{tcp}</tcp_port>
    <interserver_http_port>{interserver}</interserver_http_port>
    <interserver_http_host>127.0.0.1</interserver_http_host>
    <listen_host>127.0.0.1</listen_host>
    <max_connections>64</max_connections>
    <keep_alive_timeout>10</keep_alive_timeout>
    <max_concurrent_queries>20</max_concurrent_queries>
    <uncompressed_cache_size>8388608</uncompressed_cache_size>
    <mark_cache_size>8388608</mark_cache_size>
    <path>{dir}/data/</path>
    <tmp_path>{dir}/tmp/</tmp_path>
    <users_config>{dir}/users.xml</users_config>
    <default_profile>default</default_profile>
    <default_database>default</default_database>
    <timezone>UTC</timezone>
    {more}
</yandex>
"""

USERS = """<?xml version="1.0"?>
<yandex>
    <profiles><default><max_memory_usage>2000000000</max_memory_usage><max_execution_time>120</max_execution_time>
        <insert_quorum_timeout>5000</insert_quorum_timeout></default></profiles>
    <users>
        <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
        <keeper><password>open sesame</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
            <quota>default</quota></keeper>
    </users>
    <quotas><default><interval><duration>3600</duration><queries>0</queries></interval></default></quotas>
</yandex>
"""


class Server:
    """A process that answers HTTP on 127.0.0.1:port."""

    quick = True  # many small queries cost little

    def __init__(self, words, port, folder, env=None):
        self.words, self.port, self.folder, self.env = words, port, pathlib.Path(folder), env
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env,
                                            cwd=self.folder)
        end = time.monotonic() + START
        while True:
            try:
                self.ask("SELECT 1")
                return
            except (OSError, urllib.error.URLError):
                if time.monotonic() > end or self.process.poll() is not None:
                    said = (self.folder / "out").read_bytes()[-2000:].decode(errors="replace")
                    self.stop()
                    pytest.skip(f"SKIPPED ALOUD: ClickHouse does not start here in {START:.0f} s: {said}")
                time.sleep(0.1)

    def stop(self, kill=True):
        if self.process and self.process.poll() is None:
            if kill:
                self.process.kill()
            else:
                self.process.terminate()
            self.process.wait(60)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, sql, database="default", data=None, **settings):
        """The answer's text."""
        query = urllib.parse.urlencode({"database": database, "query": sql} | settings)
        with urllib.request.urlopen(f"{self.url}/?{query}", data=data or b"", timeout=120) as answer:
            return answer.read().decode(errors="replace").strip()

    def rows(self, sql, database="default"):
        return [line.split("\t") for line in self.ask(sql, database).splitlines()]


def debian_program():
    """Words that run Debian's server, and its environment."""
    if not (DEBIAN / ".complete").exists():
        pytest.skip(f"SKIPPED ALOUD: no ClickHouse at {DEBIAN}; tools/peers gets it (16 MB)")
    libraries = ":".join(str(DEBIAN / part / "x86_64-linux-gnu") for part in ("usr/lib", "lib"))
    return [str(DEBIAN / "usr" / "sbin" / "clickhouse-server")], {**os.environ, "LD_LIBRARY_PATH": libraries, "TZ": "UTC"}


class Debian(Server):
    def __init__(self, folder, more="", port=None, tcp=None):
        words, env = debian_program()
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        port, self.tcp, self.interserver = port or free_port(), tcp or free_port(), free_port()
        (folder / "config.xml").write_text(CONFIG.format(dir=folder, http=port, tcp=self.tcp, interserver=self.interserver, more=more))
        (folder / "users.xml").write_text(USERS)
        super().__init__([*words, f"--config-file={folder}/config.xml"], port, folder, env)


class Modern(Server):
    quick = False

    def __init__(self, folder):
        if not (CHDB / "chdb").exists():
            pytest.skip(f"SKIPPED ALOUD: no modern ClickHouse at {CHDB}; tests/peers/fetch-chdb.sh gets it (180 MB)")
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        super().__init__([sys.executable, str(ROOT / "tests" / "clickhouse_modern.py"), str(port), str(folder / "data")], port, folder,
                         {**os.environ, "PYTHONPATH": str(CHDB), "TZ": "UTC"})


class Keeper:
    """Debian's ZooKeeper, a single one."""

    JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "log4j-1.2", "metrics-core", "snappy-java")

    def __init__(self, folder):
        if not (ZOOKEEPER / ".complete").exists():
            pytest.skip(f"SKIPPED ALOUD: no ZooKeeper at {ZOOKEEPER}; tools/peers gets it (3 MB)")
        if not shutil.which("java"):
            pytest.skip("SKIPPED ALOUD: no java here for ZooKeeper (apt-get install default-jre-headless)")
        jars = ":".join(str(ZOOKEEPER / "usr" / "share" / "java" / f"{name}.jar") for name in self.JARS)
        self.port = free_port()
        folder = pathlib.Path(folder)
        (folder / "data").mkdir(parents=True)
        (folder / "zoo.cfg").write_text(f"tickTime=2000\ndataDir={folder}/data\nclientPortAddress=127.0.0.1\nclientPort={self.port}\n"
                                        "admin.enableServer=false\n")
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
             str(folder / "zoo.cfg")], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    said = (folder / "log").read_bytes()[-1500:].decode(errors="replace")
                    self.stop()
                    pytest.skip(f"SKIPPED ALOUD: ZooKeeper does not start here: {said}")
                time.sleep(0.1)

    def stop(self):
        self.process.kill()
        self.process.wait(60)
        self.log.close()


class Cluster:
    """Two shards of two replicas each, `flametap`, with a ZooKeeper."""

    def __init__(self, folder):
        self.servers, self.keeper = [], Keeper(folder / "zk")
        try:
            self._start(folder)
        except BaseException:
            self.stop()
            raise

    def _start(self, folder):
        ports = [free_port() for _ in range(4)]
        shards = "".join("<shard><internal_replication>true</internal_replication>" + "".join(
            f"<replica><host>127.0.0.1</host><port>{ports[shard * 2 + replica]}</port></replica>" for replica in range(2)) + "</shard>"
            for shard in range(2))
        for number in range(4):
            self.servers.append(Debian(
                folder / str(number), tcp=ports[number],
                more=f"<remote_servers><flametap>{shards}</flametap></remote_servers>"
                     f"<zookeeper><node><host>127.0.0.1</host><port>{self.keeper.port}</port></node>"
                     f"<session_timeout_ms>{SESSION_MS}</session_timeout_ms></zookeeper>"
                     f"<macros><shard>{number // 2}</shard><replica>{number % 2}</replica></macros>"
                     "<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>"))

    def stop(self):
        for s in self.servers:
            s.stop()
        self.keeper.stop()


KINDS = {"18.16": Debian, "26": Modern}


def memory_disk():
    """The memory file system, where it and memory have room. A server makes ten thousands of small files, and to delete them takes
    longer than the tests where the disk is told of each (mount option discard)."""
    room = 4 << 30
    available = re.search(r"MemAvailable: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    if not available or int(available[1]) * 1024 < 2 * room or not os.access("/dev/shm", os.W_OK):
        return None
    disk = os.statvfs("/dev/shm")
    return "/dev/shm" if disk.f_bavail * disk.f_frsize >= room else None


class Folder:
    """A short path of its own: ClickHouse makes long names below it."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="flametap-ch-", dir=memory_disk()))

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
