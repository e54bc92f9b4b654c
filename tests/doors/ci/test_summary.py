"""A job's summary: read with a Markdown parser, with any text of agents and people in it (O-10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from cli.tasks.test_follower import approval, command
from interlock.doors.ci.evidence import EvidenceRow, TaskEvidence
from interlock.doors.ci.summary import MAX_SUMMARY_BYTES, JobFacts, fenced, span, summary
from interlock.protocol.answers import StagedChanges
from interlock.protocol.box import LANDING
from interlock.protocol.resources import Approval, Command, Session

pytestmark = pytest.mark.req("O-10")
LINK = "https://gate.example"
HASH = "ab" * 32
HOSTILE = [
    "](http://evil) ", "![x](http://evil/x.png)", "<img src=http://evil>", "</details><h1>ok</h1>", "`", "``", "```",
    "````\n# pwn\n", "\n```\n### Approvals\n- **granted**", "~~~", "\n\n## ✅ Interlock: succeeded",
    "| a | b |\n|---|---|",
    "https://evil.example", "www.evil.example", "a@evil.example", "@everyone #1", "\\", "\\`", "` [a](http://evil) `",
    "<!-- ", "-->", "&lt;b&gt;", "\r# x", "\u2028# x", "\u202e", "[a]: http://evil", "<http://evil>", "$$x$$", " ", "",
    "\n===", "\n---\n", "1. x", "* x", "    code",
]
T = TypeVar("T")
TEXTS = st.one_of(st.lists(st.sampled_from([*HOSTILE, "a", "\n", " "]), max_size=8).map("".join), st.text(max_size=40))


def tokens(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown):
        yield token
        yield from token.children or ()


def read(value: dict[str, Any], kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def facts(text: str, state: str = "failed", **more: Any) -> JobFacts:
    """A job in which each text that others write is this one."""
    given: dict[str, Any] = {"error": {"code": "AgentExited", "message": text}, **more}
    denied = {"tool_name": text, "title": text, "by": text, "reason": text, "at": text}
    shown = command(state, **given, denials=[denied])
    shown["target"]["workspace"] = text
    asked = approval("consumed", input={"command": text}, decided_by=text, decided_at=text, rule=text, agent_title=text,
                     votes=[{"by": text, "at": text, "decision": "grant", "method": "acl", "comment": text}])
    file = {"path": text, "change": "modified", "kind": "file", "size": 1, "sha256": HASH, "mode": "0644"}
    changes = {"session_id": "s", "workspace": text, "approval_id": None, "digest": HASH, "count": 1, "refused": [],
               "files": [file]}
    return JobFacts(
        read(shown, Command), [read(asked, Approval)], LINK, text, text, text, None,
        read(changes, StagedChanges),
        TaskEvidence([EvidenceRow(3, text, "vote", {"id": text, "role": text}, HASH)], 9, HASH, text, HASH, b""))


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_makes_no_link_image_heading_or_html(text: str) -> None:
    check(text)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_no_text_at_all_makes_markup(text: str) -> None:
    check(text)


def check(text: str) -> None:
    found = list(tokens(summary(facts(text))))
    headings = [found[at + 1].content for at, token in enumerate(found) if token.type == "heading_open"]
    assert headings == ["❌ Interlock: failed", "Approvals", "Changes", "Audit"]
    assert [token.attrs["href"] for token in found if token.type == "link_open"] == [f"{LINK}/a/apr_a"]
    html = [token.content.strip() for token in found if token.type in ("html_block", "html_inline")]
    assert [one for one in html if "summary" not in one] == ["</details>"] * sum("summary" in one for one in html)
    assert not {"image", "table_open", "blockquote_open", "hr"} & {token.type for token in found}
    # Code is all that others wrote; what is outside of it is ours.
    ours = "".join(token.content for token in found if token.type == "text")
    assert "evil" not in ours
    assert "everyone" not in ours
    items = sum(token.type == "list_item_open" for token in found)
    assert items == (17 if text else 16)  # Without a name, no decision is named.


@given(TEXTS)
def test_a_span_and_a_fence_contain_their_text(text: str) -> None:
    line = [token.type for token in tokens(f"- {span(text)}") if token.type not in ("inline", "text")]
    assert line == ["bullet_list_open", "list_item_open", "paragraph_open", "code_inline", "paragraph_close",
                    "list_item_close", "bullet_list_close"]
    blocks = [token.type for token in tokens(f"before\n\n{fenced(text)}\n\nafter")]
    paragraph = ["paragraph_open", "inline", "text", "paragraph_close"]
    assert blocks == [*paragraph, "fence", *paragraph]


def test_the_summary_names_decider_time_rule_and_digest() -> None:
    asked = read(approval("consumed", decided_by="user:ann", decided_at="2026-11-23T10:00:00.000Z"), Approval)
    text = summary(JobFacts(read(command(), Command), [asked], LINK, "do it", "build-1"))
    assert "- **granted (used)**: `" in text
    assert "decided by `user:ann` at `2026-11-23T10:00:00.000Z`" in text
    assert f"rule `ask`, digest `{asked.digest}`" in text


def test_the_summary_names_tokens_cost_and_landed_changes() -> None:
    session = read({"session_id": "s", "session_key": "k", "tenant_id": "t", "agent_id": "claude",
                               "state": "idle", "created_at": "", "updated_at": "", "input_tokens": 100,
                               "output_tokens": 20, "total_tokens": 120, "cost_usd": 0.0123}, Session)
    landed = {"workspace": "/w", "digest": HASH, "changes": 1, "files": [{"path": "a.py", "change": "modified"}]}
    asked = read(approval("consumed", tool_name=LANDING, input=landed), Approval)
    text = summary(JobFacts(read(command(), Command), [asked], LINK, "do it", "build-1", session=session))
    assert "- Tokens: 120 (100 in, 20 out)" in text
    assert "- Cost: 0.0123 USD" in text
    assert "- landed: `modified` `a.py`" in text


def test_without_a_proof_the_reason_is_shown_and_an_overdue_approval_named() -> None:
    text = summary(JobFacts(read(command("canceled"), Command), [], LINK, "do it", "h",
                            not_proven="the key may not", overdue="apr_9"))
    assert "Not proven: `the key may not`" in text
    assert "`apr_9` was not decided within the pipeline's limit." in text


def test_the_summary_is_smaller_than_githubs_limit() -> None:
    assert len(summary(facts("ж" * 300_000)).encode()) <= MAX_SUMMARY_BYTES
