#!/usr/bin/env python3
"""A program that greets like Claude Code and then does what its prompt's words say: what the real one would not.

| word          | what it does                                                              |
|---------------|---------------------------------------------------------------------------|
| `text:X`      | streams X                                                                 |
| `flood:BYTES` | streams so much text, in chunks of 8 KiB                                  |
| `garbage`     | says a line that is no JSON, and a message that lacks what it must have   |
| `long`        | says a line of 17 MiB, and its result only once it is interrupted         |
| `exit:N`      | exits with N, after last words on its standard error                      |
| `kill:N`      | sends itself the signal N                                                 |
| `ignore-term` | ignores SIGTERM from then on                                              |
| `hang`        | hears and says nothing any more                                           |

Started with `--old` it does not know what a hook that must block is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

CHUNK_BYTES = 8192
LONG_BYTES = 17 << 20
RESULT = {
    "type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1,
    "session_id": "s", "result": "",
}  # fmt: skip


def say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def stream(text: str) -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    say({"type": "stream_event", "uuid": "u", "session_id": "s", "event": delta})


def act(word: str) -> bool:
    """Do what one word says. False where there is no result until it is interrupted."""
    verb, _, rest = word.partition(":")
    if verb == "text":
        stream(rest)
    elif verb == "flood":
        for i in range(int(rest) // CHUNK_BYTES):
            stream(f"{i:010d}" + "x" * (CHUNK_BYTES - 11) + "\n")
    elif verb == "garbage":
        sys.stdout.write("not JSON\n")
        say({"type": "assistant"})
    elif verb == "long":
        say({"type": "assistant", "text": "x" * LONG_BYTES})
        return False
    elif verb == "exit":
        sys.stderr.write("last words\n")
        sys.exit(int(rest))
    elif verb == "kill":
        os.kill(os.getpid(), int(rest))
    elif verb == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif verb == "hang":
        time.sleep(600)
    return True


def answer(request: dict) -> None:
    told = {} if "--old" in sys.argv else {"hook_on_failure_supported": True}
    response = {"subtype": "success", "request_id": request["request_id"], "response": told}
    say({"type": "control_response", "response": response})


def main() -> None:
    waiting = False
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            waiting = not all(act(word) for word in message["message"]["content"].split())
            if not waiting:
                say(RESULT)
        elif message["type"] == "control_request":
            answer(message)
            if waiting and message["request"]["subtype"] == "interrupt":
                waiting = False
                say(RESULT)


if __name__ == "__main__":
    main()
