"""Engines that are broken on purpose. The former takeover must cascade on a network with latency, and the current one
must not; a broken lane must be noticed, and its failure shrunk to a few inputs."""

from __future__ import annotations

from proof.simulation import SHRUNK_BELOW
from proof.simulation.cascade import SIZE, cascade
from proof.simulation.input_log import report
from proof.simulation.lane_breaks import BREAKS
from proof.simulation.trial import trial
from proof.simulation.world import Size

RTT_MS = 10.0


def run(seed: int, rtts_ms: list[float] | None = None, sessions: int | None = None) -> bool:
    """Let one of three gateways die, in both ways; returns whether the earlier one was noticed."""
    size = SIZE._replace(rtt=rtts_ms[0] if rtts_ms else RTT_MS, sessions=sessions or SIZE.sessions)
    print(f"  seed {seed}: one of {size.gateways} gateways dies under {size.sessions} sessions at work, "
          f"{size.rtt:g} ms a round trip")
    earlier, now = (cascade(seed, size, earlier=one) for one in (True, False))
    for name, found in (("one lane after another, as it was", earlier), ("as it is", now)):
        print(f"  {name:<34} {found.falsely_dead} living gateways taken for dead; the {found.had} sessions of "
              f"the dead one are read after {found.served_s:.1f} s; {len(found.broken)} invariants broken", flush=True)
    noticed = bool(earlier.falsely_dead) and not (now.falsely_dead or now.broken)
    print("noticed" if noticed else "FAILED: the cascade was not noticed")
    return noticed


SMALL = Size(runners=12, sessions=40, viewers=10, gateways=3, steps=40)


def run_broken_lane(seed: int, name: str) -> bool:
    """Run a world on an engine that is broken within a lane; returns whether that was noticed, and shrunk."""
    print(f"  seed {seed}: {SMALL._asdict()}, broken on purpose: {name}")
    broken, _ = trial(seed, SMALL, decide=BREAKS[name])
    for sentence in broken[:5]:
        print(f"  ! {sentence}")
    found = report(seed, SMALL, name) if broken else None
    noticed = found is not None and found.inputs < SHRUNK_BELOW
    print("noticed" if noticed else "FAILED: it was not noticed, or not shrunk; another seed may have more of it")
    return noticed
