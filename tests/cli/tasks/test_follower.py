"""Following a command against a scripted gateway: its end, its approvals, two votes at once, a lost response."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from cli.scripted import Script, answer, broken, event, link_to, problem, stream
from interlock.cli import short_ids
from interlock.cli.approvals.approval_card import card
from interlock.cli.approvals.approval_prompt import Answering, ApprovalPrompt
from interlock.cli.config.place import Where
from interlock.cli.tasks.attach import attach
from interlock.cli.tasks.cursors import Cursors, ShownCursor
from interlock.cli.tasks.follower import Follower
from interlock.cli.tasks.outcome import close_line, exit_of
from interlock.cli.tasks.run import run
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.turn_status import status_line
from interlock.cli.verb_error import Trouble
from interlock.protocol.resources import Approval, Command

TURN = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
AT = "2026-11-21T10:00:00.000Z"
LATER = "2999-01-01T00:00:00.000Z"
FRAMES, STATUS, COMMAND, APPROVAL = "/v1/sessions/s/frames", "/v1/commands/cmd_a/status", "/v1/commands/cmd_a", \
    "/v1/approvals/apr_a"


def command(state: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {"id": "cmd_a", "created_at": AT, "updated_at": AT, "tenant_id": "t", "actor": {"type": "user", "id": "me"},
            "type": "execute", "target": {"agent_id": "claude", "session_id": "s"}, "state": state, "timeout_ms": 1,
            "started_at": AT, "ended_at": AT, **more}


def approval(state: str = "pending", **more: Any) -> dict[str, Any]:
    shown = {"input": {"command": "rm -rf build"}, **more}
    if "subject" in shown:
        shown["input"] = shown["subject"].get("input", {})
    covered = msgspec.json.encode(shown.get("subject", shown["input"]))
    return {"id": "apr_a", "tenant_id": "t", "door": "tool", "state": state, "created_at": AT, "expires_at": LATER,
            "title": "rm -rf build", "tool_name": "Bash", "agent_id": "claude", "runner_id": "local", "workspace": "/w",
            "session_id": "s", "command_id": "cmd_a", "requested_by": {"type": "user", "id": "me"},
            "digest": hashlib.sha256(covered).hexdigest(), "rule": "ask", "required": 1, **shown}


def state(name: str) -> str:
    return event({"event": "state", "command_id": "cmd_a", "at": AT, "state": name}, "k" + name)


def asks(name: str, approval_id: str = "apr_a") -> str:
    return event({"event": "approval", "command_id": "cmd_a", "at": AT, "approval_id": approval_id,
                  "approval_state": name, "by": "user:you"}, f"k{approval_id}{name}")


def frames(*texts: str) -> str:
    def frame(n: int, name: str, payload: dict[str, Any]) -> str:
        return event({"n": n, "kind": "C", "frame": {"type": name, "payload": payload}}, f"f{n}")

    middle = [frame(3 + n, "agent.text.done", {"turn_id": TURN, "block_id": f"b{n}", "text": text})
              for n, text in enumerate(texts)]
    return "".join([
        frame(1, "control.prompt.request", {"prompt_id": "p", "input_type": "text", "origin": "user", "text": "x",
                                            "command_id": "cmd_a"}),
        frame(2, "session.turn.start", {"turn_id": TURN, "turn_index": 1}), *middle,
        frame(90, "session.turn.end", {"turn_id": TURN, "stop_reason": "end_turn"}),
    ])


class Lines:
    """A user who types these lines and then nothing."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.asked = asyncio.Event()

    async def line(self, question: str = "") -> str | None:
        sys.stderr.write(question)
        self.asked.set()
        if not self._lines:
            await asyncio.Event().wait()
        return self._lines.pop(0)


