"""A Python program whose stack is known: nearly all of its time is spent in leaf() (crunch() in mode "thread"), called
in a way that mode tells. It says "ready" once it is there. src/agent/runtimes/cpython_test.c knows names and lines.

    python3 known_stack.py plain|thread|deep DEPTH

Runs on CPython 3.6, too.
"""
import sys
import threading
import zlib


def leaf(n):
    x = 0
    for i in range(n):
        x += i * i % 7  # line 16
    return x


class Outer:
    def __init__(self, n):
        self.n = n
        self.run()  # line 23

    def run(self):
        return sorted([1], key=self.key)  # line 26

    def key(self, k):
        return sum(leaf(self.n) for i in (k,))  # line 29


def plain():
    while True:
        Outer(LONG)  # line 34


def dive(n):
    return dive(n - 1) if n else leaf(LONG)  # line 38


def deep():
    while True:
        dive(int(sys.argv[2]))  # line 43


def crunch(data):
    while True:
        zlib.compress(data, 9)  # line 48: without the interpreter's lock


def thread():
    t = threading.Thread(target=crunch, args=(bytes(range(256)) * 40000,), daemon=True)
    t.start()
    t.join()


LONG = 1000000
leaf(1)
print("ready", flush=True)
{"plain": plain, "deep": deep, "thread": thread}[sys.argv[1]]()  # line 60
