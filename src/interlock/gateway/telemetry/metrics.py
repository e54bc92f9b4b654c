"""A gateway's metrics for Prometheus: labels have few fixed values, never names by a person or an agent."""

from __future__ import annotations

import ipaddress
from collections import Counter as Tally
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from interlock.command.approval import TERMINAL as APPROVAL_ENDS
from interlock.engine.bridge.effects import LaneEvent
from interlock.engine.bridge.lane import Lane
from interlock.ports.ledger import AuditAppend, PutApproval, PutCommand
from interlock.ports.trips import Trips
from interlock.ports.upkeep import Counts
from interlock.protocol.answers import ClusterHealth
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import ApprovalRecord, AuditDraft, CommandRecord

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
COMMIT_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
GROUP_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TRIP_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
MARGIN_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
DECIDED_BUCKETS_S = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
_TRANSIENT = "transient"
_FRAMES: dict[str, str] = {"C": "durable", "refused": "refused"}
"""Event kinds that are frames of a runner, and their labels."""
_STATUSES = tuple(f"{hundred}xx" for hundred in range(10))


class Metrics:
    """The registry of one gateway. Counters grow as events occur; gauges are set when they are read."""

    def __init__(self, version: str = "", open_to: Sequence[str] = ()) -> None:
        """Create the registry; `open_to` are networks whose requests need no credential."""
        self._open_to = [ipaddress.ip_network(text) for text in open_to]
        registry = self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"interlock_{name}", description, labels, registry=registry)

        def gauge(name: str, description: str, *labels: str) -> Gauge:
            return Gauge(f"interlock_{name}", description, labels, registry=registry)

        def histogram(name: str, description: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"interlock_{name}", description, labels, buckets=buckets, registry=registry)

        gauge("build_info", "The gateway that is asked.", "version").labels(version).set(1)
        self._moves = counter("command_moves", "Commands that came into a state.", "type", "state")
        self._approval_moves = counter("approval_moves", "Approvals that came into a state.", "door", "state")
        self._decided = histogram("approval_decided_seconds", "From the question to its answer.", DECIDED_BUCKETS_S,
                                  "door")
        self._received = counter("frames_received", "Frames of runners that were taken.", "kind")
        self._sent = counter("frames_sent", "Control frames that lanes gave to a runner's link.")
        self._acks = counter("acks_sent", "Acknowledgements of durable frames.")
        self._records = counter("audit_records", "Audit records that lanes wrote.")
        self._refused = counter("requests_refused", "Refusals by their code.", "code")
        self._requests = counter("http_requests", "Requests that were answered.", "method", "status")
        self._children: dict[tuple[Counter | str, ...], Counter] = {}
        self._commits = histogram("ledger_commit_seconds", "One transaction of the ledger, to the disk.",
                                  COMMIT_BUCKETS_S)
        self._groups = histogram("ledger_group_batches", "Batches that one transaction took.", GROUP_BUCKETS)
        self._trips = histogram("ledger_round_trips", "Round trips to the ledger's server, in a row, of one operation.",
                                TRIP_BUCKETS, "operation")
        self._stepwise = counter("ledger_stepwise", "Transactions of more than one statement on PostgreSQL, by reason.",
                                 "reason")
        self._trip_commits = counter("ledger_commits", "Transactions that operations waited for.", "operation")
        self._commands = gauge("commands", "Commands that are not at their end.", "state")
        self._approvals = gauge("approvals", "Approvals that wait for an answer or for their use.", "state")
        self._deliveries = gauge("deliveries", "Questions to approvers that have not arrived.", "state")
        self._sessions = gauge("sessions", "Sessions that the ledger has.")
        self._lanes = gauge("lanes", "Sessions that are in memory.")
        self._inbox = gauge("lane_inbox_jobs", "What waits for lanes, of all of them.")
        self._fullest = gauge("lane_inbox_fullest_jobs", "What waits for the lane that has most.")
        self._runners = gauge("runners_online", "Runners whose link is up.")
        self._viewers = gauge("viewers", "Readers of a stream.")
        self._streams = gauge("streams", "Connections that stay open for readers.", "kind")
        self._margin = histogram("lease_margin_seconds", "What was left of this gateway's lease when it was renewed.",
                                 MARGIN_BUCKETS_S)
        self._processor_wait = counter("processor_wait_seconds", "How long this gateway's loop was ready to run and no "
                                       "processor was free; absent where the system does not count it.", "thread")
        self._taken_over = counter("lanes_taken_over", "Sessions of dead gateways that this one claimed.")
        self._passed_on = counter("lanes_passed_on", "Sessions that this gateway claimed, could not read in time and "
                                  "let others have.")
        self._deaths = counter("instance_deaths", "How often this gateway was taken for dead while it lived.")
        self._gateways = gauge("cluster_gateways", "Gateways of the cluster that are alive.")
        self._reachable = gauge("shared_server_reachable", "1 if this gateway reaches the server that a cluster "
                                "shares; absent if there is one gateway.", "server")
        self._latency = gauge("shared_server_latency_seconds", "One round trip to that server; absent while it does "
                              "not answer.", "server")
        self.ready = gauge("ready", "1 if /readyz answers 200.")

    def is_open_to(self, source: str) -> bool:
        """Return whether an address may read the metrics without a credential."""
        try:
            address = ipaddress.ip_address(source)
        except ValueError:
            return False
        return any(address in network for network in self._open_to)

    # --- as things happen ---
    def watch(self, lane: Lane) -> None:
        """Count a lane's durable decision."""
        kinds = dict[str, int]()
        for item in lane.out.published:
            kind = _FRAMES.get(item.event.kind) if isinstance(item, LaneEvent) else _TRANSIENT
            if kind is not None:
                kinds[kind] = kinds.get(kind, 0) + 1
        for kind, count in kinds.items():
            self._child(self._received, kind).inc(count)
        if lane.out.sends:
            self._sent.inc(len(lane.out.sends))
        audits: list[AuditDraft] = []
        commands: dict[str, CommandRecord] = {}
        approvals: dict[str, ApprovalRecord] = {}
        for write in lane.out.writes:
            if isinstance(write, AuditAppend):
                audits.append(write.draft)
            elif isinstance(write, PutCommand):
                commands[write.record.command.id] = write.record
            elif isinstance(write, PutApproval):
                approvals[write.record.approval.id] = write.record
        if not audits:
            return
        self._records.inc(len(audits))
        for draft in audits:
            # Every transition leaves exactly one record that names its result (invariant 3).
            if "to" not in draft.meta:
                continue
            if draft.approval_id in approvals:
                self._count_approval(approvals[draft.approval_id], draft.meta["to"])
            elif draft.approval_id is None and draft.command_id in commands:
                self._child(self._moves, commands[draft.command_id].command.type, draft.meta["to"]).inc()

    def _child(self, of: Counter, *labels: str) -> Counter:
        """Return the counter of some labels, which have few values: it is cached."""
        place = (of, *labels)
        child = self._children.get(place)
        if child is None:
            child = self._children[place] = of.labels(*labels)
        return child

    def _count_approval(self, record: ApprovalRecord, state: str) -> None:
        approval = record.approval
        self._approval_moves.labels(approval.door, state).inc()
        if state == "granted" or (state in APPROVAL_ENDS and state != "consumed"):
            decided = parse_iso(approval.decided_at) if approval.decided_at else None
            if decided is not None:
                self._decided.labels(approval.door).observe((decided - parse_iso(approval.created_at)) / 1000)

    def acked(self, count: int) -> None:
        """Count acknowledgements that were sent."""
        self._acks.inc(count)

    def committed(self, batches: int, seconds: float) -> None:
        """Count the end of a ledger transaction. Called on any thread."""
        self._groups.observe(batches)
        self._commits.observe(seconds)

    def stepwise(self, reason: str) -> None:
        """Count a transaction that could not be one statement, by the ledger's reason."""
        self._stepwise.labels(reason).inc()

    def waited(self, operation: str, spent: Trips) -> None:
        """Count an operation's (its name in the API, `frames` or `attach`) round trips to the ledger's server."""
        if spent.statements:
            self._trips.labels(operation).observe(spent.in_a_row)
            self._trip_commits.labels(operation).inc(spent.commits)

    def renewed(self, margin_s: float) -> None:
        """Record a renewal of the gateway's lease, with these seconds left of it."""
        self._margin.observe(max(0.0, margin_s))

    def waited_for_processor(self, seconds: float) -> None:
        """Count the time that the gateway's loop waited for a processor."""
        self._processor_wait.labels("loop").inc(seconds)

    def took_over(self, taken: int, passed_on: int) -> None:
        """Count sessions of dead gateways that were claimed, or passed on."""
        self._taken_over.inc(taken)
        self._passed_on.inc(passed_on)

    def taken_for_dead(self) -> None:
        """Count an expiry of the gateway's lease."""
        self._deaths.inc()

    def refused(self, code: str) -> None:
        """Count a refused request, with a code of F-1."""
        self._refused.labels(code).inc()

    def answered(self, method: str, status: int) -> None:
        """Count an answered request."""
        self._child(self._requests, method if method in METHODS else "other", _STATUSES[status // 100]).inc()

    # --- set when they are read ---
    def set_counts(self, counts: Counts) -> None:
        """Set the ledger's counts."""
        for gauge, values in ((self._commands, counts.commands), (self._approvals, counts.approvals),
                              (self._deliveries, counts.deliveries)):
            gauge.clear()
            for state, count in values.items():
                gauge.labels(state).set(count)
        self._sessions.set(counts.sessions)

    def forget_counts(self) -> None:
        """Clear the ledger's counts, since it cannot be read: old figures would look current."""
        for gauge in (self._commands, self._approvals, self._deliveries):
            gauge.clear()
        self._sessions.set(float("nan"))

    def set_lanes(self, inboxes: Sequence[int]) -> None:
        """Set the queue length of each lane in memory."""
        self._lanes.set(len(inboxes))
        self._inbox.set(sum(inboxes))
        self._fullest.set(max(inboxes, default=0))

    def set_readers(self, viewers: int, streams: Tally[str], runners: int) -> None:
        """Set the numbers of viewers, streams and runners."""
        self._viewers.set(viewers)
        self._runners.set(runners)
        for kind in ("sse", "websocket"):
            self._streams.labels(kind).set(streams[kind])

    def set_cluster(self, health: ClusterHealth) -> None:
        """Set how the gateways of a cluster and their two servers are."""
        self._gateways.set(len(health.gateways) if health.database.reachable else float("nan"))
        self._latency.clear()
        for name, server in (("database", health.database), ("bus", health.bus)):
            self._reachable.labels(name).set(server.reachable)
            if server.latency_ms is not None:
                self._latency.labels(name).set(server.latency_ms / 1000)

    def exposed(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that the reader accepts: (body, content type)."""
        encode, content_type = choose_encoder(accept)
        write: Callable[[CollectorRegistry], bytes] = encode
        return write(self.registry), content_type

    def labels(self) -> set[str]:
        """Return every label that the metrics currently have."""
        return {label for family in self.registry.collect() for sample in family.samples for label in sample.labels}