async def follow(script: Script, tmp_path: Path, how: Answering = "elsewhere", lines: Lines | None = None,
                 place: ShownCursor | None = None) -> Command:
    async with link_to(script, tmp_path) as link:
        cursors = Cursors(tmp_path)
        follower = Follower(link, await link.read(COMMAND, Command), Screen("claude"), ApprovalPrompt(link, how, lines),
                            cursors, place=place or ShownCursor())
        return await follower.follow()


@pytest.mark.anyio
@pytest.mark.req("G-4", "G-7", "S-3")
async def test_text_goes_to_standard_output_and_the_cursor_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({f"GET {FRAMES} sse": [stream(frames("Hello"))], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [stream(state("running") + state("succeeded"))]})
    ended = await follow(script, tmp_path)
    assert exit_of(ended) == 0
    assert capsys.readouterr().out == "Hello\n"
    kept = Cursors(tmp_path).command("cmd_a")
    assert kept is not None
    assert (kept.phase, kept.cursor, kept.status_cursor) == ("after", "f90", "ksucceeded")
    assert Cursors(tmp_path).session("s") == "f90"


@pytest.mark.anyio
@pytest.mark.req("G-4", "S-3")
async def test_a_reported_loss_is_followed_by_the_reattach_even_if_the_task_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def frame(n: int, name: str, **payload: Any) -> dict[str, Any]:
        return {"n": n, "kind": "C", "frame": {"type": name, "payload": {"turn_id": TURN, **payload}}}

    rest = [frame(2, "session.turn.start", turn_index=1),
            frame(3, "agent.text.done", block_id="b1", text="made while it was away"),
            frame(90, "session.turn.end", stop_reason="end_turn")]
    begun = event({"n": 1, "kind": "M", "frame": {"type": "control.prompt.request", "payload": {
        "prompt_id": "p", "input_type": "text", "origin": "user", "text": "x", "command_id": "cmd_a"}}}, "f1")
    script = Script({f"GET {FRAMES} sse": [stream(begun)],
                     f"GET {FRAMES}": [answer({"events": rest, "next_cursor": "f90", "has_more": False})],
                     f"GET {STATUS} sse": [stream(state("running") + state("succeeded"))],
                     f"GET {COMMAND}": [answer(command())]})
    await follow(script, tmp_path)
    captured = capsys.readouterr()
    assert captured.out == "made while it was away\n"
    assert "the connection to the gateway was lost" in captured.err
    assert "3 events replayed" in captured.err


@pytest.mark.anyio
@pytest.mark.req("P-2", "P-5", "G-7")
@pytest.mark.parametrize(("lines", "decision", "comment"), [
    (["maybe", "?", "y"], "grant", None), (["n", "too dangerous"], "deny", "too dangerous"), (["no", ""], "deny", None),
])
async def test_a_user_is_asked_and_the_vote_names_the_shown_digest(
    lines: list[str], decision: str, comment: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    voted = asyncio.Event()
    bodies: list[dict[str, Any]] = []

    def vote(request: httpx2.Request) -> httpx2.Response:
        import json

        bodies.append(json.loads(request.content))
        assert len(request.headers["Idempotency-Key"]) >= 16
        voted.set()
        after = approval("granted" if decision == "grant" else "denied", decided_by="user:me", comment=comment)
        return httpx2.Response(200, json=after)

    class AfterTheVote(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield (state("running") + asks("pending")).encode()
            await voted.wait()
            yield (asks("granted" if decision == "grant" else "denied") + state("succeeded")).encode()

        async def aclose(self) -> None:
            return

    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=AfterTheVote())],
                     f"GET {APPROVAL}": [answer(approval())], f"POST {APPROVAL}/grants": [vote]})
    await follow(script, tmp_path, "ask", Lines(*lines))
    err = capsys.readouterr().err
    expected = {"decision": decision, "digest": approval()["digest"], "method": "acl"}
    assert bodies == [expected | ({"comment": comment} if comment else {})]
    for shown in ("user me", "claude", "local:/w", "$ rm -rf build", "rule: ask", "0 of 1 yes votes",
                  "sha256 ad1686665270a1d1…", "approval apr_a · waits for you", "by user:me"):
        assert shown in err


