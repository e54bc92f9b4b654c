"""An ACP agent on standard input and output, with minimal code.

`python -m benchmarks.acp_door.scripted_agent`

At a prompt `fast N` it sends N pieces of text as fast as they are read. At `paced N` it sends one piece at a time,
PACE_S apart, each with the time at which it was sent.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

PIECE_CHARS = 64
PACE_S = 0.02


def piece(number: int) -> str:
    """Return one piece of text, of PIECE_CHARS characters."""
    return f"{number} ".ljust(PIECE_CHARS - 1, ".") + "\n"


def stamp() -> str:
    """Return a piece of text with the present time, in nanoseconds of the clock that all processes share."""
    return f"@{time.monotonic_ns()}\n"


def _send(**members: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")) + "\n")


def _send_text(session_id: str, text: str) -> None:
    _send(method="session/update", params={"sessionId": session_id, "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})


def _prompt(params: dict[str, Any]) -> dict[str, Any]:
    kind, count = params["prompt"][0]["text"].split()
    for number in range(int(count)):
        if kind == "paced":
            time.sleep(PACE_S)
            _send_text(params["sessionId"], stamp())
            sys.stdout.flush()
        else:
            _send_text(params["sessionId"], piece(number))
    return {"stopReason": "end_turn"}


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [],
                          "agentInfo": {"name": "talker", "version": "1"}}
            case "session/new":
                result = {"sessionId": "s"}
            case "session/prompt":
                result = _prompt(message["params"])
            case _:
                result = {}
        if "id" in message:
            _send(id=message["id"], result=result)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
