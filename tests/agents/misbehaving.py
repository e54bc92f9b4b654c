"""An ACP agent that misbehaves on request: raw JSON-RPC on stdio, without the SDK, so that it can break the rules.

`python misbehaving.py [--start=WORD]` (or `MISBEHAVE_START=WORD`). At the start:

| start word      | what happens                                                                          |
|-----------------|---------------------------------------------------------------------------------------|
| `die`           | exit 3 at once, with one line on stderr                                               |
| `die-initialize`| exit 3 when `initialize` arrives                                                      |
| `hang`          | reads, but never answers anything                                                     |
| `garbage`       | two lines that are not JSON before the first answer                                   |
| `session-error` | `session/new` is answered with an error: "Authentication required", and what to do    |
| `version`       | `initialize` is answered with protocolVersion 99                                      |
| `ignore-term`   | SIGTERM is ignored all along; otherwise as usual                                      |
| `mute-stderr`   | closes stderr                                                                         |
| `able`          | offers modes, a model, thinking and `session/load`; see the word `state`              |
| `forgetful`     | as `able`, but `session/load` is answered with an error                               |
| `auto`          | as `able`, and opens in a mode that asks for nothing                                  |
| `grouped`       | as `able`, but all that can be chosen is a config option, its values in groups        |

The words of a prompt are done in order; arguments follow a colon; words not listed are passed over. Afterwards the
prompt is answered with `end_turn`, unless a word says otherwise. FILE is a name inside the workspace.

| word                   | what happens                                                                   |
|------------------------|--------------------------------------------------------------------------------|
| `text:WORD`            | a text chunk, `hello` if no WORD is given                                      |
| `think:WORD`           | a thinking chunk                                                               |
| `echo`                 | the user's message comes back as `user_message_chunk`                          |
| `env:NAME`             | text `NAME=value` of its environment, `NAME unset` where there is none         |
| `cwd`                  | text: its working directory                                                    |
| `sleep:MS`             | waits; does not look at a cancel                                               |
| `exit:CODE`            | exits in mid-turn, default 3; other than 0 with a line on stderr               |
| `kill:SIGNAL`          | sends itself the signal, default 9                                             |
| `freeze`               | stops itself (SIGSTOP)                                                         |
| `hang`                 | never answers, reads nothing, ignores a cancel                                 |
| `ignore-term`          | ignores SIGTERM from now on; `ignore-term hang` is the worst of both           |
| `deaf`                 | closes its stdin, and so exits 0 after the turn's answer                       |
| `close-stdout`         | closes stdout, and keeps running without output                                |
| `spawn:FILE`           | a child in its process group; pid in FILE, default `child.pid`                 |
| `fork-twice:FILE`      | a grandchild in its own session that ignores SIGTERM; pid in FILE, default     |
|                        | `grandchild.pid`, written before the turn continues; its stdio is /dev/null      |
| `fork-twice-holding:FILE` | the same, but the grandchild keeps this agent's stdout and stderr open      |
| `garbage`              | lines that are not JSON and not UTF-8, and an empty one, on stdout             |
| `garbage-json`         | lines that are JSON, but not objects                                           |
| `stderr:BYTES`         | this much on stderr, in lines of 64 bytes; default 100,000                       |
| `line:BYTES`           | one text chunk of this many bytes on one line, default 20 MiB                    |
| `flood:BYTES`          | this much text in chunks of 8 KiB (see `flood_chunk`), default 1 MiB             |
| `chunks:N:DELAY_MS`    | N text chunks `chunk I of N\\n`; a cancel in between ends the turn `cancelled`  |
| `wait`                 | waits for a cancel and ends the turn `cancelled`, as it should                 |
| `stop:REASON`          | the stopReason of the answer: `refusal`, `max_turn_requests`, …                |
| `error`                | the prompt is answered with a JSON-RPC error                                   |
| `two-results`          | the prompt is answered twice, `end_turn` and then `refusal`                    |
| `late-update`          | a text chunk after the result                                                  |
| `unknown`              | a `_vendor/thing` notification, a sessionUpdate of an unknown kind, and a      |
|                        | `_vendor/ask` request whose answer it waits for                                |
| `wrong-session`        | a text chunk for a session that does not exist                                 |
| `state`                | text: which session, mode, model and effort are set                            |
| `raw`                  | the session updates of `updates.json` in the workspace                         |
| `lines`                | the lines of `lines` in the workspace, whatever their bytes; @ is the session  |
| `permit`               | a permission for each `toolCall` of `permissions.json` in the workspace        |
| `steps`                | the updates and permissions of `steps.json` in the workspace, in their order   |
| `mode:ID`              | it switches its mode by itself                                                 |
| `usage`                | a `usage_update`, and usage in the prompt's result                             |
| `plan`                 | a plan                                                                         |
| `tool-output:BYTES`    | a tool call that completes with this much text, without asking; default 1 KiB    |
| `diff:FILE`            | a tool call that completes with a diff, default `notes.txt`                    |
| `open-tool`            | a tool call that is announced and never completed                              |
| `ask:FILE`             | tool_call, then request_permission; writes FILE (default `written.txt`) only   |
|                        | after a grant, but then also if a cancel came before the grant                 |
| `ask-first:FILE`       | request_permission for a call never announced, then one tool_call_update       |
| `ask-always:FILE`      | offers allow_always and reject_always only                                     |
| `ask-odd:FILE`         | offers two allow_always, then allow_once, and no reject                        |
| `ask-none:FILE`        | offers no option at all                                                        |
| `ask-two:FILE:FILE`    | two permissions asked at once, default `one.txt` and `two.txt`                 |
| `ask-after-cancel:FILE`| waits for a cancel, and only then asks; ends the turn `cancelled`              |
| `ask-abandon:FILE`     | asks, and at a cancel answers `cancelled` without waiting for the permission   |

It outlives no test run: after LIFETIME_S it and what it forked end by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

LIFETIME_S = 1_800
FLOOD_CHUNK_BYTES = 8_192
WRITTEN = "written after permission\n"
ONCE = (("allow", "allow_once"), ("reject", "reject_once"))
ALWAYS = (("always", "allow_always"), ("never", "reject_always"))
ODD = (("always-here", "allow_always"), ("always", "allow_always"), ("allow", "allow_once"))


def flood_chunk(index: int, size: int = FLOOD_CHUNK_BYTES) -> str:
    """The text of the flood's chunk `index`, from 0: its number in ten digits, filled up with `x`, and a line break.

    The last chunk of a flood is cut to what is left of BYTES.
    """
    return (f"{index:010d}" + "x" * (FLOOD_CHUNK_BYTES - 11) + "\n")[:size]


class Pipe:
    """JSON-RPC messages on descriptors 0 and 1, blocking and unbuffered on the way out."""

    def __init__(self) -> None:
        self._incoming = b""
        self._next_id = 0
        self.held: bytearray | None = None
        """Output of one write: a reader has all of it before the first message can be answered."""
        self.waiting: list[dict[str, Any]] = []
        self.answers: dict[int, dict[str, Any]] = {}

    def write(self, data: bytes) -> None:
        if self.held is not None:
            self.held += data
            return
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any]) -> int:
        self._next_id += 1
        self.send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def read(self, timeout: float | None = None) -> bool:
        """Take in one message: an answer by its id, anything else into `waiting`. False after `timeout` seconds."""
        while b"\n" not in self._incoming:
            if not select.select([0], [], [], timeout)[0]:
                return False
            data = os.read(0, 65_536)
            if not data:
                sys.exit(0)
            self._incoming += data
        line, _, self._incoming = self._incoming.partition(b"\n")
        message = json.loads(line)
        if "method" in message:
            self.waiting.append(message)
        else:
            self.answers[message["id"]] = message
        return True

    def next(self) -> dict[str, Any]:
        while not self.waiting:
            self.read()
        return self.waiting.pop(0)

    def answer(self, request_id: int) -> dict[str, Any]:
        while request_id not in self.answers:
            self.read()
        return self.answers.pop(request_id)


class Turn:
    """One prompt. The words below act on it."""

    def __init__(self, pipe: Pipe, session_id: str, workspace: str, prompt_id: Any, text: str) -> None:
        self.pipe = pipe
        self.session_id = session_id
        self.workspace = workspace
        self.prompt_id = prompt_id
        self.user_text = text
        self.result: dict[str, Any] = {"stopReason": "end_turn"}
        self.error: dict[str, Any] | None = None
        self.after: list[Callable[[], None]] = []
        self.calls = 0

    def update(self, what: str, /, session_id: str | None = None, **fields: Any) -> None:
        update = {"sessionUpdate": what, **fields}
        self.pipe.send(
            {"method": "session/update", "params": {"sessionId": session_id or self.session_id, "update": update}}
        )

    def text(self, text: str, kind: str = "agent_message_chunk", session_id: str | None = None) -> None:
        self.update(kind, session_id, content={"type": "text", "text": text})

    def call_id(self) -> str:
        self.calls += 1
        return f"call-{self.prompt_id}-{self.calls}"

    def announce(self, call_id: str, title: str, kind: str, raw_input: dict[str, Any]) -> None:
        self.update("tool_call", toolCallId=call_id, title=title, kind=kind, status="pending", rawInput=raw_input)

    def ask(self, call_id: str, file: str, options: tuple[tuple[str, str], ...]) -> int:
        return self.pipe.request(
            "session/request_permission",
            {
                "sessionId": self.session_id,
                "toolCall": {
                    "toolCallId": call_id,
                    "title": f"write {file}",
                    "kind": "edit",
                    "status": "pending",
                    "rawInput": {"path": file, "content": WRITTEN},
                },
                "options": [{"optionId": name, "name": name, "kind": kind} for name, kind in options],
            },
        )

    def act(self, call_id: str, file: str, answer: dict[str, Any], options: tuple[tuple[str, str], ...]) -> None:
        """Write the file only after a grant, and report the result."""
        outcome = answer.get("result", {}).get("outcome", {})
        kind = dict(options).get(outcome.get("optionId"), "")
        allowed = outcome.get("outcome") == "selected" and kind.startswith("allow")
        if allowed:
            self.write(file, WRITTEN)
        outcome = "written" if allowed else "not allowed"
        self.update(
            "tool_call_update",
            toolCallId=call_id,
            status="completed" if allowed else "failed",
            content=[{"type": "content", "content": {"type": "text", "text": outcome}}],
        )

    def write(self, file: str, content: str) -> None:
        """Write the file atomically, so that a reader never sees a part of it."""
        path = os.path.join(self.workspace, file)
        with open(path + ".part", "w") as out:
            out.write(content)
        os.replace(path + ".part", path)

    def cancelled(self) -> bool:
        """Whether a cancel for this session has arrived; takes in what is there, without waiting."""
        while self.pipe.read(timeout=0):
            pass
        return any(m["method"] == "session/cancel" for m in self.pipe.waiting)

    def await_cancel(self, or_answer: int | None = None) -> bool:
        """Wait for a cancel. False if the answer came first."""
        while not any(m["method"] == "session/cancel" for m in self.pipe.waiting):
            if or_answer in self.pipe.answers:
                return False
            self.pipe.read()
        return True

    def finish(self) -> None:
        outcome = {"error": self.error} if self.error is not None else {"result": self.result}
        self.pipe.held = bytearray() if self.after else None
        self.pipe.send({"id": self.prompt_id, **outcome})
        for late in self.after:
            late()
        together, self.pipe.held = self.pipe.held, None
        self.pipe.write(bytes(together or b""))


Word = Callable[..., None]
WORDS: dict[str, Word] = {}


def word(function: Word) -> Word:
    WORDS[function.__name__.strip("_").replace("_", "-")] = function
    return function


@word
def text(turn: Turn, content: str = "hello") -> None:
    turn.text(content)


@word
def think(turn: Turn, content: str = "hmm") -> None:
    turn.text(content, kind="agent_thought_chunk")


@word
def echo(turn: Turn) -> None:
    turn.text(turn.user_text, kind="user_message_chunk")


@word
def env(turn: Turn, name: str) -> None:
    turn.text(f"{name}={os.environ[name]}\n" if name in os.environ else f"{name} unset\n")


@word
def cwd(turn: Turn) -> None:
    turn.text(os.getcwd())


@word
def sleep(_: Turn, milliseconds: str) -> None:
    time.sleep(int(milliseconds) / 1000)


@word
def exit_(_: Turn, code: str = "3") -> None:
    leave(int(code))


@word
def kill(_: Turn, number: str = "9") -> None:
    os.kill(os.getpid(), int(number))


@word
def freeze(_: Turn) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@word
def hang(_: Turn) -> None:
    while True:
        time.sleep(LIFETIME_S)


@word
def ignore_term(_: Turn) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@word
def deaf(_: Turn) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


@word
def close_stdout(turn: Turn) -> None:
    os.close(1)
    hang(turn)


@word
def spawn(turn: Turn, file: str = "child.pid") -> None:
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIFETIME_S)
        detach_stdio()
        outlast()
    turn.write(file, str(pid))


@word
def fork_twice(turn: Turn, file: str = "grandchild.pid") -> None:
    fork_grandchild(turn, file, holding=False)


@word
def fork_twice_holding(turn: Turn, file: str = "grandchild.pid") -> None:
    fork_grandchild(turn, file, holding=True)


def fork_grandchild(turn: Turn, file: str, *, holding: bool) -> None:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.alarm(LIFETIME_S)
        os.close(0)
        if not holding:
            detach_stdio()
        turn.write(file, str(os.getpid()))
        outlast()
    os.waitpid(child, 0)
    while not os.path.exists(os.path.join(turn.workspace, file)):
        time.sleep(0.002)


def detach_stdio() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def outlast() -> NoReturn:
    while True:
        time.sleep(LIFETIME_S)


def leave(code: int) -> NoReturn:
    if code:
        os.write(2, f"misbehaving: leaving with status {code}, as asked\n".encode())
    os._exit(code)


@word
def garbage(turn: Turn) -> None:
    turn.pipe.write(b'this is not JSON\n\n{"half": \n\xff\xfe\x00 nor UTF-8\nWARNING: deprecated\n')


@word
def garbage_json(turn: Turn) -> None:
    turn.pipe.write(b'[1, 2]\n3\nnull\n"a string"\n')


@word
def stderr(_: Turn, size: str = "100000") -> None:
    line = b"e" * 63 + b"\n"
    left = int(size)
    while left > 0:
        left -= os.write(2, line[: min(left, 64)])


@word
def line(turn: Turn, size: str = str(20 * 1024 * 1024)) -> None:
    turn.text("y" * int(size))


@word
def flood(turn: Turn, size: str = str(1024 * 1024)) -> None:
    head = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": turn.session_id}})[:-2]
    head += ', "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "'
    left, index = int(size), 0
    while left > 0:
        chunk = flood_chunk(index, left)
        turn.pipe.write((head + chunk.replace("\n", "\\n") + '"}}}}\n').encode())
        left -= len(chunk)
        index += 1


@word
def chunks(turn: Turn, count: str = "10", delay_ms: str = "10") -> None:
    for index in range(int(count)):
        if turn.cancelled():
            turn.result = {"stopReason": "cancelled"}
            return
        turn.text(f"chunk {index + 1} of {count}\n")
        time.sleep(int(delay_ms) / 1000)


@word
def wait(turn: Turn) -> None:
    turn.await_cancel()
    turn.result = {"stopReason": "cancelled"}


@word
def stop(turn: Turn, reason: str) -> None:
    turn.result = {**turn.result, "stopReason": reason}


@word
def error(turn: Turn) -> None:
    turn.error = {"code": -32603, "message": "the model is on fire", "data": {"details": "as asked"}}


@word
def two_results(turn: Turn) -> None:
    turn.after.append(lambda: turn.pipe.send({"id": turn.prompt_id, "result": {"stopReason": "refusal"}}))


@word
def late_update(turn: Turn) -> None:
    turn.after.append(lambda: turn.text("too late"))


@word
def unknown(turn: Turn) -> None:
    turn.pipe.send({"method": "_vendor/thing", "params": {"sessionId": turn.session_id, "value": 1}})
    turn.update("vendor_special", value=1)
    answer = turn.pipe.answer(turn.pipe.request("_vendor/ask", {"sessionId": turn.session_id}))
    if answer.get("error", {}).get("code") != -32601:
        turn.text(f"a vendor's request was answered with {answer}")


@word
def wrong_session(turn: Turn) -> None:
    turn.text("for nobody", session_id="no-such-session")


@word
def usage(turn: Turn) -> None:
    turn.update("usage_update", used=1_200, size=200_000, cost={"amount": 0.02, "currency": "USD"})
    tokens = {"inputTokens": 1_000, "outputTokens": 200, "totalTokens": 1_200, "cachedReadTokens": 50}
    turn.result = {**turn.result, "usage": tokens}


@word
def state(turn: Turn) -> None:
    turn.text(" ".join(f"{name}={value}" for name, value in sorted(SET.items())))


@word
def raw(turn: Turn) -> None:
    with open(os.path.join(turn.workspace, "updates.json")) as file:
        for update in json.load(file):
            turn.update(update.pop("sessionUpdate"), **update)


@word
def lines(turn: Turn) -> None:
    with open(os.path.join(turn.workspace, "lines"), "rb") as file:
        turn.pipe.write(file.read().replace(b"@", turn.session_id.encode()))


@word
def mode(turn: Turn, mode_id: str) -> None:
    turn.update("current_mode_update", currentModeId=mode_id)


@word
def plan(turn: Turn) -> None:
    turn.update("plan", entries=[{"content": "misbehave", "priority": "high", "status": "in_progress"}])


@word
def tool_output(turn: Turn, size: str = "1024") -> None:
    call_id = turn.call_id()
    turn.announce(call_id, "print", "execute", {"bytes": int(size)})
    output = ("o" * 63 + "\n") * (int(size) // 64 + 1)
    block = {"type": "content", "content": {"type": "text", "text": output[: int(size)]}}
    turn.update("tool_call_update", toolCallId=call_id, status="completed", content=[block])


@word
def diff(turn: Turn, file: str = "notes.txt") -> None:
    call_id = turn.call_id()
    path = os.path.join(turn.workspace, file)
    turn.announce(call_id, f"edit {file}", "edit", {"path": path})
    change = {"type": "diff", "path": path, "oldText": "one\n", "newText": "one\ntwo\n"}
    turn.update("tool_call_update", toolCallId=call_id, status="completed", content=[change])


@word
def open_tool(turn: Turn) -> None:
    turn.announce(turn.call_id(), "never done", "execute", {"command": "true"})


def ask_for(turn: Turn, file: str, options: tuple[tuple[str, str], ...], *, announce: bool = True) -> None:
    call_id = turn.call_id()
    if announce:
        turn.announce(call_id, f"write {file}", "edit", {"path": file, "content": WRITTEN})
    turn.act(call_id, file, turn.pipe.answer(turn.ask(call_id, file, options)), options)


@word
def ask(turn: Turn, file: str = "written.txt") -> None:
    ask_for(turn, file, ONCE)


@word
def ask_first(turn: Turn, file: str = "written.txt") -> None:
    ask_for(turn, file, ONCE, announce=False)


@word
def ask_always(turn: Turn, file: str = "written.txt") -> None:
    ask_for(turn, file, ALWAYS)


@word
def permit(turn: Turn) -> None:
    with open(os.path.join(turn.workspace, "permissions.json")) as file:
        calls = json.load(file)
    for call in calls:
        request_permission(turn, call)


def request_permission(turn: Turn, call: dict[str, Any]) -> None:
    turn.pipe.answer(turn.pipe.request("session/request_permission", {
        "sessionId": turn.session_id, "toolCall": call,
        "options": [{"optionId": name, "name": name, "kind": kind} for name, kind in ONCE]}))


@word
def steps(turn: Turn) -> None:
    with open(os.path.join(turn.workspace, "steps.json")) as file:
        for step in json.load(file):
            if "sessionUpdate" in step:
                turn.update(step.pop("sessionUpdate"), **step)
            else:
                request_permission(turn, step)


@word
def ask_odd(turn: Turn, file: str = "written.txt") -> None:
    ask_for(turn, file, ODD)


@word
def ask_none(turn: Turn, file: str = "written.txt") -> None:
    ask_for(turn, file, ())


@word
def ask_two(turn: Turn, first: str = "one.txt", second: str = "two.txt") -> None:
    open_calls: dict[int, tuple[str, str]] = {}
    for file in (first, second):
        call_id = turn.call_id()
        turn.announce(call_id, f"write {file}", "edit", {"path": file, "content": WRITTEN})
        open_calls[turn.ask(call_id, file, ONCE)] = (call_id, file)
    while open_calls:
        answered = next((request for request in open_calls if request in turn.pipe.answers), None)
        if answered is None:
            turn.pipe.read()
            continue
        call_id, file = open_calls.pop(answered)
        turn.act(call_id, file, turn.pipe.answer(answered), ONCE)


@word
def ask_after_cancel(turn: Turn, file: str = "written.txt") -> None:
    turn.await_cancel()
    ask_for(turn, file, ONCE)
    turn.result = {"stopReason": "cancelled"}


@word
def ask_abandon(turn: Turn, file: str = "written.txt") -> None:
    call_id = turn.call_id()
    turn.announce(call_id, f"write {file}", "edit", {"path": file, "content": WRITTEN})
    request = turn.ask(call_id, file, ONCE)
    if turn.await_cancel(or_answer=request):
        turn.result = {"stopReason": "cancelled"}
    else:
        turn.act(call_id, file, turn.pipe.answer(request), ONCE)


def outcome_of(answer: dict[str, Any]) -> str:
    """An answer to a permission in one word: `error`, `cancelled`, or the option that was selected."""
    if "error" in answer:
        return "error"
    outcome = answer["result"].get("outcome", {})
    return outcome.get("optionId") or outcome.get("outcome", "nothing")


def whole_request(turn: Turn, file: str = "written.txt") -> dict[str, Any]:
    return {"sessionId": turn.session_id,
            "options": [{"optionId": name, "name": name, "kind": kind} for name, kind in ONCE],
            "toolCall": {"toolCallId": turn.call_id(), "title": f"write {file}", "kind": "edit",
                         "rawInput": {"path": file, "content": WRITTEN}}}


@word
def ask_half(turn: Turn) -> None:
    """Requests that lack their options, their call, or both, or that have something else in their place."""
    whole = whole_request(turn)
    session, options = {"sessionId": turn.session_id}, whole["options"]
    halves: list[Any] = [session, {**session, "options": options}, {**session, "toolCall": whole["toolCall"]},
                         {**whole, "toolCall": 7}, {**whole, "options": "allow"}, [], None]
    for half in halves:
        turn.text(outcome_of(turn.pipe.answer(turn.pipe.request("session/request_permission", half))) + ";")


@word
def ask_elsewhere(turn: Turn) -> None:
    """A request of a session that is not there."""
    asked = {**whole_request(turn), "sessionId": "another"}
    turn.text(outcome_of(turn.pipe.answer(turn.pipe.request("session/request_permission", asked))) + ";")


@word
def ask_many(turn: Turn, count: str, left_open: str) -> None:
    """Send this many requests at once; the turn ends while `left_open` of them wait."""
    for _ in range(int(count)):
        turn.pipe.request("session/request_permission", whole_request(turn))
        while turn.pipe.read(timeout=0):
            pass
    while len(turn.pipe.answers) < int(count) - int(left_open):
        turn.pipe.read()
    turn.text(";".join(sorted({outcome_of(answer) for answer in turn.pipe.answers.values()})) + ";")


@word
def ask_same_id(turn: Turn) -> None:
    """Two requests under one id."""
    request = {"id": "same", "method": "session/request_permission"}
    for file in ("one.txt", "two.txt"):
        turn.pipe.send({**request, "params": whole_request(turn, file)})
    for _ in range(2):
        turn.text(outcome_of(turn.pipe.answer("same")) + ";")  # type: ignore[arg-type]


LATE: list[int] = []


@word
def ask_late(turn: Turn) -> None:
    """A request after the turn's end; `late-answer` prints its answer."""
    turn.after.append(lambda: LATE.append(turn.pipe.request("session/request_permission", whole_request(turn))))


