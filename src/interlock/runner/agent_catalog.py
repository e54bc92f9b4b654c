"""The agents and workspace roots that a runner offers, as its config listed them when it was last read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from interlock.agents.registry import with_builtin
from interlock.ports.agent import AgentSpec
from interlock.protocol.hold import Holding


class Offering(NamedTuple):
    """The agents as in `[agents]` (G-1) and the absolute directories that workspaces may lie in, at least one."""

    agents: Mapping[str, AgentSpec]
    roots: list[str]
    holdings: Mapping[str, Holding] = MappingProxyType({})
    """Restrictions of each agent of the config (H-10)."""


class OfferingRefused(Exception):
    """The config could not be reloaded: one sentence for each mistake. The previous offering stays in force."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(sentences[0])
        self.sentences = sentences


ReadOffering = Callable[[], Offering]
"""Reload the config. Raises OfferingRefused."""


class Offered:
    """The offering that the next opening uses. An open session keeps the one that it was opened with."""

    def __init__(self, offer: Offering) -> None:
        self.agents: dict[str, AgentSpec] = {}
        self.roots: list[str] = []
        self.holdings: dict[str, Holding] = {}
        self.take(offer)

    def take(self, offer: Offering) -> bool:
        """Replace the offering, and return whether the new one differs."""
        before = self.agents, self.roots, self.holdings
        self.agents, self.roots, self.holdings = with_builtin(offer.agents), list(offer.roots), dict(offer.holdings)
        return (self.agents, self.roots, self.holdings) != before
