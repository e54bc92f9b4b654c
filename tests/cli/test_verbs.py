"""Verbs that answer, compact, release and list, against a gateway that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.scripted import URL, Script, answer, link_to, problem
from cli.tasks.test_follower import AT, approval
from interlock.app.data_migration.departure import mark
from interlock.cli.agents.known_agents import KNOWN, snippet
from interlock.cli.approvals import decide
from interlock.cli.config.pairings import Paired, keep
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import gateway_link
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.operations.doctor import HostFinding, examine
from interlock.cli.sessions import session_compact, session_release
from interlock.cli.tasks import run
from interlock.cli.verb_error import Trouble

SESSION = {"session_id": "s-1", "session_key": "agent:claude:main", "tenant_id": "t", "agent_id": "claude",
           "state": "idle", "created_at": AT, "updated_at": AT, "controller": "gw_a"}
LISTED = answer({"sessions": [SESSION], "next_cursor": "x", "has_more": False})
ASKED = {"session_id": "s-1", "request_id": "r", "message_id": "m-1", "cursor": "c0"}


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, list[Any]]], Script]:
    """The verbs' gateway answers from this script."""
    def begin(answers: dict[str, list[Any]]) -> Script:
        script = Script(answers)

        def link(_: Where, **_options: bool) -> GatewayLink:
            return link_to(script, tmp_path)
        for verb in (decide, session_compact, gateway_link):
            monkeypatch.setattr(verb, "GatewayLink", link)
        return script
    return begin


def listed(**more: Any) -> Any:
    return answer({"approvals": [approval(kind="question", input={"question": "which?"}, **more)], "next_cursor": "x",
                   "has_more": False})


