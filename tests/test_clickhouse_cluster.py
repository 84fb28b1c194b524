"""ClickHouse in a cluster: two shards of two replicas each, real servers with a ZooKeeper, connections that are cut, replicas that die.

Each cuts FLAMETAP_CUTS connections: by default 20, with FLAMETAP_LONG 1,000, which takes minutes.
"""

import itertools
import random

import pytest

import clickhouse
import clients
import handmade
import program
from test_clickhouse import Killing, Proxy, all_once, collecting, cuts_wanted, cutting, samples_of, send_until, sent_over_kills
from test_store import export

pytestmark = [pytest.mark.peer, pytest.mark.long, pytest.mark.timeout(3600)]
CUTS = cuts_wanted(20)
_databases = itertools.count()


@pytest.fixture(scope="module")
def cluster():
    folder, running = clickhouse.Folder(), None
    try:
        running = clickhouse.Cluster(folder.path)
        yield running
    finally:
        if running:
            running.stop()
        folder.remove()


@pytest.fixture
def database(cluster):
    """On all four servers, and all of them up."""
    name = f"proof_{next(_databases)}"
    for s in cluster.servers:
        if s.process.poll() is not None:
            s.start()
    for s in cluster.servers:
        s.ask(f"CREATE DATABASE {name}")
    return name


BEHIND = "is_readonly OR is_session_expired OR queue_size > 0 OR (log_max_index > 0 AND log_pointer <= log_max_index)"


def caught_up(server, database):
    """Has the server, in each table of its own, what the other replicas have?"""
    tables, behind = server.rows(f"SELECT count(), sum({BEHIND}) FROM system.replicas WHERE database = '{database}'")[0]
    return int(tables) == 4 and not int(behind)


def same_everywhere(servers, database, marks):
    """Whoever is asked knows all of it, once, as soon as replicas have caught up: a Distributed table asks any replica of a shard."""
    samples = samples_of(handmade.marked("x")) * len(marks)
    for s in servers:
        program.wait_for(lambda s=s: caught_up(s, database), 300, "a replica that has all", every=0.1)
    for s in servers:
        program.wait_for(lambda s=s: int(s.ask("SELECT count() FROM flametap_samples", database)) == samples, 120, "all samples")
        all_once(s, f"{s.url}/{database}", database, marks)


def test_cut_connections_to_a_replicated_table(cluster, database, tmp_path):
    """ReplicatedMergeTree on one server, without ON CLUSTER."""
    server = cluster.servers[0]
    proxy = Proxy(server.port, cutting(random.Random(7)))
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}", more="table_engine: {name: ReplicatedMergeTree}") as keeping:
        marks = send_until(keeping, proxy, CUTS)
    proxy.close()
    all_once(server, f"{server.url}/{database}", database, marks)


def test_cut_connections_to_distributed_tables(cluster, database, tmp_path):
    """ON CLUSTER, ReplicatedMergeTree, Distributed; half-way one replica goes, and later it comes back."""
    first, gone = cluster.servers[0], cluster.servers[1]
    proxy = Proxy(first.port, cutting(random.Random(6)))

    def hook(cuts):
        if cuts > CUTS // 2 and gone.process.poll() is None:
            gone.stop()

    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}", more="cluster_name: flametap") as keeping:
        marks = send_until(keeping, proxy, CUTS, hook=hook)
    proxy.close()
    gone.start()
    same_everywhere(cluster.servers, database, marks)
    shares = [int(cluster.servers[i].ask("SELECT count() FROM flametap_samples_local", database)) for i in (0, 2)]
    assert min(shares) > 0 and sum(shares) == samples_of(handmade.marked("x")) * len(marks)


