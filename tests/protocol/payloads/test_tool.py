"""`tool.` frames (E-4, E-5): the input stays as its bytes, and offsets and sizes are counts."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.protocol.frames import Direction, InvalidFrame, decode
from protocol.seed_frames import framed

REQUEST = {"invocation_id": "i", "turn_id": "t", "tool_name": "shell", "input": {"command": "ls"}}
STREAM = {"invocation_id": "i", "channel": "stdout", "offset": 0, "text": "a"}
RESULT = {"invocation_id": "i", "status": "ok", "output_type": "text", "output": "a", "duration_ms": 5}
SAMPLES: dict[str, dict[str, Any]] = {
    "tool.invoke.request": REQUEST, "tool.invoke.stream": STREAM, "tool.invoke.result": RESULT}


def payload(kind: str, **fields: Any) -> Any:
    return decode(framed(kind, {**SAMPLES[kind], **fields}), Direction.C).payload


@pytest.mark.req("P-2")
@pytest.mark.parametrize("written", ['{ "b":1.0, "a" : "\\u00e9" }', "[]", '"text"', "7", "null"])
def test_the_input_is_kept_byte_for_byte(written: str) -> None:
    raw = framed("tool.invoke.request", {**REQUEST, "input": "HERE"}).replace(b'"HERE"', written.encode())
    assert bytes(decode(raw, Direction.C).payload.input) == written.encode()


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, sample in SAMPLES.items() for field in sample])
def test_a_field_that_is_missing_is_named_by_its_place(kind: str, field: str) -> None:
    less = {name: value for name, value in SAMPLES[kind].items() if name != field}
    with pytest.raises(InvalidFrame, match="missing") as caught:
        decode(framed(kind, less), Direction.C)
    assert caught.value.path == f"$.payload.{field}"


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "wrong"), [
    ("tool.invoke.stream", {"offset": -1}), ("tool.invoke.stream", {"channel": "stdin"}),
    ("tool.invoke.result", {"status": "OK"}), ("tool.invoke.result", {"output_type": "html"}),
    ("tool.invoke.result", {"duration_ms": -5}),
    ("tool.invoke.result", {"truncated": {"bytes_total": 9, "bytes_kept": -1, "sha256": ""}}),
])
def test_unknown_values_and_negative_figures_are_refused(kind: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidFrame):
        payload(kind, **wrong)


@pytest.mark.parametrize("output", ["text", None, 1.5, ["a"], {"diff": []}])
def test_an_output_is_any_json(output: Any) -> None:
    assert payload("tool.invoke.result", output=output).output == output


@pytest.mark.req("E-5")
def test_truncation_is_stated_beside_the_output() -> None:
    cut = {"bytes_total": 9, "bytes_kept": 4, "sha256": "0" * 64}
    found = payload("tool.invoke.result", truncated=cut).truncated
    assert (found.bytes_total, found.bytes_kept, found.sha256) == (9, 4, "0" * 64)
    assert payload("tool.invoke.result").truncated is None
