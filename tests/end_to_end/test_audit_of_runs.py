"""After real runs the exported log verifies offline, and each transition has exactly one record in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from end_to_end.tasks import PATIENCE_S, SubmittedTask, body, new_key, submit, watching
from interlock.command.audit.audit_check import Tampering, verify
from interlock.gateway.audit.signing_key import PUBLIC_NAME, load_public_key
from proof.processes.stack import Stack
from proof.recovery.random_kills import TERMINAL


@pytest.fixture(scope="module")
def done(stack: Stack) -> list[SubmittedTask]:
    """Commands that ended in every way that there is."""
    place = stack.workspace / "audited"
    place.mkdir()
    tasks: list[SubmittedTask] = []

    def give(agent: str, text: str, timeout_ms: int | None = None) -> SubmittedTask:
        tasks.append(submit(stack, agent, text, workspace=place, timeout_ms=timeout_ms))
        return tasks[-1]

    give("shell", "echo allowed # free")
    give("shell", "echo denied by policy # never")
    give("shell", "echo nobody answered # soon")
    give("shell", "sleep 600 # free", timeout_ms=500)
    give("shell", "exit 4 # free")
    give("misbehaving", "text exit:0")
    give("misbehaving", "kill")
    give("dead", "text")
    for decision in ("grant", "deny"):
        give("shell", f"echo {decision}").vote(decision)
        give("guarded", f"text:{decision}").vote(decision)
    canceled = give("misbehaving", "text:on wait")
    with watching(canceled) as viewer:
        viewer.until_text("on")
    tasks.append(canceled.cancel())
    voided = give("misbehaving", "ask")
    voided.approval()
    tasks.append(voided.cancel())
    held = give("guarded", "text")
    held.approval()
    tasks.append(held.cancel())
    assert stack.post("/v1/commands", body("prisoner", "text"), new_key()).status_code == 403
    for task in tasks:
        task.ended()
    ends = Counter(task.command()["state"] for task in tasks)
    assert ends.keys() == TERMINAL - {"expired"}, ends
    return tasks


def exported(stack: Stack) -> list[bytes]:
    """The lines of `audit export`, as REST gives them."""
    answer = httpx2.get(stack.url + "/v1/audit/export", headers=stack.headers, timeout=PATIENCE_S)
    assert answer.status_code == 200
    return answer.content.splitlines(keepends=True)


@pytest.mark.req("U-1", "U-2", "U-5")
def test_the_export_verifies_and_one_with_a_flipped_byte_does_not(stack: Stack, done: list[SubmittedTask]) -> None:
    lines, key = exported(stack), load_public_key(stack.state / PUBLIC_NAME)

    report = verify(lines, key)
    assert (report.ok, report.signature_checked, report.not_yet_signed) == (True, True, 0), report.message
    assert report.records == len(lines) - 1

    middle = len(lines) // 2
    record = lines[middle]
    at = record.index(b'"action":"') + len(b'"action":"')
    flipped = record[:at] + bytes([record[at] ^ 1]) + record[at + 1:]
    found = verify([*lines[:middle], flipped, *lines[middle + 1:]], key)
    assert (found.ok, found.seq, found.kind) == (False, middle + 1, Tampering.BIT_FLIPPED)


@pytest.mark.req("U-1", "C-0", "P-5")
def test_each_transition_of_a_command_and_of_an_approval_has_exactly_one_record(
    stack: Stack, done: list[SubmittedTask]
) -> None:
    records = [json.loads(line)["record"] for line in exported(stack)[:-1]]
    recorded: Counter[tuple[str, str | None, str | None]] = Counter()
    for task in done:
        for event in task.status():
            if event["event"] == "state":
                recorded[task.id, event.get("previous"), event["state"]] += 1
            elif event["event"] == "approval":
                recorded[event["approval_id"], None, event["approval_state"]] += 1
    written: Counter[tuple[str, str | None, str | None]] = Counter()
    for record in records:
        if "to" not in record["meta"]:
            continue
        subject = record.get("approval_id") or record["command_id"]
        written[subject, record["meta"].get("from"), record["meta"]["to"]] += 1

    assert written == recorded
    assert set(recorded.values()) == {1}
    actions = Counter(record["action"] for record in records)
    assert actions["vote"] == 4
    assert actions["tool_denied"] == 1
    assert actions["reject"] >= 3  # A policy denies a command; a person denies a command and a tool call.


@pytest.mark.req("U-1", "U-4", "K-4")
def test_audit_records_contain_no_conversation_text(stack: Stack, done: list[SubmittedTask], tmp_path: Path) -> None:
    # Erasable values are stored beside the record, which contains only a commitment to them.
    log = b"".join(line[line.index(b'"record":'):] for line in exported(stack)[:-1])

    for private in (b"nobody answered", b"echo", str(stack.workspace).encode(), b"127.0.0.1",
                    (stack.state / "owner.key").read_bytes().strip(), stack.token.read_bytes()):
        assert private not in log
