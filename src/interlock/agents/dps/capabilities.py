"""Read an agent's `session.capabilities`, and keep what Interlock can use (A-6). Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.ports.agent import AgentStart, AgentStartFailed, ProcessExit, Started
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION

STDERR_SHOWN_CHARS = 2_000


class _ReportedFeatures(msgspec.Struct):
    """The features of an agent; omitted ones are missing."""

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


def started(report: p.Capabilities, opening: AgentStart) -> Started:
    """Return its name and features. Raises AgentStartFailed if agent and Interlock are incompatible."""
    if report.dps_version != DPS_VERSION:
        raise AgentStartFailed(
            f"The agent supports {report.dps_version[:100]!r}, Interlock supports {DPS_VERSION!r}; update the older of "
            "the two."
        )
    try:
        features = msgspec.convert(report.features, _ReportedFeatures)
    except msgspec.ValidationError as error:
        raise AgentStartFailed(f"The agent's session.capabilities cannot be read: features: {error}.") from None
    if features.permission != "asks":
        # Its commands were accepted because its offer promised a question before each tool: else A-10 would hold them.
        raise AgentStartFailed(
            "The agent does not report that it asks before its tools (features.permission is not \"asks\"); use the "
            "adapter `exec`, where each command is held instead."
        )
    agent = report.agent
    return Started(
        p.Features(
            adapter_type="process", permission="asks", context_compaction=features.context_compaction,
            plan_mode=features.plan_mode, images=features.images, thinking=features.thinking,
            resume_session=features.resume_session, model_switch=features.model_switch,
            prompt_options=features.prompt_options, system_append=features.system_append,
            questions=features.questions, updated_input=features.updated_input, read_only=features.read_only,
            # An agent that pauses by itself gets a frame; any other is stopped by a signal, whatever it reports.
            pause="boundary" if features.pause == "boundary" else "signal",
        ),
        opening.spec.name or (agent.name if agent is not None else "") or opening.agent_id,
        agent.version if agent is not None else None,
        agent.model if agent is not None else None,
        # The session's own id names the conversation: the agent finds its own data by it.
        agent_session=opening.session_id, resumed=opening.resume and features.resume_session,
    )


def with_stderr(sentence: str, stderr: str) -> str:
    """Return a sentence, followed by the last lines of the agent's standard error (A-8)."""
    shown = stderr.strip()[-STDERR_SHOWN_CHARS:]
    return f"{sentence}\n{shown}" if shown else sentence


def ended(how: ProcessExit) -> str:
    """Describe the end of a process."""
    return f"exit code {how.code}" if how.signal is None else f"signal {how.signal}"
