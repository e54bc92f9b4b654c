"""A runner that sends given frames over a real link, and viewers that count what they receive."""

from __future__ import annotations

import http.client
import socket
import uuid
from typing import Any, Literal

import msgspec

from benchmarks.harness import websocket
from benchmarks.harness.driver import Prepared
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import BATCH, split

AGENT = "bench"
TEXT_BYTES = 120
"""Text of one `agent.text.done`; with its envelope a frame takes some 400 bytes."""
STAMP = "2026-11-21T09:00:00.000Z"

_encode = msgspec.json.encode


class Session:
    """One session with an open turn, and how far it got."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.seq = 0
        self.acked = 0


class ScriptedRunner:
    """The link of a runner. Everything before the measured rounds is done in `open`."""

    def __init__(self, port: int, token: str, owner_key: str, *, runner_id: str = "local", batch: bool = False
                 ) -> None:
        self._port = port
        self._key = owner_key
        self._runner_id = runner_id
        self._numbers = 0
        self.acks = 0
        """Acknowledgements received."""
        self.sock, self._messages = websocket.connect(
            port, "/rawp", {"Authorization": f"Bearer {token}", "Sec-WebSocket-Protocol": DPS_VERSION})
        self.sessions: dict[str, Session] = {}
        self._inbox: list[dict[str, Any]] = []
        self._confirmed = 0
        offer = {"agent_id": AGENT, "adapter": "bench", "adapter_type": "process", "permission": "asks",
                 "context_owner": "agent"}
        self._send_frame("x-interlock.hello", {"versions": [DPS_VERSION], "runner_id": runner_id, "boot_id": "bench",
                                               "agents": [offer], "sessions": [], "roots": ["/"],
                                               "features": [BATCH] if batch else []})
        self._receive_frame("x-interlock.welcome")

    @classmethod
    def paired(cls, port: int, owner_key: str, name: str) -> ScriptedRunner:
        """Pair a runner of its own with the gateway at `port`, and attach it there."""
        given = ask(port, owner_key, "POST", "/v1/runners/pairings", {"device_name": name}, f"pairing-code-{name}-1")
        paired = ask(port, owner_key, "POST", "/v1/runners/pair", {"code": given["code"], "device_name": name},
                     f"pairing-taken-{name}-1")
        return cls(port, paired["token"], owner_key, runner_id=paired["runner_id"])

    def open(self) -> Session:
        """Have a command opened over the API and start its turn; frames may be sent from here on."""
        command = self.request("POST", "/v1/commands", {
            "type": "execute", "target": {"agent_id": AGENT, "workspace": "/", "runner_id": self._runner_id},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "go"}]}]}})
        opened = self._receive_frame("control.session.open")
        session = Session(opened["session_id"], str(uuid.uuid4()))
        self.sessions[session.session_id] = session
        features = {"adapter_type": "process", "permission": "asks"}
        self._send_frame("session.capabilities", {"dps_version": DPS_VERSION, "features": features}, session)
        prompt = self._receive_frame("control.prompt.request")
        assert prompt["payload"]["command_id"] == command["id"], "the prompt is of another command"
        self._send_frame("session.turn.start", {"turn_id": session.turn_id, "turn_index": 0}, session,
                         {"prompt_id": prompt["payload"]["prompt_id"]})
        self._send_frame("x-interlock.ack", {"session_id": session.session_id, "seq": prompt["seq"]})
        self._until_acked()
        return session

    def finish(self, session: Session) -> None:
        """End the session's turn; it stays open, and idle."""
        quota = {"limit": -1, "used": 0, "unit": "USD"}
        self._send_frame("session.turn.end", {"turn_id": session.turn_id, "stop_reason": "end_turn"}, session)
        self._send_frame("session.usage", {
            "turn_id": session.turn_id, "token_usage": {"input_tokens": 0, "output_tokens": 0}, "cost_usage": quota,
            "message_usage": {**quota, "unit": "COUNT"}, "context_window": {}, "time_to_reset": STAMP}, session)
        self._until_acked()

    def frames(self, count: int) -> list[bytes]:
        """Make `count` frames of text, spread evenly over the sessions; they must be sent, since they are numbered."""
        sessions = list(self.sessions.values())
        return [self.text_frame(sessions[at % len(sessions)]) for at in range(count)]

    def text_frame(self, session: Session) -> bytes:
        """Make the next `agent.text.done` of a session."""
        session.seq += 1
        text = f"line {session.seq} ".ljust(TEXT_BYTES, ".")
        payload = {"turn_id": session.turn_id, "block_id": f"b{session.seq}", "text": text}
        return self._frame("agent.text.done", payload, session, {})

    def tend(self) -> None:
        """Keep the link alive between rounds."""
        websocket.tend(self.sock, self._messages, self.confirm)

    def begin_round(self) -> None:
        """Count confirmations from here."""
        self.tend()
        self._confirmed = 0
        self.acks = 0

    def confirm(self, data: bytes) -> int:
        """Take what came from the gateway; gives how many frames it has acknowledged in this round."""
        for message in self._messages.feed(data):
            for raw in split(message):
                self._take(raw)
        return self._confirmed

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the API as the owner. Raises RuntimeError with the problem."""
        self._numbers += 1
        return ask(self._port, self._key, method, path, body, f"benchmark-{self._runner_id}-{self._numbers:08}")

    def acknowledged(self, data: bytes) -> bool:
        """Handle the received messages; return whether an acknowledgement was among them."""
        before = self.acks
        self.confirm(data)
        return self.acks > before

    def sent(self) -> int:
        """Durable frames of all sessions that were numbered and sent so far, those that opened them included."""
        return sum(session.seq for session in self.sessions.values())

    def durable(self) -> int:
        """Frames of all sessions that the gateway acknowledged."""
        return sum(int(self.request("GET", f"/v1/sessions/{name}")["last_durable_seq"]) for name in self.sessions)

    def viewer(self, session: Session) -> Viewer:
        """Attach a viewer to a session, from its start; it has seen all there is when this returns."""
        return Viewer(self._port, self._key, session)

    def close(self) -> None:
        """Cut the link."""
        self.sock.close()

    # --- words ---
    def _frame(self, kind: str, payload: Any, session: Session | None, metadata: dict[str, Any]) -> bytes:
        self._numbers += 1
        frame: dict[str, Any] = {"type": kind, "payload": payload,
                                 "message_id": f"00000000-0000-4000-8000-{self._numbers:012x}"}
        if session is not None:
            frame |= {"session_id": session.session_id, "seq": session.seq}
        frame |= {"timestamp": STAMP}
        return _encode(frame | ({"metadata": metadata} if metadata else {}))

    def _send_frame(
        self, kind: str, payload: Any, session: Session | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        if session is not None:
            session.seq += 1
        self.sock.sendall(websocket.message(self._frame(kind, payload, session, metadata or {})))

    def _receive_frame(self, kind: str) -> dict[str, Any]:
        """Wait for a frame of the gateway of this type."""
        while True:
            for at, frame in enumerate(self._inbox):
                if frame["type"] == kind:
                    return self._inbox.pop(at)
            self.confirm(self.sock.recv(websocket.RECEIVE_BYTES))

    def _until_acked(self) -> None:
        while any(session.acked < session.seq for session in self.sessions.values()):
            self.confirm(self.sock.recv(websocket.RECEIVE_BYTES))

    def _take(self, raw: bytes) -> None:
        frame = msgspec.json.decode(raw)
        if frame["type"] != "x-interlock.ack":
            self._inbox.append(frame)
            return
        self.acks += 1
        session = self.sessions[frame["payload"]["session_id"]]
        self._confirmed += max(0, frame["payload"]["seq"] - session.acked)
        session.acked = max(session.acked, frame["payload"]["seq"])


def delta_message(session: Session, offset: int, text: str, kind: Literal["text", "thinking"] = "text",
                  omitted: int = 0) -> bytes:
    """Make the message with one piece of a block that stays open; `offset` counts the characters before it, of which
    `omitted` were left out."""
    frame = {"type": f"agent.{kind}.delta", "message_id": str(uuid.uuid4()), "session_id": session.session_id,
             "payload": {"turn_id": session.turn_id, "block_id": kind, "offset": offset, "text": text},
             "timestamp": STAMP, **({"metadata": {"omitted": omitted}} if omitted else {})}
    return websocket.message(_encode(frame))


def ask(port: int, owner_key: str, method: str, path: str, body: Any, key: str) -> Any:
    """One request to the API as the owner; with a body under an idempotency key. Raises RuntimeError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {owner_key}"}
    if body is not None:
        headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
    connection.request(method, path, _encode(body) if body is not None else None, headers)
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {raw.decode()}")
    return msgspec.json.decode(raw)