@pytest.mark.anyio
@pytest.mark.req("P-5", "P-6")
async def test_a_question_decided_elsewhere_is_withdrawn_with_its_decider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Lines()

    class AfterQuestion(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield asks("pending").encode()
            await person.asked.wait()
            yield (asks("denied") + state("succeeded")).encode()

        async def aclose(self) -> None:
            return

    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=AfterQuestion())],
                     f"GET {APPROVAL}": [answer(approval()), answer(approval("denied", decided_by="user:you",
                                                                             comment="no"))]})
    await follow(script, tmp_path, "ask", person)
    assert "approval apr_a was denied by user:you: no" in capsys.readouterr().err
    assert not any(request.method == "POST" for request in script.asked)


@pytest.mark.anyio
@pytest.mark.req("P-2", "G-4")
async def test_an_input_that_was_changed_elsewhere_is_shown_where_the_first_was_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Lines()

    class Changed(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield asks("pending").encode()
            await person.asked.wait()
            yield (asks("superseded") + asks("pending", "apr_b") + asks("granted", "apr_b")
                   + state("succeeded")).encode()

        async def aclose(self) -> None:
            return

    by = {"decided_by": "user:you"}
    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=Changed())],
                     f"GET {APPROVAL}": [answer(approval()),
                                         answer(approval("superseded", superseded_by="apr_b", **by))],
                     "GET /v1/approvals/apr_b": [answer(approval("granted", id="apr_b", title="ls build",
                                                                 input={"command": "ls build"}, **by))]})
    await follow(script, tmp_path, "ask", person)
    shown = capsys.readouterr().err
    replaced, what, granted = shown.rstrip().splitlines()[-3:]
    assert replaced.endswith("approval apr_a was replaced by a changed one by user:you: apr_b")
    assert what == "approval apr_b: $ ls build"
    assert granted == "approval apr_b was granted by user:you"


