"""A program that greets like Claude Code and then says what its prompt's words tell it to: what the real one would not.

| word      | what it says                                                              |
|-----------|---------------------------------------------------------------------------|
| `garbage` | a line that is no JSON, and a message that lacks what it must have        |
| `long`    | a line of 17 MiB, and the result only once it is interrupted              |
| `deaf`    | the same, and it hears no interrupt                                       |
| `exit:N`  | nothing: it exits with N                                                  |

Started with `--old` it does not know what a hook that must block is.
"""

import json
import sys

RESULT = {
    "type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1,
    "session_id": "s", "result": "",
}  # fmt: skip


def say(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def prompted(text: str) -> str:
    """Returns the word that keeps it from answering at once."""
    if text.startswith("exit:"):
        sys.exit(int(text.removeprefix("exit:")))
    if text == "garbage":
        sys.stdout.write("not JSON\n")
        say({"type": "assistant"})
    if text in ("long", "deaf"):
        say({"type": "assistant", "text": "x" * (17 << 20)})
        return text
    say(RESULT)
    return ""


def main() -> None:
    waiting = ""
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            waiting = prompted(message["message"]["content"])
        elif message["type"] == "control_request" and waiting != "deaf":
            told = {} if "--old" in sys.argv else {"hook_on_failure_supported": True}
            answer = {"subtype": "success", "request_id": message["request_id"], "response": told}
            say({"type": "control_response", "response": answer})
            if waiting and message["request"]["subtype"] == "interrupt":
                waiting = ""
                say(RESULT)


if __name__ == "__main__":
    main()