@word
def late_answer(turn: Turn) -> None:
    turn.text(outcome_of(turn.pipe.answer(LATE.pop())) + ";")


SET = {"mode": "default", "model": "small", "effort": "low", "loaded": "no"}
VALUES = {"mode": ["default", "plan", "auto"], "model": ["small", "large"], "effort": ["low", "high"]}
CATEGORIES = {"mode": "mode", "model": "model", "effort": "thought_level"}
ABLE = {"able", "forgetful", "auto", "grouped"}


def offered(start: str) -> dict[str, Any]:
    """What a session of an able agent lets be chosen."""
    def option(name: str, grouped: bool = False) -> dict[str, Any]:
        values: list[Any] = [{"value": value, "name": value.title()} for value in VALUES[name]]
        if grouped:
            values = [{"group": "g", "name": "all", "options": values}]
        return {"id": name, "name": name, "category": CATEGORIES[name], "type": "select", "currentValue": SET[name],
                "options": values}

    if start == "grouped":
        return {"configOptions": [option(name, grouped=True) for name in VALUES]}
    return {
        "modes": {"currentModeId": SET["mode"],
                  "availableModes": [{"id": value, "name": value.title()} for value in VALUES["mode"]]},
        "models": {"currentModelId": SET["model"],
                   "availableModels": [{"modelId": value, "name": value.title()} for value in VALUES["model"]]},
        "configOptions": [option("effort")],
    }


