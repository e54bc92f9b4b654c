"""An agent that uses RAWP-DPS on stdio and runs the words of its prompt in order; some of them break the rules.

Standard library only: it runs under `python -I -S`. Words, each with its arguments after colons:

| word                  | what happens                                                                          |
|-----------------------|---------------------------------------------------------------------------------------|
| `text:WORD` `think:WORD` | a block of one delta, not closed until the end or `close`                           |
| `grow:WORD`           | a delta more of the last block of text                                                |
| `close`               | `.done` for each open block                                                           |
| `done:WORD`           | a `.done` without deltas                                                              |
| `overlap` `hole` `contradict` | a delta sent twice in part; one past a hole; a `.done` that is another text    |
| `flood:BYTES`         | this much text in chunks of 8 KiB                                                       |
| `tool:FILE`           | asks, and writes FILE in its workspace only after a grant                             |
| `free-tool`           | a tool call that asks for nothing, with output on two channels                        |
| `open-tool`           | a tool call that is never closed                                                      |
| `ask-other` `ask-unknown` `ask-question` | questions that are refused, each denied before it continues        |
| `ask-twice`           | two permissions under one id; the decisions come back as text                         |
| `subagent`            | a call of "Task" and one beneath it                                                   |
| `usage`               | usage in mid-turn                                                                     |
| `compact:TRIGGER`     | `session.compacted`                                                                   |
| `vendor`              | `x-acme.progress` and `agent.mood`, types that no one knows                           |
| `error:SEVERITY:CODE` | `agent.error`                                                                         |
| `fatal:CODE`          | `session.error`, fatal                                                                |
| `stop:REASON`         | the stop reason of the turn's end; `tool_use` is followed by another turn             |
| `refuse:CODE`         | `session.error` in reply to the prompt, no turn                                       |
| `no-usage`            | no usage after the turn's end                                                         |
| `after`               | text and a compaction after the turn's end                                            |
| `garbage` `bad-frames` | lines that are not JSON or not UTF-8; frames of a wrong shape                           |
| `noise:SEED:COUNT`    | this many frames with a byte changed, lost or doubled, none of them answered           |
| `line:BYTES`          | one line of this many bytes                                                            |
| `state`               | text: the settings of the open and of the prompt                                      |
| `question:WORD`       | a QUESTION; its answer comes back as text                                             |
| `pause` `stand` `hear-pause` | waits for a pause, then reports it and waits for the resume; pauses itself; continues |
| `exit:CODE` `kill:N` `hang` `close-stdout` `ignore-term` `wait` | as in `misbehaving.py`                      |
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from typing import Any

LIFETIME_S = 120
VERSION = "rawp-dps-1.0"


class Agent:
    def __init__(self, start: str) -> None:
        self.start = start
        self.workspace = "."
        self.turns = 0
        self.cost = 0.0
        self.errors: list[dict[str, Any]] = []

    def send(self, kind: str, payload: dict[str, Any], **envelope: Any) -> None:
        self.write(json.dumps({"type": kind, "payload": payload, **envelope}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def read(self) -> dict[str, Any]:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        frame = json.loads(line)
        if frame["type"] == "session.error":
            self.errors.append(frame)
        return frame

    def until(self, *kinds: str) -> dict[str, Any]:
        while True:
            frame = self.read()
            if frame["type"] in kinds:
                return frame

    def serve(self) -> None:
        while True:
            frame = self.read()
            payload = frame["payload"]
            if frame["type"] == "control.session.open":
                self.open(payload)
            elif frame["type"] == "control.prompt.request":
                Turn(self, frame).run(payload.get("text") or "")
            elif frame["type"] == "control.session.compact":
                self.compact(frame)
            elif frame["type"] == "control.mode.switch":
                self.send("x-acme.mode", {"mode": payload["mode"]})

    def open(self, payload: dict[str, Any]) -> None:
        self.workspace = payload["workspace"]
        self.opened = payload
        if self.start == "refuse":
            self.send("session.error", {"error_code": "UNAUTHORIZED", "message": "log in first", "fatal": True})
            time.sleep(LIFETIME_S)
        features: dict[str, Any] = {"adapter_type": "process", "permission": "asks", "context_compaction": True,
                                    "plan_mode": True, "thinking": True}
        if self.start == "able":
            features.update(dict.fromkeys(("resume_session", "model_switch", "prompt_options", "system_append",
                                           "questions", "updated_input", "read_only"), True))
        if self.start == "never":
            features["permission"] = "never"
        if self.start == "odd":
            features["pause"] = "sometimes"
        if self.start == "boundary":
            features["pause"] = "boundary"
        version = "rawp-dps-9.0" if self.start == "version" else VERSION
        agent = {"agent_id": "words", "name": "Words", "version": "1", "model": "none"}
        self.send("session.capabilities", {"dps_version": version, "features": features, "agent": agent})

    def compact(self, frame: dict[str, Any]) -> None:
        if frame["payload"].get("instructions") == "fail":
            error = {"error_code": "COMPACTION_FAILED", "message": "nothing to compact", "fatal": False}
            self.send("session.error", error, metadata={"in_reply_to": frame["message_id"]})
        elif frame["payload"].get("instructions") == "exit":
            os._exit(3)
        elif frame["payload"].get("instructions") == "long":
            self.compacted("requested", "so far so good " * 60_000)
        elif frame["payload"].get("instructions") != "hang":
            self.compacted("requested")

    def compacted(self, trigger: str, summary: str = "so far so good") -> None:
        self.send("session.compacted", {
            "summary": summary, "previous_token_count": 900, "current_token_count": 90,
            "preserved_elements": {"files_modified": ["a.txt"]}, "trigger": trigger})


class Turn:
    def __init__(self, agent: Agent, frame: dict[str, Any]) -> None:
        self.agent = agent
        self.request = frame
        self.prompt_id = frame["payload"]["prompt_id"]
        self.stop = "end_turn"
        self.usage = True
        self.after = False
        self.begun = False
        self.ended = False
        self.calls = 0
        self.begin()

    def begin(self) -> None:
        self.agent.turns += 1
        self.turn_id = str(uuid.uuid4())
        self.blocks: dict[str, tuple[str, str]] = {}

    def send(self, kind: str, **payload: Any) -> None:
        if not self.begun:
            self.begun = True
            start = {"turn_id": self.turn_id, "turn_index": 6 + self.agent.turns}
            self.agent.send("session.turn.start", start, metadata={"prompt_id": self.prompt_id})
        self.agent.send(kind, payload)

    def run(self, text: str) -> None:
        for word in text.split():
            name, *arguments = word.split(":")
            found = getattr(self, "do_" + name.replace("-", "_"), None)
            if found is not None:
                found(*arguments)
            if self.ended:
                return
        self.end()

    def end(self) -> None:
        self.do_close()
        self.send("session.turn.end", turn_id=self.turn_id, stop_reason=self.stop)
        if self.usage:
            self.agent.cost += 0.25
            self.report_usage()
        if self.after:
            self.send("agent.text.delta", turn_id=self.turn_id, block_id="late", offset=0, text="late")
            self.agent.compacted("manual")
        if self.stop == "tool_use":
            self.stop, self.begun = "end_turn", False
            self.begin()
            self.do_text("more")
            self.end()

    def report_usage(self) -> None:
        self.send("session.usage", turn_id=self.turn_id, token_usage={"input_tokens": 11, "output_tokens": 22},
                  cost_usage={"limit": -1, "used": self.agent.cost, "unit": "USD"},
                  message_usage={"limit": -1, "used": 1, "unit": "COUNT"},
                  context_window={"capacity": 1000, "used": 250}, time_to_reset="2030-01-01T00:00:00.000Z")

    # --- text ---
    def stream_text(self, kind: str, text: str, block: str | None = None) -> None:
        block = block or f"b{len(self.blocks)}"
        self.send(f"agent.{kind}.delta", turn_id=self.turn_id, block_id=block, offset=0, text=text)
        self.blocks[block] = (kind, text)

    def do_state(self) -> None:
        asked, opened = self.request["payload"], self.agent.opened
        report = {"loaded": "yes" if opened.get("resume") else "no", "access": opened["workspace_access"],
                  "mode": asked.get("mode"), "model": asked.get("model"), "effort": (asked.get("options") or {}).get(
                    "thinking"), "system": asked.get("system_append"), "silent": asked.get("silent")}
        self.do_text(" ".join(f"{name}={value}" for name, value in sorted(report.items())))

    def do_question(self, word: str) -> None:
        self.send("agent.interaction.request", interaction_id=f"q-{word}", interaction_type="QUESTION", title=word,
                  context={"tool_name": "ask", "input": {"question": word}})
        answer = self.agent.until("control.interaction.response")["payload"]
        self.do_text(f"answer={answer.get('answer')}")

    def do_text(self, word: str = "hello") -> None:
        self.stream_text("text", word)

    def do_grow(self, word: str) -> None:
        block = next(name for name, (kind, _) in reversed(self.blocks.items()) if kind == "text")
        before = self.blocks[block][1]
        self.send("agent.text.delta", turn_id=self.turn_id, block_id=block, offset=len(before), text=word)
        self.blocks[block] = ("text", before + word)

    def do_think(self, word: str = "hm") -> None:
        self.stream_text("thinking", word)

    def do_close(self) -> None:
        for block, (kind, text) in self.blocks.items():
            self.send(f"agent.{kind}.done", turn_id=self.turn_id, block_id=block, text=text)
        self.blocks.clear()

    def do_done(self, word: str) -> None:
        self.send("agent.text.done", turn_id=self.turn_id, block_id="whole", text=word)

    def piece(self, offset: int, text: str) -> None:
        self.send("agent.text.delta", turn_id=self.turn_id, block_id="p", offset=offset, text=text)

    def do_overlap(self) -> None:
        self.piece(0, "abc")
        self.piece(1, "bcdé")
        self.piece(0, "ab")
        self.send("agent.text.done", turn_id=self.turn_id, block_id="p", text="abcdéf")

    def do_hole(self) -> None:
        self.piece(0, "abc")
        self.piece(5, "zzz")
        self.piece(-1, "zzz")

    def do_contradict(self) -> None:
        self.piece(0, "abc")
        self.send("agent.text.done", turn_id=self.turn_id, block_id="p", text="xyz")

    def do_flood(self, count: str = str(2**20)) -> None:
        for index in range(int(count) // 8192):
            text = f"{index:010d}" + "x" * 8181 + "\n"
            self.send("agent.text.delta", turn_id=self.turn_id, block_id="flood", offset=index * 8192, text=text)

    # --- tools ---
    def call(self, tool: str, given: dict[str, Any], **fields: Any) -> str:
        self.calls += 1
        name = f"call-{self.calls}"
        self.send("tool.invoke.request", invocation_id=name, turn_id=self.turn_id, tool_name=tool, input=given,
                  **fields)
        return name

    def ask(self, name: str | None, tool: str, **fields: Any) -> dict[str, Any]:
        kind = fields.pop("interaction_type", "PERMISSION")
        context = {"tool_name": tool, **({"invocation_id": name} if name else {}), **fields}
        self.calls += 1
        asked = f"ask-{self.calls}"
        options = [{"option_id": "go", "label": "Go", "kind": "allow_once"},
                   {"option_id": "stop", "label": "Stop", "kind": "reject_once"}]
        self.send("agent.interaction.request", interaction_id=asked, interaction_type=kind, title=f"may I {tool}?",
                  context=context, options=options)
        while True:
            answer = self.agent.until("control.interaction.response")["payload"]
            if answer["interaction_id"] == asked:
                return answer

    def do_tool(self, file: str = "written.txt") -> None:
        name = self.call("write", {"path": file, "size": 1e2})
        answer = self.ask(name, "write", input={"size": 100.0, "path": file})
        allowed = answer["decision"] == "allow" and answer["option_id"] == "go"
        if allowed:
            with open(os.path.join(self.agent.workspace, file), "w") as out:
                out.write("written")
        status = "ok" if allowed else "denied"
        self.result(name, status, "written" if allowed else str(answer.get("message")))

    def result(self, name: str, status: str, output: Any, output_type: str = "text") -> None:
        self.send("tool.invoke.result", invocation_id=name, status=status, output_type=output_type, output=output,
                  duration_ms=1)

    def stream(self, name: str, channel: str, offset: int, text: str) -> None:
        self.send("tool.invoke.stream", invocation_id=name, channel=channel, offset=offset, text=text)

    def do_free_tool(self) -> None:
        name = self.call("ls", {}, title="list")
        self.stream(name, "stdout", 0, "one\n")
        self.stream(name, "stdout", 2, "e\ntwo\n")
        self.stream(name, "stderr", 0, "oh\n")
        self.result(name, "ok", None, "empty")

    def do_open_tool(self) -> None:
        self.call("never-done", {})

    def do_subagent(self) -> None:
        above = self.call("Task", {"description": "look", "prompt": "look around"})
        below = self.call("ls", {}, parent_invocation_id=above)
        self.result(below, "ok", "found")
        self.result(above, "ok", "all seen", "agent_result")

    def do_ask_other(self) -> None:
        name = self.call("write", {"path": "harmless"})
        self.deliver(self.ask(name, "write", input={"path": "/etc/passwd"}))
        self.deliver(self.ask(name, "read"))

    def do_ask_unknown(self) -> None:
        self.deliver(self.ask("nothing", "write"))

    def do_ask_question(self) -> None:
        self.deliver(self.ask(None, "which?", interaction_type="QUESTION"))

    def do_ask_twice(self) -> None:
        self.ask_once("same", "harmless")
        self.ask_once("same", "harmful")
        for _ in range(2):
            self.do_text(self.agent.until("control.interaction.response")["payload"]["decision"] + ";")

    def ask_once(self, interaction_id: str, tool: str) -> None:
        options = [{"option_id": "go", "label": "Go", "kind": "allow_once"}]
        self.send("agent.interaction.request", interaction_id=interaction_id, interaction_type="PERMISSION",
                  title=f"may I {tool}?", context={"tool_name": tool, "input": {"tool": tool}}, options=options)

    def do_ask_bare(self) -> None:
        self.deliver(self.ask(None, "dig", input={"deep": True}))

    def deliver(self, answer: dict[str, Any]) -> None:
        self.stream_text("text", answer["decision"] + ";", f"t{self.calls}")

    # --- all else ---
    def do_usage(self) -> None:
        self.report_usage()

    def do_compact(self, trigger: str) -> None:
        self.agent.compacted(trigger)

    def do_vendor(self) -> None:
        self.agent.send("x-acme.progress", {"percent": 12}, metadata={"colour": "red"})
        self.agent.send("agent.mood", {"mood": "fine", "new": [1]})

    def do_error(self, severity: str, code: str) -> None:
        self.send("agent.error", severity=severity, error_code=code, message="as asked", turn_id=self.turn_id)

    def do_fatal(self, code: str) -> None:
        self.send("session.error", error_code=code, message="cannot go on", fatal=True)
        time.sleep(LIFETIME_S)

    def do_stop(self, reason: str) -> None:
        self.stop = reason

    def do_refuse(self, code: str) -> None:
        self.agent.send("session.error", {"error_code": code, "message": "not now", "fatal": False},
                        metadata={"in_reply_to": self.request["message_id"]})
        self.ended = True

    def do_no_usage(self) -> None:
        self.usage = False

    def do_after(self) -> None:
        self.after = True

    def do_garbage(self) -> None:
        self.agent.write(b"Welcome!\n\n[1, 2]\n\"\xff\"\n")
        self.collect(3)

    def do_bad_frames(self) -> None:
        send = self.agent.send
        send("agent.text.delta", {"turn_id": self.turn_id, "block_id": "x", "text": "no offset"}, message_id="m1")
        send("agent.text.delta", {"turn_id": "foreign", "block_id": "x", "offset": 0, "text": "no"})
        send("session.turn.end", {"turn_id": self.turn_id, "stop_reason": "tired"})
        send("control.turn.cancel", {"reason": "I may not say this"})
        send("x-interlock.interaction.resolved", {"interaction_id": "i", "outcome": "allowed", "decided_at": "now"})
        send("agent.text.delta", {"turn_id": self.turn_id, "block_id": "x", "offset": 0, "text": "no"}, seq=4)
        send("agent.text.delta", {"turn_id": self.turn_id, "block_id": "x", "offset": 0, "text": "no"},
             session_id="another")
        send("x-acme.huge", {"text": "x" * 800_000})
        self.collect(8)

    def do_noise(self, seed: str, count: str) -> None:
        chance = random.Random(int(seed))
        for index in range(int(count)):
            payload = chance.choice([
                {"turn_id": self.turn_id, "block_id": "n", "offset": 0, "text": "noise é \u2028"},
                {"invocation_id": "call-1", "channel": "stdout", "offset": 0, "text": "x"},
                {"interaction_id": f"i{index}", "interaction_type": "QUESTION", "title": "?", "options": [],
                 "context": {"tool_name": "t"}},
                {"severity": "warning", "error_code": "NOISE", "message": "m"},
            ])
            kind = chance.choice(["agent.text.delta", "tool.invoke.stream", "tool.invoke.result", "agent.thinking.done",
                                  "agent.interaction.request", "session.compacted", "session.capabilities"])
            frame = bytearray(json.dumps({"type": kind, "payload": payload}, ensure_ascii=False).encode())
            at = chance.randrange(len(frame))
            frame[at:at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
            self.agent.write(bytes(frame).replace(b"\n", b"?") + b"\n")

    def collect(self, count: int) -> None:
        """Send what was refused: code and path."""
        self.send("agent.text.delta", turn_id=self.turn_id, block_id="said", offset=0, text="")
        while len(self.agent.errors) < count:
            self.agent.read()
        report = [f"{e['payload']['error_code']} {e['payload']['message'].partition(':')[0]}"
                  for e in self.agent.errors]
        self.do_done("|".join(report))
        self.agent.errors.clear()

    def do_line(self, size: str = str(20 * 2**20)) -> None:
        text = "x" * int(size)
        self.send("agent.text.delta", turn_id=self.turn_id, block_id="line", offset=0, text=text)

    def do_exit(self, code: str = "3") -> None:
        if code != "0":
            sys.stderr.write("last words\n")
            sys.stderr.flush()
        os._exit(int(code))

    def do_kill(self, number: str = "9") -> None:
        os.kill(os.getpid(), int(number))

    def do_ignore_term(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_close_stdout(self) -> None:
        os.close(1)
        self.do_hang()

    def do_hang(self) -> None:
        time.sleep(LIFETIME_S)

    def do_wait(self) -> None:
        report = self.agent.until("control.turn.cancel")["payload"]
        self.stop = "cancelled" if report.get("turn_id") == self.turn_id else "end_turn"

    def do_pause(self) -> None:
        self.agent.until("control.turn.pause")
        self.do_text("paused;")
        self.agent.until("control.turn.resume")

    def do_hear_pause(self) -> None:
        self.agent.until("control.turn.pause")

    def do_stand(self) -> None:
        self.agent.until("control.turn.pause")
        self.agent.send("agent.state.changed", {"state": "paused", "previous": "running"})
        self.agent.until("control.turn.resume")


def main() -> None:
    signal.alarm(LIFETIME_S)
    start = sys.argv[1] if len(sys.argv) > 1 else ""
    if start == "die":
        sys.stderr.write("no key\n")
        sys.exit(3)
    Agent(start).serve()


if __name__ == "__main__":
    main()
