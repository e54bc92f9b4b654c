"""Invariants of a world at its end: one sentence for each violated one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from interlock.command.audit.audit_check import Tampering, verify_records
from interlock.command.machine import INITIAL, MOVES, TERMINAL
from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.resources import Command
from proof.simulation.clients import MARK
from proof.simulation.world import World

Check = Callable[[World], Iterator[str]]
ALLOWED: frozenset[tuple[str, str]] = frozenset((state, to) for state, others in MOVES.items() for to in others)
"""Each move of a command that the table of states has."""


async def broken(world: World) -> list[str]:
    """Everything that does not hold, each under the number and name that it has among the design's invariants."""
    audited = [sentence async for sentence in _audit(world)]
    found = [f"{name}: {sentence}" for name, checks in INVARIANTS.items() for check in checks
             for sentence in check(world)]
    return found + [f"{AUDITED}: {sentence}" for sentence in audited]


def _first_findings(*ways: Callable[[World], Iterable[str]]) -> Check:
    """What was noticed while the world ran."""
    return lambda world: (sentence for way in ways for sentence in way(world))


def _commands(world: World) -> Iterator[str]:
    """Every acknowledged one is there once, and was started once at the most."""
    records = {record.command.id: record for record in world.store.all_commands()}
    for key, given in world.clients.acknowledged.items():
        if given.command_id not in records:
            yield f"{key} was acknowledged as {given.command_id}, which is not there"
    of_key: Counter[str] = Counter()
    for record in records.values():
        command = record.command
        if command.type == "execute":
            of_key[_client_name(command)] += 1
    yield from (f"{key} was done {count} times" for key, count in of_key.items() if count > 1)
    for runner in world.runners:
        yield from (f"{name} was started {count} times" for name, count in runner.started.items() if count > 1)
        yield from (f"{name} was started and is not there" for name in runner.started if name not in records)


def _client_name(command: Command) -> str:
    """What its client named an execute, in the text of its prompt (`Clients.execute`)."""
    assert isinstance(command.payload, msgspec.Raw)
    return bytes(command.payload).decode().rsplit("~ ", 1)[-1][:21]


def _moves(world: World) -> Iterator[str]:
    """Every command went an allowed way to one end, and its stream shows the same."""
    for record in world.store.all_commands():
        command = record.command
        states = world.store.moves[command.id]
        if states[0] not in INITIAL | {"running"} or any(move not in ALLOWED for move in pairwise(states)):
            yield f"{command.id} went {states}"
        if command.state not in TERMINAL:
            yield f"{command.id} has not ended: it is {command.state} in {record.session_id}"
        reported = list(_states(world, command.id))
        if reported != states:
            yield f"{command.id} went {states}, and its stream says {reported}"


def _frames(world: World) -> Iterator[str]:
    """Every frame that was acknowledged to its runner is in the ledger once, in order; any other at most once."""
    for runner in world.runners:
        for session in runner.sessions.values():
            there = [event.message_id for event in world.store.all_events(f"s/{session.session_id}")
                     if event.kind in ("C", "refused") and event.message_id.startswith(f"{runner.runner_id}-")]
            kept, numbered = Counter(there), set(filter(None, session.message_ids))
            yield from (f"{name} of {session.session_id} was acknowledged and is there {kept[name]} times"
                        for name in session.message_ids[:session.confirmed] if name and kept[name] != 1)
            yield from (f"{name} of {session.session_id} is there {count} times" for name, count in kept.items()
                        if count > 1)
            in_order = [name for name in there if name in numbered]
            if in_order != list(filter(None, session.message_ids))[:len(in_order)]:
                yield f"the frames of {session.session_id} are in another order than its runner sent them in"
            if session.outbox:
                yield f"{runner.runner_id} still has {len(session.outbox)} frames of {session.session_id} to send"


def _votes(world: World) -> Iterator[str]:
    """Every vote that an answer showed is in its approval, once."""
    kept = {record.approval.id: Counter(_vote(msgspec.to_builtins(vote)) for vote in record.approval.votes)
            for record in world.store.all_approvals()}
    for approval_id, vote in world.clients.votes:
        if (count := kept[approval_id][_vote(vote)]) != 1:
            yield f"a vote on {approval_id} was acknowledged and is there {count} times: {vote}"


def _vote(vote: dict[str, Any]) -> str:
    return f"{vote['by']} {vote['decision']} {vote['at']}"


def _entries(world: World) -> Iterator[str]:
    """Every message that began a turn is in its session's transcript once, and no line waits or is repeated."""
    for record in world.store.all_commands():
        if record.command.type != "execute" or not any(record.command.id in one.started for one in world.runners):
            continue
        lines = world.transcripts.lines(record.session_id, record.command.target.agent_id or "",
                                       record.command.tenant_id)
        name = _client_name(record.command).encode()
        # The title of an approval at the command door quotes the message too; only the message's own entry counts.
        messages = [line for line in lines if msgspec.json.decode(line)["type"] == "message"]
        if (count := sum(name in line for line in messages)) != 1:
            yield f"the message of {record.command.id} is in the transcript of {record.session_id} {count} times"
    for session_id, ids in world.transcripts.all_ids():
        yield from (f"entry {entry} of {session_id} is there {count} times" for entry, count in Counter(ids).items()
                    if count > 1)
    if waiting := world.store.transcript_waits():
        yield f"{waiting} lines were never written to their transcripts"