@pytest.mark.req("C-8", "G-4")
def test_a_question_is_answered_with_text_or_declined(
    scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    after = answer(approval("granted", kind="question", answer="the left one", decided_by="user:me"))
    script = scripted({"GET /v1/approvals": [listed()], "POST /v1/approvals/apr_a/answers": [after]})
    assert decide.answer("@last", "the", "left", "one") == ExitStatus.DONE
    assert json.loads(script.asked[-1].content) == {"text": "the left one"}
    assert capsys.readouterr().out == "question apr_a was answered by user:me: the left one\n"
    assert decide.answer("apr_a", none=True) == ExitStatus.DONE
    assert json.loads(script.asked[-1].content) == {"text": None}
    for words, none in (((), False), (("x",), True)):
        with pytest.raises(Trouble, match="either words or --none"):
            decide.answer("@last", *words, none=none)


@pytest.mark.req("C-8", "G-7")
def test_a_command_approval_or_a_decided_question_accepts_no_answer(scripted: Callable[..., Script]) -> None:
    vote = answer({"approvals": [approval()], "next_cursor": "x", "has_more": False})
    scripted({"GET /v1/approvals": [vote]})
    with pytest.raises(Trouble, match="asks for a yes or no") as caught:
        decide.answer("apr_a", "yes")
    assert "interlock approve apr_a" in caught.value.remedy
    scripted({"GET /v1/approvals": [listed(state="denied", decided_by="user:ann")]})
    with pytest.raises(Trouble, match="too late"):
        decide.answer("apr_a", "yes")


@pytest.mark.req("P-3", "G-7")
@pytest.mark.parametrize("as_json", [False, True])
def test_votes_are_withdrawn_even_if_one_has_decided(
    scripted: Callable[..., Script], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = answer({"approvals": [approval(id="apr_b"), approval()], "next_cursor": "x", "has_more": False})
    scripted({"GET /v1/approvals": [listed, listed], "POST /v1/approvals/apr_a/withdrawals": [answer(approval())],
              "POST /v1/approvals/apr_b/withdrawals": [problem(409, "Conflict", "It is granted.")]})
    with pytest.raises(Trouble, match="It is granted") as caught:
        decide.withdraw("apr_b", "apr_a", json=as_json)
    assert caught.value.code == "Conflict"
    out = capsys.readouterr().out
    assert [one["id"] for one in json.loads(out)["approvals"]] == ["apr_a"] if as_json else "apr_a: your vote" in out


def page(*frames: dict[str, Any]) -> Any:
    return answer({"events": [{"n": 1, "kind": "C", "frame": frame} for frame in frames], "next_cursor": "c1",
                   "has_more": False})


def noted(code: str, message: str) -> Any:
    return answer({"events": [{"n": 1, "kind": "notice", "notice": {"code": code, "message": message}}],
                   "next_cursor": "c1", "has_more": False})


@pytest.mark.req("T-6", "G-4")
def test_a_compaction_is_waited_for_until_its_report(
    scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    report = {"summary": "kept the open questions", "previous_token_count": 900, "current_token_count": 90,
              "preserved_elements": {}, "trigger": "requested"}
    script = scripted({
        "GET /v1/sessions": [LISTED], "POST /v1/sessions/s-1/compact": [answer(ASKED, 202)],
        "GET /v1/sessions/s-1/frames": [
            page({"type": "session.compacted", "payload": {**report, "trigger": "auto"}}),
            noted("Compacted", "the agent's own"),
            page({"type": "session.compacted", "payload": {**report, "request_id": "r"}}),
            noted("Compacted", "900 tokens before, 90 now"),
        ],
    })
    assert session_compact.compact("agent:claude:main", "keep", "the", "open", "questions") == ExitStatus.DONE
    assert [json.loads(one.content) for one in script.asked if one.method == "POST"] == [
        {"instructions": "keep the open questions"}]
    assert [one.url.params.get("since") for one in script.asked if "frames" in one.url.path] == ["c0", "c1", "c1", "c1"]
    assert capsys.readouterr().out == "900 tokens before, 90 now\nkept the open questions\n"


@pytest.mark.req("T-6", "A-6")
@pytest.mark.parametrize("sentence", ["It is too short", "its program ended"])
def test_a_failed_compaction_shows_its_reason(scripted: Callable[..., Script], sentence: str) -> None:
    answered = noted("CompactionFailed", "It is too short.") if "short" in sentence else page(
        {"type": "session.closed", "payload": {"reason": "its program ended"}})
    scripted({"GET /v1/sessions": [LISTED], "POST /v1/sessions/s-1/compact": [answer(ASKED, 202)],
              "GET /v1/sessions/s-1/frames": [answered]})
    with pytest.raises(Trouble, match=sentence):
        session_compact.compact("s-1")


@pytest.mark.req("D-5", "G-4")
def test_control_is_handed_over_and_reported_once_the_runner_has_done_it(
    scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    script = scripted({"GET /v1/sessions": [LISTED], "POST /v1/sessions/s-1/release": [answer(SESSION)],
                       "GET /v1/sessions/s-1": [answer(SESSION), answer({**SESSION, "controller": "gw_b"})]})
    assert session_release.release("@last", to="gw_b") == ExitStatus.DONE
    assert [json.loads(one.content) for one in script.asked if one.method == "POST"] == [{"to": "gw_b"}]
    assert capsys.readouterr().out == "s-1\n"


@pytest.mark.req("D-5", "G-7")
def test_control_that_is_not_handed_over_is_an_error(
    scripted: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_release, "RELEASE_TIMEOUT_S", 0.0)
    scripted({"GET /v1/sessions": [LISTED], "POST /v1/sessions/s-1/release": [answer(SESSION)],
              "GET /v1/sessions/s-1": [answer(SESSION)]})
    with pytest.raises(Trouble, match="has not handed s-1 to gateway gw_nowhere"):
        session_release.release("s-1", to="gw_nowhere")
    scripted({"GET /v1/sessions": [LISTED],
              "POST /v1/sessions/s-1/release": [problem(409, "Conflict", "gateway gw_a is this one")]})
    with pytest.raises(Trouble, match="is this one"):
        session_release.release("s-1", to="gw_a")


@pytest.mark.req("D-5", "L-3", "G-4")
def test_doctor_shows_the_pairings_of_this_host_and_their_problems(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for number in (1, 2):
        keep(state, Paired(url=f"https://gate{number}.example.org", runner_id=f"rnr_{number}"), "token")
    found = {one.check: one for one in examine(Where(state=state, url=URL)) if one.check.startswith("paired")}
    assert [(name, one.ok) for name, one in found.items()] == [
        ("paired with https://gate1.example.org", True), ("paired with https://gate2.example.org", True)]
    (state / "runner" / "paired.token").chmod(0o644)
    found = {one.check: one for one in examine(Where(state=state, url=URL)) if one.check.startswith("paired")}
    assert not found["paired with https://gate1.example.org"].ok
    assert "chmod 600" in found["paired with https://gate1.example.org"].remedy


@pytest.mark.req("A-7", "A-10")
def test_claude_is_suggested_with_the_adapter_that_holds_each_tool_call() -> None:
    (claude,) = [one for one in KNOWN if one.agent_id == "claude"]
    assert claude.asks
    assert snippet(claude) == '[agents.claude]\nadapter = "claude"\ncommand = "claude"\n'


@pytest.mark.req("A-1", "G-7")
def test_a_directory_outside_the_roots_is_reported_before_a_submission(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    assert run.lies_within(str(inside / "deep"), [str(inside)])
    assert not run.lies_within(str(inside / "link"), [str(inside)])
    assert not run.lies_within(str(tmp_path / "inner"), [str(inside)])


@pytest.mark.req("A-1", "G-7")
@pytest.mark.anyio
async def test_the_roots_of_the_chosen_runner_are_checked(tmp_path: Path) -> None:
    node = {"node_id": "local", "device_name": "h", "status": "online", "last_seen": AT, "roots": [str(tmp_path)],
            "agents": [{"agent_id": "shell"}, {"agent_id": "own", "roots": ["/srv"]}], "capabilities": [],
            "active_sessions_count": 0, "config_versions": {"limits": "1", "capabilities": "1"}}
    script = Script({"GET /v1/edge/nodes": [answer({"nodes": [node]})]})
    async with link_to(script, tmp_path) as link:
        await run.check_roots(link, {"agent_id": "shell"}, "/elsewhere")  # Of another machine nothing is known here.
        link.address = link.address._replace(pid=1)
        await run.check_roots(link, {"agent_id": "shell"}, str(tmp_path / "a"))
        await run.check_roots(link, {"agent_id": "own"}, "/srv/x")
        await run.check_roots(link, {"agent_id": "shell", "runner_id": "another"}, "/elsewhere")
        for agent_id, here in (("shell", "/elsewhere"), ("own", str(tmp_path))):
            with pytest.raises(Trouble, match="outside the runner's roots") as caught:
                await run.check_roots(link, {"agent_id": agent_id}, here)
            assert caught.value.code == "WORKSPACE_REFUSED"


@pytest.mark.req("Z-6", "G-4")
def test_a_summary_written_by_a_hook_needs_no_report(
    scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted({"GET /v1/sessions": [LISTED], "POST /v1/sessions/s-1/compact": [answer({**ASKED, "message_id": ""}, 202)],
              "GET /v1/sessions/s-1/frames": [noted("Compacted", "900 tokens before, 90 now")]})
    assert session_compact.compact("s-1") == ExitStatus.DONE
    assert capsys.readouterr().out == "900 tokens before, 90 now\n"


CHOICES: dict[str, Any] = {"question": "Which way?", "header": "Way", "options": [
    {"label": "left", "description": "along the river"}, {"label": "right"}]}


@pytest.mark.req("C-8", "G-4")
@pytest.mark.parametrize(("more", "last"), [
    ({}, "Answer with one of them, or its number."),
    ({"multiSelect": True}, "Answer with several, separated by commas."),
])  # fmt: skip
def test_a_question_shows_its_numbered_choices(
    more: dict[str, Any], last: str, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = approval(kind="question", input={**CHOICES, **more})
    scripted({"GET /v1/approvals": [answer({"approvals": [asked], "next_cursor": "x", "has_more": False})],
              "POST /v1/approvals/apr_a/answers": [answer(approval("granted", kind="question", answer="left"))]})
    decide.answer("@last", "left")
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    start = lines.index("Way: Which way?")
    assert lines[start + 1 : start + 4] == ["1 left: along the river", "2 right", last]


@pytest.mark.req("C-8")
@pytest.mark.parametrize("more", [
    {"options": []}, {"options": "left"}, {"options": ["left"]}, {"options": [{"label": 7}]}, {"question": 7},
    {"options": [{"label": "left", "preview": "x"}]}, {"also": "this"}, {"multiSelect": "no"}, {"header": None},
])  # fmt: skip
def test_a_question_of_another_form_is_shown_in_full(
    more: dict[str, Any], scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = approval(kind="question", input={**CHOICES, **more})
    scripted({"GET /v1/approvals": [answer({"approvals": [asked], "next_cursor": "x", "has_more": False})],
              "POST /v1/approvals/apr_a/answers": [answer(approval("granted", kind="question", answer="left"))]})
    decide.answer("@last", "left")
    assert "question: " in capsys.readouterr().err


def test_doctor_names_the_new_ledger_of_a_moved_directory(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    mark(tmp_path / "state", "postgresql://db.example.org/interlock", "moved")

    def ledger() -> list[HostFinding]:
        return [one for one in examine(Where(state=tmp_path / "state", url=URL)) if one.check == "ledger"]

    assert [one.ok for one in ledger()] == [False]
    assert 'set store = "postgresql://db.example.org/interlock"' in ledger()[0].found
    (tmp_path / "state" / "interlock.toml").write_text(
        '[cluster]\nstore = "postgresql://db.example.org/interlock"\n')
    assert ledger() == []
