"""Old tool results cut short before a request (Z-7)."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.session.context.tokens import context_tokens
from interlock.session.context.tool_result_limits import CLEARED, PruningSettings, pruned
from session.plain_compaction import random_turns

pytestmark = [pytest.mark.req("Z-7")]


def result(call: str, text: str) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call, "toolName": "shell", "isError": False,
            "content": [{"type": "text", "text": text}]}


def answer(text: str = "ok") -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def long_chat(results: int = 10, chars: int = 10_000) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(results):
        found += [answer(f"step {number}"), result(f"c{number}", f"begin{number} " + "x y " * (chars // 4) + "end")]
    return found


def text(message: Any) -> str:
    return message["content"][0]["text"]


def test_long_results_keep_their_beginning_and_end_over_the_soft_share() -> None:
    chat = long_chat()
    kept = pruned(chat, window=int(context_tokens(chat) / 0.4))
    old, new = text(chat[2]), text(kept[2])
    assert new.startswith(old[:1_500])
    assert old[-1_500:] in new
    assert len(new) < 3_300
    assert str(len(old)) in new, "how much there was is said"
    assert kept[-5:] == chat[-5:], "the last three assistant messages and what came with them stay"
    assert [one for one in kept if one["role"] != "toolResult"] == [one for one in chat if one["role"] != "toolResult"]


def test_over_the_hard_share_the_oldest_are_cleared_first() -> None:
    chat = long_chat(results=60, chars=3_900)  # None is long enough to be trimmed.
    window = int(context_tokens(chat) / 0.6)
    kept = pruned(chat, window)
    cleared = [at for at, message in enumerate(kept) if message["role"] == "toolResult" and text(message) == CLEARED]
    assert cleared
    assert cleared == [at for at in range(len(chat)) if chat[at]["role"] == "toolResult"][:len(cleared)]
    assert context_tokens(kept) <= window * 0.5
    assert len(cleared) < 57, "no more than needed"


@pytest.mark.parametrize(("chat", "window"), [
    (long_chat(), 1_000_000),  # Under the soft share.
    (long_chat(results=4, chars=10_000), 20_000),  # Under 50,000 characters that could go.
    (long_chat(results=3, chars=100_000), 10_000),  # All of it came with the last three assistant messages.
])
def test_below_the_limits_nothing_is_changed(chat: list[dict[str, Any]], window: int) -> None:
    assert pruned(chat, window) == chat


def test_every_limit_can_be_configured() -> None:
    chat = long_chat()
    assert pruned(chat, 20_000, PruningSettings(enabled=False)) == chat
    kept = pruned(chat, 20_000, PruningSettings(keep_last_assistants=0, placeholder="[gone]", hard_clear_ratio=0.0))
    assert {text(message) for message in kept if message["role"] == "toolResult"} == {"[gone]"}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1_000), window=st.integers(0, 20_000))
def test_only_old_results_are_changed_and_never_in_place(seed: int, window: int) -> None:
    chat = [one["message"] for one in random_turns(random.Random(seed), 10).entries if one["type"] == "message"]
    before = copy.deepcopy(chat)
    kept = pruned(chat, window, PruningSettings(min_prunable_chars=0, max_chars=200, head_chars=50, tail_chars=50))
    assert chat == before
    assert len(kept) == len(chat)
    assistants = [at for at, one in enumerate(chat) if one["role"] == "assistant"]
    for at, (old, new) in enumerate(zip(chat, kept, strict=True)):
        if old != new:
            assert old["role"] == "toolResult"
            assert at < assistants[-3]
            assert {**new, "content": 0} == {**old, "content": 0}
    assert context_tokens(kept) <= context_tokens(chat) + len(chat)
