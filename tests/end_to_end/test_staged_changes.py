"""Changes that an agent stages, through gateway and runner: listed, landed by a vote, discarded, kept (H-17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from end_to_end.tasks import SubmittedTask, new_key, submit, watching
from proof.processes.stack import Stack
from this_host import HOST

pytestmark = pytest.mark.skipif(bool(HOST.no_overlay), reason=HOST.no_overlay)
EDITS = "echo new > a; rm old; mkdir d; echo b > d/b; chmod 700 script"


@pytest.fixture
def filled(workspace: Path) -> Path:
    """A workspace with two files."""
    (workspace / "old").write_text("was here\n")
    (workspace / "script").write_text("#!/bin/sh\n")
    (workspace / "script").chmod(0o644)
    return workspace


def state_of(workspace: Path) -> dict[str, str]:
    """Each file with its mode and its text."""
    return {str(one.relative_to(workspace)): f"{one.stat().st_mode & 0o777:o} {one.read_text()}"
            for one in sorted(workspace.rglob("*")) if one.is_file()}


def staged(task: SubmittedTask) -> dict[str, Any]:
    """What `GET /v1/sessions/{id}/changes` shows."""
    return task.stack.get(f"/v1/sessions/{task.session_id}/changes")


def nothing_is_staged(event: dict[str, Any]) -> bool:
    """Whether the runner reports that nothing is left."""
    payload = event.get("frame", {}).get("payload", {})
    return (payload.get("event"), payload.get("count")) == ("staged", 0)


def post(task: SubmittedTask, verb: str, body: dict[str, Any]) -> Any:
    """Land or discard; it must be accepted."""
    answer = task.stack.post(f"/v1/sessions/{task.session_id}/{verb}", body, new_key())
    assert answer.status_code == 200, answer.text
    return answer.json()


def asked(task: SubmittedTask) -> dict[str, Any]:
    """Wait for the question whether the changes land."""
    approval = task.approval()
    assert approval["tool_name"] == "land_changes"
    return approval


@pytest.mark.req("H-17")
def test_the_chosen_files_land_after_a_grant_and_the_others_are_discarded(
        stack: Stack, filled: Path) -> None:
    before = state_of(filled)
    task = submit(stack, "staging", EDITS, workspace=filled)
    approval = asked(task)
    assert state_of(filled) == before

    shown = staged(task)
    assert shown["approval_id"] == approval["id"]
    assert [(one["path"], one["change"]) for one in shown["files"]] == [
        ("a", "added"), ("d", "added"), ("d/b", "added"), ("old", "deleted"), ("script", "mode")]

    landed = post(task, "land", {"files": ["a", "d"]})
    assert landed["state"] == "granted"
    assert task.ended()["state"] == "succeeded"
    assert state_of(filled) == {**before, "a": "644 new\n", "d/b": "644 b\n"}

    assert [one["path"] for one in staged(task)["files"]] == ["old", "script"]
    with watching(task) as viewer:
        post(task, "discard", {})
        viewer.until(lambda event: event.get("frame", {}).get("payload", {}).get("event") == "discarded")
        viewer.until(nothing_is_staged)
    assert staged(task)["count"] == 0
    assert state_of(filled) == {**before, "a": "644 new\n", "d/b": "644 b\n"}

    records = [line["record"] for line in stack.pages("/v1/audit", "items")]
    kept = [(record["action"], sorted(name for name, _, _ in record["meta"]["files"])) for record in records
            if record["action"] in ("changes_landed", "changes_discarded")]
    assert kept[-2:] == [("changes_landed", ["a", "d", "d/b"]), ("changes_discarded", ["old", "script"])]


@pytest.mark.req("H-17")
def test_after_a_denial_the_changes_stay_staged_and_the_next_turn_sees_them(stack: Stack, filled: Path) -> None:
    before = state_of(filled)
    task = submit(stack, "staging", EDITS, workspace=filled)
    task.vote("deny", asked(task))
    task.ended()
    assert state_of(filled) == before

    again = submit(stack, "staging", "cat a d/b; ls old || true", session_id=task.session_id)
    again.vote("grant", asked(again))
    again.ended()
    assert again.text().startswith("new\nb\n")
    assert state_of(filled) == {"a": "644 new\n", "d/b": "644 b\n", "script": "700 #!/bin/sh\n"}


@pytest.mark.req("H-17")
def test_a_staged_file_that_the_user_changed_is_refused_by_name(stack: Stack, filled: Path) -> None:
    task = submit(stack, "staging", "echo theirs > old; echo new > a", workspace=filled)
    approval = asked(task)
    (filled / "old").write_text("mine\n")
    with watching(task) as viewer:
        task.vote("grant", approval)
        notice = viewer.until(lambda event: event.get("notice", {}).get("code") == "ChangesLanded")["notice"]
    assert "old: " in notice["message"]
    assert state_of(filled) == {"a": "644 new\n", "old": "644 mine\n", "script": "644 #!/bin/sh\n"}


def land_again(task: SubmittedTask) -> SubmittedTask:
    """Have what is still staged asked about, without a prompt."""
    body = {"type": "execute", "target": {"session_id": task.session_id}, "payload": {"messages": [], "land": True}}
    answer = task.stack.post("/v1/commands", body, new_key())
    assert answer.status_code == 202, answer.text
    return SubmittedTask(task.stack, answer.json())


@pytest.mark.req("H-17")
def test_remaining_staged_changes_are_asked_about_again_without_a_prompt(stack: Stack, filled: Path) -> None:
    before = state_of(filled)
    task = submit(stack, "staging", EDITS, workspace=filled)
    task.vote("deny", asked(task))
    task.ended()
    assert state_of(filled) == before

    again = land_again(task)
    again.vote("grant", asked(again))
    assert again.ended()["state"] == "succeeded"
    assert again.text() == ""
    assert state_of(filled) == {"a": "644 new\n", "d/b": "644 b\n", "script": "700 #!/bin/sh\n"}
    landed = [line["record"] for line in stack.pages("/v1/audit", "items")
              if line["record"]["action"] == "changes_landed"]
    assert landed[-1]["command_id"] == again.id

    refused = task.stack.post("/v1/commands", {
        "type": "execute", "target": {"session_id": task.session_id}, "payload": {"messages": [], "land": True}},
        new_key())
    assert (refused.status_code, refused.json()["detail"]) == (409, "Nothing is staged in this session.")


@pytest.mark.req("H-17")
def test_the_stage_verb_asks_again_and_lands_the_named_file(stack: Stack, filled: Path) -> None:
    task = submit(stack, "staging", EDITS, workspace=filled)
    task.vote("deny", asked(task))
    task.ended()
    with watching(task) as viewer:
        ran = stack.interlock("land", task.session_id, "a", "--yes", "--state", str(stack.state))
        assert ran.returncode == 0, ran.stderr
        viewer.until(lambda event: event.get("frame", {}).get("payload", {}).get("event") == "landed")
    assert "the question is asked again; the agent starts, but gets no prompt" in ran.stderr
    assert state_of(filled) == {"a": "644 new\n", "old": "644 was here\n", "script": "644 #!/bin/sh\n"}


@pytest.mark.req("H-17")
def test_a_hook_among_many_files_is_marked_on_the_card_and_in_the_data(stack: Stack, filled: Path) -> None:
    task = submit(stack, "staging", "mkdir -p z/.git/hooks; echo x > z/.git/hooks/pre-commit; touch $(seq 2000)",
                  workspace=filled)
    approval = asked(task)
    assert "RUNS PROGRAMS UNASKED LATER: 1" in approval["title"]
    assert (approval["input"]["files"][0]["path"], approval["input"]["runsUnasked"]) == ("z/.git/hooks/pre-commit", 1)
    assert approval["input"]["notListed"] > 0
    marked = [one["path"] for one in staged(task)["files"] if one.get("unasked")]
    assert marked == ["z/.git/hooks/pre-commit"]
    task.vote("deny", approval)
    task.ended()


def is_staged(event: dict[str, Any], count: int) -> bool:
    """Whether the runner reports this number of staged changes."""
    payload = event.get("frame", {}).get("payload", {})
    return (payload.get("event"), payload.get("count")) == ("staged", count)


@pytest.mark.req("H-17")
def test_staged_changes_of_a_runner_that_died_are_reported_and_land(stack: Stack, filled: Path) -> None:
    task = submit(stack, "staging", "echo new > a; echo written; read forever < /dev/zero", workspace=filled)
    with watching(task) as viewer:
        viewer.until_text("written")  # By the agent: the prompt's own frame has the word, too.
        stack.kill("runner")
        stack.start("runner")
        viewer.until(lambda event: is_staged(event, 1))
    stack.ready()
    task.ended()

    again = land_again(task)
    again.vote("grant", asked(again))
    again.ended()
    assert state_of(filled) == {"a": "644 new\n", "old": "644 was here\n", "script": "644 #!/bin/sh\n"}
