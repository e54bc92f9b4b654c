"""How requests are written: method, path and media are the operation's, parameters that are None are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.protocol.answers import Health
from interlock.protocol.api.commands import GET_COMMAND, SUBMIT_COMMAND
from interlock.protocol.api.runners import PAIR_RUNNER
from interlock.protocol.api.transcripts import EXPORT_TRANSCRIPT, IMPORT_TRANSCRIPT
from interlock.protocol.bodies import PairBody
from interlock.sdk.requests.base import change, decoder, document, plain, read, written


def test_a_read_names_its_path_and_what_it_accepts() -> None:
    asked = read(GET_COMMAND, "cmd/1 ?")
    assert (asked.method, asked.path, asked.query, asked.body) == ("GET", "/v1/commands/cmd%2F1%20%3F", {}, None)
    assert (asked.accept, asked.changes, asked.repeatable) == ("application/json", False, True)


def test_a_response_that_is_not_json_is_its_bytes() -> None:
    asked = read(EXPORT_TRANSCRIPT, "s", format="html")
    assert (asked.accept, asked.read(b"<html>")) == ("*/*", b"<html>")


@pytest.mark.parametrize(("query", "text"), [
    ({"a": None, "b": 0, "c": "", "d": "x"}, {"b": "0", "c": "", "d": "x"}), ({}, {}), ({"a": None}, {})])
def test_parameters_that_are_none_are_omitted(query: dict[str, object], text: dict[str, str]) -> None:
    assert written(query) == text


@pytest.mark.req("M-1")
def test_a_change_is_retried_only_under_an_idempotency_key() -> None:
    fresh = change(SUBMIT_COMMAND)
    assert (fresh.body, fresh.content_type) == (b"{}", "application/json")
    assert not fresh.repeatable
    assert fresh.with_key("k").repeatable
    assert change(SUBMIT_COMMAND, key="own").with_key("k").key == "own"
    once = change(PAIR_RUNNER, body=PairBody(code="c")).with_key("k")
    assert (once.key, once.repeatable) == (None, False)


@pytest.mark.req("X-6")
def test_an_upload_is_the_body_in_the_operations_media_type() -> None:
    piece = change(IMPORT_TRANSCRIPT, uploaded=b"{}\n", agent_id="shell")
    assert (piece.body, piece.file, piece.content_type) == (b"{}\n", None, "application/x-ndjson")
    file = change(IMPORT_TRANSCRIPT, uploaded=Path("t.jsonl"), agent_id="shell")
    assert (file.body, file.file, file.query) == (None, Path("t.jsonl"), {"agent_id": "shell"})


def test_the_health_and_openapi_requests_are_outside_the_table() -> None:
    asked = document("/healthz", Health)
    assert (asked.path, asked.read(b'{"ok":true,"newer":1}')) == ("/healthz", Health(ok=True))


def test_a_request_without_arguments_has_the_methods_docstring_and_result() -> None:
    made = plain(GET_COMMAND, "Read it.")
    assert made.__doc__ == "Read it."
    assert made.__annotations__["return"] == "RequestSpec[Command]"
    assert decoder(Health) is decoder(Health)
