"""What senders wrote must not command the terminal that it is shown on; a pipe gets every byte as it came."""

import os
import pty
import re
import subprocess
import termios
import threading

import pytest

import clients
import fixtures
import program
import schemas

LAYOUTS = ["2026", "seed-000", "seed-001", "typed", "full"]
POISON = "\x1b[2J\x1b]0;title\x07\r\b\x7f\u009b31m"
# Control characters that a line of text has no use for: C0 but for the line's end, DEL, and C1 in UTF-8.
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def poison(message):
    """Every string of a message, in place; lists of messages and maps of them below it, too."""
    for field, value in message.ListFields():
        repeated = not isinstance(value, (str, bytes, int, float)) and hasattr(value, "append")
        if field.type == field.TYPE_STRING and repeated:
            value[:] = [v + POISON if v else v for v in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value + POISON)
        elif field.type == field.TYPE_MESSAGE:
            for m in value if repeated or hasattr(value, "add") else [value]:
                poison(m)


@pytest.fixture(scope="module")
def body():
    request = schemas.schema(schemas.NEWEST).Request.FromString(
        fixtures.body("v1.11.0-synthetic-offcpu-links").bytes)
    poison(request)
    return request.SerializeToString()


class Terminal:
    """A pseudo terminal; what is written to it is read all the time. Lines end in \\n only: its driver adds nothing."""

    def __init__(self):
        self.ours, self.path_fd = pty.openpty()
        mode = termios.tcgetattr(self.path_fd)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(self.path_fd, termios.TCSANOW, mode)
        self.path, self.text = os.ttyname(self.path_fd), b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError:
                return
            if not data:
                return
            self.text += data

    def close(self):
        """After the last writer has gone: all that was written."""
        os.close(self.path_fd)
        self._reader.join(program.HANG)
        os.close(self.ours)
        return self.text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_terminal_is_not_commanded(backend, body, layout):
    terminal = Terminal()
    with program.backend("-stdout.layout", layout, "-stdout.color", "never", stdout=terminal.path) as server:
        assert clients.post(server.http, body).status == 200
    shown = terminal.close()
    assert b"title" in shown and not CONTROL.search(shown), CONTROL.search(shown)
    piped = backend("-stdout.layout", layout)
    assert clients.post(piped.http, body).status == 200
    text = piped.wait_stdout(1000)
    if layout != "full":
        assert POISON.encode() in text


@pytest.mark.parametrize("words", [*(["--layout", name] for name in LAYOUTS), ["--format", "folded"], ["--format", "json"],
                                   ["--format", "otlp-json"]], ids=" ".join)
def test_decode_does_not_command_a_terminal(tmp_path, body, words):
    file = tmp_path / "body.pb"
    file.write_bytes(body)
    terminal = Terminal()
    with open(terminal.path, "wb", buffering=0) as out:
        subprocess.run([str(program.existing_path()), "decode", *words, str(file)], stdout=out, stderr=out, check=True,
                       env=program.environment(NO_COLOR="1"), timeout=program.HANG)
    shown = terminal.close()
    assert b"title" in shown and not CONTROL.search(shown), CONTROL.search(shown)
    if words[0] == "--layout" and words[1] != "full":
        assert POISON.encode() in program.run("decode", *words, file, check=0).stdout


def test_decode_puts_no_protobuf_on_a_terminal(tmp_path, body):
    file = tmp_path / "body.pb"
    file.write_bytes(body)
    terminal = Terminal()
    with open(terminal.path, "wb", buffering=0) as out:
        done = subprocess.run([str(program.existing_path()), "decode", "--format", "otlp", str(file)], stdout=out, stderr=subprocess.PIPE,
                              env=program.environment(), timeout=program.HANG)
    assert done.returncode == 2 and b"standard output is a terminal" in done.stderr
    assert b"title" not in terminal.close()


@pytest.mark.parametrize("command", [["check"], ["top"], ["top", "--tree"], ["diff"], ["diff", "--fail-above", "0"]], ids=" ".join)
def test_tables_and_findings_do_not_command_a_terminal(tmp_path, body, command):
    file = tmp_path / "body.pb"
    file.write_bytes(body)
    files = [file] * (2 if command[0] == "diff" else 1)
    done = program.run(*command, *files)
    assert done.stdout and not CONTROL.search(done.stdout + done.stderr), CONTROL.search(done.stdout + done.stderr)
