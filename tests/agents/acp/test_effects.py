"""Parsing of a permission request's JSON (H-2): input that cannot be read counts as nothing, never as a part of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.agents.acp.effects import content_of, diff_path, json_object, paths_of, with_content, with_input
from interlock.agents.acp.wire import AskedCall, Location

pytestmark = pytest.mark.req("H-2")
OWN = AskedCall(title="t", kind="other", raw_input=msgspec.Raw(b"{}"))


def test_an_input_is_inserted_with_its_kind_if_one_is_named() -> None:
    assert bytes(with_input(OWN, {"a": 1}).raw_input) == b'{"a":1}'
    assert (with_input(OWN, {}).kind, with_input(OWN, {}, "edit").kind) == ("other", "edit")
    assert bytes(OWN.raw_input) == b"{}"


def test_content_survives_a_round_trip() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "é"}}]
    assert content_of(with_content(OWN, content)) == content


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b'"text"', b"[{]", b"null"])
def test_content_that_is_not_a_list_of_objects_is_none(raw: bytes) -> None:
    assert content_of(AskedCall(content=msgspec.Raw(raw))) == []


@pytest.mark.parametrize(("item", "path"), [
    ({"type": "diff", "path": "a", "newText": "x"}, "a"), ({"type": "diff", "path": "a", "newText": "x",
    "oldText": "y"}, "a"),
    ({"type": "diff", "path": "a", "newText": "x", "oldText": 7}, None), ({"type": "diff", "path": "a"}, None),
    ({"type": "diff", "path": 7, "newText": "x"}, None), ({"type": "text", "path": "a", "newText": "x"}, None), ({},
    None),
])
def test_a_change_is_a_path_with_its_new_text(item: dict[str, Any], path: str | None) -> None:
    assert diff_path(item) == path


@pytest.mark.parametrize(("raw", "value"), [
    (b'{"a":1,"a":2}', {"a": 2}), ("{}", {}), (b"[]", None), (b"", None), (b'"x"', None), (b"{", None), (b"\xff", None),
])
def test_anything_but_an_object_is_none(raw: bytes | str, value: Any) -> None:
    assert json_object(raw) == value


def test_paths_keep_the_order_of_the_request() -> None:
    assert paths_of(AskedCall(locations=[Location("b"), Location("a")])) == ["b", "a"]
    assert paths_of(AskedCall()) == []
