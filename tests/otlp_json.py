"""OTLP/JSON read by Google's protobuf: the deviations (hex ids) are undone first, all else must be proto3 JSON."""

import base64
import json

from google.protobuf import json_format

import schemas

_HEX = {"traceId", "spanId", "profileId"}


def _undo_hex(v):
    if isinstance(v, dict):
        return {k: base64.b64encode(bytes.fromhex(x)).decode() if k in _HEX else _undo_hex(x) for k, x in v.items()}
    if isinstance(v, list):
        return [_undo_hex(x) for x in v]
    return v


def parse(text, version=schemas.NEWEST):
    """The message of one OTLP/JSON text; an unknown key fails."""
    return json_format.ParseDict(_undo_hex(json.loads(text)), schemas.schema(version).Request())


def _to_hex(v):
    if isinstance(v, dict):
        return {k: base64.b64decode(x).hex() if k in _HEX else _to_hex(x) for k, x in v.items()}
    if isinstance(v, list):
        return [_to_hex(x) for x in v]
    return v


def dumps(message):
    """OTLP/JSON of a message."""
    return json.dumps(_to_hex(json_format.MessageToDict(message))).encode()
