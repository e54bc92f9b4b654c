"""Mutated frames towards a real runner, sent by a gateway that follows no rules."""

from __future__ import annotations

import hashlib
import json
import queue
import uuid
from collections import Counter, deque
from pathlib import Path
from random import Random
from threading import Thread
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import Class, InvalidFrame, decode_wire, frame_class
from proof.faults.frame_mutation import mutate
from proof.processes.stack import Stack
from proof.sessions.output_flood import rss_mib

PATIENCE_S = 30.0
AGENT = "shell"
STAMP = "2026-11-21T00:00:00.000Z"


class RunnerFuzz:
    """A runner process, and the gateway's end of its links."""

    def __init__(self, place: Path, draw: Random) -> None:
        self._stack = Stack(place)
        self._draw = draw
        self._peers: queue.Queue[tuple[ServerConnection, Any]] = queue.Queue()
        self._link: ServerConnection | None = None
        self._inbox: deque[dict[str, Any]] = deque()
        self._server: Server
        self._seqs: Counter[str] = Counter()
        self._last_received: dict[str, int] = {}
        self._starts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self.sent = self.links = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._server = serve(self._serve, "127.0.0.1", 0, subprotocols=[Subprotocol(DPS_VERSION)], max_size=None,
                             max_queue=None)
        self._stack.runner_url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()
        self._stack.start("runner")
        self._take_link()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.down()
        self._server.shutdown()

    @property
    def applied(self) -> int:
        """Turns that were started."""
        return self._starts.total()

    @property
    def refused(self) -> int:
        """Errors that the runner answered with."""
        return self._answers.total()

    def rss_mib(self) -> float:
        """What the runner takes."""
        return rss_mib(self._stack.processes["runner"].pid)

    def log(self) -> str:
        """All that it wrote."""
        return (self._stack.place / "runner.log").read_text(errors="replace")

    def round(self, count: int) -> None:
        """One session: it is opened, gets `count` mutated frames, and must then run a prompt like any other."""
        session = str(uuid.uuid4())
        self._open(session)
        for _ in range(count):
            self._mutant(session, mutate(self._draw.choice(self._frames(session)), self._draw))
        self._still_works(session)

    # --- a session ---
    def _open(self, session: str) -> None:
        opened = self._send_frame(session, "control.session.open", {
            "session_id": session, "agent_id": AGENT, "workspace": str(self._stack.workspace),
            "workspace_access": "rw"})
        self._receive_frame("session.capabilities", session, opened)

    def _mutant(self, session: str, raw: bytes) -> None:
        self.sent += 1
        try:
            wire = decode_wire(raw)
        except InvalidFrame as error:
            wire = error.wire
        try:
            assert self._link is not None
            self._link.send(raw.decode("utf-8", "replace"))
        except ConnectionClosed:
            self._take_link()
            return
        numbered = wire is not None and wire.session_id == session and frame_class(wire.type) is Class.DURABLE
        if numbered and wire is not None and wire.seq == self._seqs[session] + 1:
            self._seqs[session] += 1

    def _still_works(self, session: str) -> None:
        """Over a new link, whose hello has the numbers: open turns are closed, and a prompt runs to its end."""
        errors: list[str] = []
        for _ in range(3):
            try:
                self._work(session)
                return
            except (ConnectionClosed, TimeoutError) as error:
                errors.append(f"{type(error).__name__}: {error}")
        self.wrong.append(f"session {session}: no prompt ran on three links ({errors[-1]})")

    def _work(self, session: str) -> None:
        assert self._link is not None
        self._link.close(1001)
        self._take_link()
        self._send_frame(session, "control.session.close", {"reason": "the mutants are over"})
        self._open(session)
        prompt = str(uuid.uuid4())
        self._send_frame(session, "control.prompt.request",
                         {"prompt_id": prompt, "input_type": "text", "text": "echo fine", "origin": "user"})
        asked = self._receive_frame("agent.interaction.request", session)["payload"]
        self._send_frame(session, "control.interaction.response", {
            "interaction_id": asked["interaction_id"], "decision": "allow", "by": "proof",
            "option_id": next(each["option_id"] for each in asked["options"] if each["kind"] == "allow_once")})
        ended = self._receive_frame("session.turn.end", session)["payload"]
        if ended["stop_reason"] != "end_turn" or self._starts[prompt] != 1:
            self.wrong.append(f"session {session}: {ended}, started {self._starts[prompt]} times")
        self._send_frame(session, "control.session.close", {"reason": "the round is over"})
        self._receive_frame("session.closed", session)

    # --- the link ---
    def _serve(self, link: ServerConnection) -> None:
        try:
            hello = json.loads(link.recv(PATIENCE_S))["payload"]
        except (ConnectionClosed, TimeoutError):
            return
        self._peers.put((link, hello))
        link.recv_events_thread.join()  # A link is closed when this returns; the proof reads it.

    def _take_link(self) -> None:
        """The next link of the runner, welcomed."""
        self.links += 1
        self._link, hello = self._peers.get(timeout=PATIENCE_S)
        self._inbox.clear()
        known: list[dict[str, Any]] = []
        for session in hello["sessions"]:
            name = session["session_id"]
            self._seqs[name] = session["control_seq"]
            known.append({"session_id": name, "last_durable_seq": self._last_received.get(name, 0)})
        self._link.send(json.dumps(_frame("x-interlock.welcome", {
            "version": DPS_VERSION, "link_id": str(uuid.uuid4()), "gateway_id": "proof", "limits": {},
            "sessions": known})))

    def _send_frame(self, session: str, kind: str, payload: Any) -> str:
        self._seqs[session] += 1
        frame = _frame(kind, payload, session_id=session, seq=self._seqs[session])
        assert self._link is not None
        self._link.send(json.dumps(frame))
        return str(frame["message_id"])

    def _receive_frame(self, kind: str, session: str, reply_to: str | None = None) -> dict[str, Any]:
        """Wait for a frame; take note of all others, and acknowledge."""
        assert self._link is not None
        while True:
            while self._inbox:
                frame = self._inbox.popleft()
                self._note(frame)
                if (frame["type"], frame.get("session_id")) == (kind, session) and reply_to in (
                        None, frame.get("metadata", {}).get("in_reply_to")):
                    return frame
            frame = json.loads(self._link.recv(PATIENCE_S))
            if frame["type"] != "session.history":
                self._inbox.append(frame)
                continue
            for first, last in frame.get("metadata", {}).get("lost_ranges", []):
                # A mutated acknowledgement is an acknowledgement: what it trimmed is reported as gone.
                if first <= self._last_received.get(frame["session_id"], 0) + 1:
                    before = self._last_received.get(frame["session_id"], 0)
                    self._last_received[frame["session_id"]] = max(last, before)
            self._inbox += frame["payload"]["frames"]

    def _note(self, frame: dict[str, Any]) -> None:
        session, seq = frame.get("session_id"), frame.get("seq")
        if session is None or seq is None:
            return
        if seq > self._last_received.get(session, 0) + 1:
            self.wrong.append(f"session {session}: {seq} came after {self._last_received.get(session, 0)}")
        if seq <= self._last_received.get(session, 0):
            return
        self._last_received[session] = seq
        if frame["type"] == "session.turn.start":
            self._starts[frame["metadata"].get("prompt_id")] += 1
        elif frame["type"] == "session.error":
            self._answers[frame["payload"]["error_code"]] += 1
        assert self._link is not None
        self._link.send(json.dumps(_frame("x-interlock.ack", {"session_id": session, "seq": seq})))

    def _frames(self, session: str) -> list[dict[str, Any]]:
        """Make one of each kind that a gateway sends, as it should be, with the next number."""
        some = str(uuid.uuid4())
        durable: list[tuple[str, dict[str, Any]]] = [
            ("control.session.open", {"session_id": session, "agent_id": AGENT, "workspace_access": "rw",
                                      "workspace": str(self._stack.workspace)}),
            ("control.prompt.request", {"prompt_id": some, "input_type": "text", "text": "echo mutant",
                                        "origin": "user"}),
            ("control.interaction.response", {"interaction_id": some, "decision": "deny", "by": "proof"}),
            ("control.interaction.timeout", {"interaction_id": some}),
            ("control.session.compact", {"request_id": some}),
            ("control.mode.switch", {"mode": "plan"}),
            ("control.turn.cancel", {"reason": "mutant"}),
            ("control.turn.pause", {}), ("control.turn.resume", {}),
            ("control.session.release", {"to": "g"}),
            ("session.error", {"error_code": "INTERNAL", "message": "m", "fatal": False}),
            ("x-interlock.interaction.held", {"interaction_id": some, "approval_id": "a", "expires_in_ms": 1_000}),
            ("agent.file.transfer", {"transfer_id": some, "name": "f", "media_type": "text/plain", "size": 1,
                                     "sha256": hashlib.sha256(b"x").hexdigest(), "purpose": "prompt",
                                     "content": "eA=="}),
            ("agent.file.transfer", {"transfer_id": some + "2", "name": "g", "media_type": "image/png", "size": 2,
                                     "sha256": hashlib.sha256(b"xx").hexdigest(), "purpose": "prompt",
                                     "content": "eA==", "chunk": {"index": 0, "count": 2}}),
            ("x-vendor.odd", {"any": ["thing"]}),
        ]
        made = [_frame(kind, payload, session_id=session, seq=self._seqs[session] + 1) for kind, payload in durable]
        return [*made, _frame("x-interlock.ack", {"session_id": session, "seq": 1}),
                _frame("x-interlock.welcome", {"version": DPS_VERSION, "link_id": "l", "gateway_id": "g", "limits": {},
                                               "sessions": []})]


def _frame(kind: str, payload: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "message_id": str(uuid.uuid4()), "timestamp": STAMP, "payload": payload, **fields}
