"""Ports for servers that cannot be told to take any and say which: a peer whose configuration wants numbers."""

import pathlib
import random
import socket

RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")

_given = set()


def free_port():
    """Another each time, below those that the kernel gives to who asks for any: nobody gets it by chance before the server starts."""
    first = int(RANGE.read_text().split()[0])
    for _ in range(1000):
        port = random.randrange(10_000, first) if first > 11_000 else 0
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            port = s.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port
    raise AssertionError("no port is free")
