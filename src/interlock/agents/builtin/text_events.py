"""Pure: neighbouring pieces of text in a model's stream of events become one event, as if the model had sent them so.

Each event costs the provider's library far more than its text does. Merged are only events that lie there together
already, and that differ in nothing but their text; every other byte of the stream stays as it is.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

import msgspec

from interlock.protocol.limits import MIB

MAX_EVENT_BYTES = MIB
"""An event that is longer is not waited for: from there on the stream is passed on as it comes."""
_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")
_EVENT = re.compile(rb"(event:[^\r\n]*\r?\n)?data:([^\r\n]*)\r?\n\r?\n")
"""The form that is understood: a name perhaps, and one line of data."""
_TAG = re.compile(r"\s*<[^<>]*>\s*")
"""A marker such as <think> means something to pydantic-ai only where it comes by itself."""
_BLOCK_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_RESPONSE_TEXTS = frozenset({
    "response.output_text.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta"})
_CHAT_TEXTS = ("content", "reasoning_content", "reasoning")
_PADDING = "obfuscation"
"""OpenAI fills its events up with random letters, so that their sizes reveal nothing of the text."""
_NUMBER = "sequence_number"

Json = dict[str, Any]


class _TextPlace(NamedTuple):
    """Where an event has its text."""

    holder: Json
    key: str


def _text_place(event: Json) -> _TextPlace | None:
    """Find the text of an event that carries nothing else; None for every other one."""
    kind = event.get("type")
    if kind == "content_block_delta":
        delta = _object(event.get("delta"))
        key = _BLOCK_TEXTS.get(str(delta.get("type")))
        return _TextPlace(delta, key) if key is not None and len(delta) == 2 else None
    if kind in _RESPONSE_TEXTS:
        return None if event.get("logprobs") else _TextPlace(event, "delta")
    return _chat_place(event) if event.get("object") == "chat.completion.chunk" else None


def _chat_place(event: Json) -> _TextPlace | None:
    choices = event.get("choices")
    if event.get("usage") or not isinstance(choices, list) or len(choices := cast("list[Any]", choices)) != 1:
        return None
    choice = _object(choices[0])
    if choice.get("finish_reason") or choice.get("logprobs"):
        return None
    delta = _object(choice.get("delta"))
    found = [key for key, value in delta.items() if value and key != "role"]
    return _TextPlace(delta, found[0]) if len(found) == 1 and found[0] in _CHAT_TEXTS else None


def _object(value: Any) -> Json:
    """Return an object itself, since its text is taken out of it; an empty one for anything else."""
    return cast("Json", value) if isinstance(value, dict) else {}


class _TextRun:
    """Events that may become one: the first, without its text, and all their texts."""

    __slots__ = ("_block", "_event", "_name", "_number", "_place", "_texts")

    def __init__(self, block: bytes, name: bytes, event: Json, place: _TextPlace, text: str) -> None:
        self._block = block
        self._name = name
        self._event = event
        self._place = place
        self._texts = [text]
        self._number: Any = event.pop(_NUMBER, None)

    @classmethod
    def of(cls, block: bytes) -> _TextRun | None:
        """Read one event with the blank line behind it; None if it must stand alone."""
        found = _EVENT.fullmatch(block)
        if found is None:
            return None
        try:
            event = _object(msgspec.json.decode(found[2]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        place = _text_place(event)
        text = place.holder.pop(place.key, None) if place is not None else None
        if place is None or not isinstance(text, str) or not text or _TAG.fullmatch(text) is not None:
            return None
        event.pop(_PADDING, None)
        return cls(block, found[1] or b"", event, place, text)

    @property
    def begins(self) -> bool:
        """Whether others may follow: blanks before the first word are for pydantic-ai to leave out."""
        return not self._texts[0].isspace()

    def takes(self, other: _TextRun) -> bool:
        """Take the one event that comes next; False, and nothing is changed, if it differs in more than its text."""
        if self._name != other._name or self._place.key != other._place.key or self._event != other._event:
            return False
        self._texts += other._texts
        self._number = other._number
        return True

    def written(self) -> bytes:
        """The one event; as it came if it is the only one."""
        if len(self._texts) == 1:
            return self._block
        self._place.holder[self._place.key] = "".join(self._texts)
        if self._number is not None:
            self._event[_NUMBER] = self._number
        return self._name + b"data: " + msgspec.json.encode(self._event) + b"\n\n"


class TextEvents:
    """A stream of events on its way: what comes in, and what of it is passed on."""

    def __init__(self) -> None:
        self._held = b""
        """The beginning of an event; no reader can use it before its end."""
        self._passing = False

    def feed(self, received: bytes) -> bytes:
        """Take what has come, and return the events that are complete, neighbouring text in one."""
        if self._passing:
            return received
        data, at, run = self._held + received, 0, None
        written: list[bytes] = []
        for blank in _BLANK_LINE.finditer(data):
            block = data[at:blank.end()]
            at = blank.end()
            following = _TextRun.of(block)
            if run is not None and following is not None and run.takes(following):
                continue
            if run is not None:
                written.append(run.written())
            run = following if following is not None and following.begins else None
            if run is None:
                written.append(block)
        if run is not None:
            written.append(run.written())
        self._held = data[at:]
        if len(self._held) > MAX_EVENT_BYTES:
            self._passing = True
            written.append(self.rest())
        return b"".join(written)

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return held
