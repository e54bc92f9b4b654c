"""A gateway is killed on a network with latency, under many sessions and commands: the others continue, and nothing
else fails.

Three gateways reach PostgreSQL and NATS over links that delay. At each kill some links become slower, stall for less
than the duration of a lease, or break. No live gateway may be considered dead, no acknowledged command may be lost or
run twice. Each command writes its own name to a file once: that is counted.

With `inner` the agents are inside their runners' processes, and every session has a turn under way all the time: so
10,000 sessions fit on one machine, and each of them has to be taken over. The measured time is from each kill until all
sessions of the dead gateway are in the memory of live ones.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec

from interlock.backends.postgres.database import close_quietly, connect, read_settings
from interlock.backends.postgres.faults import LINK_FAULTS
from proof.cluster.lost_leases import LostLeases, lost_leases
from proof.faults.slow_link import SlowLink
from proof.processes import cluster_servers
from proof.processes.cluster import RUNNERS, ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.processes.host_processor import HostProcessor, Scheduled
from proof.processes.in_process_agent import DONE, RELEASED
from proof.processes.in_process_runner import CONFIG as INNER
from proof.processes.stack import NotReady
from proof.workload.clients import TERMINAL
from proof.workload.command_completion import GONE, LONGEST_S, Completion, wait_for_ends
from proof.workload.command_retries import http, repeat_until_answered, until_state

KILLS = 100
SESSIONS = 1_000
RTTS_MS = (0.2, 1.0, 5.0, 10.0, 25.0)
AT_WORK = 60
"""Sessions that get a command around each kill."""
AT_ONCE = 12
"""Clients that wait for an answer at the same time."""
STALL_S = 1.2
"""Shorter than what is left of a lease when its renewal is due."""
LASTS_S = 6.0
"""How long a slower link stays so: past the death of the one that was killed, and the takeover."""
CONFIG = """
[[policy.rules]]
name = "the proof's own lines are free"
effect = "allow"
door = "tool"
agent = "shell"

[rates]
principal_a_minute = 0
tenant_a_minute = 0
"""
SESSIONS_A_RUNNER = 1_000
"""Of one runner with `inner`."""
OPENED_TIMEOUT_S = 1_800.0
"""The limit of the time until every session has a running turn."""
TAKEN_TIMEOUT_S = 300.0
"""The limit of a takeover."""
JOINED = re.compile(r"instance_joined\s+instance_id=(\S+)")
LANES = re.compile(r"^interlock_lanes ([0-9.e+]+)$", re.MULTILINE)
OWNED = "SELECT count(*) FROM lane WHERE instance_id = $1"
RUNNERS_DIE = "all runners die"
"""Then nothing takes a dead gateway's sessions from it by attaching elsewhere: all of them are to be taken over."""
TROUBLES = (RUNNERS_DIE, "nothing else", "PostgreSQL slow", "PostgreSQL stalls", "PostgreSQL's links break",
            "NATS slow", "NATS stalls", "NATS's links break")


