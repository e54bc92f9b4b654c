"""The link's protocol for other programs: JSON Schema (2020-12) and AsyncAPI 3.0, generated from the frame table (W-1).

`python -m interlock.protocol.schema [json|asyncapi]` prints a document; `spec/` stores both, and a test compares them.
What is valid here is what `frames.decode` accepts: unknown types and unknown fields are allowed (E-1), a known type
must match its payload and its class. Directions are annotations (`x-direction`), since a schema of one frame cannot
know who sends it; the AsyncAPI document separates them as operations.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import ENVELOPE, FRAMES, Class, Direction, FrameType
from interlock.protocol.limits import MAX_FRAME_BYTES, MAX_ID_CHARS, MAX_MESSAGE_BYTES

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "RAWP-DPS frames, with Interlock's profile"
LINE = (f"The frames between a gateway (RAWP Master) and a runner (RAWP Local Client), {DPS_VERSION}. "
        "`x-origin` tells the published words (S, R) from those of Interlock's own profile (P).")

LICENSE_URL = "https://www.apache.org/licenses/LICENSE-2.0"

DEFINITIONS = "#/$defs/"
COMPONENTS = "#/components/schemas/"

_ENVELOPE: Schema = {
    "title": "Envelope",
    "description": "What every frame has (rawp section 2). Unknown fields are kept (E-1).",
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "A dotted name; ours stand under `x-interlock.` (E-2)."},
        "payload": {},
        "message_id": {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS,
                       "description": "Unique; a repeated one is the same frame."},
        "session_id": {"type": ["string", "null"], "maxLength": MAX_ID_CHARS,
                       "description": "Absent on frames of the link only."},
        "seq": {"type": ["integer", "null"], "description": "1-based, gap-free, per session and direction (E-3)."},
        "timestamp": {"type": "string", "description": "ISO 8601 UTC, milliseconds."},
        "metadata": {"type": "object", "description": "Open: `in_reply_to`, `delegation_chain`, `prompt_id` …"},
    },
    "required": ["type", "payload", "message_id"],
    "x-origin": {field: origin.value for field, origin in ENVELOPE.items()},
}

_NUMBERED: Schema = {"type": "integer", "minimum": 1}
_NAMED: Schema = {"type": "string"}


def json_schema() -> Schema:
    """Return one document: a frame is the envelope, and what its type requires."""
    definitions = _payloads(DEFINITIONS)
    definitions["Envelope"] = copy.deepcopy(_ENVELOPE)
    definitions |= {row.name: _frame(row, DEFINITIONS) for row in FRAMES.values()}
    definitions["Frame"] = {
        "title": "Frame",
        "description": "Any frame; one of an unknown type is durable, and is kept and relayed (E-1).",
        "allOf": [{"$ref": DEFINITIONS + "Envelope"}, *(_when(row.name) for row in FRAMES.values()),
                  {"if": {"not": {"properties": {"type": {"enum": list(FRAMES)}}}}, "then": _durable()}],
    }
    return {"$schema": DIALECT, "$id": f"urn:interlock:{DPS_VERSION}", "title": TITLE, "description": LINE,
            "$ref": DEFINITIONS + "Frame", "$defs": definitions}


def asyncapi() -> Schema:
    """Return the link as AsyncAPI 3.0, from the gateway's side: it receives what runners send (C), and sends M."""
    schemas = _payloads(COMPONENTS)
    schemas["Envelope"] = copy.deepcopy(_ENVELOPE)
    schemas["Frame"] = {"$ref": COMPONENTS + "Envelope"}
    messages = {row.name: _message(row) for row in FRAMES.values()}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": TITLE, "version": DPS_VERSION, "description": LINE,
                 "license": {"name": "Apache-2.0", "url": LICENSE_URL}},
        "defaultContentType": "application/json",
        "channels": {"rawp": {
            "address": "/rawp",
            "title": "The link",
            "description": f"A WebSocket that the runner dials, subprotocol `{DPS_VERSION}`, with `Authorization: "
                           "Bearer <runner token>`. Text messages of JSON. A frame takes at most "
                           f"{MAX_FRAME_BYTES} bytes, a message {MAX_MESSAGE_BYTES} (L-2).",
            "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
            "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0", "headers": {
                "type": "object", "required": ["Authorization", "Sec-WebSocket-Protocol"],
                "properties": {"Authorization": {"type": "string"},
                               "Sec-WebSocket-Protocol": {"type": "string", "const": DPS_VERSION}}}}},
        }},
        "operations": {
            "fromRunner": _operation("receive", "What a runner sends (C).", Direction.C),
            "toRunner": _operation("send", "What the gateway sends (M).", Direction.M),
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def document(name: str) -> bytes:
    """Return a document in the form of `spec/`: indented, ended by a newline. `name` is a key of DOCUMENTS."""
    return msgspec.json.format(msgspec.json.encode(DOCUMENTS[name]()), indent=1) + b"\n"


DOCUMENTS = {"json": json_schema, "asyncapi": asyncapi}
"""The documents that can be printed, by the argument that selects them."""


def _payloads(prefix: str) -> dict[str, Schema]:
    """Return schemas of every payload and of its parts, by name."""
    kinds = {row.payload for row in FRAMES.values()}
    _, found = msgspec.json.schema_components(sorted(kinds, key=lambda kind: kind.__name__),
                                              ref_template=prefix + "{name}")
    # The frames of a history are bytes to the codec; each is an ordinary frame (D-2).
    found["History"]["properties"]["frames"]["items"] = {"$ref": prefix + "Frame"}
    return dict(found)


def _frame(row: FrameType, prefix: str) -> Schema:
    """Return the schema of one type: its payload, and what its class requires of the envelope (E-4)."""
    schema = {"title": row.name, "type": "object", **_marks(row)}
    rules = _rules(row)
    schema["properties"] = {"type": {"const": row.name}, "payload": {"$ref": prefix + row.payload.__name__},
                            **rules["properties"]}
    schema["required"] = ["type", "payload", *rules["required"]]
    return schema


def _rules(row: FrameType) -> Schema:
    if row.frame_class is Class.DURABLE:
        return _durable()
    properties: Schema = {"seq": {"type": "null"}}
    if row.frame_class is Class.LINK and row.name != "session.history":
        return {"properties": properties, "required": []}
    return {"properties": properties | {"session_id": dict(_NAMED)}, "required": ["session_id"]}


def _durable() -> Schema:
    return {"properties": {"seq": dict(_NUMBERED), "session_id": dict(_NAMED)}, "required": ["seq", "session_id"]}


def _when(name: str) -> Schema:
    return {"if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"$ref": DEFINITIONS + name}}


def _marks(row: FrameType) -> Schema:
    """Return the table's other columns as annotations."""
    origins = {"name": row.origin.value, **_origins(row.published)}
    marks: Schema = {"description": _described(row), "x-direction": row.direction.value,
                     "x-class": row.frame_class.value, "x-origin": origins}
    if row.features:
        marks["x-features"] = sorted(row.features)
    return marks


def _origins(published: Mapping[str, Any]) -> dict[str, str]:
    return {f"payload.{field}": origin.value for field, origin in published.items()}


def _described(row: FrameType) -> str:
    return " ".join((row.payload.__doc__ or "").split())


def _message(row: FrameType) -> Schema:
    return {"name": row.name, "title": row.name, "summary": _described(row), "contentType": "application/json",
            "payload": {"allOf": [{"$ref": COMPONENTS + "Envelope"}, _frame(row, COMPONENTS)]}}


def _operation(action: str, summary: str, direction: Direction) -> Schema:
    sent: Iterable[str] = (row.name for row in FRAMES.values() if row.direction in (direction, Direction.BOTH))
    return {"action": action, "summary": summary, "channel": {"$ref": "#/channels/rawp"},
            "messages": [{"$ref": f"#/channels/rawp/messages/{name}"} for name in sent]}


def main(words: list[str]) -> int:
    """Print a document; return 2 for an unknown argument."""
    name = words[0] if words else "json"
    if name not in DOCUMENTS or len(words) > 1:
        sys.stderr.write(f"usage: python -m interlock.protocol.schema [{'|'.join(DOCUMENTS)}]\n")
        return 2
    sys.stdout.buffer.write(document(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
