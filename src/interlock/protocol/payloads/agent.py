"""`agent.`: an agent's output, questions and reports (rawp section 4)."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol.payloads.base import AgentState, Count, FrameId, OptionKind, Payload, Severity


class TextDelta(Payload, frozen=True, kw_only=True):
    """`agent.text.delta`, `agent.thinking.delta`: `offset` counts code points of the block before `text` (E-4)."""

    turn_id: FrameId
    block_id: FrameId
    offset: Count
    text: str


class TextDone(Payload, frozen=True, kw_only=True):
    """`agent.text.done`, `agent.thinking.done`: closes the block and replaces it (E-4)."""

    turn_id: FrameId
    block_id: FrameId
    text: str


class InteractionOption(Payload, frozen=True, kw_only=True):
    """One answer that the agent offers; `option_id` is sent back to it."""

    option_id: str
    label: str
    kind: OptionKind


class InteractionSubject(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What a yes covers: the permission request itself, as the agent sent it (H-1).

    `input` is its raw input and `content` its list of texts and diffs (ACP), both verbatim. With `described` the input
    does not contain the effect (H-2); with `changed` another input was announced before under the same id.
    `resolved_paths` maps a path as it is named to the target of its symbolic links on the runner (H-6).
    """

    tool_name: str
    title: str = ""
    kind: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    content: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    locations: list[str] = []
    described: bool = False
    changed: bool = False
    resolved_paths: dict[str, str] = {}


class InteractionContext(Payload, frozen=True, kw_only=True):
    """The subject of the question. `subject` holds an InteractionSubject as the bytes that a vote's digest covers; if
    the runner does not send it, the question is about `input` only."""

    tool_name: str
    invocation_id: FrameId | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    subject: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class InteractionRequest(Payload, frozen=True, kw_only=True):
    """`agent.interaction.request` (A-5)."""

    interaction_id: FrameId
    interaction_type: Literal["PERMISSION", "QUESTION"]
    title: str
    context: InteractionContext
    options: list[InteractionOption] = []
    expires_at: str | None = None


class AgentError(Payload, frozen=True, kw_only=True):
    """`agent.error` (A-2)."""

    severity: Severity
    error_code: str
    message: str
    turn_id: FrameId | None = None
    retryable: bool | None = None


class FileChunk(Payload, frozen=True, kw_only=True):
    """The chunk's position: `index` counts from 0 to below `count`."""

    index: Count
    count: Count


class FileTransfer(Payload, frozen=True, kw_only=True):
    """`agent.file.transfer`."""

    transfer_id: FrameId
    name: str
    media_type: str
    size: Count
    sha256: str
    purpose: str
    content: str
    chunk: FileChunk | None = None


class StateChanged(Payload, frozen=True, kw_only=True):
    """`agent.state.changed`."""

    state: AgentState
    previous: AgentState


class AskingChanged(Payload, frozen=True, kw_only=True):
    """`x-interlock.asking.changed` (H-11): the agent's settings were changed, by itself, by a prompt or in its menu, so
    that it stopped asking before its tool calls, or asks again. In a turn or outside one."""

    asks: bool
    message: str
    """One sentence."""


class Progress(Payload, frozen=True, kw_only=True):
    """`x-interlock.progress` (S-5): how much of the turn's work is done, by the agent's plan or its own figure."""

    turn_id: FrameId
    percent: float
    """0 to 100; a value outside is clipped."""


class PlanStep(Payload, frozen=True, kw_only=True):
    """One step of an agent's plan, in its own words."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] | None = None


class PlanChanged(Payload, frozen=True, kw_only=True):
    """`x-interlock.plan.changed` (J-14): the agent's complete current plan. It stays valid beyond its turn, until it is
    replaced; one without steps removes it. `left_out` counts the steps beyond those that a frame carries."""

    turn_id: FrameId
    steps: list[PlanStep]
    left_out: Count = 0


class SettingValue(Payload, frozen=True, kw_only=True):
    """One value of a setting. `allowed` is false for a mode that cannot be selected, since tools could run unasked in
    it (A-6)."""

    id: str
    name: str | None = None
    description: str | None = None
    allowed: bool = True


class AgentSetting(Payload, frozen=True, kw_only=True):
    """The current value of a setting, and its values in the agent's order; `left_out` counts further ones."""

    current: str | None = None
    values: list[SettingValue] = []
    left_out: Count = 0


class AgentSettings(Payload, frozen=True, kw_only=True):
    """An agent's available settings, and their current values (J-14): in `session.capabilities`, and complete in each
    `x-interlock.settings.changed`, in a turn or outside one. An unavailable setting is absent."""

    mode: AgentSetting | None = None
    model: AgentSetting | None = None
    thinking: AgentSetting | None = None


class StagedFile(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """One path of an agent's staged changes (H-17), relative to the workspace. `sha256` (hex) and `size` are of its new
    content, or of a link's target; `mode` is octal. `why` is why it did not land, or never can. `unasked` is why it
    makes a tool run programs later without asking, as a hook does."""

    path: str
    change: Literal["added", "modified", "deleted", "mode", "none"] = "none"
    kind: Literal["file", "link", "directory", "absent", "other"] = "other"
    sha256: str = ""
    size: Count = 0
    mode: str = ""
    why: str | None = None
    unasked: str = ""


class ChangesReport(Payload, frozen=True, kw_only=True):
    """`x-interlock.changes.report` (H-17): the staged changes, or those that landed or were discarded, and those that
    were refused. `digest` is SHA-256 over every change, hex; `count` counts all of them, of which `files` lists the
    first.
    """

    event: Literal["staged", "landed", "discarded"]
    digest: str
    count: Count
    files: list[StagedFile] = []
    refused_count: Count = 0
    refused: list[StagedFile] = []


class ChangesDiscard(Payload, frozen=True, kw_only=True):
    """`x-interlock.changes.discard` (H-17): discard what is staged at or below these paths; by default all."""

    files: list[str] | None = None