class Findings(NamedTuple):
    """What one round trip time showed."""

    rtt_ms: float
    troubles: dict[str, int]
    acknowledged: int
    lost: int
    twice: int
    falsely_dead: int
    unanswered: int
    """Commands that no gateway acknowledged within a minute; the run ends with the first kill that has any."""
    served_s: list[float]
    """From each kill until the last of the commands that were given with it was acknowledged, sorted."""
    late: int = 0
    """Commands that were acknowledged, are not lost, and have not ended in time."""
    taken_s: list[float] = []  # noqa: RUF012 - never changed in place
    """From each kill until the last session of the dead gateway was another's and read, sorted; with `inner`."""
    starved: int = 0
    """Gateways that lost their lease while they waited for a core of this machine: no fault of theirs."""
    starved_s: float = 0.0
    """How long the one that waited longest did so."""

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be. A gateway without a core answers no one: that is shown, and no
        failure."""
        return self.lost == self.late == self.twice == self.falsely_dead == self.unanswered == 0

    def line(self) -> str:
        """Print form."""
        middle = self.served_s[len(self.served_s) // 2] if self.served_s else 0.0
        return (f"{self.rtt_ms:5.1f} ms: {sum(self.troubles.values())} kills, {self.acknowledged} acknowledged, "
                f"{self.lost} lost, {self.late} not ended in time, {self.twice} twice, {self.unanswered} not answered, "
                f"{self.falsely_dead} living gateways taken for dead, {self.starved} starved of a core"
                + (f" (for up to {self.starved_s:.1f} s)" if self.starved else "") + "; all served again after "
                f"{middle:.1f} s (median), {max(self.served_s, default=0.0):.1f} s (slowest)"
                + (f"; all sessions taken over after {self.taken_s[len(self.taken_s) // 2]:.1f} s (median), "
                   f"{self.taken_s[-1]:.1f} s (slowest)" if self.taken_s else ""))


class Links(NamedTuple):
    """The ways of all gateways to what they share."""

    postgres: SlowLink
    nats: SlowLink


@contextmanager
def linked(stack: ClusterStack, place: Path) -> Generator[Links]:
    """Put links between the gateways of a stack, which have not started, and what they share."""
    postgres, nats = cluster_servers.postgres(), cluster_servers.nats()
    there = Path(parse_qs(urlsplit(postgres.url).query)["host"][0])
    port = urlsplit(nats.url).port
    assert port is not None, "a server listens somewhere"
    links = Links(SlowLink(place / ".s.PGSQL.5432", there / ".s.PGSQL.5432"), SlowLink(0, port))
    for link in links:
        link.start()
    try:
        for number in range(GATEWAYS):
            file = stack.gateways.home(number) / "interlock.toml"
            file.write_text(file.read_text().replace(f"host={there}", f"host={place}")
                            .replace(f":{port}", f":{links.nats.port}"))
        yield links
    finally:
        for link in links:
            link.stop()


class Abandoned(Exception):
    """The run ends before its end: nothing more is waited for."""


class Trial:
    """Kills one gateway after the other while commands are given to the sessions."""

    def __init__(self, stack: ClusterStack, links: Links, sessions: int, draw: random.Random, *,
                 inner: bool = False) -> None:
        self._stack = stack
        self._links = links
        self._sessions = sessions
        self._draw = draw
        self._inner = inner
        self._people = ThreadPoolExecutor(AT_ONCE)
        self._watcher = ThreadPoolExecutor(1)
        self._abandoned = threading.Event()
        self._given = 0
        self.acknowledged: dict[str, str] = {}
        """Command id → the name that it writes."""
        self.served_s: list[float] = []
        self.troubles: Counter[str] = Counter()
        self.unanswered = 0
        self._lost = LostLeases()
        self.taken_s: list[float] = []
        self.spent = Scheduled(0.0, 0.0)
        """Of the gateway that waited longest for a core during the last takeover."""

    def abandon(self) -> None:
        """Have the threads end instead of waiting for answers, so that the process can."""
        self._abandoned.set()
        for pool in (self._people, self._watcher):
            pool.shutdown(wait=False, cancel_futures=True)

    def begin(self) -> None:
        """Open every session, with `inner` with a turn that stays under way."""
        began = time.monotonic()
        if self._inner:
            self._begin_turns()
            print(f"  {self._sessions:,} sessions are at work after {time.monotonic() - began:.0f} s", flush=True)
        else:
            self._wait(self._give(range(self._sessions)))

    def _begin_turns(self) -> None:
        """Give each session a turn that stays under way. Raises NotReady."""
        began, before = time.monotonic(), self._lines()
        self._wait(self._give(range(self._sessions), how=" hold"))
        while self._lines() < before + self._sessions:
            if time.monotonic() - began > OPENED_TIMEOUT_S:
                raise NotReady(f"{self._sessions} turns do not begin")
            time.sleep(0.1)

    def _lines(self) -> int:
        """Return how many commands have begun."""
        done = self._stack.workspace / DONE
        return done.read_bytes().count(b"\n") if done.exists() else 0

    def kill(self, trouble: str) -> None:
        """Kill one gateway, make the network worse, and wait until all is well."""
        number, begin = self._draw.randrange(GATEWAYS), time.monotonic()
        dying = self._instance(number)
        chosen = self._draw.sample(range(self._sessions), min(AT_WORK, self._sessions))
        half = len(chosen) // 2
        before = self._give(chosen[:half])
        time.sleep(self._draw.random() * 0.3)
        worse = threading.Thread(target=self._make_worse, args=(trouble,), daemon=True)
        worse.start()
        self._stack.gateways.kill(number)
        began = time.monotonic()
        taking = self._watcher.submit(self._watch_takeover, dying, number, began, trouble == RUNNERS_DIE)
        if trouble == RUNNERS_DIE:
            self._have_runners_die()
        after = self._give(chosen[half:])
        self._wait(before)
        self._wait(after)
        self.served_s.append(time.monotonic() - began)
        worse.join()
        taking.result()
        self._stack.gateways.start(number)
        self._stack.until(lambda: self._stack.gateways.answers(number))
        self._stack.ready()
        self.troubles[trouble] += 1
        self._report_lost_leases(trouble)
        taken, spent = "", self.spent
        if self.taken_s:
            taken = (f", all taken over after {self.taken_s[-1]:.1f} s (a gateway ran {spent.ran_s:.1f} s of it and "
                     f"waited {spent.waited_s:.1f} s for a core)")
        print(f"    kill {self.troubles.total()}, {trouble}: served again after {self.served_s[-1]:.1f} s{taken} "
              f"({time.monotonic() - begin:.0f} s in all, load {os.getloadavg()[0]:.0f})", flush=True)
        if self._inner and trouble == RUNNERS_DIE:
            self._begin_turns()  # The turns have died with the runners.

    def _report_lost_leases(self, trouble: str) -> None:
        lost, before = lost_leases(self._stack.gateways.logs()), self._lost
        if (falsely := lost.falsely_dead - before.falsely_dead) > 0:
            print(f"  ! with {trouble}: {falsely} living gateways were taken for dead", flush=True)
        if (starved := lost.starved - before.starved) > 0:
            print(f"  ! with {trouble}: {starved} gateways lost their leases while they waited for a core "
                  f"(all so far: {', '.join(f'{one:.1f} s' for one in lost.starved_s)})", flush=True)
        self._lost = lost

    def _instance(self, number: int) -> str:
        log = (self._stack.place / f"g{number}.log").read_text(errors="replace")
        return JOINED.findall(log)[-1]

    def _watch_takeover(self, dead: str, number: int, began: float, all_read: bool) -> None:
        """Note when no session is the dead gateway's any more, and with `all_read` all are in the memory of those who
        live. (Runners that come back have only those read that the dead gateway owes them something of.)"""
        if not self._inner:
            return
        others = [one for one in range(GATEWAYS) if one != number]
        living = [self._stack.gateways.url(one) for one in others]
        before = [Scheduled.of(self._stack.gateways.running(one).pid) for one in others]
        asyncio.run(_until_taken(cluster_servers.store_of(self._stack.gateways.home(number)), dead, living,
                                 self._stack.headers, self._sessions if all_read else 0, self._abandoned.is_set))
        self.taken_s.append(time.monotonic() - began)
        spent = [Scheduled.of(self._stack.gateways.running(one).pid).since(had)
                 for one, had in zip(others, before, strict=True)]
        self.spent = max(spent, key=lambda one: one.waited_s)

    def _have_runners_die(self) -> None:
        runners = range(len(self._stack.runner_ids))
        for runner in runners:
            self._stack.kill_runner(runner)
        time.sleep(LASTS_S)
        for runner in runners:
            self._stack.start_runner(runner)

    def _make_worse(self, trouble: str) -> None:
        link = self._links.nats if trouble.startswith("NATS") else self._links.postgres
        if trouble.endswith("slow"):
            usual, link.rtt_s = link.rtt_s, 2 * link.rtt_s + 0.01
            time.sleep(LASTS_S)
            link.rtt_s = usual
        elif trouble.endswith("stalls"):
            time.sleep(self._draw.random())
            link.stall(STALL_S)
        elif trouble.endswith("break"):
            for _ in range(3):
                time.sleep(self._draw.random())
                link.cut()

    def _give(self, sessions: Sequence[int] | range, how: str = "") -> list[Any]:
        futures: list[Any] = []
        for session in sessions:
            self._given += 1
            futures.append(self._people.submit(self._execute, session, f"c{self._given}", how))
        return futures

    def _wait(self, given: list[Any]) -> None:
        for one in given:
            try:
                one.result()
            except TimeoutError:
                self.unanswered += 1

    def _execute(self, session: int, name: str, how: str = "") -> str:
        stack, agent = self._stack, "inner" if self._inner else "shell"
        text = f"{name}{how}" if self._inner else f"echo {name} >> {stack.workspace}/{DONE}"
        body = {"type": "execute", "timeout_ms": int(LONGEST_S * 1000),
                "target": {"agent_id": agent, "session_key": f"agent:{agent}:lane-{session}",
                           "workspace": str(stack.workspace), **stack.target(session)},
                "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}}
        answer = repeat_until_answered(
            lambda: self._ask(lambda: stack.post("/v1/commands", body, f"proof-of-no-cascade-{name}")))
        if answer.status_code != 202:
            raise AssertionError(f"{name}: {answer.status_code} {answer.text}")
        command_id = str(answer.json()["id"])
        self.acknowledged[command_id] = name
        return command_id

    def _ask(self, ask: Callable[[], httpx2.Response]) -> httpx2.Response:
        """Ask once. Raises Abandoned, and what asking raises."""
        if self._abandoned.is_set():
            raise Abandoned
        return ask()

    def reckon(self) -> tuple[Completion, int]:
        """Wait for the end of all that was acknowledged: (how it ended, how many ran twice)."""
        (self._stack.workspace / RELEASED).touch()
        ending = wait_for_ends(list(self.acknowledged), self._state, self._give_another)
        self._people.shutdown()
        self._watcher.shutdown()
        done = self._stack.workspace / DONE
        lines = Counter(done.read_text().split() if done.exists() else ())
        return ending, sum(count > 1 for count in lines.values())

    def _state(self, command_id: str) -> str:
        answer = repeat_until_answered(lambda: http.get(f"{self._stack.url}/v1/commands/{command_id}",
                                                        headers=self._stack.headers))
        return GONE if answer.status_code == 404 else str(answer.json()["state"])

    def _give_another(self) -> bool:
        """Give a command to a session of its own, each at another runner than the one before."""
        self._given += 1
        try:
            command_id = self._execute(self._sessions + self._given, f"c{self._given}")
            return until_state(self._stack, command_id, TERMINAL.__contains__) in TERMINAL
        except TimeoutError:
            return False


async def _until_taken(store: str, dead: str, living: Sequence[str], headers: dict[str, str], sessions: int,
                       abandoned: Callable[[], bool]) -> None:
    """Return when no lane has a dead owner, and the live gateways have read this many. Raises NotReady, also if the run
    is abandoned."""
    until = time.monotonic() + TAKEN_TIMEOUT_S

    def waits() -> bool:
        return time.monotonic() < until and not abandoned()

    async with httpx2.AsyncClient(timeout=10, headers=headers) as client:  # To make one takes some time.
        while waits():
            with suppress(*LINK_FAULTS):  # The links to PostgreSQL break, too.
                await _until_owned(store, dead, waits)
                break
        while waits():
            if sum(await asyncio.gather(*(_lanes(client, url) for url in living))) >= sessions:
                return
            await asyncio.sleep(0.1)
    raise NotReady(f"the lanes of {dead} are not taken over")


async def _until_owned(store: str, dead: str, waits: Callable[[], bool]) -> None:
    """Return when no lane has a dead owner. Raises what asyncpg raises."""
    connection = await connect(read_settings(store))
    try:
        while waits() and await connection.fetchval(OWNED, dead):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    finally:
        await close_quietly(connection)


async def _lanes(client: httpx2.AsyncClient, url: str) -> float:
    try:
        found = LANES.search((await client.get(f"{url}/metrics")).text)
    except httpx2.TransportError:
        return 0.0
    return float(found[1]) if found else 0.0


def one(seed: int, rtt_ms: float, kills: int, sessions: int, *, inner: bool = False) -> Findings:
    """Run it at one round trip time."""
    with tempfile.TemporaryDirectory(prefix="interlock-cascade-") as name:
        place = Path(name)
        place.chmod(0o755)
        hosts = HostProcessor("runners")
        runners = max(RUNNERS, sessions // SESSIONS_A_RUNNER) if inner else RUNNERS
        stack = ClusterStack(place, CONFIG + (INNER if inner else ""), runners=runners, hosts=hosts,
                     runner_module="proof.processes.in_process_runner" if inner else "proof.processes.paired_runner")
        with linked(stack, place) as links:
            trial = Trial(stack, links, sessions, random.Random(seed), inner=inner)
            try:
                stack.up()
                if inner:
                    trial.begin()
                for link in links:
                    link.rtt_s = rtt_ms / 1000
                if not inner:
                    trial.begin()
                for at in range(kills):
                    if not trial.unanswered:
                        trial.kill(TROUBLES[at % len(TROUBLES)])
                for link in links:
                    link.rtt_s = 0.0
                ending, twice = trial.reckon()
                lost = lost_leases(stack.gateways.logs())
                return Findings(rtt_ms, trial.troubles, ending.states.total() + len(ending.lost) + len(ending.late),
                                len(ending.lost), twice, lost.falsely_dead, trial.unanswered,
                                sorted(trial.served_s), len(ending.late), sorted(trial.taken_s),
                                lost.starved, max(lost.starved_s, default=0.0))
            except BaseException:  # SIGTERM, too: no one reads what an end in order would leave.
                trial.abandon()
                stack.kill_all()
                raise
            finally:
                stack.down()
                hosts.close()


def run(seed: int, rounds: int | None, *, rtt: Sequence[float] | None = None, kills: int | None = None,
        sessions: int | None = None, into: Path | None = None, inner: bool = False) -> bool:
    """Run it at each round trip time, and print what was counted. `rounds` means the same as `kills`. Finished runs
    are stored in the file `into`: an interrupted run continues there with the rest."""
    passed = True
    times = tuple(rtt or RTTS_MS)
    each = max(1, (kills or rounds or KILLS) // len(times))
    under = sessions or SESSIONS
    before = _kept(into)
    for at, rtt_ms in enumerate(times):
        found = before.get((rtt_ms, each, under, inner))
        if found is None:
            found = one(seed + at, rtt_ms, each, under, inner=inner)
            _keep(into, StoredRun(rtt_ms, each, under, found, inner))
        print(f"  {found.line()}\n        {dict(found.troubles)}", flush=True)
        passed &= found.passed
    print("passed" if passed else "FAILED", flush=True)
    return passed


class StoredRun(NamedTuple):
    """A line of the file from which a run continues: a finished run and its figures."""

    rtt_ms: float
    kills: int
    sessions: int
    found: Findings
    inner: bool = False


def _kept(into: Path | None) -> dict[tuple[float, int, int, bool], Findings]:
    if into is None or not into.exists():
        return {}
    lines = [msgspec.json.decode(line, type=StoredRun) for line in into.read_bytes().splitlines()]
    return {(one.rtt_ms, one.kills, one.sessions, one.inner): one.found
            for one in lines if one.found.passed}


def _keep(into: Path | None, one: StoredRun) -> None:
    if into is not None:
        with into.open("ab") as file:
            file.write(msgspec.json.encode(one) + b"\n")
