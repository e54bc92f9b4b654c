"""R6: commands, votes, cancels, pauses, links and restarts in any order, compared with a plain model after each step.

The model has no frames, transactions or clocks: it states which state each command must be in, and whether a step is
refused. `hypothesis` searches for the shortest conversation in which the gateway differs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import ControlsConfirmed, RunnerDetached
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.limits import LARGEST_SEQ
from interlock.protocol.problems import Problem
from interlock.protocol.resources import ApprovalRequirement, Target
from proof import REPOSITORY

RUNS, STEPS = 1_000, 50
LONG_MS = 31 * 24 * 3_600_000
"""Longer than any clock of what has not begun."""
ENDED = frozenset({"succeeded", "failed", "canceled", "rejected", "expired"})
AT_WORK = frozenset({"running", "pausing", "paused", "resuming"})
TURN_ENDS = {"end_turn": "succeeded", "max_tokens": "succeeded", "error": "failed", "cancelled": "canceled"}
WHICH = st.integers(0, 7)
SELDOM = st.integers(0, 3).map(lambda drawn: drawn == 3)
"""What ends a conversation early is done in one of four draws, so that most come to their middle."""
counted: Counter[str] = Counter()


class Reference:
    """The expected state after each step: states by number, in the order of submission."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.orders: list[tuple[int, str, str]] = []
        """(command, kind, state) of each cancel, pause and resume that was taken."""
        self.active: int | None = None
        self.started = False
        self.attached = True

    def settle(self) -> None:
        """The next one in the queue is sent if no other is."""
        if self.active is None and self.attached and "queued" in self.states:
            self.active, self.started = self.states.index("queued"), False
            self.states[self.active] = "dispatched"

    def end(self, number: int, state: str) -> None:
        """A command ends; the orders about it end with it."""
        self.states[number] = state
        counted[state] += 1
        if self.active == number:
            self.active = None
        met = state == "canceled"
        self.orders = [(about, kind, "succeeded" if kind == "cancel" and met else "failed")
                       if about == number and now == "running" else (about, kind, now)
                       for about, kind, now in self.orders]
        self.settle()

    def holds_end(self, number: int, state: str) -> None:
        """The pauses and resumes that wait for a command's agent end."""
        counted["pauses and resumes"] += 1
        self.orders = [(about, kind, state) if about == number and kind != "cancel" and now == "running"
                       else (about, kind, now) for about, kind, now in self.orders]


