"""Pure: what an agent says of itself in `session.capabilities`, and what of that Interlock can use (A-6)."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.ports.agent import AgentStart, AgentStartFailed, ProcessExit, Started
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION

STDERR_SHOWN_CHARS = 2_000


class _Told(msgspec.Struct):
    """The features of an agent; what it leaves out it does not have."""

    permission: Literal["asks", "never"] = "never"
    context_compaction: bool = False
    plan_mode: bool = False
    pause: Literal["none", "boundary", "signal"] = "none"
    images: bool = False
    thinking: bool = False
    resume_session: bool = False
    model_switch: bool = False
    prompt_options: bool = False
    system_append: bool = False
    questions: bool = False
    updated_input: bool = False
    read_only: bool = False


def started(told: p.Capabilities, opening: AgentStart) -> Started:
    """Its name and features. Raises AgentStartFailed where the two cannot work together."""
    if told.dps_version != DPS_VERSION:
        raise AgentStartFailed(
            f"The agent speaks {told.dps_version[:100]!r}, Interlock speaks {DPS_VERSION!r}; update the older of "
            "the two."
        )
    try:
        features = msgspec.convert(told.features, _Told)
    except msgspec.ValidationError as error:
        raise AgentStartFailed(f"The agent's session.capabilities cannot be read: features: {error}.") from None
    if features.permission != "asks":
        # Its commands were taken on the offer that it asks before each tool: A-10 would have held them otherwise.
        raise AgentStartFailed(
            "The agent does not say that it asks before its tools (features.permission is not \"asks\"); drive it with "
            "the adapter `exec`, where each command is held instead."
        )
    agent = told.agent
    return Started(
        p.Features(
            adapter_type="process", permission="asks", context_compaction=features.context_compaction,
            plan_mode=features.plan_mode, images=features.images, thinking=features.thinking,
            resume_session=features.resume_session, model_switch=features.model_switch,
            prompt_options=features.prompt_options, system_append=features.system_append,
            questions=features.questions, updated_input=features.updated_input, read_only=features.read_only,
            # An agent that pauses by itself is asked to; any other is stopped by a signal, whatever it declares.
            pause="boundary" if features.pause == "boundary" else "signal",
        ),
        opening.spec.name or (agent.name if agent is not None else "") or opening.agent_id,
        agent.version if agent is not None else None,
        agent.model if agent is not None else None,
        # The session's own id names the conversation: what the agent keeps of it, it finds by that.
        agent_session=opening.session_id, resumed=opening.resume and features.resume_session,
    )


def with_stderr(sentence: str, stderr: str) -> str:
    """A sentence, and under it what the agent wrote last on standard error (A-8)."""
    shown = stderr.strip()[-STDERR_SHOWN_CHARS:]
    return f"{sentence}\n{shown}" if shown else sentence


def ended(how: ProcessExit) -> str:
    """How a process ended, in words."""
    return f"exit code {how.code}" if how.signal is None else f"signal {how.signal}"
