"""A Python program whose stack is known: nearly all of its time is spent in leaf() (crunch() in mode "thread"), called
in a way that mode tells. It says "ready" once it is there. src/agent/runtimes/cpython_test.c knows names and lines.

    python3 known_stack.py plain|thread|deep|zip|sub|subzip|subthread DEPTH

"sub": the same as "plain", run by an interpreter within it; "subzip": "zip" there; "subthread": "plain" in an interpreter
that the main thread has made and another one runs.

Runs on CPython 3.6, too.
"""
import sys
import threading
import zlib


def leaf(n):
    x = 0
    for i in range(n):
        x += i * i % 7  # line 19
    return x


class Outer:
    def __init__(self, n):
        self.n = n
        self.run()  # line 26

    def run(self):
        return sorted([1], key=self.key)  # line 29

    def key(self, k):
        return sum(leaf(self.n) for i in (k,))  # line 32


def plain():
    while True:
        Outer(LONG)  # line 37


def dive(n):
    return dive(n - 1) if n else leaf(LONG)  # line 41


def deep():
    while True:
        dive(int(sys.argv[2]))  # line 46


def crunch(data):
    while True:
        zlib.compress(data, 9)  # line 51: without the interpreter's lock


def thread():
    t = threading.Thread(target=crunch, args=(DATA,), daemon=True)
    t.start()
    t.join()


def zipped():
    crunch(DATA)  # line 61


def again(mode):
    return "import sys; sys.argv = [%r, %r, '0']; exec(compile(open(%r).read(), %r, 'exec'))" % (FILE, mode, FILE, FILE)


def sub():
    import _testcapi
    _testcapi.run_in_subinterp(again(sys.argv[1][3:] or "plain"))  # line 70


def subthread():
    try:
        import _interpreters as inner
    except ImportError:
        import _xxsubinterpreters as inner
    one = inner.create()
    run = getattr(inner, "exec", None) or inner.run_string
    t = threading.Thread(target=run, args=(one, again("plain")), daemon=True)
    t.start()
    t.join()


LONG = 1000000
DATA = bytes(range(256)) * 40000
FILE = sys.argv[0]
MODE = {"plain": plain, "deep": deep, "thread": thread, "zip": zipped, "sub": sub, "subzip": sub, "subthread": subthread}
leaf(1)
if not sys.argv[1].startswith("sub"):
    print("ready", flush=True)
MODE[sys.argv[1]]()  # line 92
