"""A runner with a valid token that follows no rules: it sends what a test specifies."""

from __future__ import annotations

import itertools
import json
import uuid
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from interlock.protocol.envelope import DPS_VERSION
from proof.processes.stack import Stack

PATIENCE_S = 20.0
AGENT = "rogue"


class Rogue:
    """One link. Frames are dictionaries; `raw` sends any bytes."""

    def __init__(self, stack: Stack, token: str | None = None) -> None:
        address = stack.url.replace("http", "ws") + "/rawp"
        token = stack.token.read_text().strip() if token is None else token
        headers = {"Authorization": f"Bearer {token}"}
        self._dialling = partial(connect, address, subprotocols=[Subprotocol(DPS_VERSION)], max_size=None,
                                 max_queue=None, additional_headers=headers)
        self._links = ExitStack()
        self.link: ClientConnection
        self.seqs: dict[str, itertools.count[int]] = {}

    def __enter__(self) -> Self:
        self.link = self._links.enter_context(self._dialling())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._links.close()

    def raw(self, message: str | bytes) -> None:
        """Send anything."""
        self.link.send(message)

    def send_frame(self, kind: str, payload: Any, session_id: str | None = None, **fields: Any) -> dict[str, Any]:
        """Send a frame; a durable one of a session gets its next seq, unless `seq` is given."""
        frame: dict[str, Any] = {"type": kind, "message_id": str(uuid.uuid4()), "payload": payload,
                                 "timestamp": "2026-11-21T00:00:00.000Z"}
        if session_id is not None:
            frame["session_id"] = session_id
            if "seq" not in fields:
                fields["seq"] = next(self.seqs.setdefault(session_id, itertools.count(1)))
        frame |= {name: value for name, value in fields.items() if value is not None}
        self.raw(json.dumps(frame))
        return frame

    def hello(self, **changes: Any) -> None:
        """Open as a runner that offers one agent."""
        self.send_frame("x-interlock.hello", {
            "versions": [DPS_VERSION], "runner_id": "local", "boot_id": str(uuid.uuid4()), "sessions": [],
            "roots": ["/"], "agents": [{"agent_id": AGENT, "adapter": "acp", "adapter_type": "process",
                                        "permission": "asks", "context_owner": "agent"}], **changes})

    def receive(self, kind: str, session_id: str | None = None) -> dict[str, Any]:
        """Wait for a frame of a type, of a session if one is named; others are passed over. Raises ConnectionClosed."""
        while True:
            frame = json.loads(self.link.recv(PATIENCE_S))
            if frame["type"] == kind and frame.get("session_id") == (session_id or frame.get("session_id")):
                return frame

    def closed(self) -> int:
        """Wait until the gateway closes the link; gives the code."""
        try:
            while True:
                self.link.recv(PATIENCE_S)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 1006

    def opened(self, session_id: str) -> None:
        """Answer an open as an agent that is there."""
        order = self.receive("control.session.open", session_id)
        self.send_frame("session.capabilities", {
            "dps_version": DPS_VERSION, "features": {"adapter_type": "process", "permission": "asks"},
            "agent": {"agent_id": AGENT, "name": "Rogue"}}, session_id,
            metadata={"in_reply_to": order["message_id"]})

    def started(self, session_id: str) -> str:
        """Start the prompt's turn and return its id."""
        prompt = self.receive("control.prompt.request", session_id)
        turn_id = str(uuid.uuid4())
        self.send_frame("session.turn.start", {"turn_id": turn_id, "turn_index": 0}, session_id,
                        metadata={"prompt_id": prompt["payload"]["prompt_id"]})
        return turn_id

    def ended(self, session_id: str, turn_id: str) -> None:
        """End the turn as it should."""
        self.send_frame("session.turn.end", {"turn_id": turn_id, "stop_reason": "end_turn"}, session_id)
        quota = {"limit": -1, "used": 0, "unit": "USD"}
        self.send_frame("session.usage", {
            "turn_id": turn_id, "token_usage": {"input_tokens": 1, "output_tokens": 1}, "cost_usage": quota,
            "message_usage": {**quota, "unit": "COUNT"}, "context_window": {},
            "time_to_reset": "2026-12-01T00:00:00.000Z"}, session_id)
