"""A takeover as it was once, and as it is, on a network with latency: the first must cascade, the second must not."""

from __future__ import annotations

from proof.simulation.cascade import SIZE, cascade

RTT_MS = 10.0


def run(seed: int, rtts_ms: list[float] | None = None, sessions: int | None = None) -> bool:
    """Let one of three gateways die, in both ways; returns whether the earlier one was noticed."""
    size = SIZE._replace(rtt=rtts_ms[0] if rtts_ms else RTT_MS, sessions=sessions or SIZE.sessions)
    print(f"  seed {seed}: one of {size.gateways} gateways dies under {size.sessions} sessions at work, "
          f"{size.rtt:g} ms a round trip")
    earlier, now = (cascade(seed, size, earlier=one) for one in (True, False))
    for name, found in (("one lane after another, as it was", earlier), ("as it is", now)):
        print(f"  {name:<34} {found.falsely_dead} living gateways taken for dead; served again after "
              f"{found.served_s:.1f} s; {len(found.broken)} invariants broken", flush=True)
    noticed = bool(earlier.falsely_dead) and not (now.falsely_dead or now.broken)
    print("noticed" if noticed else "FAILED: the cascade was not noticed")
    return noticed
