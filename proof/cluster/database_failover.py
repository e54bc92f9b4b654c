"""PostgreSQL's primary is killed under writers, voters and viewers, and its synchronous standby promoted.

Three gateways name both servers and use the one that accepts writes. After each promotion a session of each runner
acknowledges a command; then the next standby is made. No acknowledged command is lost or doubled, no gateway ends, and
the invariants of R2 hold.

After every other promotion, the first included, the former primary comes back at its address, accepts writes and waits
for no standby. Then all connections of the gateways are ended, and one gateway is killed and started: none may write to
it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from interlock.app.own_servers import OwnServer
from proof.processes.cluster import RUNNERS, ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.processes.postgres_pair import PostgresPair, ask
from proof.recovery.kills_under_load import FULL, turn_is_open
from proof.workload.clients import CONFIG, Clients, Pace
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

PROMOTIONS = 20
SETTLE_TIMEOUT_S = 300.0
END_CONNECTIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
UNNOTICED_S = 4.0
"""The longest absence of the primary before the standby is promoted: longer than a gateway's lease."""
ACKNOWLEDGED_LIMIT_S = 10.0
"""What a session is given after a promotion is acknowledged within this, on two free cores."""


class Findings(NamedTuple):
    """What a run counted."""

    promotions: int
    in_turn: int
    returned: int
    """Former primaries that came back while their successors worked."""
    written: int
    """Transactions that were written to them."""
    ended: int
    """Gateways that had ended by themselves."""
    acknowledged_s: list[float]
    """From each promotion until a session acknowledged its next command, for each session, sorted."""
    outcomes: OutcomeTally

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be; how long it took apart."""
        return self.outcomes.passed and self.ended == self.written == 0

    def table(self) -> str:
        """Print form."""
        times = self.acknowledged_s
        rows = [("promotions of the standby", self.promotions), ("of these inside a turn", self.in_turn),
                ("former primaries that came back, and took writes", self.returned),
                ("transactions that were written to them", self.written),
                ("gateways that ended by themselves", self.ended),
                ("a session's next acknowledgement after one",
                 f"p50 {times[len(times) // 2]:.2f} s, slowest {times[-1]:.2f} s ({len(times)} times)")]
        return "\n".join([*(f"{name:<50} {value}" for name, value in rows), self.outcomes.table()])


def fail_over(place: Path, seed: int, promotions: int, pace: Pace = FULL) -> Findings:
    """Let clients work, and promote the standby this often. `place` is new and readable by everyone."""
    (place / "servers").mkdir(mode=0o755)
    (place / "stack").mkdir(mode=0o755)
    pair, draw = PostgresPair(place / "servers"), random.Random(seed)
    stack = ClusterStack(place / "stack", CONFIG)
    try:
        for number in range(GATEWAYS):
            file = stack.gateways.home(number) / "interlock.toml"
            file.write_text(re.sub(r'store = "[^"]*"', f'store = "{pair.url}"', file.read_text()))
        stack.up()
        clients = Clients(stack, seed, pace)
        clients.start()
        in_turn, written, acknowledged = 0, list[int](), list[float]()
        with ThreadPoolExecutor(RUNNERS) as probes:
            for number in range(promotions):
                in_turn += turn_is_open(stack, wait_s=10.0 if number % 2 else 0.0)
                time.sleep(draw.random() * 0.4)
                pair.kill_primary()
                time.sleep(draw.random() * UNNOTICED_S)
                pair.promote()
                former = _come_back(pair, stack, draw.randrange(GATEWAYS)) if number % 2 == 0 else None
                names = [f"k{number}-{session}" for session in range(RUNNERS)]
                times = list(probes.map(clients.probe, range(RUNNERS), names))
                acknowledged += times
                print(f"  promotion {number + 1} of {promotions}: acknowledged again after {max(times):.1f} s"
                      f"{', with the former primary there again' if former else ''}", flush=True)
                if former is not None:
                    written.append(former.leave())
                pair.make_standby()
                for gateway in range(GATEWAYS):
                    stack.until(lambda gateway=gateway: stack.gateways.answers(gateway))
                stack.ready()
        clients.stop()
        clients.settle(SETTLE_TIMEOUT_S)
        ended = sum(stack.gateways.running(number).poll() is not None for number in range(GATEWAYS))
        return Findings(promotions, in_turn, len(written), sum(written), ended, sorted(acknowledged),
                        tally_outcomes(clients))
    finally:
        stack.down()
        pair.stop()


class Former:
    """A former primary that has come back."""

    def __init__(self, server: OwnServer) -> None:
        self._server = server
        self._begin = self._transactions()

    def leave(self) -> int:
        """End it; returns the transactions that were written to it."""
        written = self._transactions() - self._begin
        self._server.stop(signal.SIGKILL)
        return written

    def _transactions(self) -> int:
        return int(ask(self._server, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))


def _come_back(pair: PostgresPair, stack: ClusterStack, gateway: int) -> Former:
    """Have the former primary be there again, and every connection of the gateways be opened again."""
    former = Former(pair.return_primary())
    stack.gateways.kill(gateway)
    ask(pair.primary, END_CONNECTIONS)
    stack.gateways.start(gateway)
    return former


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts promotions."""
    with tempfile.TemporaryDirectory(prefix="interlock-failover-") as name:
        place = Path(name)
        place.chmod(0o755)
        seen = fail_over(place, seed, rounds or PROMOTIONS)
    print(seen.table())
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    slow = seen.acknowledged_s[-1] > ACKNOWLEDGED_LIMIT_S
    if slow:
        print(f"  ! later than {ACKNOWLEDGED_LIMIT_S:.0f} s, which are allowed on two free cores")
    passed = seen.passed and not slow
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
