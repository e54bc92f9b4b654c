"""What must hold of a town at its end, whatever befell it: sentences about what does not, none where all does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from interlock.command.audit_check import Tampering, verify_records
from interlock.command.machine import INITIAL, MOVES, TERMINAL
from interlock.engine.bridge.lane_state import LaneState
from proof.simulation.people import MARK
from proof.simulation.town import Town


async def broken(town: Town) -> list[str]:
    """Everything that does not hold."""
    found = [*town.store.faults, *town.people.faults]
    for viewer in town.viewers:
        found += viewer.faults
    found += [*_commands(town), *_turns(town), *_tools(town), *_viewers(town), *_streams(town)]
    for tenant in town.tenants:
        log = await town.store.audit(tenant, 0, 10**9)
        report = verify_records(log, None)
        # Checkpoints are signed by a duty that no gateway has here: all records are good, and there is none.
        if report.kind is not Tampering.HEAD_MISSING or report.records != len(log):
            found.append(f"the audit log of {tenant} does not verify: {report.message}")
    return found


def _commands(town: Town) -> Iterator[str]:
    """Every acknowledged one is there once, went an allowed way to one end, and was started once at the most."""
    records = {record.command.id: record for record in town.store.all_commands()}
    for key, given in town.people.acknowledged.items():
        if given.command_id not in records:
            yield f"{key} was acknowledged as {given.command_id}, which is not there"
    of_key: Counter[str] = Counter()
    for record in records.values():
        command = record.command
        if command.type == "execute":
            of_key[bytes(command.payload).decode().rsplit("~ ", 1)[-1][:21]] += 1
        states = town.store.moves[command.id]
        if states[0] not in INITIAL | {"running"} or any(to not in MOVES[state] for state, to in pairwise(states)):
            yield f"{command.id} went {states}"
        if command.state not in TERMINAL:
            yield f"{command.id} has not ended: it is {command.state} in {record.session_id}"
        told = list(_states(town, command.id))
        if told != states:
            yield f"{command.id} went {states}, and its stream says {told}"
    yield from (f"{key} was done {count} times" for key, count in of_key.items() if count > 1)
    for runner in town.runners:
        yield from (f"{name} was started {count} times" for name, count in runner.started.items() if count > 1)
        yield from (f"{name} was started and is not there" for name in runner.started if name not in records)


def _states(town: Town, command_id: str) -> Iterator[str]:
    for event in town.store.all_events(f"c/{command_id}"):
        said = msgspec.json.decode(event.body)
        if said.get("event") == "state":
            yield said["state"]


def _turns(town: Town) -> Iterator[str]:
    """Every turn that was started has ended."""
    for record in town.store.all_sessions():
        state = msgspec.json.decode(record.machine, type=LaneState)
        if state.active is not None or state.machine.turn is not None:
            yield f"{record.session_id} still has {state.active} under way"
    for stream in town.store.streams():
        if stream.startswith("s/"):
            types = Counter(msgspec.json.decode(event.body)["type"] for event in town.store.all_events(stream)
                            if event.kind == "C")
            if types["session.turn.start"] != types["session.turn.end"]:
                yield f"{stream} has {types['session.turn.start']} turns, and {types['session.turn.end']} ends"


def _tools(town: Town) -> Iterator[str]:
    """No tool ran but by a yes that somebody gave."""
    yes = {(record.approval.session_id, record.approval.interaction_id): record.approval
           for record in town.store.all_approvals() if any(vote.decision == "grant" for vote in record.approval.votes)}
    for runner in town.runners:
        for place in runner.tools_run:
            approval = yes.get(place)
            if approval is None or approval.id not in town.people.yes:
                yield f"the tool of {place} ran without a yes"
        yield from (f"the tool of {place} ran {count} times"
                    for place, count in Counter(runner.tools_run).items() if count > 1)


def _viewers(town: Town) -> Iterator[str]:
    """Each has seen all, once: what it was given was looked at when it was given."""
    for viewer in town.viewers:
        head = town.store.last(viewer.stream)
        if viewer.cursor != head or viewer.seen != head:
            yield f"a viewer of {viewer.stream} has seen {viewer.seen} up to {viewer.cursor}, and there are {head}"


def _streams(town: Town) -> Iterator[str]:
    """Nothing of one tenant is in another's."""
    tenants = {record.session_id: record.tenant_id for record in town.store.all_sessions()}
    commands = {record.command.id: record.command.tenant_id for record in town.store.all_commands()}
    for stream in town.store.streams():
        kind, _, name = stream.partition("/")
        tenant = {"s": tenants, "c": commands}.get(kind, {}).get(name, name)
        for event in town.store.all_events(stream):
            if any(found.decode() != tenant for found in MARK.findall(event.body)):
                yield f"{stream} of {tenant} holds a text of another tenant"
