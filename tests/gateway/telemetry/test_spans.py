"""Spans of commands, turns and tool calls, as an exporter in memory gets them."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engine.conversation import Table
from interlock.gateway.telemetry.spans import Sender, Tracing, sender_of
from interlock.protocol import payloads as p

pytestmark = pytest.mark.anyio


class Traced(Table):
    """A conversation that is watched; `spans` are those that have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(Sender(provider.get_tracer("interlock"), lambda: None))
        self.engine.lanes.watchers.append(self.tracing.watch)

    async def calls(self, session_id: str, command: str) -> None:
        """The agent reports a tool call without a permission request."""
        await self.send(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id="i1", turn_id="t1", tool_name="shell", input=msgspec.Raw(msgspec.json.encode(command))))

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


async def test_a_commands_span_contains_its_turn_and_tool_calls() -> None:
    table = Traced()
    command = await table.execute("a secret prompt")
    session_id = command.target.session_id
    began = table.clock.at_ms
    await table.opened(session_id)
    await table.started(session_id)
    table.clock.advance(1_000)
    await table.calls(session_id, "cat /etc/shadow")
    table.clock.advance(500)
    await table.result(session_id, "much text")
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"
    spans = table.spans()
    assert set(spans) == {"command execute", "turn", "tool call"}
    root, turn, tool = (spans[name] for name in ("command execute", "turn", "tool call"))
    assert root.parent is None
    assert turn.parent is not None
    assert tool.parent is not None
    assert (turn.parent.span_id, tool.parent.span_id) == (root.context.span_id, turn.context.span_id)
    assert len({span.context.trace_id for span in spans.values()}) == 1
    assert root.attributes is not None
    assert (root.attributes["interlock.command_id"], root.attributes["interlock.state"]) == (command.id, "succeeded")
    assert (root.start_time, tool.start_time, tool.end_time) == (
        began * 1_000_000, (began + 1_000) * 1_000_000, (began + 1_500) * 1_000_000)
    assert all(span.status.is_ok for span in spans.values())
    request = "".join(span.to_json() for span in spans.values())
    assert not any(text in request for text in ("secret prompt", "shadow", "much text"))


async def test_failed_spans_are_marked_and_open_ones_end_with_the_gateway() -> None:
    table = Traced()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.calls(session_id, "ls")
    await table.result(session_id, status="denied")
    assert not table.spans()["tool call"].status.is_ok
    table.tracing.end()
    assert {name for name, span in table.spans().items()
            if span.attributes and span.attributes.get("interlock.cut_short")} == {"command execute", "turn"}


def test_without_an_endpoint_no_tracing_is_set_up() -> None:
    assert sender_of({}, "1") is None
    assert sender_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, "1") is None


class Collector(ThreadingHTTPServer):
    """A receiver of OTLP over HTTP: it reads what a real one would."""

    def __init__(self) -> None:
        self.spans: list[tuple[dict[str, str], Any]] = []
        super().__init__(("127.0.0.1", 0), _Receiving)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Receiving(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        for of_resource in request.resource_spans:
            about = {one.key: one.value.string_value for one in of_resource.resource.attributes}
            self.server.spans += [(about, span) for scope in of_resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    there = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", there.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "house")
    yield there
    there.shutdown()
    there.server_close()


async def test_a_receiver_has_every_span_with_its_parent_once_the_gateway_has_stopped(collector: Collector) -> None:
    sender = sender_of(os.environ, "1.2.3")
    assert sender is not None
    table = Table()
    tracing = Tracing(sender)
    table.engine.lanes.watchers.append(tracing.watch)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)  # It is still asked when the gateway stops: the three spans are open.
    await asyncio.to_thread(tracing.end)
    assert {about["service.name"] + about["service.version"] for about, _ in collector.spans} == {"house1.2.3"}
    spans = {span.name: span for _, span in collector.spans}
    assert len(collector.spans) == len(spans) == 3
    root, turn, tool = (spans[name] for name in ("command execute", "turn", "tool call"))
    assert (root.parent_span_id, turn.parent_span_id, tool.parent_span_id) == (b"", root.span_id, turn.span_id)
    assert len({span.trace_id for span in spans.values()}) == 1
    request = {one.key: one.value.string_value for one in root.attributes}
    assert (request["interlock.command_id"], request["interlock.tenant_id"]) == (command.id, "default")


def test_a_missing_receiver_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("interlock.gateway.telemetry.spans.FLUSH_TIMEOUT_MS", 100)
    sender = sender_of(os.environ, "1")
    assert sender is not None
    sender.tracer.start_span("turn").end()
    began = time.monotonic()
    Tracing(sender).end()
    assert time.monotonic() - began < 5
