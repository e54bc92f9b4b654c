"""The terms of a policy rule (P-1): each verb of a command is either held or answered at once, and has its name."""

from typing import get_args

import pytest

from interlock.protocol.policy_terms import COMMAND_TYPES, VERBS, Door, Width
from interlock.protocol.resources import CommandType

pytestmark = pytest.mark.req("P-1")


def test_every_type_of_a_command_can_be_named_by_a_rule_and_each_once() -> None:
    assert set(get_args(CommandType)) <= set(COMMAND_TYPES)
    assert len(set(COMMAND_TYPES)) == len(COMMAND_TYPES)


def test_starting_an_agent_is_not_one_of_the_verbs() -> None:
    assert "execute" not in VERBS
    assert ("execute", *VERBS) == COMMAND_TYPES


def test_there_are_three_doors_and_the_narrowest_width_is_first() -> None:
    assert get_args(Door) == ("command", "tool", "workspace")
    assert get_args(Width)[0] == "exact"