class Viewer:
    """One reader of server-sent events, over a connection of its own."""

    def __init__(self, port: int, key: str, session: Session) -> None:
        self._session = session
        self.seen: int = 0
        """Frames of the runner seen so far; those of the gateway are counted apart."""
        self._target = 0
        self._carry: bytes = b""
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.sendall((f"GET /v1/sessions/{session.session_id}/frames HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                           f"Accept: text/event-stream\r\nAuthorization: Bearer {key}\r\n\r\n").encode())
        head, rest = websocket.read_head(self.sock)
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError((head + rest)[:400].decode(errors="replace"))
        self._target = session.seq
        self.feed(rest or b"\r\n")
        while not self.done:
            self.feed(self.sock.recv(websocket.RECEIVE_BYTES))

    def feed(self, data: bytes) -> None:
        """Count the runner's frames. An event is never split between two writes of the gateway, so none is split by
        the transfer coding; only the edge between two reads needs care. Raises ConnectionError at the end."""
        if not data:
            raise ConnectionError("the gateway ended a viewer's stream")
        data = self._carry + data
        self.seen += data.count(RUNNERS)
        self._carry = data[-(len(RUNNERS) - 1):]

    def expect_all(self) -> None:
        """Wait for all that the session was given numbers for."""
        self._target = self._session.seq

    @property
    def done(self) -> bool:
        """Whether every frame has come."""
        return self.seen >= self._target


RUNNERS = b',"kind":"C","frame":'
"""Occurs once in every event that shows a frame of the runner."""


def prepared(frames: list[bytes]) -> Prepared:
    """Dress frames as WebSocket messages, one frame a message."""
    return Prepared.of([websocket.message(frame) for frame in frames])


def prepared_batches(frames: list[bytes], a_message: int) -> Prepared:
    """Dress frames as they go out under backlog: `a_message` at once, as JSON lines."""
    data, ends = bytearray(), list[int]()
    for first in range(0, len(frames), a_message):
        together = frames[first:first + a_message]
        data += websocket.message(b"\n".join(together))
        ends += [len(data)] * len(together)
    return Prepared(bytes(data), ends)


