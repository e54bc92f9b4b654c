"""Processor time of gateways per durable frame, if one does all the work, and if three share it.

The same in turns: three scripted runners, each with some sessions in a turn, send frames at once. At one side all three
are attached to one gateway, at the other each to its own, and those share a database and a bus. Processor time is that
of the gateways' processes in the round, all together, for each frame.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.harness.driver import drive
from benchmarks.harness.processes import Listening, listening
from benchmarks.harness.scripted_runner import ScriptedRunner, prepared
from interlock.gateway.access.credentials import new_key
from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME, load_or_make_key

RUNNERS = 3
SESSIONS = 4
"""Of each runner."""
WARM_UP_FRAMES = 600


class Side(NamedTuple):
    """Gateways of one ledger, and runners that are attached to them in turn."""

    gateways: list[Listening]
    runners: list[ScriptedRunner]

    def round(self, frames: int) -> float:
        """Processor time of all gateways for this many frames of each runner, in seconds per frame."""
        messages = [prepared(runner.frames(frames)) for runner in self.runners]
        for runner in self.runners:
            runner.begin_round()
        before = sum(gateway.cpu_s() for gateway in self.gateways)
        threads = [threading.Thread(target=drive, args=(runner.sock, prepared_, runner.confirm))
                   for runner, prepared_ in zip(self.runners, messages, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (sum(gateway.cpu_s() for gateway in self.gateways) - before) / (frames * len(self.runners))


class Place(NamedTuple):
    """Gateways of one ledger that have started, and their owner's key."""

    gateways: list[Listening]
    key: str


def start(stack: contextlib.ExitStack, folder: Path, gateways: int, store: str, bus: str) -> Place:
    """Start this many gateways on one database."""
    folder.mkdir(mode=0o700)
    load_or_make_key(folder)
    key = new_key(secrets.token_bytes)
    (folder / "owner.key").write_text(key + "\n")
    (folder / "owner.key").chmod(0o600)
    started: list[Listening] = []
    for number in range(gateways):
        state = folder / f"g{number}"
        state.mkdir(mode=0o700)
        for name in ("owner.key", KEY_NAME, PUBLIC_NAME):
            (state / name).symlink_to(folder / name)
        (state / "token").write_text("ilr_" + secrets.token_urlsafe(32))
        started.append(stack.enter_context(
            listening("benchmarks.harness.gateway_process", str(state), str(state / "token"), store, bus)))
    return Place(started, key)


def attach(stack: contextlib.ExitStack, place: Place) -> Side:
    """Attach the runners to its gateways in turn. A runner that no one drives answers no ping: so this comes when all
    gateways have started."""
    runners: list[ScriptedRunner] = []
    for number in range(RUNNERS):
        port = place.gateways[number % len(place.gateways)].port
        runner = ScriptedRunner.paired(port, place.key, f"r{number}")
        stack.callback(runner.close)
        for _ in range(SESSIONS):
            runner.open()
        runners.append(runner)
    return Side(place.gateways, runners)


def sharing(one: Side, three: Side, frames: int, rounds: int) -> tuple[float, float]:
    """Microseconds of processor time for a frame, with one gateway and with three: medians of rounds in turns."""
    for each in (one, three):
        each.round(WARM_UP_FRAMES)
    costs = [(one.round(frames), three.round(frames)) for _ in range(rounds)]
    return median(cost for cost, _ in costs) * 1e6, median(cost for _, cost in costs) * 1e6
