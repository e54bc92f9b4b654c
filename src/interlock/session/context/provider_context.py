"""A context in the form that a provider accepts: what its API would refuse is corrected in the request, not in the
transcript (Z-7).

Corrections: non-messages become messages, calls and results are paired and in order, ids use the provider's alphabet,
nothing is empty, and the conversation starts with its user if the provider requires that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

NO_RESULT = "No result was recorded: the call was broken off."
NO_OUTPUT = "(no output)"
GOES_ON = "(The conversation goes on.)"
SUMMARY = ("The conversation before this point was compacted into the following summary:\n\n<summary>\n",
           "\n</summary>")
BRANCH = ("What follows sums up a branch of this conversation that was left:\n\n<summary>\n", "\n</summary>")


class ProviderRules(NamedTuple):
    """A provider's requirements for a conversation."""

    id_form: re.Pattern[str]
    id_chars: int
    """Length of a regenerated id."""
    alternates: bool
    """Consecutive user messages are merged, and the first message is the user's."""
    signed_thinking: bool
    """Thinking is sent back only with its original signature."""


_ANY = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
PROVIDERS: dict[str, ProviderRules] = {
    "anthropic": ProviderRules(_ANY, 24, alternates=True, signed_thinking=True),
    "openai": ProviderRules(re.compile(r"[A-Za-z0-9_-]{1,40}\Z"), 24, alternates=False, signed_thinking=True),
    "google": ProviderRules(_ANY, 24, alternates=True, signed_thinking=True),
    "mistral": ProviderRules(re.compile(r"[A-Za-z0-9]{9}\Z"), 9, alternates=False, signed_thinking=True),
}
"""By the name before the slash of `provider/model`."""
_ALIASES = {"google-gla": "google", "google-vertex": "google", "gemini": "google", "bedrock": "anthropic",
            "claude": "anthropic", "azure": "openai", "openai-chat": "openai", "openai-responses": "openai"}
STRICTEST = ProviderRules(re.compile(r"[A-Za-z0-9_-]{1,40}\Z"), 24, alternates=True, signed_thinking=True)
"""For an unknown provider."""


def provider_of(name: str) -> ProviderRules:
    """Return the rules of a provider; `name` may be a whole `provider/model`."""
    plain = name.split("/", 1)[0].split(":", 1)[0].strip().lower()
    return PROVIDERS.get(_ALIASES.get(plain, plain), STRICTEST)


def cleaned(messages: Sequence[Mapping[str, Any]], provider: str) -> list[dict[str, Any]]:
    """Return the messages in the provider's form: only the roles `user`, `assistant` and `toolResult`. The argument is
    not changed, and correct messages stay as they are (the function is idempotent)."""
    rules = provider_of(provider)
    converted = [message for raw in messages if (message := _converted(raw, rules)) is not None]
    paired = _paired(converted)
    named = _renamed(paired, rules)
    return _alternating(named) if rules.alternates else named


# --- messages of the roles that models know, none empty ---
def _converted(message: Mapping[str, Any], rules: ProviderRules) -> dict[str, Any] | None:
    match message.get("role"):
        case "user" | "custom":
            return _user(message, message.get("content"))
        case "assistant":
            return _assistant(message, rules)
        case "toolResult":
            return {**message, "content": _filled(message.get("content")) or [_text(NO_OUTPUT)]}
        case "compactionSummary":
            return _user(message, _wrapped(SUMMARY, message))
        case "branchSummary":
            return _user(message, _wrapped(BRANCH, message))
        case "bashExecution":
            return None if message.get("excludeFromContext") is True else _user(message, _shell(message))
        case _:
            return None


def _user(message: Mapping[str, Any], content: Any) -> dict[str, Any] | None:
    if isinstance(content, str):
        return _made(message, content) if content.strip() else None
    parts = _filled(content)
    return _made(message, parts) if parts else None


def _made(message: Mapping[str, Any], content: Any) -> dict[str, Any]:
    if message.get("role") == "user":
        return {**message, "content": content}
    return {"role": "user", "content": content, "timestamp": message.get("timestamp") or 0}


def _wrapped(around: tuple[str, str], message: Mapping[str, Any]) -> str:
    summary = str(message.get("summary", ""))
    return f"{around[0]}{summary}{around[1]}" if summary.strip() else ""


def _shell(message: Mapping[str, Any]) -> str:
    ended = message.get("exitCode")
    tail = "(cancelled)" if message.get("cancelled") is True else f"(exit code {ended})" if ended else ""
    return f"Ran `{message.get('command', '')}`\n```\n{message.get('output') or NO_OUTPUT}\n```\n{tail}".rstrip()


