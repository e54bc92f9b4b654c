"""Conversations with the builtin agent."""

from __future__ import annotations

from typing import Any

from agents.transcribed import Transcribed
from interlock.session.transcript.entries import AssistantMessage, TextPart, TokenFigures, UserEntry


async def turn(kept: Transcribed, text: str, base: str | None = None, **fields: Any) -> str:
    """A turn whose questions are all allowed, with its context."""
    await kept.prompt(text, base, **fields)
    scene = kept.scene
    while (frame := await scene.next("agent.interaction.request", "session.turn.end")).type != "session.turn.end":
        await scene.answer(frame, "allow")
    await scene.next("session.usage")
    kept.take()
    return frame.payload.stop_reason


def long_conversation(kept: Transcribed, turns: int = 6) -> None:
    """Turns of about a thousand tokens each."""
    for number in range(turns):
        kept.append(UserEntry(content=f"question {number} " + "word " * 400, timestamp=1))
        kept.append(AssistantMessage(
            content=[TextPart(f"answer {number} " + "word " * 400)], api="rawp", provider="own", model="m",
            usage=TokenFigures(), stop_reason="stop", timestamp=1))
