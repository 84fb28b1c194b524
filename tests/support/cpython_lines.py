"""Prints lines of code objects as the interpreter that runs this knows them: the oracle of cpython_lines_test.c.

    python3.X tests/support/cpython_lines.py >> tests/fixtures/cpython/lines.txt

One code object a line: minor version, kind of table, first line, the table in hex, and pairs offset=line, 0 where an
instruction has none. Uses nothing but what 3.6 has, too.
"""
import dis
import sys
import textwrap

SOURCE = textwrap.dedent(
    '''
    def plain(a, b):
        c = a + b

        return c * 2

    def branches(items):
        total = 0
        for item in items:
            if item > 3:
                total += item
            elif item < 0:
                continue
            else:
                total -= 1
        while total:
            total -= 1
            if total == 7:
                break
        return total

    def guarded(x):
        try:
            with open(x) as f:
                return f.read()
        except (OSError,
                ValueError) as e:
            raise RuntimeError(
                "a long" +
                "call over"
                "lines", e)
        finally:
            print(x)

    def generator(n):
        for i in range(n):
            yield i
        yield from (j for j in range(n)
                    if j)

    async def waits(x):
        async with x as y:
            await y
        return [z async for z in y]

    class Thing:
        value = 1

        def method(self):
            return lambda: self.value

    def backwards(a):
        return (a[
            0] + a[1] +
            a[2]
            if a else
            None)
    '''
)
# Steps of more than 255 bytes and 127 lines, forwards and (a call's arguments) backwards.
SOURCE += "def far(a):\n    x = [" + "a, " * 300 + "]\n" + "\n" * 400 + "    y = a(\n" + "\n" * 200 + "      a)\n    return x, y\n"
SOURCE += "\n" * 70000 + "def far_down(a):\n    return a\n"


def lines_of(code):
    """Offset -> line, for each instruction."""
    minor = sys.version_info[1]
    out = {}
    if minor >= 10:
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                out[at] = line or 0
    else:
        starts = dict(dis.findlinestarts(code))
        # findlinestarts leaves out rows that do not change the line; the interpreter's own PyCode_Addr2Line() goes
        # through the same pairs.
        line = code.co_firstlineno
        for at in range(0, len(code.co_code), 2):
            line = starts.get(at, line)
            out[at] = line
    return out


def walk(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from walk(const)


def main():
    minor = sys.version_info[1]
    kind = 0 if minor <= 9 else 1 if minor == 10 else 2
    for code in walk(compile(SOURCE, "source.py", "exec")):
        table = code.co_lnotab if kind == 0 else code.co_linetable
        pairs = " ".join("%d=%d" % pair for pair in sorted(lines_of(code).items()))
        print("3.%d %d %d %s %s" % (minor, kind, code.co_firstlineno, table.hex() or "-", pairs))


main()
