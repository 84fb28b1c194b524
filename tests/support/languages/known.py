"""A known stack for test_agent_languages.py, from CPython 3.6 on."""
import sys


def burn(times):
    total = 0
    for i in range(times):
        total += i * i % 7
    return total


def recurse(n):
    return recurse(n - 1) + 1 if n else sum(map(burn, (20000,)))


def work():
    while True:
        recurse(3)


sys.stdout.write("spinning\n")
sys.stdout.flush()
work()
