"""How tests open the builtin agent, and what its person answers."""

from __future__ import annotations

from typing import Any

from interlock.protocol import payloads as p
from runner.stage import Stage


async def opened(scene: Stage, **fields: Any) -> p.Capabilities:
    await scene.send("control.session.open", p.SessionOpen(
        session_id=scene.session_id, agent_id="own", workspace=str(scene.workspace),
        **{"workspace_access": "rw", **fields}))
    return (await scene.next("session.capabilities", "session.error")).payload


async def allowed(scene: Stage, text: str, **fields: Any) -> str:
    """A turn whose questions are all allowed; returns its stop reason."""
    await scene.prompt(text, **fields)
    while (frame := await scene.next("agent.interaction.request", "session.turn.end")).type != "session.turn.end":
        await scene.answer(frame, "allow")
    await scene.next("session.usage")
    return frame.payload.stop_reason
