"""The main job with our own `shell`: text streams, a tool call is held, a person decides, the result arrives."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from end_to_end.tasks import SubmittedTask, body, healthy, new_key, submit, watching
from proof.processes.stack import Stack

SLOW_LINES = "for i in 1 2 3; do echo line $i; done; while [ ! -e go ]; do sleep 0.05; done; echo last # free"


@pytest.mark.req("L-1", "C-0", "C-8", "T-2", "T-3", "A-1", "E-4")
def test_a_command_runs_and_its_result_arrives(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "free", "echo $RAWP_WORKSPACE_PATH; echo $RAWP_DPS_VERSION # free", workspace=workspace)

    ended = task.ended()

    assert (ended["state"], ended["result"]["output"]["exit_code"]) == ("succeeded", 0)
    assert task.sent("tool.invoke.result")[0]["payload"]["output"] == f"{workspace}\nrawp-dps-1.0\n"
    types = [event["frame"]["type"] for event in task.frames() if event["kind"] == "C"]
    assert types.index("session.usage") == types.index("session.turn.end") + 1
    states = [event["state"] for event in task.status() if event["event"] == "state"]
    assert states == ["queued", "dispatched", "running", "succeeded"]
    task.close()
    assert stack.leftovers(workspace) == []


@pytest.mark.req("S-1", "S-3", "E-4")
def test_output_is_shown_live_and_equals_the_stored_output(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "free", SLOW_LINES, workspace=workspace)

    with watching(task) as viewer:
        viewer.until_text("line 3\n")
        assert task.command()["state"] == "running"
        assert task.sent("tool.invoke.result") == []
        with watching(task) as late:  # A viewer that joins in the middle gets the text so far, then the rest.
            late.until_text("line 1\nline 2\nline 3\n")
            (workspace / "go").touch()
            assert task.ended()["state"] == "succeeded"
            late.until_frame("session.usage")
        viewer.until_frame("session.usage")

    kept = task.texts()
    for name in [name for name in kept if name.endswith("/stdout")]:
        assert kept[name] == "line 1\nline 2\nline 3\nlast\n"
        assert kept[name].startswith(viewer.blocks[name])
        assert kept[name].startswith(late.blocks[name])


@pytest.mark.req("A-5", "P-2", "P-5", "P-6")
def test_a_held_tool_call_runs_only_after_the_grant(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "shell", "echo done > done.txt", workspace=workspace)

    approval = task.approval()
    assert (approval["door"], approval["input"]) == ("tool", {"command": "echo done > done.txt"})
    assert not (workspace / "done.txt").exists()
    assert stack.get(f"/v1/sessions/{task.session_id}")["state"] == "waiting_approval"
    assert task.vote("grant", approval).status_code == 200

    assert task.ended()["state"] == "succeeded"
    assert (workspace / "done.txt").read_text() == "done\n"
    assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == "consumed"
    assert task.sent("x-interlock.interaction.resolved")[0]["payload"]["outcome"] == "allowed"
    late = task.vote("deny", approval)
    assert (late.status_code, late.json()["code"]) == (409, "Conflict")


@pytest.mark.req("A-5", "P-6")
@pytest.mark.parametrize(("line", "state", "outcome"), [
    ("touch it", "denied", "denied"), ("touch it # soon", "expired", "expired"), ("touch it # never", None, "denied")])
def test_a_denial_by_a_person_a_timeout_or_a_policy_holds(
    stack: Stack, workspace: Path, line: str, state: str | None, outcome: str
) -> None:
    task = submit(stack, "shell", line, workspace=workspace)
    if state is not None:
        approval = task.approval()
        if state == "denied":
            task.vote("deny", approval)
    ended = task.ended()

    assert ended["state"] == "succeeded"  # A denial is an answer like another: the agent reports it and ends its turn.
    assert not (workspace / "it").exists()
    assert task.sent("x-interlock.interaction.resolved")[0]["payload"]["outcome"] == outcome
    assert task.sent("tool.invoke.result")[0]["payload"]["status"] == "denied"
    if state is not None:
        assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == state


@pytest.mark.req("P-1", "P-6", "C-0")
@pytest.mark.parametrize(("decision", "state"), [("grant", "succeeded"), ("deny", "rejected")])
def test_a_command_is_held_before_it_starts(stack: Stack, workspace: Path, decision: str, state: str) -> None:
    task = submit(stack, "guarded", "text:started", workspace=workspace)

    approval = task.approval()
    assert approval["door"] == "command"
    assert task.command()["state"] == "pending_approval"
    assert stack.leftovers(workspace) == []
    task.vote(decision, approval)

    assert task.ended()["state"] == state
    assert task.text() == ("started" if decision == "grant" else "")
    assert (stack.get(f"/v1/approvals/{approval['id']}")["state"]
            == ("consumed" if decision == "grant" else "denied"))


@pytest.mark.req("P-1", "F-1")
def test_a_policy_can_deny_a_command(stack: Stack, workspace: Path) -> None:
    answer = stack.post("/v1/commands", body("prisoner", "text", workspace=workspace), new_key())

    assert (answer.status_code, answer.json()["code"]) == (403, "Forbidden")
    assert "prisoners start nothing" in answer.json()["detail"]


@pytest.mark.req("A-4", "C-2", "C-8", "D-4")
def test_a_cancel_in_the_middle_of_output_ends_the_tool(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "free", "echo $$ > pid; echo begun; exec sleep 600 # free", workspace=workspace)
    with watching(task) as viewer:
        viewer.until_text("begun\n")

    cancel = task.cancel()

    assert task.ended()["state"] == "canceled"
    assert cancel.ended()["state"] == "succeeded"
    assert not Path(f"/proc/{(workspace / 'pid').read_text().strip()}").exists()
    assert task.sent("session.turn.end")[0]["payload"]["stop_reason"] == "cancelled"
    assert task.sent("tool.invoke.result")[0]["payload"]["output"].startswith("begun\n")
    again = submit(stack, "free", "echo again # free", session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"


@pytest.mark.req("C-1", "C-8")
def test_a_command_over_its_time_limit_is_timed_out(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "free", "echo $$ > pid; exec sleep 600 # free", workspace=workspace, timeout_ms=700)

    ended = task.ended()

    assert (ended["state"], ended["error"]["code"]) == ("timed_out", "Timeout")
    assert not Path(f"/proc/{(workspace / 'pid').read_text().strip()}").exists()


@pytest.mark.req("T-1", "C-0")
def test_a_second_prompt_of_a_session_waits_for_the_first(stack: Stack, workspace: Path) -> None:
    first = submit(stack, "free", "while [ ! -e go ]; do sleep 0.05; done; echo one >> order # free",
                   workspace=workspace)
    first.until("running")
    second = submit(stack, "free", "echo two >> order # free", session_id=first.session_id)

    assert second.command()["state"] == "queued"
    (workspace / "go").touch()

    assert (first.ended()["state"], second.ended()["state"]) == ("succeeded", "succeeded")
    assert (workspace / "order").read_text() == "one\ntwo\n"
    starts = first.sent("session.turn.start")
    assert [start["payload"]["turn_index"] for start in starts] == [0, 1]


@pytest.mark.req("A-2", "C-8")
def test_the_first_failing_line_stops_the_others_and_its_exit_status_is_the_result(
    stack: Stack, workspace: Path
) -> None:
    task = submit(stack, "free", "exit 7 # free\ntouch never # free", workspace=workspace)

    ended = task.ended()

    assert (ended["state"], ended["result"]["output"]["exit_code"]) == ("failed", 7)
    assert not (workspace / "never").exists()


@pytest.mark.req("A-1", "W-2")
@pytest.mark.parametrize("place", ["/", "/etc", "{root}/../outside", "{root}/link", "{root}/missing"])
def test_a_workspace_outside_the_roots_is_refused(stack: Stack, place: str) -> None:
    link = stack.workspace / "link"
    if not link.is_symlink():
        link.symlink_to("/etc")
    task = submit(stack, "free", "touch here # free", workspace=place.format(root=stack.workspace))

    ended = task.ended()

    assert ended["state"] == "failed"
    assert ended["error"]["code"] == "WORKSPACE_REFUSED"
    assert ended["error"]["message"]
    assert task.sent("session.turn.start") == []
    assert task.sent("session.closed") != []


@pytest.mark.req("M-1", "M-2")
def test_a_repeated_idempotency_key_gets_the_same_answer_and_runs_once(stack: Stack, workspace: Path) -> None:
    key, wanted = new_key(), body("free", "echo once >> ran # free", workspace=workspace)

    first, second = stack.post("/v1/commands", wanted, key), stack.post("/v1/commands", wanted, key)
    other = stack.post("/v1/commands", body("free", "echo other # free", workspace=workspace), key)

    assert (first.status_code, second.status_code, other.status_code) == (202, 202, 422)
    assert first.content == second.content
    assert first.headers["location"] == second.headers["location"]
    assert second.headers["idempotency-replayed"] == "true"
    assert SubmittedTask(stack, first.json()).ended()["state"] == "succeeded"
    assert (workspace / "ran").read_text() == "once\n"
    later = stack.post("/v1/commands", wanted, key)
    assert (later.status_code, later.content) == (202, first.content)


@pytest.mark.req("K-2", "F-1")
def test_a_request_without_a_key_or_for_another_host_is_refused(stack: Stack) -> None:
    url = f"{stack.url}/v1/commands"
    answers = {
        "no key": httpx2.get(url),
        "a wrong key": httpx2.get(url, headers={"Authorization": "Bearer ilk_wrong"}),
        "another host": httpx2.get(url, headers={**stack.headers, "Host": "evil.example"}),
        "a page": httpx2.get(url, headers={**stack.headers, "Origin": "https://evil.example"}),
        "a submission": httpx2.post(url, json=body("shell", "touch x"), headers={"Idempotency-Key": new_key()}),
        "the runner's token": httpx2.get(
            url, headers={"Authorization": f"Bearer {stack.token.read_text()}"}),
    }

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "no key": 401, "a wrong key": 401, "another host": 421, "a page": 403, "a submission": 401,
        "the runner's token": 403}
    for answer in answers.values():
        assert answer.headers["content-type"] == "application/problem+json"
        assert json.loads(answer.content)["hint"]
    assert healthy(stack)
