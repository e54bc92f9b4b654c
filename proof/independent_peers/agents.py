"""Programs for our runner to drive: `exec WORDS…` for one process a turn, `dps` for one that stays.

The standard library alone. Words of a prompt: `exit N`, `signal N`, `environment`, `stay` and, with dps, `stop REASON`,
`ask`, `compact TRIGGER`, `say COUNT`, `later`, `wait`. `stay` and `dps stubborn` ignore SIGTERM and write when it came;
`dps killed` dies of it, as if SIGKILL had been sent at once.
"""

import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

VARIABLES = ("RAWP_SESSION_ID", "RAWP_WORKSPACE_PATH", "RAWP_DPS_VERSION")
COMPACTED = {
    "summary": "what was said", "previous_token_count": 900, "current_token_count": 90,
    "preserved_elements": {"files_modified": ["a.py"], "decisions_made": ["keep it"],
                           "errors_encountered": ["none open"], "active_todos": [{"text": "test it"}]},
}


def environment() -> str:
    """The variables of 17.2.1, and the directory that it was started in."""
    return json.dumps({name: os.environ.get(name) for name in VARIABLES} | {"cwd": str(Path.cwd())})


def note(word: str) -> None:
    """Write a word and the time into a file of this process."""
    with Path(f"{os.getpid()}.log").open("a") as file:
        file.write(f"{word} {time.time()}\n")


def stay(die: bool) -> None:
    """Ignore SIGTERM, and note when it comes; or die of it at once."""
    def on_term(_number: int, _frame: FrameType | None) -> None:
        note("TERM")
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGTERM, on_term)
    note("ready")


def leave(kind: str, number: int) -> None:
    """Exit with a status, or die of a signal."""
    if kind == "exit":
        os._exit(number)
    os.kill(os.getpid(), number)
    time.sleep(60)


def run_exec(words: list[str]) -> None:
    """One prompt, one process."""
    if words[0] in ("exit", "signal"):
        print("working", flush=True)
        leave(words[0], int(words[1]))
    if words[0] == "environment":
        print(environment())
    elif words[0] == "stay":
        stay(die=False)
        while True:
            time.sleep(60)
    elif words[0] == "say":
        time.sleep(float(words[2]))
        print("x" * int(words[1]))


def send(kind: str, payload: dict[str, Any], **metadata: Any) -> None:
    """Write one frame as a line."""
    frame: dict[str, Any] = {"type": kind, "message_id": str(uuid.uuid4()), "payload": payload}
    sys.stdout.write(json.dumps(frame | ({"metadata": metadata} if metadata else {})) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    """Read one frame; at the end of the input it leaves, unless it is one that stays."""
    line = sys.stdin.readline()
    if line:
        return json.loads(line)
    if "stubborn" in sys.argv or "killed" in sys.argv:
        while True:
            time.sleep(60)
    sys.exit(0)


def text(turn_id: str, content: str) -> None:
    """A block of text, whole."""
    send("agent.text.done", {"turn_id": turn_id, "block_id": str(uuid.uuid4()), "text": content})


def end(turn_id: str, stop_reason: str) -> None:
    """The end of a turn, and its usage with each optional field left out."""
    send("session.turn.end", {"turn_id": turn_id, "stop_reason": stop_reason})
    send("session.usage", {"token_usage": {"input_tokens": 3, "output_tokens": 2},
                           "cost_usage": {"limit": -1, "used": 0, "unit": "USD"},
                           "message_usage": {"limit": -1, "used": 1, "unit": "COUNT"}, "context_window": {},
                           "time_to_reset": "2030-01-01T00:00:00Z"})


def ask(turn_id: str) -> None:
    """A tool call that is held (17.3.1): it leaves a file only after an allow."""
    call, asked = str(uuid.uuid4()), str(uuid.uuid4())
    send("tool.invoke.request", {"invocation_id": call, "turn_id": turn_id, "tool_name": "touch", "input": {"a": 1}})
    send("agent.interaction.request", {
        "interaction_id": asked, "interaction_type": "PERMISSION", "title": "Touch it?",
        "context": {"tool_name": "touch", "invocation_id": call},
        "options": [{"option_id": "y", "label": "Yes", "kind": "allow_once"},
                    {"option_id": "n", "label": "No", "kind": "reject_once"}]})
    while (frame := receive())["type"] not in ("control.interaction.response", "control.interaction.timeout"):
        pass
    allowed = frame["payload"].get("decision") == "allow"
    if allowed:
        Path("touched").touch()
    send("tool.invoke.result", {"invocation_id": call, "status": "ok" if allowed else "denied", "output_type": "text",
                                "output": "", "duration_ms": 1})


def work(prompt: dict[str, Any], turns: int) -> int:
    """One prompt: a turn or, for `stop tool_use`, two. Returns how many turns there have been."""
    words: list[str] = prompt["text"].split()
    turn_id = str(uuid.uuid4())
    send("session.turn.start", {"turn_id": turn_id, "turn_index": turns}, prompt_id=prompt["prompt_id"])
    stop = "end_turn"
    if words[0] in ("exit", "signal"):
        text(turn_id, "working")
        leave(words[0], int(words[1]))
    elif words[0] == "environment":
        text(turn_id, environment())
    elif words[0] == "ask":
        ask(turn_id)
    elif words[0] == "say":
        for number in range(int(words[1])):
            text(turn_id, f"block {number}")
    elif words[0] == "later":
        while not Path("go").exists():
            time.sleep(0.01)
        text(turn_id, "later")
    elif words[0] == "compact":
        send("session.compacted", COMPACTED | {"trigger": words[1]})
    elif words[0] == "stop":
        stop = words[1]
        if stop == "error":
            send("agent.error", {"severity": "error", "error_code": "BROKEN", "message": "it broke"})
    elif words[0] == "wait":
        while receive()["type"] != "control.turn.cancel":
            pass
        stop = "cancelled"
    end(turn_id, stop)
    if stop == "tool_use":
        work({**prompt, "text": "stop end_turn"}, turns + 1)
        return turns + 2
    return turns + 1


def run_dps(words: list[str]) -> NoReturn:
    """Answer the open, then one prompt after another."""
    if words:
        stay(die=words[0] == "killed")
    turns = 0
    while True:
        frame = receive()
        kind, payload = frame["type"], frame["payload"]
        if kind == "control.session.open":
            features = {"permission": "asks", "context_compaction": "compacts" in words}
            send("session.capabilities", {"dps_version": "rawp-dps-1.0", "features": features,
                                          "agent": {"agent_id": payload["agent_id"], "name": "Peer's agent"}},
                 in_reply_to=frame["message_id"])
        elif kind == "control.prompt.request":
            turns = work(payload, turns)
        elif kind == "control.session.compact":
            send("session.compacted", COMPACTED | {"trigger": "requested", "request_id": payload["request_id"]},
                 in_reply_to=frame["message_id"])


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "exec":
        run_exec(" ".join(rest).split())
    else:
        run_dps(rest)
