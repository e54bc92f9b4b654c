"""Mutated frames towards a real gateway, sent by a runner that holds a valid token."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections import defaultdict, deque
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import Class, InvalidFrame, decode_wire, frame_class
from proof.faults.frame_mutation import mutate
from proof.json_value import Json
from proof.processes.stack import Stack
from proof.sessions.output_flood import rss_mib

PATIENCE_S = 30.0
AGENT = "mutant"
STAMP = "2026-11-21T00:00:00.000Z"
QUOTA = {"limit": -1, "used": 0, "unit": "USD"}
USAGE = {"token_usage": {"input_tokens": 1, "output_tokens": 1}, "cost_usage": QUOTA,
         "message_usage": {**QUOTA, "unit": "COUNT"}, "context_window": {}, "time_to_reset": STAMP}

SentFrames = dict[int, list[dict[str, Json]]]
"""The frames that were sent in a session, mutants too, by their number."""


class GatewayFuzz:
    """A gateway process, and the link of a runner to it."""

    def __init__(self, place: Path, draw: Random) -> None:
        self._stack = Stack(place)
        self._draw = draw
        self._links = ExitStack()
        self._link: ClientConnection | None = None
        self._whole: set[str] = set()
        """Message ids of the frames that were not mutated."""
        self._inbox: deque[dict[str, Any]] = deque()
        self._seqs: dict[str, int] = {}
        self.sent = self.links = self.applied = self.refused = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._stack.start("gateway")
        self._stack.until_up()
        self._dial()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._links.close()
        self._stack.down()

    def rss_mib(self) -> float:
        """What the gateway takes."""
        return rss_mib(self._stack.processes["gateway"].pid)

    def log(self) -> str:
        """All that it wrote."""
        return (self._stack.place / "gateway.log").read_text(errors="replace")

    def round(self, count: int) -> None:
        """One session: it is opened, gets `count` mutated frames, and must then take a frame like any other."""
        session, turn, prompt = self._begin()
        sent: SentFrames = defaultdict(list)
        for number in range(count):
            raw = mutate(self._draw.choice(self._frames(session, turn, prompt)), self._draw)
            self._mutant(session, raw, sent)
            if number % 5 == 4:
                self._still_there(session)
        self._still_there(session)
        self._end(session, turn)
        self._check(session, sent)

    # --- a session ---
    def _begin(self) -> tuple[str, str, str]:
        body = {"type": "execute", "target": {"agent_id": AGENT, "workspace": "/"},
                "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "go"}]}]}}
        answer = self._stack.post("/v1/commands", body, f"proof-fuzz-{uuid.uuid4()}")
        if answer.status_code != 202:
            raise AssertionError(f"the command was refused: {answer.text}")
        session = answer.json()["target"]["session_id"]
        opened = self._receive_frame("control.session.open", session)
        self._send_frame(session, "session.capabilities", {
            "dps_version": DPS_VERSION, "features": {"adapter_type": "process", "permission": "asks"},
            "agent": {"agent_id": AGENT, "name": "Mutant"}}, metadata={"in_reply_to": opened["message_id"]})
        prompt = self._receive_frame("control.prompt.request", session)["payload"]["prompt_id"]
        turn = str(uuid.uuid4())
        self._send_frame(session, "session.turn.start", {"turn_id": turn, "turn_index": 0},
                         metadata={"prompt_id": prompt})
        return session, turn, prompt

    def _mutant(self, session: str, raw: bytes, sent: SentFrames) -> None:
        """Send one mutated frame, and keep count of the numbers as a runner does that knows what it sent."""
        self.sent += 1
        try:
            wire = decode_wire(raw)
        except InvalidFrame as error:
            wire = error.wire
        assert self._link is not None
        try:
            self._link.send(raw.decode("utf-8", "replace"))
        except ConnectionClosed:
            self._dial(session)  # An earlier one has cost the link; this one is gone with it.
            return
        numbered = wire is not None and wire.session_id == session and frame_class(wire.type) is Class.DURABLE
        if numbered and wire is not None and wire.seq == self._seqs[session] + 1:
            self._seqs[session] += 1
        _remember(raw, sent)

    def _still_there(self, session: str) -> None:
        """The link is up, or can be made again, and the session takes its next frame."""
        for _ in range(3):
            try:
                seq = self._send_frame(session, "x-proof.still", {"there": True})
                while self._acked.get(session, 0) < seq:
                    self._receive()
                return
            except ConnectionClosed:
                self._dial(session)
        self.wrong.append(f"session {session}: a valid frame was not acknowledged on three links")

    def _end(self, session: str, turn: str) -> None:
        self._send_frame(session, "session.turn.end", {"turn_id": turn, "stop_reason": "end_turn"})
        self._send_frame(session, "session.usage", {"turn_id": turn, **USAGE})
        self._send_frame(session, "session.closed", {"reason": "the round is over"})
        self._still_there(session)

    def _check(self, session: str, sent: SentFrames) -> None:
        """Check that what is kept is what was sent, whole, and each number once."""
        seqs: list[int] = []
        for event in self._stack.pages(f"/v1/sessions/{session}/frames", "events", view="raw"):
            kind = event.get("kind")
            frame: Json = event.get("frame")
            self.applied += kind == "C"
            self.refused += kind == "refused"
            if kind not in ("C", "refused") or not isinstance(frame, dict):
                continue
            seq = frame.get("seq")
            if kind != "C" or not isinstance(seq, int):
                continue  # What was refused may carry any number, and uses none up that is not the next.
            seqs.append(seq)
            mutant = seq in sent and str(frame.get("message_id")) not in self._whole
            if mutant and not any(_same(_kept_apart(each, frame), frame) for each in sent[seq]):
                self.wrong.append(f"session {session}: frame {seq} differs from what was sent")
        if seqs != sorted(set(seqs)):
            self.wrong.append(f"session {session}: numbers come twice or out of order")

    # --- the link ---
    def _dial(self, *sessions: str) -> None:
        """Open a link; the welcome has the next number."""
        self._links.close()
        self.links += 1
        self._inbox.clear()
        self._acked: dict[str, int] = {}
        token = self._stack.token.read_text().strip()
        self._link = self._links.enter_context(connect(
            self._stack.url.replace("http", "ws") + "/rawp", subprotocols=[Subprotocol(DPS_VERSION)], max_size=None,
            max_queue=None, additional_headers={"Authorization": f"Bearer {token}"}))
        listed = [{"session_id": name, "last_seq_sent": self._seqs.get(name, 0), "control_seq": 99, "state": "running"}
                  for name in sessions]
        self._write("x-interlock.hello", {
            "versions": [DPS_VERSION], "runner_id": "local", "boot_id": str(uuid.uuid4()), "sessions": listed,
            "roots": ["/"], "agents": [{"agent_id": AGENT, "adapter": "acp", "adapter_type": "process",
                                        "permission": "asks", "context_owner": "agent"}]})
        for known in self._receive_frame("x-interlock.welcome")["payload"]["sessions"]:
            self._seqs[known["session_id"]] = known["last_durable_seq"]

    def _send_frame(self, session: str, kind: str, payload: Any, **fields: Any) -> int:
        self._seqs[session] = seq = self._seqs.get(session, 0) + 1
        self._write(kind, payload, session_id=session, seq=seq, **fields)
        return seq

    def _write(self, kind: str, payload: Any, **fields: Any) -> None:
        assert self._link is not None
        frame = _frame(kind, payload, **fields)
        self._whole.add(frame["message_id"])
        self._link.send(json.dumps(frame))

    def _receive(self) -> None:
        assert self._link is not None
        frame = json.loads(self._link.recv(PATIENCE_S))
        if frame["type"] == "x-interlock.ack":
            self._acked[frame["payload"]["session_id"]] = frame["payload"]["seq"]
        else:
            self._inbox.append(frame)

    def _receive_frame(self, kind: str, session: str | None = None) -> dict[str, Any]:
        while True:
            while self._inbox:
                frame = self._inbox.popleft()
                if frame["type"] == kind and session in (None, frame.get("session_id")):
                    return frame
            self._receive()

    def _frames(self, session: str, turn: str, prompt: str) -> list[dict[str, Any]]:
        """Make one of each kind that a runner sends, as it should be, with the next number."""
        seq, block = self._seqs[session] + 1, str(uuid.uuid4())
        durable: list[tuple[str, dict[str, Any]]] = [
            ("agent.text.done", {"turn_id": turn, "block_id": block, "text": "whole"}),
            ("agent.thinking.done", {"turn_id": turn, "block_id": block, "text": "thought"}),
            ("agent.interaction.request", {
                "interaction_id": block, "interaction_type": "PERMISSION", "title": "may I",
                "context": {"tool_name": "sh", "input": {"command": "ls"}},
                "options": [{"option_id": "y", "label": "yes", "kind": "allow_once"}]}),
            ("agent.error", {"severity": "warning", "error_code": "X", "message": "careful"}),
            ("agent.file.transfer", {"transfer_id": block, "name": "f", "media_type": "text/plain", "size": 1,
                                     "sha256": hashlib.sha256(b"x").hexdigest(), "purpose": "output",
                                     "content": "eA=="}),
            ("agent.file.transfer", {"transfer_id": block + "2", "name": "g", "media_type": "image/png", "size": 2,
                                     "sha256": hashlib.sha256(b"xx").hexdigest(), "purpose": "output",
                                     "content": "eA==", "chunk": {"index": 0, "count": 2}}),
            ("agent.state.changed", {"state": "running", "previous": "idle"}),
            ("tool.invoke.request", {"invocation_id": block, "turn_id": turn, "tool_name": "sh", "input": {}}),
            ("tool.invoke.result", {"invocation_id": block, "status": "ok", "output_type": "text", "output": "x",
                                    "duration_ms": 1}),
            ("session.compacted", {"summary": "s", "previous_token_count": 2, "current_token_count": 1,
                                   "preserved_elements": {}, "trigger": "auto"}),
            ("session.usage", {"turn_id": turn, **USAGE}),
            ("session.error", {"error_code": "INTERNAL", "message": "m", "fatal": False}),
            ("session.turn.start", {"turn_id": turn, "turn_index": 0}),
            ("x-interlock.interaction.resolved", {"interaction_id": block, "outcome": "denied", "decided_at": STAMP}),
            ("x-vendor.odd", {"any": ["thing"]}),
        ]
        made = [_frame(kind, payload, session_id=session, seq=seq) for kind, payload in durable]
        transient = {"turn_id": turn, "block_id": block, "offset": 0, "text": "delta"}
        made += [_frame("agent.text.delta", transient, session_id=session),
                 _frame("tool.invoke.stream", {"invocation_id": block, "channel": "stdout", "offset": 0, "text": "x"},
                        session_id=session),
                 _frame("x-interlock.ack", {"session_id": session, "seq": 1}),
                 _frame("x-interlock.heartbeat", {"agents": [{"session_id": session, "agent_id": AGENT,
                                                              "state": "running", "turn_id": turn}]}),
                 _frame("session.history", {
                     "frames": [made[0]], "buffer_status": {"policy_applied": "RING", "truncated": False},
                     "last_sync_timestamp": STAMP, "last_message_id": ""}, session_id=session)]
        return made


def _frame(kind: str, payload: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "message_id": str(uuid.uuid4()), "timestamp": STAMP, "payload": payload, **fields}


def _remember(raw: bytes, sent: SentFrames) -> None:
    """Keep what was sent under its number, a history's frames too; only these numbers are looked at."""
    try:
        frame: Json = json.loads(raw)
    except (ValueError, RecursionError):
        return
    payload = frame.get("payload") if isinstance(frame, dict) else None
    inner = payload.get("frames") if isinstance(payload, dict) else None
    for each in (frame, *(inner if isinstance(inner, list) else ())):
        if isinstance(each, dict):
            seq = each.get("seq")
            if isinstance(seq, int):
                sent[seq].append(each)


def _kept_apart(sent: dict[str, Json], kept: dict[str, Json]) -> dict[str, Json]:
    """A file's frame as the stream has it: its bytes are an object, which `metadata.object` names by their digest."""
    payload, metadata = sent.get("payload"), kept.get("metadata")
    if sent.get("type") != "agent.file.transfer" or not isinstance(payload, dict) or not isinstance(metadata, dict):
        return sent
    content, own = payload.get("content") or "", sent.get("metadata") or {}
    if not isinstance(content, str) or not isinstance(own, dict):
        return sent
    try:
        name = hashlib.sha256(base64.b64decode(content, validate=True)).hexdigest()
    except ValueError:
        return sent
    return {**sent, "payload": {**payload, "content": ""}, "metadata": {**own, "object": name}}


def _same(sent: dict[str, Json], kept: dict[str, Json]) -> bool:
    return all(kept.get(name) == sent.get(name) for name in ("type", "payload", "message_id"))
