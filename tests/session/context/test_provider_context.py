"""A context as a provider accepts it (Z-7), compared with the rules by which providers refuse."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.session.context.provider_context import NO_OUTPUT, NO_RESULT, PROVIDERS, cleaned, provider_of
from session.plain_compaction import random_turns

pytestmark = [pytest.mark.req("Z-7")]
Message = dict[str, Any]


def user(text: Any) -> Message:
    return {"role": "user", "content": text, "timestamp": 1}


def calls(*ids: str, text: str = "") -> Message:
    parts = [{"type": "text", "text": text}] if text else []
    return {"role": "assistant", "content": [*parts, *({"type": "toolCall", "id": one, "name": "ls", "arguments": {}}
                                                       for one in ids)], "timestamp": 2}


def result(call: str, text: str = "out") -> Message:
    return {"role": "toolResult", "toolCallId": call, "toolName": "ls", "isError": False, "timestamp": 3,
            "content": [{"type": "text", "text": text}]}


def check(messages: list[Message], provider: str) -> None:
    """The reasons for which every provider refuses a request."""
    rules = provider_of(provider)
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message["role"]
        assert role in ("user", "assistant", "toolResult")
        assert message["content"], "an empty message"
        if role == "toolResult":
            assert waiting, "a result without its call, or out of order"
            assert message["toolCallId"] == waiting.pop(0)
            continue
        assert not waiting, "a call without its result"
        if role == "assistant":
            waiting = [part["id"] for part in message["content"] if part["type"] == "toolCall"]
            assert len(set(waiting)) == len(waiting)
            assert all(rules.id_form.match(one) for one in waiting)
            assert all(part.get("thinkingSignature") for part in message["content"] if part["type"] == "thinking")
        if rules.alternates and at:
            assert not (role == "user" == messages[at - 1]["role"]), "two user messages in a row"
    assert not waiting
    if rules.alternates and messages:
        assert messages[0]["role"] == "user"


@pytest.mark.parametrize("provider", [*PROVIDERS, "unheard-of/model"])
def test_calls_and_results_are_paired_and_ordered(provider: str) -> None:
    chat = [user("go"), calls("a", "b"), result("b", "second"), user("meanwhile"), result("a", "first"),
            result("nobody"), result("a", "again")]
    clean = cleaned(chat, provider)
    check(clean, provider)
    results = [message["content"][0]["text"] for message in clean if message["role"] == "toolResult"]
    assert results == ["first", "second"]


def test_a_call_without_a_result_gets_a_result_with_that_remark() -> None:
    clean = cleaned([user("go"), calls("a"), user("and?")], "anthropic")
    check(clean, "anthropic")
    assert clean[2]["content"][0]["text"] == NO_RESULT
    assert clean[2]["isError"] is True


@pytest.mark.parametrize(("provider", "call_id"), [
    ("anthropic", "functions.ls:0"), ("openai", "x" * 41), ("mistral", "call_1"), ("mistral", "functions.ls:0")])
def test_ids_are_in_the_providers_alphabet_and_the_same_each_time(provider: str, call_id: str) -> None:
    chat = [user("go"), calls(call_id, "call_2"), result(call_id), result("call_2")]
    clean = cleaned(chat, provider)
    check(clean, provider)
    assert cleaned(chat, provider) == clean
    kept = cleaned([user("go"), calls("abcdefghi"), result("abcdefghi")], provider)
    assert kept[2]["toolCallId"] == "abcdefghi"


def test_no_message_is_empty() -> None:
    chat = [user("  "), user([]), user("go"), calls("a", text=" "), result("a", ""),
            {"role": "assistant", "content": [], "stopReason": "error"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}, user("on")]
    clean = cleaned(chat, "openai")
    check(clean, "openai")
    assert [message["role"] for message in clean] == ["user", "assistant", "toolResult", "user"]
    assert clean[2]["content"][0]["text"] == NO_OUTPUT


def test_entries_that_are_not_model_messages_are_converted() -> None:
    chat = [{"role": "compactionSummary", "summary": "so far", "tokensBefore": 1, "timestamp": 1},
            {"role": "branchSummary", "summary": "tried", "fromId": "a", "timestamp": 1},
            {"role": "custom", "customType": "x", "content": "note", "display": False, "timestamp": 1},
            {"role": "bashExecution", "command": "ls", "output": "f", "exitCode": 2, "timestamp": 1},
            {"role": "bashExecution", "command": "secret", "output": "s", "excludeFromContext": True, "timestamp": 1},
            {"role": "unheard of", "content": "x"}]
    shown = str(cleaned(chat, "openai"))
    assert all(word in shown for word in ("so far", "tried", "note", "Ran `ls`", "exit code 2"))
    assert "secret" not in shown
    assert len(cleaned(chat, "anthropic")) == 1, "all of one user"


def test_a_conversation_that_begins_in_mid_turn_begins_with_its_user() -> None:
    check(cleaned([calls("a"), result("a")], "google"), "google")


ODD = st.sampled_from(["a", "b", "functions.x:1", "", "é" * 50])
MESSAGES = st.lists(st.one_of(
    st.builds(user, st.sampled_from(["hi", " ", "", [], [{"type": "text", "text": "x"}], None])),
    st.lists(ODD, max_size=3).map(lambda ids: calls(*ids)),
    st.builds(result, ODD, st.sampled_from(["", "out"])),
    st.sampled_from([{"role": "assistant", "content": None}, {"role": None}, {}, calls("a", text="said"), {
        "role": "assistant", "content": [{"type": "toolCall", "id": "z", "name": "n", "arguments": "[broken"}, 7]}]),
), max_size=14)


@settings(max_examples=300, deadline=None)
@given(chat=MESSAGES, provider=st.sampled_from([*PROVIDERS, "other"]))
def test_any_file_content_is_sent_in_a_valid_form_and_not_changed_itself(chat: list[Message], provider: str) -> None:
    before = copy.deepcopy(chat)
    clean = cleaned(chat, provider)
    check(clean, provider)
    assert chat == before
    assert cleaned(clean, provider) == clean


@pytest.mark.parametrize("provider", [*PROVIDERS])
def test_a_valid_context_is_unchanged(provider: str) -> None:
    for seed in range(20):
        chat = [one["message"] for one in random_turns(random.Random(seed), 6).entries if one["type"] == "message"]
        clean = cleaned(chat, provider)
        check(clean, provider)
        assert sum(one["role"] == "toolResult" for one in clean) == sum(one["role"] == "toolResult" for one in chat)
        assert NO_RESULT not in str(clean)
