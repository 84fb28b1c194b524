#!/usr/bin/env python3
"""plain_page.py PAGE.html DIR: the gzipped files of a build without the page: PAGE, an empty script, an empty style."""
import gzip
import pathlib
import sys

page, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
for name, data in (("index.html", page.read_bytes()), ("app.js", b""), ("app.css", b""), ("report.html", b"")):
    (out / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))
