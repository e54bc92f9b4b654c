"""Row 11: the cost of one operation in a ledger of many commands, and in one of many sessions, against a small one.

The rows are added in large batches through the ledger itself, so its indexes are those of a gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import msgspec

from benchmarks.control_plane.ledger import folder
from benchmarks.control_plane.report import Line, Scale
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.ports.ledger import Append, CommandQuery, Ledger, LedgerWrite, PutCommand, PutSession, WriteBatch
from interlock.protocol.identifiers import command_stream, session_stream
from interlock.protocol.records import CommandRecord, SessionRecord
from interlock.protocol.resources import Actor, Command, Target

COMMANDS = (1_000, 10_000, 100_000, 1_000_000)
SESSIONS = (100, 1_000, 10_000, 100_000)
PROBES = 101
A_BATCH = 5_000
AT = "2026-11-21T10:28:41.318Z"
MOST_TIMES = 1.5

Probe = Callable[[int], Awaitable[object]]
"""Does one operation, the n-th of PROBES."""


class Growth(NamedTuple):
    """One thing of which there is more and more: how one is written, and what is asked of a ledger that has `size`."""

    name: str
    sizes: Sequence[int]
    write: Callable[[int], list[LedgerWrite]]
    probes: Callable[[Ledger, int], Mapping[str, Probe]]


def commands(scale: Scale) -> list[Line]:
    """What a command costs to keep, to find and to list in a ledger of 1e3 to 1e6."""
    return asyncio.run(_growing(Growth("commands", COMMANDS, _command_writes, _command_probes), scale.most))


def sessions(scale: Scale) -> list[Line]:
    """The same of sessions, 100 to 100,000."""
    return asyncio.run(_growing(Growth("sessions", SESSIONS, _session_writes, _session_probes), scale.most))


async def _growing(growth: Growth, most: int) -> list[Line]:
    lines, first, size = list[Line](), dict[str, float](), 0
    with folder() as name:
        ledger = await open_ledger(Path(name) / LEDGER_NAME, SystemClock())
        for wanted in [one for one in growth.sizes if one <= most]:
            while size < wanted:
                count = min(A_BATCH, wanted - size)
                await ledger.commit(WriteBatch([write for n in range(size, size + count) for write in growth.write(n)]))
                size += count
            for what, cost in (await _costs(growth.probes(ledger, size))).items():
                first.setdefault(what, cost)
                lines.append(Line("11", f"{what}, {wanted:,} {growth.name}", cost * 1e6, "µs", cost / first[what],
                                  MOST_TIMES, at_most=True))
            size += PROBES
        await ledger.close()
    return lines


async def _costs(probes: Mapping[str, Probe]) -> dict[str, float]:
    """Seconds of one operation each, the lower quartile: what the machine's other work disturbed least. They take
    turns."""
    taken: dict[str, list[float]] = {name: [] for name in probes}
    for number in range(PROBES):
        for name, probe in probes.items():
            begin = time.perf_counter()
            await probe(number)
            taken[name].append(time.perf_counter() - begin)
    return {name: quantiles(found, n=4)[0] for name, found in taken.items()}


# --- commands ---
def _command_id(number: int) -> str:
    return f"cmd_{number:026d}"


def _command_writes(number: int) -> list[LedgerWrite]:
    session_id = f"s-{number // 10}"
    command = Command(
        id=_command_id(number), created_at=AT, updated_at=AT, tenant_id="default",
        actor=Actor(type="user", id="owner"), type="execute", timeout_ms=3_600_000,
        target=Target(agent_id="shell", session_id=session_id), state="succeeded" if number % 10 else "running",
        payload=msgspec.Raw(b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"ls -l"}]}]}'),
        ended_at=AT if number % 10 else None,
    )
    return [PutCommand(CommandRecord(command=command, session_id=session_id, created_ms=number)),
            Append("default", command_stream(command.id), "status", 0, b'{"event":"state","state":"queued"}')]


def _command_probes(ledger: Ledger, size: int) -> Mapping[str, Probe]:
    page, step = CommandQuery(tenant_id="default", agent_id="shell", limit=50), max(1, size // PROBES)
    return {
        "keep a command": lambda n: ledger.commit(WriteBatch(_command_writes(size + n))),
        "find a command": lambda n: ledger.command(_command_id(n * step), "default"),
        "live commands of a session": lambda n: ledger.live_commands(f"s-{n * step // 10}", "default"),
        "list the newest 50": lambda _: ledger.commands(page),
        "list 50 of a state": lambda _: ledger.commands(page._replace(state="running")),
        "list 50 of a session": lambda n: ledger.commands(page._replace(session_id=f"s-{n * step // 10}")),
        "read a command's status": lambda n: ledger.events("default", command_stream(_command_id(n * step)), 0, 100),
    }


# --- sessions ---
def _session_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _session_writes(number: int) -> list[LedgerWrite]:
    record = SessionRecord(
        session_id=_session_id(number), tenant_id="default", session_key=f"agent:shell:run:{number}",
        agent_id="shell", runner_id="r1", workspace="/w", state="closed", created_ms=number, updated_ms=number,
        deadline_ms=None, machine=b'{"session_id":"s","opening":"closed"}' * 30,
        usage={"input_tokens": number, "output_tokens": 0},
    )
    return [PutSession(record), Append("default", session_stream(record.session_id), "C", 0, b"." * 264, "m")]


def _session_probes(ledger: Ledger, size: int) -> Mapping[str, Probe]:
    step = max(1, size // PROBES)
    return {
        "keep a session and a frame": lambda n: ledger.commit(WriteBatch(_session_writes(size + n))),
        "find a session": lambda n: ledger.session(_session_id(n * step), "default"),
        "find it by its key": lambda n: ledger.session_by_key("default", f"agent:shell:run:{n * step}"),
        "list the last 50": lambda _: ledger.sessions("default", 50),
        "read its frames": lambda n: ledger.tail("default", session_stream(_session_id(n * step)), 0, 100),
    }
