#!/usr/bin/env python3
"""A program that greets like Claude Code and then runs the words of its prompt, which the real one would not do.

| word          | what it does                                                              |
|---------------|---------------------------------------------------------------------------|
| `text:X`      | streams X                                                                 |
| `flood:BYTES` | streams this much text, in chunks of 8 KiB                                |
| `garbage`     | prints lines that are not JSON, not UTF-8 or nested too deeply, and a       |
|               | message without a required member                                         |
| `long`        | prints a line of 17 MiB, and its result only once it is interrupted         |
| `exit:N`      | exits with N, after a line on its standard error                          |
| `kill:N`      | sends itself the signal N                                                 |
| `ignore-term` | ignores SIGTERM from then on                                              |
| `hang`        | reads and prints nothing any more                                         |
| `state`       | streams its settings                                                      |
| `question:X`  | asks its user X, and streams the answer                                   |
| `write:FILE`  | asks for leave as the real one does, in the hook and again, and streams   |
|               | the input that it was given leave for                                     |

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


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def stream(text: str) -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    send({"type": "stream_event", "uuid": "u", "session_id": "s", "event": delta})


def act(word: str) -> bool:
    """Run one word. False if it has no result until it is interrupted."""
    verb, _, rest = word.partition(":")
    if verb == "text":
        stream(rest)
    elif verb == "flood":
        for i in range(int(rest) // CHUNK_BYTES):
            stream(f"{i:010d}" + "x" * (CHUNK_BYTES - 11) + "\n")
    elif verb == "garbage":
        sys.stdout.write("not JSON\n")
        for levels in (100, 900):  # In one object: one more than is read, and more than any reader's stack holds.
            sys.stdout.write('{"type":"system","subtype":"odd","x":' + "[" * levels + "]" * levels + "}\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(b'{"type":"user","x":"\xff"}\n')
        send({"type": "assistant"})
    elif verb == "long":
        send({"type": "assistant", "text": "x" * LONG_BYTES})
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
    elif verb == "state":
        stream(" ".join(f"{name}={value}" for name, value in sorted(SET.items())))
    elif verb == "question":
        reply = use_tool("AskUserQuestion", {"questions": [{"question": rest, "options": [{"label": "a"}]}]})
        given = reply.get("updatedInput", {}).get("answers", {}).get(rest)
        close_tool()
        stream(f"answer={given}")
    elif verb == "write":
        reply = use_tool("Write", {"file_path": rest, "content": "x"})
        close_tool()
        stream(f"input={reply.get('updatedInput', {}).get('file_path')}")
    return True


SET = {"mode": "default", "model": None, "loaded": "yes" if any(w.startswith("--resume=") for w in sys.argv) else "no"}


def remember() -> None:
    """Store the conversation at the path that the real one uses."""
    for word in sys.argv:
        if word.startswith("--session-id="):
            kept = os.path.join(os.environ["HOME"], ".claude", "projects", "here")
            os.makedirs(kept, exist_ok=True)
            open(os.path.join(kept, word.partition("=")[2] + ".jsonl"), "w").close()


def ask(request: dict) -> dict:
    """Ask through the SDK, and wait for what it answers."""
    send({"type": "control_request", "request_id": f"ask-{time.monotonic_ns()}", "request": request})
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_response":
            return message["response"]["response"]
        answer(message)
    sys.exit(0)


def use_tool(name: str, given: dict) -> dict:
    """Announce a call, and ask for leave: in the hook first, then in the permission callback."""
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}
    send({"type": "assistant", "session_id": "s", "message": {"id": "m", "model": "odd", "content": [block]}})
    reply = ask({"subtype": "hook_callback", "callback_id": HOOKS[0], "tool_use_id": "toolu_1",
                 "input": {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given}})
    if reply.get("hookSpecificOutput", {}).get("permissionDecision") == "deny":
        return {"behavior": "deny", "message": reply["hookSpecificOutput"]["permissionDecisionReason"]}
    return ask({"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": "toolu_1",
                "permission_suggestions": []})


def close_tool() -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done", "is_error": False}
    send({"type": "user", "session_id": "s", "message": {"content": [block]}})


HOOKS: list = []


def answer(request: dict) -> None:
    asked = request["request"]
    if asked["subtype"] == "initialize":
        for matcher in (asked.get("hooks") or {}).get("PreToolUse", []):
            HOOKS.extend(matcher["hookCallbackIds"])
    elif asked["subtype"] == "set_permission_mode":
        SET["mode"] = asked["mode"]
    elif asked["subtype"] == "set_model":
        SET["model"] = asked["model"]
    reply = {} if "--old" in sys.argv else {"hook_on_failure_supported": True}
    response = {"subtype": "success", "request_id": request["request_id"], "response": reply}
    send({"type": "control_response", "response": response})


def main() -> None:
    if "HOME" in os.environ:
        remember()
    waiting = False
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            waiting = not all(act(word) for word in message["message"]["content"].split())
            if not waiting:
                send(RESULT)
        elif message["type"] == "control_request":
            answer(message)
            if waiting and message["request"]["subtype"] == "interrupt":
                waiting = False
                send(RESULT)


if __name__ == "__main__":
    main()
