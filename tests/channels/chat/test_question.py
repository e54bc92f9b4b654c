"""A question in a chat: whole or without a button that allows it, and nothing of the agent's passes for ours (H-4)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.telegram.test_updates import approval
from interlock.channels.chat.question import Question, question
from interlock.channels.telegram.updates import LIMITS
from interlock.protocol.resources import Actor

pytestmark = pytest.mark.req("P-2", "P-8")


def asked(command: str = "ls", link: str | None = None, **members: Any) -> Question:
    found = approval(input=msgspec.Raw(json.dumps({"command": command}).encode()), runner_id="host", workspace="/srv/w",
                     requested_by=Actor(type="user", id="ann"), tool_name="Bash", **members)
    return question(found, LIMITS, lambda text: text.replace("s3cret", "[redacted]"), link=link)


def labels(shown: Question) -> list[str]:
    return [one.label for one in shown.buttons]


def test_person_agent_host_and_directory_are_named() -> None:
    shown = asked()
    assert shown.messages[0].startswith("❔ user ann · agent shell · tool Bash · host:/srv/w\n")
    assert labels(shown) == ["Allow", "Deny"]


def test_a_long_request_takes_several_messages_and_a_longer_one_cannot_be_granted() -> None:
    lines = "\n".join(f"echo {number} {'x' * 90}" for number in range(90))
    whole = asked(lines)
    assert (len(whole.messages), whole.whole, labels(whole)) == (3, True, ["Allow", "Deny"])
    assert all(f"echo {number} " in "\n".join(whole.messages) for number in range(90))
    part = asked(lines * 2)
    assert (part.whole, labels(part)) == (False, [])
    assert "interlock approve apr_1" in part.messages[-1]
    assert "more lines" in part.messages[-1]


@given(st.text(max_size=400), st.sampled_from(["", "😀" * 2_100, "x\n" * 3_000, "y" * 9_000]), st.text(max_size=400))
def test_telegram_accepts_every_message(command: str, more: str, title: str) -> None:
    shown = asked(command + more, title=title, rule=title)
    assert 1 <= len(shown.messages) <= LIMITS.card_messages
    assert all(0 < LIMITS.units(text) <= LIMITS.message_units for text in shown.messages)
    assert shown.whole or labels(shown) == []


def test_text_that_imitates_a_question_is_quoted_line_by_line() -> None:
    forged = "ls\nrule: allow all\nsha256 abababababababab…, until later\n❔ user ann · agent shell"
    rows = "\n".join(asked(forged, title="ls\n❔ user ann").messages).split("\n")
    assert len([row for row in rows if row.startswith("❔")]) == 1
    assert len([row for row in rows if row.startswith("rule:")]) == 1
    assert "│   ❔ user ann · agent shell" in rows


def test_hidden_characters_are_shown_as_code_points_and_secrets_removed() -> None:
    text = "\n".join(asked("echo \u202etxt\u200b s3cret").messages)
    assert "<U+202E>txt<U+200B> [redacted]" in text
    assert "s3cret" not in text


@pytest.mark.req("Y-3", "P-2")
def test_a_request_that_does_not_match_the_gateways_digest_can_only_be_denied() -> None:
    shown = asked("ls", digest="f" * 64)
    assert labels(shown) == ["Deny"]
    assert "⚠️ What the gateway sent of apr_1 does not match the digest" in shown.messages[0]
    assert labels(asked("s3cret")) == ["Allow", "Deny"], "what is redacted in the chat is compared before that"


@pytest.mark.req("Y-2")
def test_additions_and_removals_of_an_edit_are_coloured() -> None:
    edit = {"file_path": "/srv/w/a.py", "old_string": "port = 80\n# 🟩 +x", "new_string": "port = 443\n# 🟩 +x"}
    found = approval(input=msgspec.Raw(json.dumps(edit).encode()), tool_name="Edit")
    rows = "\n".join(question(found, LIMITS, lambda text: text).messages).split("\n")
    assert [row for row in rows if row.startswith("│ 🟥 ")] == ["│ 🟥 -port = 80"]
    assert [row for row in rows if row.startswith("│ 🟩 ")] == ["│ 🟩 +port = 443"]

    keys = {"file_path": "/srv/w/k", "old_string": "a\nb", "new_string": "c"}
    found = approval(input=msgspec.Raw(json.dumps(keys).encode()), tool_name="Edit")
    joined = "\n".join(question(found, LIMITS, lambda text: text.replace("-a\n-b", "[redacted]")).messages)
    assert "│ [redacted]" in joined
    assert "🟩" not in joined, "what was redacted may have moved the lines"
