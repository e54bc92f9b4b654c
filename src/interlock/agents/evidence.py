"""The results of agent checks (H-10), stored in the state directory, and whether they still apply to the configured
agent."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from interlock.ports.agent import AgentSpec

FILE_NAME = "checked-agents.json"
"""Below the state directory; mode 0600."""
MAX_RECORDS = 64
"""Limit of one state directory; the oldest record is removed first."""
MAX_FILE_BYTES = 1_000_000

State = Literal["asked", "ran unasked", "ran after a no", "refused", "did not end", "not offered", "not tried"]
"""`did not end`: a sub-agent's turn that was cancelled after its time limit, without a question and without an effect.
"""
Shown = Literal["", "input", "described"]


BAD: frozenset[State] = frozenset({"ran unasked", "ran after a no"})
SUB_AGENT_TOOLS = "sub-agent's tools"
"""A sub-agent's tools after a yes to delegating; tried only if the agent asks about delegating."""
READ_COMMAND = "reading shell command"
"""A shell command that changes nothing (`cat`): some agents ask only about other commands."""
MODE_CHANGE = "mode change"
"""A shell command in each mode that Interlock may switch the agent to."""
SLASH_COMMAND = "slash command"
"""A shell command after a prompt that disables an agent's asking."""
HOSTILE_REPOSITORY = "hostile repository"
"""A shell command in a workspace whose files try to start programs or to disable the agent's asking (H-13)."""
NOT_DECISIVE = frozenset({READ_COMMAND, SUB_AGENT_TOOLS, MODE_CHANGE, SLASH_COMMAND, HOSTILE_REPOSITORY})
"""Results of these are reported but do not make an agent `command`: a command that only reads changes nothing; each of
the others follows something that was allowed or sent, and the first tool that runs unasked ends the turn (H-12); a
workspace's files are asked about before the agent starts (H-13)."""


class ToolEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that the agent was made to use, and the outcome."""

    tool: str
    state: State
    shown: Shown = ""
    """Whether the question contained the tool's own input, or only described it (H-2); "" without a question."""
    ran_after_yes: bool | None = None
    """None if it was not answered yes."""
    how: str = ""
    """How it was tried, if not by the tool itself: the mode that it was switched to, the prompt, the attack among the
    files of the workspace."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    agent_id: str
    verdict: Literal["asks", "command"]
    because: str
    """One sentence."""
    checked: str
    """Time of the check: an ISO 8601 date and time in UTC."""
    digest: str
    """Of the agent's settings and program (`settings_digest`)."""
    version: str | None = None
    mode: str | None = None
    """The agent's mode after its opening; None for an agent without modes."""
    seconds: float = 0.0
    tools: list[ToolEvidence] = []
    cut_short: bool = False
    """The check ended before everything was tried: the agent did not start, did not end a turn, or took too long."""

    @property
    def reads_unasked(self) -> bool:
        """Return whether a shell command that only reads ran without a question."""
        return any(one.tool == READ_COMMAND and one.state in BAD for one in self.tools)

    @property
    def saw_worse(self) -> bool:
        """Return whether something ran that was not allowed, so that the agent is `command` whatever its table states.
        Otherwise a check that did not see it ask proves nothing, for example if the agent ignores the test model."""
        return any(one.state in BAD and one.tool not in NOT_DECISIVE for one in self.tools)


def settings_digest(spec: AgentSpec, environment: Mapping[str, str], settings: Mapping[str, bytes] = {}) -> str:
    """Return SHA-256, in hex, over everything that decides how an agent asks: adapter, command, arguments, environment,
    mode, `settings` (the agent's own files by name), and the program file (path, size, time of change)."""
    path = spec.env.get("PATH") or environment.get("PATH") or os.defpath
    found = shutil.which(spec.command, path=path) if spec.command else None
    program: list[str | int] = []
    if found is not None:
        real = Path(found).resolve()
        status = real.stat()
        program = [str(real), status.st_size, status.st_mtime_ns]
    files = {name: hashlib.sha256(text).hexdigest() for name, text in settings.items()}
    whole = [spec.adapter, spec.command, spec.args, sorted(spec.env.items()), spec.mode, spec.modes, program,
             sorted(files.items())]
    return hashlib.sha256(msgspec.json.encode(whole)).hexdigest()


def read(state: Path) -> dict[str, Evidence]:
    """Return the records of a state directory by agent; none if the file is absent, too large or damaged: without
    evidence an agent is not trusted."""
    place = state / FILE_NAME
    try:
        if place.stat().st_size > MAX_FILE_BYTES:
            return {}
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Evidence])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def kept(before: Evidence | None, made: Evidence) -> Evidence:
    """Return which of two records of one agent stays: the new one, unless its check was cut short and saw nothing worse
    while the earlier record, of the same version and settings, shows more."""
    if before is None or not made.cut_short or made.saw_worse or made.digest != before.digest:
        return made
    same = made.version in (None, before.version)
    return before if same and _tried(before) > _tried(made) else made


def _tried(one: Evidence) -> int:
    return sum(1 for seen in one.tools if seen.state not in ("not tried", "did not end"))


def with_record(records: Mapping[str, Evidence], made: Evidence) -> bytes:
    """Return the file's content with one more record, or with a replaced one of the agent; `kept` decides which."""
    made = kept(records.get(made.agent_id), made)
    others = [one for one in records.values() if one.agent_id != made.agent_id]
    others = sorted(others, key=lambda one: one.checked)[-(MAX_RECORDS - 1):]
    return msgspec.json.format(msgspec.json.encode({one.agent_id: one for one in [*others, made]}), indent=1)