class Agent:
    """The messages of one connection, in order; one prompt at a time."""

    def __init__(self, start: str) -> None:
        self.start = start
        self.pipe = Pipe()
        self.workspaces: dict[str, str] = {}

    def serve(self) -> NoReturn:
        while True:
            message = self.pipe.next()
            if self.start == "hang":
                continue
            answer = {"initialize": self.initialize, "session/new": self.new_session, "session/prompt": self.prompt}
            if self.start in ABLE:
                answer.update({
                    "session/load": self.load, "session/set_mode": self.set, "session/set_model": self.set,
                    "session/set_config_option": self.set,
                })
            if message["method"] in answer:
                answer[message["method"]](message)
            elif "id" in message:
                self.refuse(message, -32601, "Method not found")

    def refuse(self, message: dict[str, Any], code: int, sentence: str, data: Any = None) -> None:
        self.pipe.send({"id": message["id"], "error": {"code": code, "message": sentence, "data": data}})

    def initialize(self, message: dict[str, Any]) -> None:
        if self.start == "die-initialize":
            leave(3)
        if self.start == "garbage":
            self.pipe.write(b"Welcome to misbehaving!\nlistening on stdio ...\n")
        version = 99 if self.start == "version" else 1
        info = {"name": "misbehaving", "title": "Misbehaving", "version": "1"}
        able: dict[str, Any] = {"loadSession": True} if self.start in ABLE else {}
        result = {"protocolVersion": version, "agentCapabilities": able, "authMethods": [], "agentInfo": info}
        self.pipe.send({"id": message["id"], "result": result})

    def new_session(self, message: dict[str, Any]) -> None:
        if self.start == "session-error":
            details = {"details": "no API key: set MISBEHAVING_API_KEY"}
            self.refuse(message, -32000, "Authentication required", details)
            return
        session_id = f"misbehaving-{os.getpid()}-{len(self.workspaces) + 1}"
        self.workspaces[session_id] = message["params"]["cwd"]
        if self.start == "auto":
            SET["mode"] = "auto"
        more = offered(self.start) if self.start in ABLE else {}
        self.pipe.send({"id": message["id"], "result": {"sessionId": session_id, **more}})

    def load(self, message: dict[str, Any]) -> None:
        session_id = message["params"]["sessionId"]
        if self.start == "forgetful":
            self.refuse(message, -32002, "Resource not found", {"details": f"no session {session_id}"})
            return
        self.workspaces[session_id] = message["params"]["cwd"]
        again = Turn(self.pipe, session_id, "", 0, "")
        again.text("what was asked", kind="user_message_chunk")
        again.text("what was answered")
        open_tool(again)
        SET["loaded"] = "yes"
        self.pipe.send({"id": message["id"], "result": offered(self.start)})

    def set(self, message: dict[str, Any]) -> None:
        params = message["params"]
        name = {"session/set_mode": "mode", "session/set_model": "model"}.get(message["method"]) or params["configId"]
        SET[name] = params.get("modeId") or params.get("modelId") or params["value"]
        self.pipe.send({"id": message["id"], "result": {}})

    def prompt(self, message: dict[str, Any]) -> None:
        session_id = message["params"]["sessionId"]
        prompt = "\n".join(block["text"] for block in message["params"]["prompt"] if block["type"] == "text")
        turn = Turn(self.pipe, session_id, self.workspaces[session_id], message["id"], prompt)
        for token in prompt.split():
            name, *arguments = token.split(":")
            if name in WORDS:
                WORDS[name](turn, *arguments)
        turn.finish()


def start_word(argv: list[str]) -> str:
    given = [argument.removeprefix("--start=") for argument in argv if argument.startswith("--start=")]
    return given[0] if given else os.environ.get("MISBEHAVE_START", "")


def main() -> NoReturn:
    signal.alarm(LIFETIME_S)
    start = start_word(sys.argv[1:])
    if start == "die":
        leave(3)
    if start == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if start == "mute-stderr":
        os.close(2)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        Agent(start).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