def _losses(world: World) -> Iterator[str]:
    """No runner here loses a frame, so no session may report a loss."""
    for record in world.store.all_sessions():
        lost = msgspec.json.decode(record.machine, type=LaneState).lost_frames
        if lost:
            yield f"{record.session_id} says that {lost} frames were lost, and none was"


def _states(world: World, command_id: str) -> Iterator[str]:
    for event in world.store.all_events(f"c/{command_id}"):
        change = msgspec.json.decode(event.body)
        if change.get("event") == "state":
            yield change["state"]


def _turns(world: World) -> Iterator[str]:
    """Every turn that was started has ended."""
    for record in world.store.all_sessions():
        state = msgspec.json.decode(record.machine, type=LaneState)
        if state.active is not None or state.machine.turn is not None:
            yield f"{record.session_id} still has {state.active} under way"
    for runner in world.runners:
        yield from (f"{runner.runner_id} still works on {session.turn_id} of {session.session_id}"
                    for session in runner.sessions.values() if session.turn_id is not None)
    for stream in world.store.streams():
        if stream.startswith("s/"):
            types = Counter(msgspec.json.decode(event.body)["type"] for event in world.store.all_events(stream)
                            if event.kind == "C")
            if types["session.turn.start"] != types["session.turn.end"]:
                yield f"{stream} has {types['session.turn.start']} turns, and {types['session.turn.end']} ends"


def _tools(world: World) -> Iterator[str]:
    """No tool ran without a grant."""
    yes = {(record.approval.session_id, record.approval.interaction_id): record.approval
           for record in world.store.all_approvals() if any(vote.decision == "grant" for vote in record.approval.votes)}
    for runner in world.runners:
        for place in runner.tools_run:
            approval = yes.get(place)
            if approval is None or approval.id not in world.clients.yes:
                yield f"the tool of {place} ran without a yes"
        yield from (f"the tool of {place} ran {count} times"
                    for place, count in Counter(runner.tools_run).items() if count > 1)


def _viewers(world: World) -> Iterator[str]:
    """Each has seen all, once: what it was given was looked at when it was given."""
    for viewer in world.viewers:
        head = world.store.last(viewer.stream)
        if viewer.cursor != head or viewer.seen != head:
            yield f"a viewer of {viewer.stream} has seen {viewer.seen} up to {viewer.cursor}, and there are {head}"


def _streams(world: World) -> Iterator[str]:
    """Nothing of one tenant is in another's."""
    tenants = {record.session_id: record.tenant_id for record in world.store.all_sessions()}
    commands = {record.command.id: record.command.tenant_id for record in world.store.all_commands()}
    for stream in world.store.streams():
        kind, _, name = stream.partition("/")
        tenant = {"s": tenants, "c": commands}.get(kind, {}).get(name, name)
        for event in world.store.all_events(stream):
            if any(found.decode() != tenant for found in MARK.findall(event.body)):
                yield f"{stream} of {tenant} holds a text of another tenant"


async def _audit(world: World) -> AsyncIterator[str]:
    """Every tenant's log is one whole chain."""
    for tenant in world.tenants:
        log = await world.store.audit(tenant, 0, 10**9)
        report = verify_records(log, None)
        # No gateway signs checkpoints here: all records are valid, and there is no checkpoint.
        if report.kind is not Tampering.HEAD_MISSING or report.records != len(log):
            yield f"the audit log of {tenant} does not verify: {report.message}"


AUDITED = "3 every transition has one audit record"
INVARIANTS: dict[str, tuple[Check, ...]] = {
    "1 what is acknowledged is there exactly once": (
        _commands, _frames, _votes, _entries, _first_findings(lambda world: world.store.faults)),
    "2 no tool runs without its yes": (_tools,),
    AUDITED: (_moves, _first_findings(lambda world: world.store.unaudited)),
    "4 every turn ends": (_turns,),
    "5 what is lost is counted and said": (_losses,),
    "6 a viewer's stream is whole": (_viewers, _first_findings(
        lambda world: (fault for viewer in world.viewers for fault in viewer.faults))),
    "7 nothing of a tenant is another's": (_streams, _first_findings(
        lambda world: world.clients.faults,
        lambda world: (fault for viewer in world.viewers for fault in viewer.leaks))),
}
"""By their numbers in the design's list. Power loss is not simulated here: `python -m proof R3` has it with real
files. That every started *process* is reaped, R15 sees; here each agent's work must have ended."""
