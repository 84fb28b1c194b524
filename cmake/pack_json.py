#!/usr/bin/env python3
"""pack_json.py FILE.json OUT.gz: FILE without its white space, gzipped, the same for the same FILE."""
import gzip
import json
import pathlib
import sys

value = json.loads(pathlib.Path(sys.argv[1]).read_text())
packed = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
pathlib.Path(sys.argv[2]).write_bytes(gzip.compress(packed, 9, mtime=0))
