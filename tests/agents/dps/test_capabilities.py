"""An agent's report about itself when it opens (A-6): which parts are used, and when the two are incompatible."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.dps.capabilities import STDERR_SHOWN_CHARS, ended, started, with_stderr
from interlock.ports.agent import AgentSpec, AgentStart, AgentStartFailed, ProcessExit, Started
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION

pytestmark = pytest.mark.req("A-6")


def opened(resume: bool = False, name: str = "", version: str = DPS_VERSION, agent: p.AgentIdentity | None = None,
           **features: Any) -> Started:
    capabilities = p.Capabilities(dps_version=version, features={"permission": "asks", **features}, agent=agent)
    return started(capabilities, AgentStart(agent_id="mine", session_id="s", spec=AgentSpec(adapter="dps", name=name),
                                            workspace="/w", environment={}, resume=resume))


def test_a_missing_capability_counts_as_absent() -> None:
    features = opened().features
    assert (features.adapter_type, features.permission) == ("process", "asks")
    assert [features.images, features.questions, features.read_only] == [False] * 3
    assert opened(images=True, questions=True, unheard_of=[1]).features.images


@pytest.mark.parametrize(("pause", "used"), [("boundary", "boundary"), ("signal", "signal"), ("none", "signal")])
def test_an_agent_that_cannot_pause_itself_is_stopped_by_a_signal(pause: str, used: str) -> None:
    assert opened(pause=pause).features.pause == used


@pytest.mark.parametrize(("name", "agent", "shown"), [
    ("Config", p.AgentIdentity(agent_id="x", name="Own"), "Config"), ("", p.AgentIdentity(agent_id="x", name="Own"),
    "Own"),
    ("", p.AgentIdentity(agent_id="x", name=""), "mine"), ("", None, "mine"),
])
def test_the_configs_name_precedes_the_agents_own_and_its_id_comes_last(
    name: str, agent: p.AgentIdentity | None, shown: str
) -> None:
    assert opened(name=name, agent=agent).name == shown


def test_a_conversation_is_resumed_only_by_an_agent_that_declares_it() -> None:
    assert opened(resume=True, resume_session=True).resumed
    assert not opened(resume=True).resumed
    assert not opened(resume_session=True).resumed
    assert opened().agent_session == "s"


@pytest.mark.parametrize(("fields", "sentence"), [
    ({"version": "rawp-dps-0.9"}, "supports 'rawp-dps-0.9', Interlock supports"), ({"images": "yes"},
    "features: Expected `bool`"),
    ({"permission": "never"}, "adapter `exec`"), ({"permission": "sometimes"}, "cannot be read"),
    ({"version": "x" * 9_999}, "x"),
])
def test_incompatible_capabilities_give_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AgentStartFailed, match=sentence) as caught:
        opened(**fields)
    assert len(str(caught.value)) < 500


@pytest.mark.req("A-8")
def test_the_end_of_standard_error_is_below_the_sentence() -> None:
    assert with_stderr("It ended.", "  \n") == "It ended."
    assert with_stderr("It ended.", "why\n") == "It ended.\nwhy"
    assert with_stderr("", "a" + "b" * STDERR_SHOWN_CHARS) == "\n" + "b" * STDERR_SHOWN_CHARS


@pytest.mark.req("A-2")
@pytest.mark.parametrize(("how", "words"), [(ProcessExit(3, None), "exit code 3"), (ProcessExit(None, 9), "signal 9")])
def test_the_exit_of_a_process_is_described(how: ProcessExit, words: str) -> None:
    assert ended(how) == words
