"""Decide how a configured agent is held (H-10): by its adapter, its table in the config, and the results of a check."""

from __future__ import annotations

import msgspec

from interlock.agents.evidence import MODE_CHANGE, Evidence
from interlock.agents.registry import ADAPTERS, SHELL
from interlock.ports.agent import AgentSpec
from interlock.protocol.hold import CHANGED, INCONCLUSIVE, NOT_CHECKED, READS_UNASKED, Holding

PROBED = frozenset({"acp"})
"""Adapters whose agents decide themselves what they ask about; the others' calls pass through Interlock's own gate."""


def needs_check(spec: AgentSpec) -> bool:
    """Return whether holding an agent depends on a check: it decides itself what to ask about, and claims to ask."""
    return spec.adapter in PROBED and spec.asks and spec != SHELL


def holding_of(spec: AgentSpec, found: Evidence | None, digest: str) -> Holding:
    """Return how an agent is held. `found` is its last check, `digest` that of its current settings."""
    adapter = ADAPTERS.get(spec.adapter)
    if adapter is None or adapter.permission == "never":
        return Holding(held="command", why="its adapter never asks")
    if not spec.asks:
        return Holding(held="command", why="asks = false")
    if not needs_check(spec):
        return Holding(held="asks")
    if found is None or found.digest != digest:
        return Holding(held="asks" if spec.evidence == "declared" else "command",
                       why=NOT_CHECKED if found is None else CHANGED)
    if found.verdict == "command" and not found.saw_worse and spec.evidence == "declared":
        return Holding(held="asks", why=INCONCLUSIVE, version=found.version, checked=found.checked)
    reads = READS_UNASKED if found.verdict == "asks" and found.reads_unasked else ""
    return Holding(held=found.verdict, why=reads, version=found.version, checked=found.checked)


def as_held(spec: AgentSpec, holding: Holding, found: Evidence | None = None) -> AgentSpec:
    """Return the agent as it may be offered: without `asks` unless each of its tool calls is held, and with the modes
    in which its check `found` saw it ask counted as asking (H-11)."""
    if holding.held != "asks":
        return msgspec.structs.replace(spec, asks=False) if spec.asks else spec
    if holding.checked is None or found is None or found.verdict != "asks" or not found.mode:
        return spec
    seen = [one.how for one in found.tools if one.tool == MODE_CHANGE and one.state == "asked"]
    return msgspec.structs.replace(spec, asking_modes=[*spec.asking_modes, found.mode, *seen])
