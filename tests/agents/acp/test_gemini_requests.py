"""Permission requests of Gemini CLI (H-2): the effect is read if the request holds all of it, and else it is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.agents.acp.calls import AcpToolCall
from interlock.agents.acp.effects import RequestRead, with_content
from interlock.agents.acp.gemini_requests import MAX_PROMPT_UNITS, gemini_effect
from interlock.agents.acp.wire import AskedCall, Location

pytestmark = pytest.mark.req("H-2")


def read(kind: str, title: str = "", text: str | None = None, content: list[dict[str, Any]] | None = None,
         paths: tuple[str, ...] = ()) -> Any:
    items = content if content is not None else [] if text is None else [
        {"type": "content", "content": {"type": "text", "text": text}}]
    own = with_content(AskedCall(title=title, kind=kind, locations=[Location(path) for path in paths]), items)
    found = gemini_effect(RequestRead(own, AcpToolCall("c"), "/w"))
    if found is None or found.whole:
        return None if found is None else "whole"
    return msgspec.json.decode(found.call.raw_input)


@pytest.mark.parametrize(("details", "value"), [
    ("[current working directory /w]", {"command": "ls"}),
    ("[current working directory /w] (list it)", {"command": "ls", "description": "list it"}),
    ("[current working directory /w] (x) [background]", {"command": "ls", "is_background": True, "description": "x"}),
    ("[in sub]", {"command": "ls", "dir_path": "sub"}), ("[in sub] (x)", {"command": "ls", "dir_path": "sub",
    "description": "x"}),
])
def test_a_command_is_the_title_with_its_context(details: str, value: dict[str, Any]) -> None:
    assert read("execute", "ls", details) == value


@pytest.mark.parametrize("details", [
    "", "anything", "[current working directory /other]", "[current working directory /w] trailing",
    "[in a] (x) [in b]",
    "[in a][in b]", "[in a] (b] (c)", "[current working directory /w](x)",
])
def test_model_text_that_looks_like_context_makes_the_request_unreadable(details: str) -> None:
    assert read("execute", "ls", details) is None


def test_a_command_without_a_title_is_none() -> None:
    assert read("execute", "", "[current working directory /w]") is None


DIFF = {"type": "diff", "path": "/w/a", "newText": "x"}


@pytest.mark.parametrize(("content", "paths", "found"), [
    ([DIFF], ("/w/a",), "whole"), ([DIFF], ("/w/b",), None), ([DIFF], (), None), ([DIFF, DIFF], ("/w/a",), None),
    ([DIFF], ("/w/a", "/w/b"), None), ([], ("/w/a",), None),
])
def test_an_edit_is_one_diff_of_the_one_file_that_is_named(content: Any, paths: tuple[str, ...], found: Any) -> None:
    assert read("edit", content=content, paths=paths) == found


@pytest.mark.parametrize(("title", "value"), [
    ("Fetching content from: https://x", {"url": "https://x"}),
    ('Processing URLs and instructions from prompt: "read https://a and http://b/c"',
     {"prompt": "read https://a and http://b/c", "urls": ["https://a", "http://b/c"]}),
    ('Processing URLs and instructions from prompt: "' + "x" * (MAX_PROMPT_UNITS - 3) + '..."', None),
    ('Processing URLs and instructions from prompt: "short..."', {"prompt": "short...", "urls": []}),
    ('Processing URLs and instructions from prompt: "', None), ("Fetching", None), ("", None),
])
def test_a_fetch_is_read_unless_its_prompt_was_truncated(title: str, value: Any) -> None:
    assert read("fetch", title) == value


@pytest.mark.parametrize(("title", "text", "value"), [
    ("tool (web MCP Server)", '{"a":1}', {"tool": "tool (web MCP Server)", "arguments": {"a": 1}}),
    ("tool (web MCP Server)", '{"a":1', None), ("tool (web MCP Server)", '{"command":"ls"}', None),
    ("tool", '{"a":1}', None),
])
def test_a_tool_of_a_server_is_read_with_whole_arguments(title: str, text: str, value: Any) -> None:
    assert read("other", title, text) == value


def test_another_kind_is_not_read() -> None:
    assert read("think", "x", "{}") is None