def _assistant(message: Mapping[str, Any], rules: ProviderRules) -> dict[str, Any] | None:
    parts = [part for part in _filled(message.get("content")) if not _is_loose_thinking(part, rules)]
    # A call whose arguments never arrived completely cannot be sent back.
    parts = [part for part in parts if part.get("type") != "toolCall" or (
        isinstance(part.get("id"), str) and part["id"] and isinstance(part.get("name"), str) and part["name"])]
    no_arguments: dict[str, Any] = {"arguments": {}}
    parts = [{**part, **no_arguments}
             if part.get("type") == "toolCall" and not isinstance(part.get("arguments"), dict) else part
             for part in parts]
    if all(part.get("type") == "thinking" for part in parts):
        return None
    return {**message, "content": parts}


def _is_loose_thinking(part: Mapping[str, Any], rules: ProviderRules) -> bool:
    return rules.signed_thinking and part.get("type") == "thinking" and not part.get("thinkingSignature")


def _filled(content: Any) -> list[dict[str, Any]]:
    """Return the parts that have content."""
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    listed = cast("list[Any]", content) if isinstance(content, list) else []
    parts = [cast("dict[str, Any]", part) for part in listed if isinstance(part, dict)]
    return [part for part in parts if not _says_nothing(part)]


def _says_nothing(part: Mapping[str, Any]) -> bool:
    match part.get("type"):
        case "text":
            return not str(part.get("text") or "").strip()
        case "thinking":
            return not part.get("thinking") and not part.get("thinkingSignature")
        case "image":
            return not part.get("data")
        case "toolCall":
            return False
        case _:
            return True


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# --- calls and results ---
def _paired(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Place the results of each assistant message's calls after it, in the calls' order; a missing result is stated as
    such, and one that answers no call is dropped."""
    taken: set[int] = set()
    found: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        if message["role"] == "toolResult":
            continue
        calls = _calls_once(message) if message["role"] == "assistant" else []
        if not calls:
            found.append(message)
            continue
        found.append(_with_calls(message, calls))
        for call in calls:
            result = _result_of(call["id"], messages, at, taken)
            found.append(result if result is not None else {
                "role": "toolResult", "toolCallId": call["id"], "toolName": call["name"], "isError": True,
                "content": [_text(NO_RESULT)], "timestamp": message.get("timestamp") or 0})
    return found


def _calls_once(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a message, each id once."""
    found: dict[str, dict[str, Any]] = {}
    for part in message["content"]:
        if part.get("type") == "toolCall":
            found.setdefault(part["id"], part)
    return list(found.values())


def _with_calls(message: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    if len(calls) == sum(part.get("type") == "toolCall" for part in message["content"]):
        return message
    kept = {id(call) for call in calls}
    return {**message, "content": [part for part in message["content"]
                                   if part.get("type") != "toolCall" or id(part) in kept]}


def _result_of(call_id: str, messages: list[dict[str, Any]], at: int, taken: set[int]) -> dict[str, Any] | None:
    """Return the first result of the call after it, before the same id is called again."""
    for place in range(at + 1, len(messages)):
        message = messages[place]
        if message["role"] == "assistant" and any(part.get("id") == call_id for part in message["content"]
                                                  if part.get("type") == "toolCall"):
            return None
        if message["role"] == "toolResult" and place not in taken and message.get("toolCallId") == call_id:
            taken.add(place)
            return message
    return None


# --- ids ---
def _renamed(messages: list[dict[str, Any]], rules: ProviderRules) -> list[dict[str, Any]]:
    return [_named(message, rules) for message in messages]


def _named(message: dict[str, Any], rules: ProviderRules) -> dict[str, Any]:
    if message["role"] == "toolResult":
        call_id = provider_id(str(message.get("toolCallId")), rules)
        return message if call_id == message.get("toolCallId") else {**message, "toolCallId": call_id}
    if message["role"] != "assistant" or all(
            part.get("type") != "toolCall" or rules.id_form.match(part["id"]) for part in message["content"]):
        return message
    return {**message, "content": [{**part, "id": provider_id(part["id"], rules)} if part.get("type") == "toolCall"
                                   else part for part in message["content"]]}


def provider_id(call_id: str, rules: ProviderRules) -> str:
    """Return an id in the provider's alphabet: itself if it fits, otherwise a digest of it, the same each time."""
    if rules.id_form.match(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:rules.id_chars]


# --- order of the roles ---
def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        if found and message["role"] == "user" == found[-1]["role"]:
            found[-1] = {**found[-1], "content": [*_filled(found[-1]["content"]), *_filled(message["content"])]}
        else:
            found.append(message)
    if found and found[0]["role"] != "user":
        found.insert(0, {"role": "user", "content": GOES_ON, "timestamp": found[0].get("timestamp") or 0})
    return found
