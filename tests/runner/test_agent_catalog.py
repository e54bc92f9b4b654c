"""What a runner offers, when its config is read again (G-1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.agents.registry import offers
from interlock.ports.agent import AgentSpec
from interlock.runner.agent_catalog import Offered, Offering, OfferingRefused
from interlock.runner.main import reread

CAT = AgentSpec(adapter="exec", command="cat")


class Greeted:
    """Counts how often gateways are to be greeted again."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def reading(*found: Offering | OfferingRefused) -> Callable[[], Offering]:
    """A config that changes with each read."""
    left = iter(found)

    def read() -> Offering:
        match next(left):
            case Offering() as offering:
                return offering
            case refused:
                raise refused

    return read


@pytest.mark.req("G-1", "A-1", "L-4")
def test_added_and_removed_agents_and_roots_are_reported_as_differences() -> None:
    offered, greet = Offered(Offering({}, ["/a"])), Greeted()
    read = reading(Offering({"cat": CAT}, ["/a"]), Offering({"cat": CAT}, ["/a"]), Offering({}, ["/b", "/c"]))
    assert reread(offered, read, greet) == []
    assert (sorted(offered.agents), offered.roots, greet.times) == (["builtin", "cat", "shell"], ["/a"], 1)
    assert reread(offered, read, greet) == []
    assert greet.times == 1
    assert reread(offered, read, greet) == []
    assert (sorted(offered.agents), offered.roots, greet.times) == (["builtin", "shell"], ["/b", "/c"], 2)


@pytest.mark.req("G-1")
def test_an_invalid_file_changes_nothing_and_its_mistake_is_reported() -> None:
    offered, greet = Offered(Offering({"cat": CAT}, ["/a"])), Greeted()
    wrong = ["interlock.toml:1: no."]
    assert reread(offered, reading(OfferingRefused(wrong)), greet) == wrong
    assert ("cat" in offered.agents, offered.roots, greet.times) == (True, ["/a"], 0)


@pytest.mark.req("A-7", "G-1")
def test_an_agent_with_an_unknown_adapter_is_reported_with_the_reason() -> None:
    (offer,) = offers({"odd": AgentSpec(adapter="acpp", command="cat")})
    assert offer.unavailable == "there is no adapter 'acpp'; choose one of: acp, builtin, claude, dps, exec"
