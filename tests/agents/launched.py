"""An ACP agent behind a launcher, as npm packages are: the launcher waits, and its child uses the same pipes.

At SIGTERM the child answers its running prompt with the members in its first argument, a JSON object,
and ends. The launcher's pid is in the text of the first turn, `launcher PID`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn

LIFETIME_S = 600


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def serve(last_words: dict[str, Any]) -> NoReturn:
    prompt_id: Any = None

    def terminated(*_: Any) -> NoReturn:
        send(id=prompt_id, **last_words)
        os._exit(0)

    signal.signal(signal.SIGTERM, terminated)
    signal.alarm(LIFETIME_S)
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"protocolVersion": 1})
            case "session/new":
                send(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                prompt_id = message["id"]
                content = {"type": "text", "text": f"launcher {os.getppid()}"}
                send(method="session/update", params={"sessionId": "s", "update": {
                    "sessionUpdate": "agent_message_chunk", "content": content}})
            case _:
                pass
    os._exit(0)


def main() -> NoReturn:
    child = os.fork()
    if child == 0:
        serve(json.loads(sys.argv[1]))
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
