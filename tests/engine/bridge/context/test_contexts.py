"""The missing part of an agent's context is sent with its prompt: from the last entry that it has, or as a file
(B-1)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.engine.bridge.context.context_state import ContextState
from interlock.engine.bridge.context.contexts import ContextMessage, travelling, without_prompt
from interlock.protocol.limits import MAX_PROMPT_BYTES
from interlock.session.context.tool_result_limits import PruningSettings
from interlock.session.transfers import bytes_of

pytestmark = pytest.mark.req("B-1")


def texts(*names: str, text: str = "hi") -> list[ContextMessage]:
    return [ContextMessage(name, msgspec.Raw(msgspec.json.encode({"text": text}))) for name in names]


def sent_to(state: ContextState, messages: list[ContextMessage]) -> tuple[str | None, list[str]]:
    context = travelling(state, messages, lambda: "tr_1").context
    return context["base"], [entry["id"] for entry in context["entries"]]


def test_an_agent_without_context_receives_all_of_it() -> None:
    assert sent_to(ContextState(), texts("a", "b", "c")) == (None, ["a", "b", "c"])


def test_an_agent_receives_the_entries_after_its_last_one() -> None:
    assert sent_to(ContextState(sent="b"), texts("a", "b", "c")) == ("b", ["c"])
    assert sent_to(ContextState(sent="c"), texts("a", "b", "c")) == ("c", [])


def test_an_entry_removed_by_a_compaction_is_not_a_base() -> None:
    assert sent_to(ContextState(sent="gone"), texts("a", "b")) == (None, ["a", "b"])


def test_only_non_default_limits_of_tool_results_are_sent() -> None:
    usual = travelling(ContextState(), texts("a"), lambda: "tr_1").context
    field = next(iter(PruningSettings.__struct_fields__))
    changed = msgspec.structs.replace(PruningSettings(), **{field: 12_345})
    other = travelling(ContextState(), texts("a"), lambda: "tr_1", changed).context

    assert "pruning" not in usual
    assert other["pruning"][field] == 12_345


def test_a_context_too_large_for_a_frame_is_sent_as_a_file() -> None:
    large = texts("a", "b", text="x" * MAX_PROMPT_BYTES)

    found = travelling(ContextState(), large, lambda: "tr_1")

    assert (found.leaf, found.context["transfer_id"]) == ("b", "tr_1")
    whole = msgspec.json.decode(b"".join(map(bytes_of, found.transfers)))
    assert [entry["id"] for entry in whole["entries"]] == ["a", "b"]
    assert {transfer.purpose for transfer in found.transfers} == {"context"}


def test_a_resent_prompt_is_not_in_the_context_before_it() -> None:
    messages = texts("a", "b", "c")

    assert without_prompt(messages, "c") == messages[:2]
    assert without_prompt(messages, "b") == messages[:1]
    assert without_prompt(messages, "not there") == messages