@pytest.mark.anyio
@pytest.mark.req("P-6", "G-4")
@pytest.mark.parametrize("ahead", ["frames", "status"])
async def test_a_replay_shows_a_decision_once_and_before_the_allowed_output(
    ahead: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def frame(n: int, kind: str, name: str, **payload: Any) -> str:
        return event({"n": n, "kind": kind, "frame": {"type": name, "payload": payload}}, f"f{n}")

    until_output = "".join([
        frame(1, "M", "control.prompt.request", prompt_id="p", input_type="text", origin="user", text="x",
              command_id="cmd_a"),
        frame(2, "C", "session.turn.start", turn_id=TURN, turn_index=1),
        frame(3, "M", "x-interlock.interaction.held", interaction_id="i", approval_id="apr_a", expires_in_ms=1_000),
        frame(4, "M", "control.interaction.response", interaction_id="i", decision="allow", by="user:you"),
        frame(5, "C", "tool.invoke.stream", invocation_id="t", channel="stdout", offset=0, text="removed\n"),
    ])
    end = frame(90, "C", "session.turn.end", turn_id=TURN, stop_reason="end_turn")
    was_shown, read, on_the_way = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Status(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            if ahead == "frames":
                await was_shown.wait()
            yield (asks("pending") + asks("granted") + asks("consumed") + state("succeeded")).encode()

        async def aclose(self) -> None:
            return

    class Decided(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            read.set()
            await on_the_way.wait()
            yield msgspec.json.encode(approval("consumed", decided_by="user:you"))

        async def aclose(self) -> None:
            return

    class Frames(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            if ahead == "status":
                await read.wait()  # The decision is being read, and is not on the screen.
            on_the_way.set()
            yield until_output.encode()
            was_shown.set()
            yield end.encode()

        async def aclose(self) -> None:
            return

    script = Script({f"GET {FRAMES} sse": [lambda _: httpx2.Response(200, stream=Frames())],
                     f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=Status())],
                     f"GET {APPROVAL}": [lambda _: httpx2.Response(200, stream=Decided())]})
    await follow(script, tmp_path)
    shown = capfd.readouterr().err
    assert shown.count("approval apr_a was granted by user:you") == 1
    assert shown.index("approval apr_a was granted") < shown.index("removed")


@pytest.mark.anyio
@pytest.mark.req("P-6", "G-4")
async def test_an_approval_withdrawn_by_a_cancel_is_shown_before_its_ended_tool(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def frame(n: int, kind: str, name: str, **payload: Any) -> str:
        return event({"n": n, "kind": kind, "frame": {"type": name, "payload": payload}}, f"f{n}")

    canceled = "".join([
        frame(1, "M", "control.prompt.request", prompt_id="p", input_type="text", origin="user", text="x",
              command_id="cmd_a"),
        frame(2, "C", "session.turn.start", turn_id=TURN, turn_index=1),
        frame(3, "C", "tool.invoke.request", invocation_id="t", turn_id=TURN, tool_name="shell", input={}),
        frame(4, "M", "x-interlock.interaction.held", interaction_id="i", approval_id="apr_a", expires_in_ms=1_000),
        frame(5, "M", "control.turn.cancel", reason="cancel"),
        frame(6, "C", "x-interlock.interaction.resolved", interaction_id="i", outcome="void", decided_at=AT),
        frame(7, "C", "tool.invoke.result", invocation_id="t", status="cancelled", output_type="text",
              output="before it ran", duration_ms=1),
    ])
    end = frame(90, "C", "session.turn.end", turn_id=TURN, stop_reason="cancelled")
    shown_all = asyncio.Event()

    class Frames(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield canceled.encode()
            shown_all.set()
            yield end.encode()

        async def aclose(self) -> None:
            return

    class Status(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            await shown_all.wait()
            yield (asks("pending") + state("canceling") + asks("void") + state("canceled")).encode()

        async def aclose(self) -> None:
            return

    script = Script({f"GET {FRAMES} sse": [lambda _: httpx2.Response(200, stream=Frames())],
                     f"GET {COMMAND}": [answer(command("canceled"))],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=Status())],
                     f"GET {APPROVAL}": [answer(approval("void"))]})
    await follow(script, tmp_path)
    shown = capfd.readouterr().err
    assert shown.count("approval apr_a was withdrawn") == 1
    assert shown.index("was withdrawn") < shown.index("✗ shell was canceled: before it ran")


@pytest.mark.anyio
@pytest.mark.req("Y-6")
async def test_the_status_line_shows_that_a_task_waits_for_another(tmp_path: Path) -> None:
    screen = Screen("claude")
    lines: list[str] = []

    class Queue(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for name in ("queued", "dispatched", "running", "paused"):
                yield state(name).encode()
                lines.append(status_line(screen, 5))
            yield state("succeeded").encode()

        async def aclose(self) -> None:
            return

    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command("queued"))],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=Queue())]})
    async with link_to(script, tmp_path) as link:
        queued = await link.read(COMMAND, Command)
        follower = Follower(link, queued, screen, ApprovalPrompt(link, "elsewhere", None), Cursors(tmp_path),
                            place=ShownCursor())
        lines.append(status_line(screen, 5))
        await follower.follow()
    assert lines == ["5 s · queued", "5 s · queued", "5 s · working", "5 s · working", "5 s · paused"]


