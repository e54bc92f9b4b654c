"""An agent for proofs of clocks: each turn lasts until its cancel, whose time on the monotonic clock is recorded.

A prompt is a name. `begun.txt` and `rang.txt` in the workspace get lines `NAME MILLISECONDS`, one for each turn's start
and one for each received cancel, so a repeated cancel would show. The standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid

TYPE_CHECKING = False
if TYPE_CHECKING:  # The import would take longer than the rest of the start.
    from typing import Any


def send(kind: str, payload: dict[str, Any], /, **metadata: Any) -> None:
    """Write one frame as a line."""
    frame = {"type": kind, "message_id": os.urandom(12).hex(), "metadata": metadata, "payload": payload}
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def note(where: str, name: str) -> None:
    """Append a line, at once and as a whole."""
    line = f"{name} {time.clock_gettime(time.CLOCK_BOOTTIME) * 1000:.1f}\n"
    file = os.open(f"{os.environ['RAWP_WORKSPACE_PATH']}/{where}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode())
    os.close(file)


def main() -> None:
    """Answer the open; begin a turn with each prompt, and end it with its cancel."""
    name = turn_id = ""
    turns = 0
    for line in iter(sys.stdin.readline, ""):
        frame = json.loads(line)
        payload = frame["payload"]
        if frame["type"] == "control.session.open":
            send("session.capabilities", {
                "dps_version": "rawp-dps-1.0", "features": {"adapter_type": "process", "permission": "asks"},
                "agent": {"agent_id": payload["agent_id"], "name": "Patient", "version": "1"}},
                in_reply_to=frame["message_id"])
        elif frame["type"] == "control.prompt.request":
            name = payload.get("text") or "\n".join(block.get("text", "") for block in payload["content"])
            turn_id = str(uuid.uuid4())
            note("begun", name)
            send("session.turn.start", {"turn_id": turn_id, "turn_index": turns}, prompt_id=payload["prompt_id"])
            turns += 1
        elif frame["type"] == "control.turn.cancel":
            note("rang", name)
            send("session.turn.end", {"turn_id": turn_id, "stop_reason": "cancelled"})
            send("session.usage", {"turn_id": turn_id, "token_usage": {"input_tokens": 1, "output_tokens": 1},
                                   "cost_usage": {"limit": -1, "used": 0, "unit": "USD"},
                                   "message_usage": {"limit": -1, "used": turns, "unit": "COUNT"},
                                   "context_window": {}, "time_to_reset": "2100-01-01T00:00:00.000Z"})


if __name__ == "__main__":
    main()
