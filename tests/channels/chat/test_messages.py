"""Messages of a bot in a chat (P-2, Y-5): replies in pieces that fit, buttons bound to a digest, and how work ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.channels.chat.messages import (
    DIGEST_SHOWN,
    SHOWN_DENIALS,
    Press,
    buttons,
    counted,
    decided,
    ending,
    pieces,
    read_press,
    refused,
    tool_line,
)
from interlock.channels.telegram.updates import LIMITS
from interlock.protocol.resources import Actor, Approval, Command, Denial, Failure, Notice, Target, Vote

DIGEST = "0123456789abcdef" * 4


def approval(**fields: Any) -> Approval:
    return Approval(**{"id": "apr_1", "tenant_id": "t", "door": "tool", "state": "pending", "created_at": "",
                       "expires_at": "", "title": "$ ls", "rule": "r", "agent_id": "shell", "session_id": "s",
                       "digest": DIGEST, "input": msgspec.Raw(b"{}"), **fields})


def command(state: Any = "succeeded", **fields: Any) -> Command:
    return Command(**{"id": "c", "created_at": "t", "updated_at": "t", "tenant_id": "d",
                      "actor": Actor(type="user", id="a"), "type": "execute", "target": Target(), "state": state,
                      "timeout_ms": 1, **fields})


@given(st.text(alphabet="ab \n한😀", max_size=12_000))
def test_pieces_fit_and_add_up_to_the_text(text: str) -> None:
    found = pieces(text, LIMITS)
    assert all(0 < LIMITS.units(piece) <= LIMITS.message_units for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_text_is_cut_at_a_paragraph_then_a_line_then_a_word() -> None:
    long = LIMITS.message_units
    assert pieces("a" * (long - 10) + "\n\n" + "b" * 50, LIMITS) == ["a" * (long - 10), "b" * 50]
    assert pieces("a" * (long - 10) + " " + "b" * 50, LIMITS) == ["a" * (long - 10), "b" * 50]
    assert [len(piece) for piece in pieces("a" * (long + 5), LIMITS)] == [long, 5]
    assert pieces("  \n ", LIMITS) == []


@pytest.mark.req("P-2")
@pytest.mark.parametrize("with_kind", [False, True])
def test_a_button_press_carries_the_data_of_its_button(with_kind: bool) -> None:
    made = buttons(approval(), with_kind=with_kind)
    assert [read_press(button.data) for button in made] == [
        Press("grant", "apr_1", DIGEST[:DIGEST_SHOWN]),
        *([Press("grant", "apr_1", DIGEST[:DIGEST_SHOWN], with_kind=True)] if with_kind else []),
        Press("deny", "apr_1", DIGEST[:DIGEST_SHOWN])]
    assert all(len(button.data) <= 64 for button in made)


@pytest.mark.parametrize("fields", [{"kind": "question"}, {"signed": True}, {"signed": "passkey"}])
def test_text_answers_and_signatures_have_no_button(fields: dict[str, Any]) -> None:
    assert buttons(approval(**fields)) == []


@pytest.mark.parametrize("data", ["", "g", "g:apr_1", "g:apr_1:short", "x:apr_1:" + DIGEST[:DIGEST_SHOWN],
                                  "g:apr:1:" + DIGEST[:DIGEST_SHOWN], "g:apr_1:" + DIGEST])
def test_foreign_data_is_not_a_button_press(data: str) -> None:
    assert read_press(data) is None


@pytest.mark.parametrize(("fields", "text"), [
    ({"state": "granted", "decided_by": "user:ann"}, "✅ $ ls\nallowed by user:ann"), ({"state": "consumed"},
    "✅ $ ls\nallowed"),
    ({"state": "denied", "comment": "no\x1b[2J\nway"}, "⛔ $ ls\ndenied: "),
    ({"state": "expired"}, "▫️ $ ls\nnot answered in time"),
    ({"state": "superseded"}, "▫️ $ ls\nreplaced by a changed one"),
    ({"state": "granted", "kind": "question", "answer": "blue"}, "✅ $ ls\nanswered"),
    ({"state": "granted", "comment": "fine"}, "✅ $ ls\nallowed"),
])
def test_a_question_is_marked_with_its_outcome(fields: dict[str, Any], text: str) -> None:
    made = decided(approval(**fields), "$ ls")
    assert made == text if not text.endswith(": ") else made.startswith(text)
    assert made.count("\n") == 1


def test_a_vote_that_does_not_decide_yet_is_counted() -> None:
    votes = [Vote(by="user:a", at="t", decision="grant", method="acl"), Vote(by="user:b", at="t", decision="deny",
    method="acl"),
             Vote(by="user:c", at="t", decision="grant", method="acl", withdrawn_at="t")]
    assert counted(approval(required=3, votes=votes)) == \
        "Your vote counts: 1 of 3 yes votes; waiting for another approver."
    assert [counted(approval(state=state)) for state in ("granted", "denied", "expired")] == [
        "Allowed.", "Denied.", "It is expired."]


@pytest.mark.parametrize(("made", "text"), [
    (command(), None), (command(notices=[Notice(code="X", message="Watch out.")]), "⚠️ Watch out."),
    (command("failed", error=Failure(code="X", message="It broke.")), "It broke."), (command("canceled"), "topped"),
])
def test_an_end_is_shown_unless_the_replies_show_it(made: Command, text: str | None) -> None:
    rows = ending(made)
    assert rows is None if text is None else text in (rows or "")
    assert ".." not in (rows or "")


def test_general_facts_are_shown_once_and_details_on_request() -> None:
    gated = command(notices=[Notice(code="ToolsNotGated", message="Not held.")])
    assert ending(gated) == "⚠️ Not held."
    assert ending(gated, known=["ToolsNotGated"]) is None
    compacted = command(notices=[Notice(code="AutoCompacted", message="Shorter now.")])
    assert ending(compacted) is None
    assert ending(compacted, verbose=True) == "Shorter now."


@pytest.mark.req("Y-5")
def test_denied_calls_are_named_and_many_of_them_counted() -> None:
    denials = [Denial(tool_name="bash", title=f"$ rm {n}\n", by="user:ann", at="t") for n in range(SHOWN_DENIALS + 2)]
    lines = (ending(command(denials=denials)) or "").split("\n")
    assert len(lines) == SHOWN_DENIALS + 1
    assert lines[-1] == "⛔ not run: 2 more"
    assert "user:ann" in lines[0] or "ann" in lines[0]


@pytest.mark.parametrize(("request_", "line"), [
    ({"tool_name": "bash", "input": {"command": "ls\n -l"}}, "▸ bash: ls -l"), ({"tool_name": "bash", "title": "t"},
    "▸ bash: t"),
    ({}, "▸ tool"), ({"tool_name": "x", "input": "ls"}, "▸ x"),
    ({"tool_name": "Ask", "title": "Ask", "input": {"questions": [{"question": "Which?"}]}}, "▸ Ask: Which?"),
])
def test_a_tool_call_is_one_line(request_: dict[str, Any], line: str) -> None:
    assert tool_line(request_) == line
    assert len(tool_line({"tool_name": "bash", "input": {"command": "x" * 9_999}})) < 300


def test_a_tool_call_cannot_hide_or_reorder_what_ran_nor_add_a_line_of_its_own() -> None:
    line = tool_line({"tool_name": "bash\n✅ allowed", "input": {"command": "rm -rf \u202ehs.on\u200b\u2028\x1b[2K"}})
    assert line == "▸ bash ✅ allowed: rm -rf <U+202E>hs.on<U+200B> <U+001B>[2K"
    assert tool_line({"tool_name": "edit", "title": "a\u202eb\n✅ allowed"}) == "▸ edit: a<U+202E>b ✅ allowed"
    assert len(tool_line({"tool_name": "x" * 9_999})) < 300


@pytest.mark.parametrize(("code", "detail", "hint", "text"), [
    ("NotFound", "No session.", "List them.", "✖️ No session.\nList them."), ("NotFound", "", "",
    "✖️ There is no such resource"),
    ("Unheard", "", "", "✖️ Unheard"),
])
def test_a_refusal_contains_the_remedy(code: str, detail: str, hint: str, text: str) -> None:
    assert refused(code, detail, hint) == text
