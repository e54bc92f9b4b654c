"""How `python -m proof cascade` distinguishes a lost command from a late one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from proof.workload.command_completion import GONE, LATER_COMMANDS, LONGEST_S, Completion, wait_for_ends

pytestmark = pytest.mark.req("C-4")


class Stack:
    """A stack in which each command goes through its states, one at each look, and time passes between looks."""

    def __init__(self, *, takes_s: float = 1.0, works: bool = True, **commands: Iterator[str]) -> None:
        self.commands = commands
        self.works = works
        self.now_s = 0.0
        self.later = 0
        self._takes_s = takes_s

    def give_another(self) -> bool:
        """Give one more command."""
        self.later += 1
        return self.works

    def rest(self, _seconds: float) -> None:
        """Let time pass."""
        self.now_s += self._takes_s

    def wait(self) -> Completion:
        """Wait for the end of all commands."""
        look: Callable[[str], str] = lambda one: next(self.commands[one])  # noqa: E731
        return wait_for_ends(self.commands, look, self.give_another, clock=lambda: self.now_s, rest=self.rest)


def test_commands_that_finally_end_are_neither_lost_nor_late() -> None:
    slow = chain(repeat("queued", LATER_COMMANDS), repeat("running", LATER_COMMANDS), ["succeeded"])
    stack = Stack(takes_s=20.0, soon=iter(["running", "failed"]), slow=slow)
    assert stack.wait() == Completion(Counter(succeeded=1, failed=1), [], [])
    assert stack.now_s > LONGEST_S / 3, "it was slow, and moved"


def test_a_command_that_does_not_move_while_later_ones_end_is_lost() -> None:
    stack = Stack(stuck=repeat("running"), soon=iter(["running", "succeeded"]))
    assert stack.wait() == Completion(Counter(succeeded=1), ["stuck"], [])
    assert stack.later == LATER_COMMANDS


def test_a_command_that_no_gateway_knows_is_lost() -> None:
    assert Stack(unknown=repeat(GONE)).wait() == Completion(Counter(), ["unknown"], [])


def test_a_command_that_does_not_end_in_an_idle_stack_is_late() -> None:
    stack = Stack(takes_s=60.0, works=False, waiting=repeat("queued"))
    assert stack.wait() == Completion(Counter(), [], ["waiting"])
    assert stack.now_s >= LONGEST_S


def test_a_command_that_moves_forever_is_late() -> None:
    back_and_forth = (("queued", "running")[at % 2] for at in range(10_000))
    assert Stack(takes_s=60.0, restless=back_and_forth).wait() == Completion(Counter(), [], ["restless"])
