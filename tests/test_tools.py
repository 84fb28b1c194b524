"""The tests' own clients and receivers, against each other: what fails here is no fault of the program."""

import grpc
import pytest

import clients
import fixtures
import receivers

BODY = fixtures.body("v1.11.0-synthetic-offcpu-links").bytes


def test_grpcio_client_to_grpcio_receiver():
    with receivers.GrpcReceiver() as r, clients.channel(r.address) as ch:
        clients.export(ch, BODY, compression=grpc.Compression.Gzip)
        assert r.bodies == [BODY]


def test_hand_made_call_to_grpcio_receiver():
    def answer(body, number):
        raise receivers.Refuse(clients.UNAVAILABLE, "later", 1.5)

    with receivers.GrpcReceiver() as r:
        a = clients.grpc_by_hand(r.address, BODY, encoding="gzip")
        assert (a.status, r.bodies) == (clients.OK, [BODY])
        r.answer = answer
        a = clients.grpc_by_hand(r.address, BODY)
        assert (a.status, a.message, clients.retry_delay(a.rpc_status)) == (clients.UNAVAILABLE, "later", 1.5)


@pytest.mark.parametrize("encoding", [None, *clients.COMPRESS])
def test_http_client_to_http_receiver(encoding):
    with receivers.HttpReceiver() as r:
        assert clients.post(r.address, BODY, encoding=encoding).status == 200
        assert r.bodies == [BODY]
