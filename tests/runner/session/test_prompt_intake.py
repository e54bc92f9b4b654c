"""A prompt before the agent gets it: the files that it names, and a box that restricts no less than was decided."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.codes import Code
from interlock.runner.session.prompt_intake import PromptRefused, check_box, files_of, take_plan

pytestmark = pytest.mark.anyio
WALLED = Box(walls="landlock")


def prompt(**more: Any) -> p.PromptRequest:
    return p.PromptRequest(prompt_id="p", input_type="text", origin="user", text="hi", **more)


@pytest.mark.req("H-18")
async def test_a_box_that_is_less_strict_than_decided_is_refused() -> None:
    check_box(None, prompt())
    check_box(WALLED, prompt(only_in_box=WALLED))
    for box in (None, Box(walls="none")):
        with pytest.raises(PromptRefused, match="restricts less") as refused:
            check_box(box, prompt(only_in_box=WALLED))
        assert refused.value.code == Code.NOT_BOXED


async def test_the_files_of_a_prompt_and_of_a_plan_are_those_they_name() -> None:
    blocks = [{"type": "text", "text": "hi"}, {"type": "image", "transfer_id": "tr_1", "sha256": "0" * 64}]
    named = p.PromptRequest(prompt_id="p", input_type="blocks", origin="user", content=blocks,
                            context={"transfer_id": "tr_2", "sha256": "0" * 64})

    assert sorted(files_of(named)) == ["tr_1", "tr_2"]
    assert files_of(prompt()) == []
    assert files_of(p.SessionCompact(request_id="r", plan={"context": {"transfer_id": "tr_3"}})) == ["tr_3"]
    assert files_of(p.SessionCompact(request_id="r")) == []
    assert files_of(p.TurnCancel(reason="x")) == []


class OneFile:
    """What was uploaded: one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def one(self, block: dict[str, Any]) -> dict[str, Any]:
        return {**block, "text": self._text}


@pytest.mark.req("Z-4")
async def test_a_plans_context_file_is_inserted_and_invalid_json_refused() -> None:
    plan = p.SessionCompact(request_id="r", plan={"context": {"transfer_id": "tr_3"}, "keep": 1})
    good: Any = OneFile('{"entries": []}')
    bad: Any = OneFile("not json")

    assert (await take_plan(good, plan)).plan == {"context": {"entries": []}, "keep": 1}
    whole = p.SessionCompact(request_id="r", plan={"context": {"entries": [1]}})
    assert (await take_plan(good, whole)).plan == {"context": {"entries": [1]}}
    assert await take_plan(good, bare := p.SessionCompact(request_id="r")) is bare
    with pytest.raises(PromptRefused, match="cannot be read") as refused:
        await take_plan(bad, plan)
    assert refused.value.code == Code.INVALID_FRAME