class Conversation(RuleBasedStateMachine):
    """One session of a gateway, its runner and its people."""

    def __init__(self) -> None:
        super().__init__()
        sys.path[:0] = [str(REPOSITORY / "tests")] if str(REPOSITORY / "tests") not in sys.path else []
        from engine.conversation import Table

        self.loop = asyncio.new_event_loop()
        self.model, self.commands, self.orders = Reference(), list[Any](), list[str]()
        self.session_id: str | None = None
        self.turns = 0
        self.table: Any = self.wait(self._make(Table))
        counted["runs"] += 1

    async def _make(self, kind: Any) -> Any:
        return kind()

    async def _decide(self, given: LaneInput) -> None:
        # In one piece: a lane in which nothing lives is forgotten as soon as the loop turns.
        await (await self.table.lane(self.session_id)).call(given)

    async def _reattach(self) -> None:
        shell = await self.table.lane(self.session_id)
        await self.table.reattach(self.session_id, shell.lane.state.control_acked)

    def wait(self, doing: Awaitable[Any]) -> Any:
        """Drive the loop until it is done."""
        return self.loop.run_until_complete(doing)

    def refused(self, doing: Awaitable[Any]) -> bool:
        """Whether it was refused as a conflict."""
        try:
            self.wait(doing)
        except Problem as problem:
            if problem.code != "Conflict":
                raise
            counted["refused"] += 1
            return True
        return False

    # --- what people do ---
    @rule(asks=SELDOM)
    def execute(self, asks: bool) -> None:
        target = Target(session_id=self.session_id) if self.session_id else Target(agent_id="shell")
        wish = ApprovalRequirement(required=1) if asks else None
        command = self.wait(self.table.execute(target=target, approval=wish))
        self.commands.append(command)
        self.session_id = command.target.session_id
        self.model.states.append("pending_approval" if asks else "queued")
        self.model.settle()
        self.confirm()
        if len(self.commands) == 1 and self.model.active == 0:
            self.opened()

    @precondition(lambda self: self.commands)
    @rule(which=WHICH, grant=st.booleans())
    def vote(self, which: int, grant: bool) -> None:
        number = which % len(self.commands)
        command = self.commands[number]
        if command.approval_id is None:
            return
        state = self.model.states[number]
        refused = self.refused(self.table.vote(command.approval_id, "grant" if grant else "deny"))
        if state != "pending_approval":
            return  # Decided before: refused, or the same vote again, and nothing has changed.
        assert not refused
        if grant:
            self.model.states[number] = "queued"
            self.model.settle()
            self.opened()
        else:
            self.model.end(number, "rejected")
        self.confirm()

    @precondition(lambda self: self.commands)
    @rule(which=WHICH, now=SELDOM)
    def cancel(self, which: int, now: bool) -> None:
        if not now:
            return
        number = which % len(self.commands)
        state = self.model.states[number]
        if self.refused(self.order("cancel", number)):
            assert state in ENDED, f"a cancel of what is {state} was refused"
            return
        assert state not in ENDED
        self.model.orders.append((number, "cancel", "running"))
        if state in ("pending_approval", "queued"):
            self.model.end(number, "canceled")
        else:
            self.model.states[number] = "canceling"
        self.confirm()

    @precondition(lambda self: self.commands)
    @rule(which=WHICH, another=SELDOM)
    def pause(self, which: int, another: bool) -> None:
        active = self.model.active
        number = which % len(self.commands) if another or active is None else active
        state = self.model.states[number]
        if self.refused(self.order("pause", number)):
            assert state != "running"
            return
        assert state == "running", f"a pause of what is {state} was taken"
        self.model.orders.append((number, "pause", "running"))
        self.model.states[number] = "pausing"
        self.confirm()

    @precondition(lambda self: self.commands)
    @rule(which=WHICH, another=SELDOM)
    def resume(self, which: int, another: bool) -> None:
        active = self.model.active
        number = which % len(self.commands) if another or active is None else active
        state = self.model.states[number]
        if self.refused(self.order("resume", number)):
            assert state not in ("pausing", "paused")
            return
        assert state in ("pausing", "paused"), f"a resume of what is {state} was taken"
        if state == "pausing":
            self.model.holds_end(number, "failed")
            self.model.orders.append((number, "resume", "succeeded"))
            self.model.states[number] = "running"
        else:
            self.model.orders.append((number, "resume", "running"))
            self.model.states[number] = "resuming"
        self.confirm()

    async def order(self, kind: str, number: int) -> None:
        command = await self.table.order(kind, self.commands[number].id)
        self.orders.append(command.id)

    # --- frames of the runner ---
    def opened(self) -> None:
        """The agent answers its first opening."""
        if self.model.active is None or not self.model.attached or self.table.seqs.get(self.session_id):
            return
        features = {"adapter_type": "process", "permission": "asks", "pause": "signal"}
        self.wait(self.table.send(self.session_id, "session.capabilities",
                                  p.Capabilities(dps_version=DPS_VERSION, features=features)))
        self.confirm()

    def working(self) -> str | None:
        """The state of the active command if its runner is connected."""
        active = self.model.active
        return self.model.states[active] if active is not None and self.model.attached else None

    @precondition(lambda self: self.working() in ("dispatched", "canceling") and not self.model.started)
    @rule()
    def starts(self) -> None:
        self.opened()
        self.turns += 1
        self.wait(self.table.started(self.session_id, f"t{self.turns}"))
        self.model.started = True
        if self.working() == "dispatched":
            self.model.states[self.model.active] = "running"  # type: ignore[index]
        self.confirm()

    @precondition(lambda self: self.working() == "dispatched" and not self.model.started)
    @rule()
    def starts_soon(self) -> None:
        self.starts()

    @precondition(lambda self: self.working() is not None and self.model.started)
    @rule(reason=st.sampled_from(sorted(TURN_ENDS)), now=SELDOM)
    def ends(self, reason: str, now: bool) -> None:
        if not now:
            return
        self.wait(self.table.ended(self.session_id, reason, f"t{self.turns}"))
        self.model.end(self.model.active, TURN_ENDS[reason])  # type: ignore[arg-type]
        self.confirm()

    @precondition(lambda self: self.working() in AT_WORK | {"canceling"} and self.model.started)
    @rule(now=st.sampled_from(("paused", "running")))
    def reports_its_state(self, now: str) -> None:
        was = self.working()
        self.wait(self.table.report_state(self.session_id, now, "paused" if now == "running" else "running"))
        number = self.model.active
        assert number is not None
        if (was, now) in (("pausing", "paused"), ("resuming", "running")):
            self.model.states[number] = now
            self.model.holds_end(number, "succeeded")
        self.confirm()

    def confirm(self) -> None:
        """The runner has all that was sent to it."""
        if self.session_id is not None and self.model.attached:
            self.wait(self._decide(ControlsConfirmed(LARGEST_SEQ)))

    # --- what happens to them ---
    @precondition(lambda self: self.session_id is not None and self.model.attached)
    @rule()
    def link_breaks(self) -> None:
        self.table.engine.presence.get("local").link = None
        self.wait(self._part())
        self.model.attached = False

    async def _part(self) -> None:
        shell = await self.table.lane(self.session_id)
        shell.drop_link()
        await shell.call(RunnerDetached())

    @precondition(lambda self: self.session_id is not None and not self.model.attached)
    @rule()
    def link_comes_back(self) -> None:
        self.table.engine.presence.get("local").connect(self.table.wire)
        self.wait(self._reattach())
        self.model.attached = True
        self.model.settle()
        self.confirm()
        self.opened()

    @precondition(lambda self: self.session_id is not None)
    @rule()
    def gateway_restarts(self) -> None:
        wire = self.table.wire
        self.wait(self.table.engine.stop())
        self.wait(self._begin())
        self.table.wire.sent[:0] = wire.sent  # Received frames stay received.
        if self.model.attached:
            self.wait(self._reattach())
        else:
            self.table.engine.presence.get("local").link = None
        self.confirm()

    async def _begin(self) -> None:
        self.table.begin()

    @precondition(lambda self: self.session_id is not None and self.model.active is None)
    @rule(now=SELDOM)
    def a_month_passes(self, now: bool) -> None:
        if not now:
            return
        self.table.clock.advance(LONG_MS)
        self.wait(self._decide(ClockTicked()))
        for number, state in enumerate(self.model.states):
            if state in ("pending_approval", "queued"):
                self.model.end(number, "expired")

    # --- what must hold ---
    @invariant()
    def they_agree(self) -> None:
        counted["steps"] += 1
        states = [self.wait(self.table.state(command.id)) for command in self.commands]
        assert states == self.model.states
        orders = [self.wait(self.table.state(order)) for order in self.orders]
        assert orders == [state for _, _, state in self.model.orders]

    def teardown(self) -> None:
        counted["commands"] += len(self.commands)
        self.wait(self.table.engine.stop())
        self.wait(self.loop.shutdown_asyncgens())
        self.loop.close()


def explore(seed: int, runs: int, steps: int = STEPS) -> Counter[str]:
    """Have conversations of `steps` steps; gives what was done. Raises AssertionError with the shortest divergence."""
    counted.clear()
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType]
        seeded(seed)(Conversation), settings=settings(
            max_examples=runs, stateful_step_count=steps, deadline=None, database=None,
            suppress_health_check=list(HealthCheck)))  # pyright: ignore[reportArgumentType]
    return counted


def run(seed: int, rounds: int | None) -> bool:
    """Run it and print what was done."""
    try:
        done = explore(seed, rounds or RUNS)
    except AssertionError as error:
        print(f"  ! {counted}: {error}")
        return False
    print(f"  {dict(done)}; 0 divergences", flush=True)
    return True
