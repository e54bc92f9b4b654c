"""Conversations as transcripts have them, and Z-3 in plain words: the reference for
`interlock.session.context.compaction_plan`."""

from __future__ import annotations

import random
from typing import Any

from interlock.session.context.tokens import entry_tokens

AT = "2026-01-01T00:00:00.500Z"
Entry = dict[str, Any]


def entry(kind: str, entry_id: str, parent: str | None, **fields: Any) -> Entry:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": AT, **fields}


class Conversation:
    """A conversation that grows at its leaf."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, **fields: Any) -> str:
        entry_id = f"{len(self.entries):08x}"
        self.entries.append(entry(kind, entry_id, self.entries[-1]["id"] if self.entries else None, **fields))
        return entry_id

    def user(self, text: str) -> str:
        return self.add("message", message={"role": "user", "content": text, "timestamp": 1})

    def answer(self, text: str, *calls: tuple[str, str, dict[str, Any]]) -> str:
        parts: list[Any] = [{"type": "text", "text": text}] if text else []
        parts += [{"type": "toolCall", "id": call, "name": name, "arguments": given} for call, name, given in calls]
        return self.add("message", message={
            "role": "assistant", "content": parts, "api": "rawp", "provider": "builtin", "model": "m",
            "stopReason": "toolUse" if calls else "stop", "timestamp": 2})

    def result(self, call: str, text: str, *, failed: bool = False) -> str:
        return self.add("message", message={
            "role": "toolResult", "toolCallId": call, "toolName": "t", "isError": failed, "timestamp": 3,
            "content": [{"type": "text", "text": text}]})

    def compaction(self, summary: str, first_kept: str, details: dict[str, Any] | None = None) -> str:
        return self.add("compaction", summary=summary, firstKeptEntryId=first_kept, tokensBefore=9,
                        **({"details": details} if details is not None else {}))


def random_turns(dice: random.Random, turns: int) -> Conversation:
    """A sound conversation: turns of tools that run side by side, asides that are not in context, notes, shells."""
    conversation, calls = Conversation(), 0
    for _ in range(turns):
        if dice.random() < 0.1:
            conversation.add("custom_message", customType="note", content="look " * dice.randrange(1, 50), display=True)
        if dice.random() < 0.1:
            conversation.add("message", message={"role": "bashExecution", "command": "ls", "output": "f " * 20,
                                                 "timestamp": 1})
        conversation.user(dice.choice(["do it ", "해 주세요 "]) * dice.randrange(1, 60))
        waiting: list[str] = []
        for _ in range(dice.randrange(0, 4)):
            made: list[tuple[str, str, dict[str, Any]]] = []
            for _ in range(dice.randrange(1, 3)):
                calls += 1
                made.append((f"call{calls}", dice.choice(["read", "write", "shell"]), {"path": f"f{calls % 7}"}))
            conversation.answer("let me see " * dice.randrange(0, 3), *made)
            waiting += [call for call, _, _ in made]
            # One result at least, the others perhaps behind the next message: calls run side by side.
            dice.shuffle(waiting)
            for call in [waiting.pop() for _ in range(dice.randrange(1, len(waiting) + 1))]:
                conversation.result(call, "line of output\n" * dice.randrange(0, 80), failed=dice.random() < 0.1)
                if dice.random() < 0.1:
                    conversation.add("custom", customType="interlock.notice", data={"code": "x"})
        for call in waiting:
            conversation.result(call, "done")
        conversation.answer("there you are " * dice.randrange(1, 30))
    return conversation


def contributes(one: Entry) -> bool:
    return one["type"] in ("message", "custom_message", "branch_summary")


def plain_cut(entries: list[Entry], begin: int, keep: int) -> int | None:
    """Place of the first entry that is kept: of the places where one may cut, the nearest to the end at which `keep`
    is filled, or the first above which everything fits. Slow: it looks at every place for itself."""
    places = [at for at in range(begin, len(entries)) if contributes(entries[at]) and _may_cut(entries, at)]
    crossing = next((at for at in range(len(entries) - 1, begin - 1, -1) if _tokens(entries[at:]) >= keep
                     and contributes(entries[at])), None)
    if crossing is None:
        return None
    behind = [at for at in places if at >= crossing]
    chosen = behind[0] if behind else max((at for at in places if at < crossing), default=None)
    first = next(at for at in range(begin, len(entries)) if contributes(entries[at]))
    return chosen if chosen is not None and chosen > first else None


def _may_cut(entries: list[Entry], at: int) -> bool:
    one = entries[at]
    if one["type"] == "message" and one["message"]["role"] == "toolResult":
        return False
    kept = [one["message"] for one in entries[at:] if one["type"] == "message"]
    called = {part["id"] for message in kept if message["role"] == "assistant" for part in message["content"]
              if part["type"] == "toolCall"}
    answered = {message["toolCallId"] for message in kept if message["role"] == "toolResult"}
    return answered <= called


def _tokens(entries: list[Entry]) -> int:
    return sum(entry_tokens(one) for one in entries if contributes(one))
