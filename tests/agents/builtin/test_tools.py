"""The builtin agent's tools: which are offered, and how the model's arguments are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.agents.builtin.tools import TOOLS, offered, understood

pytestmark = pytest.mark.req("B-1")


@pytest.mark.parametrize("given", [
    "", "[]", "null", "7", "{", '{"path":1}', '{"path":"a","more":1}', '"' + "[" * 100_000, "[" * 100_000,
    {"path": None}, {}, {"path": "\ud800"}, None], ids=lambda given: ascii(given)[:20])
def test_odd_arguments_become_an_object_with_a_reason(given: Any) -> None:
    call = understood("read", given, list(TOOLS))
    assert isinstance(call.input, dict)
    assert call.wrong is not None or call.arguments is not None
    assert "\n" not in (call.wrong or "")
    assert msgspec.json.encode(call.input)


def test_offered_tools_depend_on_access_and_mode() -> None:
    names = {(access, mode): [tool.name for tool in offered(access, mode)]
             for access in ("rw", "ro", "none") for mode in ("default", "plan")}
    assert names["rw", "default"] == ["read", "list", "search", "write", "edit", "shell"]
    assert names["ro", "default"] == names["rw", "plan"] == ["read", "list", "search"]
    assert names["none", "default"] == []
