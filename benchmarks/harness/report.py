"""Results of a run, and how they are printed."""

from __future__ import annotations

import msgspec


class Whole(msgspec.Struct, kw_only=True):
    """The whole path with some sessions. Rates are medians over the rounds; counts are over the whole run."""

    sessions: int
    viewers: int
    """Viewers of all sessions together: each session has as many."""
    frames_sent: int
    frames_durable: int
    frames_seen: list[int]
    """Frames seen by the first viewers of all sessions together, by the second ones, …"""
    frames_per_s: float
    rounds: list[float]
    frames_per_ack: float
    of_echo: float
    of_fdatasync: float
    driver_busy: float
    """Share of the time in which the driver had a processor: near 1 it would be the driver that is measured."""
    gateway_busy: float
    """The same of the gateway's threads, of which two work."""


class Latency(msgspec.Struct, kw_only=True):
    """Delay of a durable acknowledgement with one frame in flight, and of its limit, in milliseconds."""

    answers: int
    p50_ms: float
    p99_ms: float
    limit_p50_ms: float
    limit_p99_ms: float
    of_limit_p50: float
    of_limit_p99: float


class Part(msgspec.Struct, kw_only=True):
    """One part of the path, alone in a process."""

    name: str
    us_a_frame: float
    frames_per_s: float


class Report(msgspec.Struct, kw_only=True):
    """What `--json` prints."""

    frame_bytes: int
    whole: list[Whole]
    parts: list[Part]
    parts_group: int
    """Frames per batch when the parts were timed: the number that an acknowledgement covered."""
    echo_per_s: float
    fdatasync_per_s: float
    latency: Latency


class Limits(msgspec.Struct, kw_only=True):
    """What `python -m benchmarks limits` finds."""

    message_bytes: int
    blocking_sockets_per_s: float
    """Messages that one thread receives once and sends five times on blocking sockets."""
    echo_per_s: float
    fdatasync_per_s: float
    sync_echo_p50_ms: float
    sync_echo_p99_ms: float


def frames_table(report: Report) -> str:
    """Write a report as a table for people."""
    rows = [("", "per second", "of the echo", "of fdatasync")]
    for whole in report.whole:
        name = f"whole path, {whole.sessions} session{'s' * (whole.sessions > 1)}, {whole.viewers} viewers"
        rows.append((name, f"{whole.frames_per_s:,.0f}", f"{whole.of_echo:.2f}", f"{whole.of_fdatasync:.1f}"))
    rows += [(f"  {part.name}", f"{part.frames_per_s:,.0f}", f"{part.us_a_frame:.2f} us", "") for part in report.parts]
    rows += [("limit: bare ASGI echo", f"{report.echo_per_s:,.0f}", "1", ""),
             ("limit: fdatasync", f"{report.fdatasync_per_s:,.0f}", "", "1")]
    late = report.latency
    lines = [f"frames of {report.frame_bytes} bytes, one a message", *aligned(rows), "",
             *aligned([("one in flight", "p50", "p99"),
                        ("durable acknowledgement", f"{late.p50_ms:.2f} ms", f"{late.p99_ms:.2f} ms"),
                        ("limit: fdatasync, two hops", f"{late.limit_p50_ms:.2f} ms", f"{late.limit_p99_ms:.2f} ms"),
                        ("ratio", f"{late.of_limit_p50:.1f}", f"{late.of_limit_p99:.1f}")]), ""]
    lines += [f"{whole.sessions} session{'s' * (whole.sessions > 1)}: {whole.frames_sent} sent, "
              f"{whole.frames_durable} durable, seen {', '.join(map(str, whole.frames_seen))}; "
              f"{whole.frames_per_ack:.0f} frames an acknowledgement; busy: driver {whole.driver_busy:.2f}, "
              f"gateway {whole.gateway_busy:.2f}" for whole in report.whole]
    return "\n".join([*lines, f"The parts were timed in one process, {report.parts_group} frames together."])


def limits_table(found: Limits) -> str:
    """Write the limits as a table for people."""
    return "\n".join([f"messages of {found.message_bytes} bytes", *aligned([
        ("", "per second"),
        ("blocking sockets, one receive and five sends", f"{found.blocking_sockets_per_s:,.0f}"),
        ("bare ASGI echo", f"{found.echo_per_s:,.0f}"),
        ("fdatasync of a page", f"{found.fdatasync_per_s:,.0f}")]), "",
        f"one fdatasync and two hops: p50 {found.sync_echo_p50_ms:.2f} ms, p99 {found.sync_echo_p99_ms:.2f} ms"])


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Pad the cells of each column to one width."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in
                                                  zip(row[1:], widths[1:], strict=True))]).rstrip() for row in rows]
