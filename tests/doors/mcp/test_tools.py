"""What a model receives of a task: the answer and the tools' output, never more than a limit (O-8)."""

from __future__ import annotations

import pytest

from interlock.doors.mcp.tools import PAGE_MAX, TEXT_MAX_CHARS, answer_text, bounded, shortened

pytestmark = pytest.mark.req("O-8")


def part(text: str) -> dict[str, str]:
    return {"contentType": "text", "value": text}


def test_the_answer_comes_first_and_each_tool_is_named() -> None:
    output = [{"role": "tool", "name": "shell", "content": [part("one\n")]},
              {"role": "assistant", "content": [part("It is "), part("done.")]},
              {"role": "assistant", "content": [{"contentType": "image", "value": {"data": ""}}]},
              {"role": "tool", "content": []}]
    assert answer_text(output) == "It is done.\n[shell]\none\n"


@pytest.mark.parametrize("length", [0, 1, TEXT_MAX_CHARS])
def test_a_text_within_the_limit_is_complete(length: int) -> None:
    assert shortened("x" * length) == "x" * length


def test_a_longer_text_is_truncated_in_the_middle_with_a_remark() -> None:
    cut = shortened("a" * TEXT_MAX_CHARS + "z" * TEXT_MAX_CHARS)
    assert cut.startswith("a" * 100)
    assert cut.endswith("z" * 100)
    assert f"[… {TEXT_MAX_CHARS} characters left out …]" in cut
    assert len(cut) < TEXT_MAX_CHARS + 100


@pytest.mark.parametrize(("asked", "given"), [(-1, 1), (0, 1), (7, 7), (10_000, PAGE_MAX)])
def test_a_page_is_bounded(asked: int, given: int) -> None:
    assert bounded(asked) == given
