"""The fields that each session of a key inherits: overrides, label and policy, and who takes part (I-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

TEXT_MAX_CHARS = 500
MAX_UNKNOWN_FIELDS = 100
MAX_UNKNOWN_BYTES = 16_384

SendPolicy = Literal["allow", "deny"]
Verbosity = Literal["off", "on", "full"]
"""What a surface shows besides the agent's words: only failures, each tool call, or also its output and thoughts."""


class SessionFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields of I-4 that are stored nowhere else in a session; None is not set. Times are milliseconds since
    1970."""

    chat_type: str | None = None
    provider: str | None = None
    subject: str | None = None
    room: str | None = None
    space: str | None = None
    display_name: str | None = None
    thinking_level: str | None = None
    verbose_level: str | None = None
    reasoning_level: str | None = None
    elevated_level: str | None = None
    """Stored, without effect: policy decides."""
    send_policy: SendPolicy | None = None
    provider_override: str | None = None
    model_override: str | None = None
    mode_override: str | None = None
    """The agent's mode for each prompt that names none itself: Interlock's own, in addition to the fields of I-4
    (J-14)."""
    auth_profile_override: str | None = None
    label: str | None = None
    archived_at: int | None = None
    session_started_at: int = 0
    """Time of the first message; 0 before it."""
    last_interaction_at: int = 0
    """Time of a person's last message; 0 if there was none since the session's start."""
    compaction_count: int = 0
    memory_flush_at: int | None = None
    memory_flush_compaction_count: int | None = None
    refused: tuple[str, ...] = ()
    """Overrides that the agent could not apply, and that were reported (I-4)."""
    unknown: dict[str, Any] = {}
    """Fields that another program or a newer version wrote: kept, not interpreted."""


_NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(SessionFields)}
INTERNAL = frozenset({"refused", "unknown"})
COUNTED = frozenset({
    "sessionStartedAt", "lastInteractionAt", "compactionCount", "memoryFlushAt", "memoryFlushCompactionCount",
})  # fmt: skip
"""Fields that the gateway counts itself: shown, never set by hand."""
EDITABLE = tuple(sorted(_NAMES.keys() - INTERNAL - COUNTED - {"archivedAt"}))
"""Fields that a person may set, by name in I-4."""
_HONOURED = {"modelOverride": "model_override", "modeOverride": "mode_override", "thinkingLevel": "thinking_level",
             "reasoningLevel": "reasoning_level"}


class BadField(ValueError):
    """Raised if a field cannot have a value: its name, and one sentence."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name


class FieldChange(NamedTuple):
    """A changed field, as the audit log records it."""

    name: str
    before: str | None
    after: str | None


def patched(entry: SessionFields, wanted: Mapping[str, Any]) -> tuple[SessionFields, list[FieldChange]]:
    """Set fields by name in I-4; None clears one. Raises BadField, and then nothing is set."""
    values: dict[str, Any] = {}
    changes: list[FieldChange] = []
    for name, value in wanted.items():
        field = _NAMES.get(name)
        if field is None or name not in EDITABLE:
            raise BadField(name, f"cannot be set; known: {', '.join(EDITABLE)}")
        before, after = getattr(entry, field), _checked(name, value)
        if before != after:
            values[field] = after
            changes.append(FieldChange(name, before, after))
    # A new wish is tried again.
    kept = tuple(name for name in entry.refused if name not in {change.name for change in changes})
    return (msgspec.structs.replace(entry, **values, refused=kept) if changes else entry), changes


def with_unknown(entry: SessionFields, fields: Mapping[str, Any]) -> SessionFields:
    """Set unknown fields, or remove them with None. Raises BadField if they are too large."""
    merged = {name: value for name, value in {**entry.unknown, **fields}.items() if value is not None}
    named = next(iter(fields), "")
    try:
        size = len(raw := msgspec.json.encode(merged))
        comes_back = msgspec.json.decode(raw) == merged
    except (ValueError, OverflowError, RecursionError, msgspec.DecodeError):
        comes_back = False
        size = 0
    if not comes_back:  # Half a surrogate pair, or a number of hundreds of digits: the row could not be read again.
        raise BadField(named, "a value that JSON cannot carry")
    if len(merged) > MAX_UNKNOWN_FIELDS or size > MAX_UNKNOWN_BYTES:
        raise BadField(named, f"more than is kept of fields that are not known: {MAX_UNKNOWN_BYTES} bytes")
    return msgspec.structs.replace(entry, unknown=merged)


def verbosity(level: object, usual: Verbosity) -> Verbosity:
    """Parse `verboseLevel`; an unknown or missing word yields the surface's default."""
    word = level.lower() if isinstance(level, str) else ""
    return cast("Verbosity", word) if word in get_args(Verbosity) else usual


def is_known(name: str) -> bool:
    """Return whether I-4 names the field among those that an entry carries."""
    return name in _NAMES and name not in INTERNAL


def _checked(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise BadField(name, "a text that is not empty, or null to clear it")
    text = value.strip()
    if len(text) > TEXT_MAX_CHARS or not text.isprintable():
        raise BadField(name, f"at most {TEXT_MAX_CHARS} characters on one line")
    if name == "sendPolicy" and text not in ("allow", "deny"):
        raise BadField(name, "allow or deny")
    return text


def carried_over(entry: SessionFields) -> SessionFields:
    """Return the initial fields of the key's next session: overrides, label and policy, but no counter (I-3)."""
    return msgspec.structs.replace(entry, archived_at=None, session_started_at=0, last_interaction_at=0,
                                   compaction_count=0, memory_flush_at=None, memory_flush_compaction_count=None)


class PromptOverrides(NamedTuple):
    """The settings that overrides add to each prompt, and the fields they come from."""

    model: str | None
    mode: str | None
    options: dict[str, Any]
    names: tuple[str, ...]


def prompt_overrides(entry: SessionFields, features: Mapping[str, Any]) -> PromptOverrides:
    """Return the overrides of a prompt, without those that the agent has refused before, or states that it does not
    offer."""
    lacks = {"modelOverride"} if features.get("model_switch") is False else set[str]()
    if features.get("prompt_options") is False:
        lacks |= {"thinkingLevel", "reasoningLevel"}
    if features.get("modes") == [] and features.get("plan_mode") is False:
        lacks |= {"modeOverride"}
    wanted = {name: cast("str", value) for name, field in _HONOURED.items()
              if (value := getattr(entry, field)) is not None and name not in entry.refused and name not in lacks}
    options = {option: wanted[name] for name, option in (("thinkingLevel", "thinking"), ("reasoningLevel", "reasoning"))
               if name in wanted}
    return PromptOverrides(wanted.get("modelOverride"), wanted.get("modeOverride"), options, tuple(wanted))


def lacking(entry: SessionFields, features: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the overrides that the agent states it does not offer, and that were not reported yet."""
    sent = prompt_overrides(entry, features).names
    return tuple(name for name, field in _HONOURED.items()
                 if getattr(entry, field) is not None and name not in entry.refused and name not in sent)


def refusing(entry: SessionFields, names: Iterable[str]) -> SessionFields:
    """Remember that the agent cannot apply these."""
    return msgspec.structs.replace(entry, refused=tuple(dict.fromkeys((*entry.refused, *names))))


def shown(entry: SessionFields) -> dict[str, Any]:
    """Return the entry as surfaces show it: fields that are set, by name in I-4, and unknown ones."""
    fields: dict[str, Any] = msgspec.to_builtins(entry)
    return {**{name: value for name, value in fields.items() if name not in INTERNAL}, **entry.unknown}