@pytest.mark.parametrize("engine", ["Distributed", "Replicated"])
def test_killed_in_the_middle_of_an_insert(cluster, database, tmp_path, engine):
    """kill -9 while an insert is on its way; with a spool it may come to its end only when the next process is there."""
    server, spooled = cluster.servers[0], engine == "Distributed"
    proxy = Killing(server.port, random.Random(10), [True, "part", "late"] if spooled else [True])
    url = f"http://127.0.0.1:{proxy.port}/{database}"

    def life():
        if spooled:
            return program.backend("-receiver", "clickhouse", "-clickhouse.url", url, "-clickhouse.cluster", "flametap", "-spool-dir", tmp_path / "spool")
        return collecting(tmp_path, url, more="table_engine: {name: ReplicatedMergeTree}")

    for marks in sent_over_kills(life, proxy, max(CUTS // 8, 2)):
        program.wait_for(lambda: int(server.ask("SELECT count() FROM flametap_requests", database)) >= len(marks), 120, "what lay in the spool")
    proxy.close()
    all_once(server, f"{server.url}/{database}", database, marks)


def test_a_replica_that_dies_between_insert_and_count(cluster, database, tmp_path):
    """The other one does not have what it took: the batch waits instead of being sent a second time, and is then known, once."""
    taker, other, entry = cluster.servers[0], cluster.servers[1], cluster.servers[2]
    per_body, cut = samples_of(handmade.marked("x")), {"now": False}
    # The first insert of samples that is cut off is the last thing that passes until somebody says so.
    proxy = Proxy(entry.port, lambda number: cut["now"] and not proxy.go.clear(), table="samples")

    def count(server, table="flametap_samples_local"):
        return int(server.ask(f"SELECT count() FROM {table}", database))

    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}", more="cluster_name: flametap") as keeping, \
            clients.channel(keeping.grpc) as ch:
        marks = []
        while not marks or not count(taker):  # samples go to a shard by their request
            marks.append(f"mark-dies-{len(marks)}")
            clients.export(ch, handmade.marked(marks[-1]), timeout=120)
        program.wait_for(lambda: count(other) == count(taker), 60, "replicas alike")
        for table in ("samples", "requests"):
            other.ask(f"SYSTEM STOP FETCHES {database}.flametap_{table}_local")
        before, cut["now"] = count(taker), True
        while count(taker) == before:
            marks.append(f"mark-dies-{len(marks)}")
            proxy.go.set()
            waits = clients.export_later(ch, handmade.marked(marks[-1]), timeout=300)
            program.wait_for(lambda: count(entry, "flametap_samples") == per_body * len(marks), 60, "a cut insert")
            if count(taker) == before:
                cut["now"] = False
                proxy.go.set()
                waits.result(timeout=300)
                cut["now"] = True
        taker.stop()
        cut["now"] = False
        proxy.go.set()
        program.wait_for(lambda: "what is missing cannot be told" in keeping.log, 120, "a batch that waits")
        assert not waits.done()
        assert count(other) == before, "sent a second time"
        taker.start()
        for table in ("samples", "requests"):
            other.ask(f"SYSTEM START FETCHES {database}.flametap_{table}_local")
        waits.result(timeout=300)
    proxy.close()
    same_everywhere(cluster.servers, database, marks)


def test_a_quorum_of_two_replicas(cluster, database, tmp_path):
    """insert_quorum: what is acknowledged is on both replicas; with one of them away nothing is, and later all of it, once."""
    first, second = cluster.servers[:2]
    more = "table_engine: {name: ReplicatedMergeTree}\n    insert_quorum: 2"
    for s in (first, second):  # each makes its own tables
        with collecting(tmp_path, f"{s.url}/{database}", more=more) as keeping:
            program.wait_for(lambda: "Keeping profiles in ClickHouse" in keeping.log, 60, "tables")
    marks = []
    with collecting(tmp_path, f"{first.url}/{database}", more=more) as keeping, clients.channel(keeping.grpc) as ch:
        for i in range(20):
            marks.append(f"mark-quorum-{i}")
            clients.export(ch, handmade.marked(marks[-1]), timeout=120)
            assert int(second.ask("SELECT count() FROM flametap_samples", database)) == samples_of(handmade.marked("x")) * len(marks)
        second.stop()
        marks.append("mark-quorum-99")
        waits = clients.export_later(ch, handmade.marked(marks[-1]), timeout=300)
        program.wait_for(lambda: "cannot be written" in keeping.log, 120, "a quorum that is missed")
        assert not waits.done()
        second.start()
        waits.result(timeout=300)
    same_everywhere((first, second), database, marks)
    assert len(export(f"{second.url}/{database}")) == len(marks)
