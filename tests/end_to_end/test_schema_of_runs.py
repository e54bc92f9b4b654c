"""The messages of a real gateway and a real runner fit the published schema (W-1)."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from end_to_end.tasks import submit
from interlock.protocol.schema import json_schema
from proof.processes.stack import Stack

SCHEMA = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.req("W-1")
def test_every_frame_of_a_held_a_denied_and_a_canceled_turn_is_valid(stack: Stack, workspace: Path) -> None:
    allowed = submit(stack, "shell", "echo to out; echo to err >&2", workspace=workspace)
    allowed.vote("grant")
    assert allowed.ended()["state"] == "succeeded"
    denied = submit(stack, "shell", "touch it # never", workspace=workspace)
    denied.ended()
    canceled = submit(stack, "shell", "echo waits", workspace=workspace)
    canceled.approval()
    canceled.cancel()
    assert canceled.until("canceled")["state"] == "canceled"
    dead = submit(stack, "dead", "nothing", workspace=workspace)
    assert dead.ended()["state"] == "failed"

    seen: set[str] = set()
    for task in (allowed, denied, canceled, dead):
        for event in task.frames():
            if event["kind"] in ("C", "M"):
                SCHEMA.validate(event["frame"])
                seen.add(event["frame"]["type"])

    assert seen >= {"control.session.open", "control.prompt.request", "control.interaction.response",
                    "control.turn.cancel", "session.capabilities", "session.turn.start", "session.turn.end",
                    "session.usage", "session.error", "session.closed", "agent.interaction.request",
                    "tool.invoke.request", "tool.invoke.result", "x-interlock.interaction.held",
                    "x-interlock.interaction.resolved"}
