"""An agent for proofs that costs nearly nothing to start: frames as JSON lines, and the standard library alone.

A prompt is `NAME PIECES PAUSE_MS`: it sends this number of pieces of text, and a file with this name, asks for one tool
call, and after a grant appends NAME to `ran.txt` in the workspace. A prompt that ran twice would show there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
import uuid

TYPE_CHECKING = False
if TYPE_CHECKING:  # The import would take longer than the rest of the start.
    from typing import Any

FILE_BYTES = 1_500


def file_of(name: str) -> bytes:
    """The bytes of the file that belongs to a prompt's name."""
    return (hashlib.sha256(name.encode()).hexdigest() * 32).encode()[:FILE_BYTES]


def send(kind: str, payload: dict[str, Any], /, **metadata: Any) -> None:
    """Write one frame as a line."""
    frame = {"type": kind, "message_id": os.urandom(12).hex(), "metadata": metadata, "payload": payload}
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    """Read one frame; the end of the input is the end of the agent."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def stream_text(turn_id: str, name: str, pieces: int, pause_s: float) -> None:
    """Stream a block of text in pieces, then close it."""
    block, sent_text = os.urandom(6).hex(), ""
    for number in range(pieces):
        piece = f"{name} piece {number} of {pieces}\n"
        send("agent.text.delta", {"turn_id": turn_id, "block_id": block, "offset": len(sent_text), "text": piece})
        sent_text += piece
        time.sleep(pause_s)
    send("agent.text.done", {"turn_id": turn_id, "block_id": block, "text": sent_text})


def send_file(name: str) -> None:
    """Send the file of a prompt."""
    data = file_of(name)
    send("agent.file.transfer", {
        "transfer_id": f"file-{name}", "name": f"{name}.txt", "media_type": "text/plain", "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(), "purpose": "output", "content": base64.b64encode(data).decode()})


def append(turn_id: str, name: str) -> bool:
    """Ask, and append the name after an explicit grant. Returns whether it was cancelled meanwhile."""
    call, asked = os.urandom(6).hex(), os.urandom(6).hex()
    send("tool.invoke.request", {"invocation_id": call, "turn_id": turn_id, "tool_name": "append",
                                 "input": {"path": "ran.txt", "text": name}}, kind="edit")
    options = [{"option_id": "yes", "label": "Yes", "kind": "allow_once"},
               {"option_id": "no", "label": "No", "kind": "reject_once"}]
    send("agent.interaction.request", {"interaction_id": asked, "interaction_type": "PERMISSION", "title": "Append?",
                                       "context": {"tool_name": "append", "invocation_id": call}, "options": options})
    cancelled = False
    while True:
        frame = receive()
        cancelled = cancelled or frame["type"] == "control.turn.cancel"
        if frame["type"] == "control.interaction.response" and frame["payload"]["interaction_id"] == asked:
            break
    result: dict[str, Any] = {"invocation_id": call, "status": "denied", "output_type": "text", "output": "no",
                              "duration_ms": 1}
    if frame["payload"]["decision"] == "allow" and not cancelled:
        place = os.environ["RAWP_WORKSPACE_PATH"] + "/ran.txt"
        ran = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(ran, name.encode() + b"\n")
        os.close(ran)
        send("tool.invoke.stream", {"invocation_id": call, "channel": "stdout", "offset": 0, "text": f"{name} ran\n"})
        result |= {"status": "ok", "output": f"{name} ran\n"}
    send("tool.invoke.result", result)
    return cancelled


def work(prompt: dict[str, Any], index: int) -> None:
    """One prompt, one turn."""
    text = prompt.get("text") or "\n".join(block.get("text", "") for block in prompt["content"])
    name, pieces, pause_ms = text.split()
    turn_id = str(uuid.uuid4())
    send("session.turn.start", {"turn_id": turn_id, "turn_index": index}, prompt_id=prompt["prompt_id"])
    stream_text(turn_id, name, int(pieces), int(pause_ms) / 1000)
    send_file(name)
    cancelled = append(turn_id, name)
    send("session.turn.end", {"turn_id": turn_id, "stop_reason": "cancelled" if cancelled else "end_turn"})
    send("session.usage", {"turn_id": turn_id, "token_usage": {"input_tokens": 1, "output_tokens": 1},
                           "cost_usage": {"limit": -1, "used": 0, "unit": "USD"},
                           "message_usage": {"limit": -1, "used": index + 1, "unit": "COUNT"}, "context_window": {},
                           "time_to_reset": "2100-01-01T00:00:00.000Z"})


def main() -> None:
    """Answer the open, then one prompt after another."""
    turns = 0
    while True:
        frame = receive()
        if frame["type"] == "control.session.open":
            send("session.capabilities", {
                "dps_version": "rawp-dps-1.0", "features": {"adapter_type": "process", "permission": "asks"},
                "agent": {"agent_id": frame["payload"]["agent_id"], "name": "Speaker", "version": "1"}},
                in_reply_to=frame["message_id"])
        elif frame["type"] == "control.prompt.request":
            work(frame["payload"], turns)
            turns += 1


if __name__ == "__main__":
    main()
