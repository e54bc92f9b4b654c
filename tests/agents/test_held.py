"""How a configured agent is held, and the line that describes it (H-10)."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from interlock.agents.evidence import Evidence, ToolEvidence
from interlock.agents.held import as_held, holding_of, needs_check
from interlock.agents.registry import BUILTIN, SHELL, offers
from interlock.ports.agent import AgentSpec
from interlock.protocol.hold import MEANINGS, Held, Holding, phrase

pytestmark = pytest.mark.req("H-10")
Verdict = Literal["asks", "command"]


def checked(verdict: Verdict, digest: str) -> Evidence:
    return Evidence(agent_id="m", verdict=verdict, because="", checked="2026-11-22T12:30:00Z", digest=digest,
                    version="7.1", mode="approve",
                    tools=[ToolEvidence(tool="shell", state="asked" if verdict == "asks" else "ran unasked")])


@pytest.mark.parametrize(("evidence", "verdict", "digest", "line"), [
    ("declared", "asks", "d", "asks (checked 2026-11-22, v7.1)"),
    ("declared", "command", "d", "command (checked 2026-11-22, v7.1)"),
    ("declared", "command", "old", "asks (changed since its check)"),
    ("required", "asks", "d", "asks (checked 2026-11-22, v7.1)"),
    ("required", "asks", "old", "command (changed since its check)"),
    ("required", "command", "d", "command (checked 2026-11-22, v7.1)"),
])
def test_a_check_of_the_current_agent_overrides_its_table(
    evidence: Literal["declared", "required"], verdict: Verdict, digest: str, line: str
) -> None:
    spec = AgentSpec(adapter="acp", command="m", evidence=evidence)
    holding = holding_of(spec, checked(verdict, digest), "d")

    assert phrase(holding) == line
    assert as_held(spec, holding).asks is line.startswith("asks")
    seen = ["approve"] if line.startswith("asks (checked") else []
    assert as_held(spec, holding, checked(verdict, digest)).asking_modes == seen, "a mode counts if a check saw it ask"


@pytest.mark.parametrize(("evidence", "held"), [("declared", "asks"), ("required", "command")])
def test_a_check_without_observations_leaves_it_to_the_table(
    evidence: Literal["declared", "required"], held: Held
) -> None:
    found = msgspec.structs.replace(checked("command", "d"),
                                    tools=[ToolEvidence(tool="slash command", state="ran unasked")])

    spec = AgentSpec(adapter="acp", command="m", evidence=evidence)
    holding = holding_of(spec, found, "d")

    assert holding.held == held
    assert as_held(spec, holding, found).asking_modes == []


@pytest.mark.parametrize(("evidence", "line"), [
    ("declared", "asks (not checked)"), ("required", "command (not checked)")])
def test_without_a_check_the_table_decides(
    evidence: Literal["declared", "required"], line: str
) -> None:
    assert phrase(holding_of(AgentSpec(adapter="acp", command="m", evidence=evidence), None, "")) == line


@pytest.mark.parametrize(("spec", "line"), [
    (SHELL, "asks"), (BUILTIN, "asks"), (AgentSpec(adapter="claude", evidence="required"), "asks"),
    (AgentSpec(adapter="exec", command="m"), "command (its adapter never asks)"),
    (AgentSpec(adapter="none"), "command (its adapter never asks)"),
    (AgentSpec(adapter="acp", command="m", asks=False), "command (asks = false)"),
])
def test_agents_that_interlock_gates_or_that_never_ask_need_no_check(spec: AgentSpec, line: str) -> None:
    assert not needs_check(spec)
    assert phrase(holding_of(spec, checked("command", "d"), "d")) == line


def test_each_mode_that_a_check_observed_asking_counts_as_asking() -> None:
    found = msgspec.structs.replace(checked("asks", "d"), tools=[
        ToolEvidence(tool="mode change", state="asked", how="plan"),
        ToolEvidence(tool="mode change", state="ran unasked", how="yolo"),
        ToolEvidence(tool="slash command", state="asked", how="/yolo")])
    spec = AgentSpec(adapter="acp", command="m", asking_modes=["own"])

    assert as_held(spec, holding_of(spec, found, "d"), found).asking_modes == ["own", "approve", "plan"]


def test_a_runner_offers_each_agent_with_the_way_it_is_held() -> None:
    held = Holding(held="command", why="being checked")

    assert [(one.agent_id, one.holding) for one in offers({"m": AgentSpec(adapter="acp"), "shell": SHELL}, {},
                                                          {"m": held})] == [("m", held), ("shell", None)]


def test_each_term_has_its_meaning() -> None:
    assert set(MEANINGS) == set(Held.__args__)


def test_a_long_version_is_truncated() -> None:
    assert len(phrase(Holding(held="asks", why="w" * 999, version="v" * 999))) < 420
