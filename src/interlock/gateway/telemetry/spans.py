"""OpenTelemetry spans, one for each command, turn and tool call, never for a frame, derived from lanes' durable
decisions.

Only the API is a dependency. Without an SDK, or with `OTEL_SDK_DISABLED`, no watcher is set and nothing is done.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from interlock.command.machine import TERMINAL
from interlock.engine.bridge.effects import LaneEvent
from interlock.engine.bridge.lane import Lane
from interlock.ports.ledger import PutCommand
from interlock.protocol.clock import parse_iso
from interlock.protocol.envelope import Frame
from interlock.protocol.extras import install
from interlock.protocol.payloads import ToolRequest, ToolResult, TurnEnd, TurnStart
from interlock.protocol.resources import Command

MAX_OPEN_SPANS = 10_000
"""Open spans; beyond it the oldest is ended, marked `interlock.cut_short`."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
FLUSH_TIMEOUT_MS = 3_000
"""How long a stopping gateway waits for the receiver of its last spans."""
NS_A_MS = 1_000_000

log = structlog.get_logger("interlock.gateway")


class Sender(NamedTuple):
    """The exporter of spans. `flush` sends what has ended, within FLUSH_TIMEOUT_MS, and drops the rest."""

    tracer: Tracer
    flush: Callable[[], None]


def sender_of(environ: Mapping[str, str], version: str) -> Sender | None:
    """Set up the SDK according to the standard OTEL_ variables; None if they name no endpoint or it is not
    installed."""
    if not any(environ.get(name) for name in ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("traces_not_sent", remedy=f"{install('otel')}, or unset OTEL_EXPORTER_OTLP_ENDPOINT")
        return None
    name = environ.get("OTEL_SERVICE_NAME", "interlock")
    # The gateway ends it itself: at the interpreter's exit an unavailable receiver would be waited for.
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name, SERVICE_VERSION: version}),
                              shutdown_on_exit=False)
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))

    def flush() -> None:
        # The processor has no timeout of its own: it would make all of the exporter's attempts.
        flushing = threading.Thread(target=provider.force_flush, name="last spans", daemon=True)
        flushing.start()
        flushing.join(FLUSH_TIMEOUT_MS / 1000)
        if flushing.is_alive():
            log.warning("traces_not_sent", remedy="see whether the receiver of OTEL_EXPORTER_OTLP_ENDPOINT answers")
        exporter.shutdown()  # Cancels the remaining attempts.

    return Sender(provider.get_tracer("interlock", version), flush)


class Tracing:
    """Creates spans from lanes' decisions. A gateway that died sent none of its open ones; the next one starts those of
    commands again, each at its command's own start."""

    def __init__(self, sender: Sender) -> None:
        self._tracer, self._flush = sender
        self._open: OrderedDict[tuple[str, str], Span] = OrderedDict()
        """By kind and id."""
        self._of_session: dict[str, str] = {}
        """The current command of each session, while its span is open."""

    def watch(self, lane: Lane) -> None:
        """Start and end spans according to a decision."""
        ended: list[Command] = []
        session_id = lane.state.session_id
        for write in lane.out.writes:
            if isinstance(write, PutCommand):
                command = write.record.command
                if command.state in TERMINAL:
                    ended.append(command)
                else:
                    self._command(command, session_id)
        if lane.state.active is not None:
            self._of_session[session_id] = lane.state.active
        for item in lane.out.published:
            if isinstance(item, LaneEvent) and item.frame is not None:
                self._frame(item.frame, item.event.at_ms, session_id)
        for command in ended:
            self._command_ends(command, session_id)

    def end(self) -> None:
        """End the open spans, and send them: the gateway stops. Blocks for FLUSH_TIMEOUT_MS at most."""
        while self._open:
            self._cut(self._open.popitem(last=False)[1])
        self._flush()

    def _command(self, command: Command, session_id: str) -> Span:
        key = ("command", command.id)
        span = self._open.get(key)
        if span is None:
            span = self._begin(key, f"command {command.type}", parse_iso(command.created_at), None, {
                "interlock.command_id": command.id, "interlock.tenant_id": command.tenant_id,
                "interlock.session_id": session_id, "interlock.command_type": command.type})
        return span

    def _command_ends(self, command: Command, session_id: str) -> None:
        span = self._command(command, session_id)
        self._open.pop(("command", command.id), None)
        span.set_attribute("interlock.state", command.state)
        span.set_status(Status(StatusCode.OK if command.state == "succeeded" else StatusCode.ERROR,
                               None if command.state == "succeeded" else command.state))
        span.end(parse_iso(command.ended_at or command.updated_at) * NS_A_MS)
        if self._of_session.get(session_id) == command.id:
            del self._of_session[session_id]

    def _frame(self, frame: Frame, at_ms: int, session_id: str) -> None:
        payload = frame.payload
        match payload:
            case TurnStart():
                parent = self._open.get(("command", self._of_session.get(session_id, "")))
                self._begin(("turn", f"{session_id}/{payload.turn_id}"), "turn", at_ms, parent, {
                    "interlock.session_id": session_id, "interlock.turn_id": payload.turn_id})
            case TurnEnd():
                self._finish(("turn", f"{session_id}/{payload.turn_id}"), at_ms, payload.stop_reason == "end_turn",
                             payload.stop_reason)
            case ToolRequest():
                # The tool's name is from the agent; its input is never exported (K-4).
                parent = self._open.get(("turn", f"{session_id}/{payload.turn_id}"))
                self._begin(("tool", f"{session_id}/{payload.invocation_id}"), "tool call", at_ms, parent, {
                    "interlock.session_id": session_id, "interlock.tool": payload.tool_name,
                    "interlock.invocation_id": payload.invocation_id})
            case ToolResult():
                self._finish(("tool", f"{session_id}/{payload.invocation_id}"), at_ms, payload.status == "ok",
                             payload.status)
            case _:
                pass

    def _begin(self, key: tuple[str, str], name: str, at_ms: int, parent: Span | None, about: dict[str, str]) -> Span:
        context = trace.set_span_in_context(parent) if parent is not None else None
        span = self._tracer.start_span(name, context=context, kind=SpanKind.INTERNAL, attributes=about,
                                       start_time=at_ms * NS_A_MS)
        self._open[key] = span
        if len(self._open) > MAX_OPEN_SPANS:
            self._cut(self._open.popitem(last=False)[1])
        return span

    def _finish(self, key: tuple[str, str], at_ms: int, good: bool, how: str) -> None:
        span = self._open.pop(key, None)
        if span is None:
            return  # It started under an earlier gateway.
        span.set_attribute("interlock.outcome", how)
        span.set_status(Status(StatusCode.OK) if good else Status(StatusCode.ERROR, how))
        span.end(at_ms * NS_A_MS)

    def _cut(self, span: Span) -> None:
        span.set_attribute("interlock.cut_short", True)
        span.end()
