"""A gateway is killed on a network with latency, under many sessions and commands: the others go on, and nothing else.

Three gateways reach PostgreSQL and NATS over links that delay. At each kill some links are slower still, stand still
for less than a lease lives, or break. No gateway that lives may be taken for dead, no acknowledged command may be lost
or run twice. Each command writes its own name to a file once: that is counted.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from proof import clustered
from proof.asking import http, insist, until_state
from proof.crew import TERMINAL
from proof.ending import GONE, LONGEST_S, Ending, wait_for_ends
from proof.gateways import GATEWAYS
from proof.host_processor import HostProcessor
from proof.slow_link import SlowLink
from proof.trio import RUNNERS, Trio

KILLS = 100
SESSIONS = 1_000
RTTS_MS = (0.2, 1.0, 5.0, 10.0, 25.0)
AT_WORK = 60
"""Sessions that get a command around each kill."""
AT_ONCE = 12
"""People who wait for an answer at the same time."""
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
DIED = "instance_taken_for_dead"
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

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be."""
        return self.lost == self.late == self.twice == self.falsely_dead == self.unanswered == 0

    def line(self) -> str:
        """Print form."""
        middle = self.served_s[len(self.served_s) // 2] if self.served_s else 0.0
        return (f"{self.rtt_ms:5.1f} ms: {sum(self.troubles.values())} kills, {self.acknowledged} acknowledged, "
                f"{self.lost} lost, {self.late} not ended in time, {self.twice} twice, {self.unanswered} not answered, "
                f"{self.falsely_dead} living gateways taken for dead; all served again after "
                f"{middle:.1f} s (median), {max(self.served_s, default=0.0):.1f} s (slowest)")


class Links(NamedTuple):
    """The ways of all gateways to what they share."""

    postgres: SlowLink
    nats: SlowLink


@contextmanager
def linked(house: Trio, place: Path) -> Generator[Links]:
    """Put links between the gateways of a house, which have not started, and what they share."""
    postgres, nats = clustered.postgres(), clustered.nats()
    there = Path(parse_qs(urlsplit(postgres.url).query)["host"][0])
    port = urlsplit(nats.url).port
    assert port is not None, "a server listens somewhere"
    links = Links(SlowLink(place / ".s.PGSQL.5432", there / ".s.PGSQL.5432"), SlowLink(0, port))
    for link in links:
        link.start()
    try:
        for number in range(GATEWAYS):
            file = house.gateways.home(number) / "interlock.toml"
            file.write_text(file.read_text().replace(f"host={there}", f"host={place}")
                            .replace(f":{port}", f":{links.nats.port}"))
        yield links
    finally:
        for link in links:
            link.stop()


class Trial:
    """Kills one gateway after the other while commands are given to the sessions."""

    def __init__(self, house: Trio, links: Links, sessions: int, draw: random.Random) -> None:
        self._house = house
        self._links = links
        self._sessions = sessions
        self._draw = draw
        self._people = ThreadPoolExecutor(AT_ONCE)
        self._given = 0
        self.acknowledged: dict[str, str] = {}
        """Command id → the name that it writes."""
        self.served_s: list[float] = []
        self.troubles: Counter[str] = Counter()
        self.unanswered = self._died = 0

    def begin(self) -> None:
        """Open every session."""
        self._wait(self._give(range(self._sessions)))

    def kill(self, trouble: str) -> None:
        """Kill one gateway, make the network worse, and wait until all is well."""
        number = self._draw.randrange(GATEWAYS)
        chosen = self._draw.sample(range(self._sessions), min(AT_WORK, self._sessions))
        half = len(chosen) // 2
        before = self._give(chosen[:half])
        time.sleep(self._draw.random() * 0.3)
        worse = threading.Thread(target=self._make_worse, args=(trouble,))
        worse.start()
        self._house.gateways.kill(number)
        began = time.monotonic()
        if trouble == RUNNERS_DIE:
            self._have_runners_die()
        after = self._give(chosen[half:])
        self._wait(before)
        self._wait(after)
        self.served_s.append(time.monotonic() - began)
        worse.join()
        self._house.gateways.start(number)
        self._house.until(lambda: self._house.gateways.answers(number))
        self._house.ready()
        self.troubles[trouble] += 1
        died = self._house.gateways.logs().count(DIED)
        if died > self._died:
            print(f"  ! with {trouble}: {died - self._died} living gateways were taken for dead", flush=True)
        self._died = died

    def _have_runners_die(self) -> None:
        for runner in range(RUNNERS):
            self._house.kill_runner(runner)
        time.sleep(LASTS_S)
        for runner in range(RUNNERS):
            self._house.start_runner(runner)

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

    def _give(self, sessions: Sequence[int] | range) -> list[Any]:
        futures: list[Any] = []
        for session in sessions:
            self._given += 1
            futures.append(self._people.submit(self._execute, session, f"c{self._given}"))
        return futures

    def _wait(self, given: list[Any]) -> None:
        for one in given:
            try:
                one.result()
            except TimeoutError:
                self.unanswered += 1

    def _execute(self, session: int, name: str) -> str:
        house = self._house
        body = {"type": "execute", "timeout_ms": int(LONGEST_S * 1000),
                "target": {"agent_id": "shell", "session_key": f"agent:shell:lane-{session}",
                           "workspace": str(house.workspace), **house.target(session)},
                "payload": {"messages": [{"role": "user", "content": [
                    {"contentType": "text", "value": f"echo {name} >> {house.workspace}/done"}]}]}}
        answer = insist(lambda: house.post("/v1/commands", body, f"proof-of-no-cascade-{name}"))
        if answer.status_code != 202:
            raise AssertionError(f"{name}: {answer.status_code} {answer.text}")
        command_id = str(answer.json()["id"])
        self.acknowledged[command_id] = name
        return command_id

    def reckon(self) -> tuple[Ending, int]:
        """Wait for the end of all that was acknowledged: (how it ended, how many ran twice)."""
        ending = wait_for_ends(list(self.acknowledged), self._state, self._give_another)
        self._people.shutdown()
        done = self._house.workspace / "done"
        lines = Counter(done.read_text().split() if done.exists() else ())
        return ending, sum(count > 1 for count in lines.values())

    def _state(self, command_id: str) -> str:
        answer = insist(lambda: http.get(f"{self._house.url}/v1/commands/{command_id}", headers=self._house.headers))
        return GONE if answer.status_code == 404 else str(answer.json()["state"])

    def _give_another(self) -> bool:
        """Give a command to a session of its own, each at another runner than the one before."""
        self._given += 1
        try:
            command_id = self._execute(self._sessions + self._given, f"c{self._given}")
            return until_state(self._house, command_id, TERMINAL.__contains__) in TERMINAL
        except TimeoutError:
            return False


def one(seed: int, rtt_ms: float, kills: int, sessions: int) -> Findings:
    """Run it at one round trip time."""
    with tempfile.TemporaryDirectory(prefix="interlock-cascade-") as name:
        place = Path(name)
        place.chmod(0o755)
        hosts = HostProcessor("runners")
        house = Trio(place, CONFIG, runners=RUNNERS, hosts=hosts)
        with linked(house, place) as links:
            try:
                house.up()
                trial = Trial(house, links, sessions, random.Random(seed))
                for link in links:
                    link.rtt_s = rtt_ms / 1000
                trial.begin()
                for at in range(kills):
                    if not trial.unanswered:
                        trial.kill(TROUBLES[at % len(TROUBLES)])
                for link in links:
                    link.rtt_s = 0.0
                ending, twice = trial.reckon()
                return Findings(rtt_ms, trial.troubles, ending.states.total() + len(ending.lost) + len(ending.late),
                                len(ending.lost), twice, house.gateways.logs().count(DIED), trial.unanswered,
                                sorted(trial.served_s), len(ending.late))
            finally:
                house.down()
                hosts.close()


def run(seed: int, rounds: int | None, *, rtt: Sequence[float] | None = None, kills: int | None = None,
        sessions: int | None = None, into: Path | None = None) -> bool:
    """Run it at each round trip time, and print what was counted. `rounds` says the same as `kills`. What is done is
    kept in the file `into`: a run that was broken off goes on there with what is left."""
    passed = True
    times = tuple(rtt or RTTS_MS)
    each = max(1, (kills or rounds or KILLS) // len(times))
    under = sessions or SESSIONS
    before = _kept(into)
    for at, rtt_ms in enumerate(times):
        found = before.get((rtt_ms, each, under))
        if found is None:
            found = one(seed + at, rtt_ms, each, under)
            _keep(into, Kept(rtt_ms, each, under, found))
        print(f"  {found.line()}\n        {dict(found.troubles)}", flush=True)
        passed &= found.passed
    print("passed" if passed else "FAILED", flush=True)
    return passed


class Kept(NamedTuple):
    """A line of the file that a run goes on from: what was run, and what it showed."""

    rtt_ms: float
    kills: int
    sessions: int
    found: Findings


def _kept(into: Path | None) -> dict[tuple[float, int, int], Findings]:
    if into is None or not into.exists():
        return {}
    lines = [msgspec.json.decode(line, type=Kept) for line in into.read_bytes().splitlines()]
    return {(one.rtt_ms, one.kills, one.sessions): one.found
            for one in lines if one.found.passed}


def _keep(into: Path | None, one: Kept) -> None:
    if into is not None:
        with into.open("ab") as file:
            file.write(msgspec.json.encode(one) + b"\n")