@pytest.mark.anyio
@pytest.mark.req("Y-6", "G-7")
async def test_a_waiting_task_prints_its_reason_once_also_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def commands(request: httpx2.Request) -> httpx2.Response:
        before = [{**command("running"), "id": "cmd_before"}] if request.url.params["state"] == "running" else []
        return httpx2.Response(200, json={"items": before, "next_cursor": None})

    class Queue(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield state("queued").encode()
            while "queued behind" not in shown():
                await asyncio.sleep(0)
            yield (state("dispatched") + state("succeeded")).encode()

        async def aclose(self) -> None:
            return

    printed: list[str] = []

    def shown() -> str:
        printed.append(capsys.readouterr().err)
        return "".join(printed)

    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command("queued"))],
                     f"GET {STATUS} sse": [lambda _: httpx2.Response(200, stream=Queue())],
                     "GET /v1/commands": [commands]})
    async with link_to(script, tmp_path) as link, asyncio.timeout(10):
        queued = await link.read(COMMAND, Command)
        follower = Follower(link, queued, Screen("claude"), ApprovalPrompt(link, "elsewhere", None), Cursors(tmp_path),
                            place=ShownCursor(), queued_s=0)
        await follower.follow()
    assert shown().count("queued behind cmd_before, which is running\n") == 1


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_without_a_terminal_the_way_to_vote_elsewhere_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command("rejected", error={
                         "code": "Forbidden", "message": "user:you did not allow it"}))],
                     f"GET {STATUS} sse": [stream(state("pending_approval") + asks("pending") + asks("denied")
                                                  + state("rejected"))],
                     f"GET {APPROVAL}": [answer(approval()), answer(approval("denied", decided_by="user:you"))]})
    ended = await follow(script, tmp_path)
    close_line(ended)
    assert exit_of(ended) == 3
    err = capsys.readouterr().err
    assert "waits for an approval" in err
    assert err.rstrip().splitlines()[-1].startswith("error[Forbidden]: user:you did not allow it (rejected, cmd_a).")


@pytest.mark.anyio
@pytest.mark.req("G-4", "P-6")
async def test_a_question_from_before_the_disconnect_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({f"GET {FRAMES} sse": [stream(frames())], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [stream(state("succeeded"))], f"GET {APPROVAL}": [answer(approval())],
                     "GET /v1/approvals": [answer({"items": [approval()], "next_cursor": None, "has_more": False})]})
    await follow(script, tmp_path,
                 place=ShownCursor(cursor="f2", status_cursor="kpending", phase="inside", turn_id=TURN))
    assert script.asked[1].headers.get("Last-Event-ID") in (None, "f2")
    assert any(request.url.path == "/v1/approvals" for request in script.asked)


@pytest.mark.anyio
@pytest.mark.req("M-1", "G-7")
async def test_a_change_whose_answer_was_lost_is_repeated_with_the_same_key(tmp_path: Path) -> None:
    script = Script({"POST /v1/commands": [broken, problem(503, "Unavailable", "starting"), answer(command(), 202)]})
    async with link_to(script, tmp_path) as link:
        await link.send("/v1/commands", {"type": "execute"})
    keys = {request.headers["Idempotency-Key"] for request in script.asked}
    assert len(script.asked) == 3
    assert len(keys) == 1


@pytest.mark.anyio
@pytest.mark.req("P-5", "G-7")
async def test_a_refused_vote_does_not_stop_the_follower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script({f"GET {FRAMES} sse": [stream(frames("Hi"))], f"GET {COMMAND}": [answer(command())],
                     f"GET {STATUS} sse": [stream(asks("pending") + state("succeeded"))],
                     f"GET {APPROVAL}": [answer(approval())],
                     f"POST {APPROVAL}/grants": [problem(403, "Forbidden", "The role viewer may not do this.")]})
    ended = await follow(script, tmp_path, "yes")
    assert ended.state == "succeeded"
    capsys.readouterr()
    async with link_to(script, tmp_path) as link:
        asked = msgspec.json.decode(msgspec.json.encode(approval()), type=Approval)
        assert not await ApprovalPrompt(link, "yes", None).answer(asked)
    captured = capsys.readouterr().err
    assert "error[Forbidden]: The role viewer may not do this. Do this.\nwaiting for somebody else, " in captured
    assert "left; answer from any terminal: interlock approve apr_a" in captured


