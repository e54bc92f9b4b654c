"""What a runner offers: its agents and the roots that they work below, as its config said when it was last read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from interlock.agents.registry import with_builtin
from interlock.ports.agent import AgentSpec
from interlock.protocol.hold import Holding


class Offering(NamedTuple):
    """Agents as in `[agents]` (G-1), and the absolute directories that workspaces may lie in, at least one."""

    agents: Mapping[str, AgentSpec]
    roots: list[str]
    holdings: Mapping[str, Holding] = MappingProxyType({})
    """How each agent of the config is held (H-10)."""


class OfferingRefused(Exception):
    """The config cannot be read again: one sentence for each mistake. What was offered before stays."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(sentences[0])
        self.sentences = sentences


ReadOffering = Callable[[], Offering]
"""Reads the config again. Raises OfferingRefused."""


class Offered:
    """What the next opening finds. A session that is open goes on with what it was opened with."""

    def __init__(self, offer: Offering) -> None:
        self.agents: dict[str, AgentSpec] = {}
        self.roots: list[str] = []
        self.holdings: dict[str, Holding] = {}
        self.take(offer)

    def take(self, offer: Offering) -> bool:
        """Offer this from now on; whether it differs from what was offered."""
        before = self.agents, self.roots, self.holdings
        self.agents, self.roots, self.holdings = with_builtin(offer.agents), list(offer.roots), dict(offer.holdings)
        return (self.agents, self.roots, self.holdings) != before
