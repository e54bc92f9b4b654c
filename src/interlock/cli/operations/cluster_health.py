"""The gateways of a cluster and the servers that they share, as `status` and `doctor` show them (C-4)."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.cli.display.terminal import one_line
from interlock.cli.display.values import age, ago, count, span
from interlock.protocol.answers import ClusterHealth, LostLease, SharedServer

SENTENCE_CHARS = 1_000


def cluster_lines(cluster: ClusterHealth) -> Iterator[str]:
    """Show the gateways of a cluster and the servers that they share, a line each."""
    for one in cluster.gateways:
        since = f"up {age(one.since)}" if one.since is not None else "up"
        yield (f"cluster          {one.instance_id} · {one_line(one.address)} · {since} · {count(one.lanes, 'lane')} · "
               f"last beat {ago(one.last_beat_at)}")
    if cluster.lost_lease is not None:
        yield f"lease            {lost_lease(cluster.lost_lease)}"
    for name, server in (("database", cluster.database), ("bus", cluster.bus)):
        yield f"{name:<17}" + shared_server(server)


def lost_lease(loss: LostLease) -> str:
    """Return when and why the queried gateway lost its lease."""
    return one_line(f"This gateway lost its sessions to others {span(loss.ago_s)} ago. {loss.reason}",
                    SENTENCE_CHARS)


def shared_server(server: SharedServer) -> str:
    """Return a description of PostgreSQL or NATS: its address, version and latency, or what its absence stops."""
    if server.trouble is not None:
        return one_line(server.trouble, SENTENCE_CHARS)
    return f"{one_line(server.where)} · {one_line(server.version or '')} · {server.latency_ms:.1f} ms"