@pytest.mark.req("P-5", "G-7")
@pytest.mark.parametrize("verb", [
    lambda where: run("claude", "x", yes=True, no_input=True, where=where),
    lambda where: attach("cmd_a", yes=True, where=where),
], ids=["run", "attach"])
def test_the_yes_option_without_the_right_to_vote_is_refused_before_submission(
    verb: Callable[[Where], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = {"tenant_id": "t", "principal": {"type": "user", "id": "bo"}, "roles": ["operator"], "key_id": "key_b"}
    script = Script({"GET /v1/whoami": [answer(me)]})
    for module in ("run", "attach"):
        monkeypatch.setattr(f"interlock.cli.tasks.{module}.GatewayLink", lambda _: link_to(script, tmp_path))
    with pytest.raises(Trouble, match=r"bo \(operator\) may not approve, and --yes would") as caught:
        verb(Where(state=tmp_path))
    assert "admin, approver, owner" in caught.value.remedy
    assert caught.value.status == 8
    assert [request.method for request in script.asked] == ["GET"]


@pytest.mark.req("G-7", "P-2")
def test_a_card_shows_everything_and_interprets_nothing() -> None:
    import msgspec

    hostile = approval(title="\x1b[2Jls", rule="[red]r[/red]", input={"command": "echo \x1b]0;x\x07\nrm -rf /"})
    shown = card(msgspec.json.decode(msgspec.json.encode(hostile), type=Approval))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "rm -rf /" in shown
    assert "[red]r[/red]" in shown


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_a_unique_prefix_names_a_thing_and_an_ambiguous_one_does_not(tmp_path: Path) -> None:
    found = [command(id="cmd_01AA", created_at="2026-01-01T00:00:00.000Z"), command(id="cmd_01AB"),
             command(id="cmd_01B", type="cancel", created_at="2027-01-01T00:00:00.000Z")]
    script = Script({"GET /v1/commands": [answer({"items": found, "next_cursor": None, "has_more": False})]})
    async with link_to(script, tmp_path) as link:
        assert (await short_ids.command(link, "cmd_01AA")).id == "cmd_01AA"
        assert (await short_ids.command(link, "01b")).id == "cmd_01B"
        assert (await short_ids.command(link, "@last")).id == "cmd_01AB"
        for text, status in (("01A", 2), ("zz", 7), ("", 2)):
            with pytest.raises(Trouble) as caught:
                await short_ids.command(link, text)
            assert caught.value.status == status
        with pytest.raises(Trouble):
            await short_ids.live_command(link, "@last")


@pytest.mark.anyio
@pytest.mark.req("C-5", "G-7")
async def test_a_list_is_read_page_by_page(tmp_path: Path) -> None:
    first = {"items": [command(id="cmd_1")], "next_cursor": "n", "has_more": True}
    last = {"items": [command(id="cmd_2")], "next_cursor": None, "has_more": False}
    script = Script({"GET /v1/commands": [answer(first), answer(last)]})
    async with link_to(script, tmp_path) as link:
        assert [one.id for one in await link.list("/v1/commands", Command)] == ["cmd_1", "cmd_2"]
    assert script.asked[1].url.params["cursor"] == "n"


@pytest.mark.req("G-4")
def test_cursors_are_bounded_and_a_broken_file_is_discarded(tmp_path: Path) -> None:
    cursors = Cursors(tmp_path)
    for n in range(205):
        cursors.keep(f"s{n}", f"c{n}", ShownCursor(cursor=str(n)))
    assert cursors.command("c0") is None
    assert cursors.session("s204") == "204"
    (tmp_path / "cursors.json").write_text("{broken")
    assert cursors.command("c204") is None
    assert Where(state=tmp_path).directory() == tmp_path
