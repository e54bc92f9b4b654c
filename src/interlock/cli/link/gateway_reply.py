"""A gateway's reply: a resource, or a refusal as one sentence with its code and remedy (F-1)."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from interlock.cli.exit_status import BY_HTTP, ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.protocol.problems import PROBLEMS
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.problems import for_people, seconds

T = TypeVar("T")


_LIST = re.compile(r"`GET /v1/([\w{}/-]+)`")
LISTED = {
    "approvals": "approvals", "audit": "audit list", "browser-sessions": "console sessions", "commands": "tasks",
    "keys": "keys", "policy/rules": "policy rules", "runners": "runners", "sessions": "sessions",
    "sessions/{id}/changes": "changes", "sessions/{id}/tree": "sessions tree", "signing-keys": "signing-keys",
    "status": "status", "webhooks": "webhooks", "webhooks/deliveries": "webhooks dead",
}
"""The verb that shows the response to `GET` of a path below /v1."""
OPTIONS = {"on_busy": "--on-busy"}
"""Fields of a body that hints name, and the verbs' options that set them."""
_OPTION = re.compile(rf"\b({'|'.join(OPTIONS)})\b")


class _Problem(msgspec.Struct):
    """The members of problem+json that are shown (F-1)."""

    title: str = ""
    detail: str = ""
    code: str = ""
    hint: str = ""
    errors: list[dict[str, Any]] = []


def refusal(status: int, body: bytes, path: str, retry_after: str | None = None) -> Trouble:
    """Return the error of a problem+json response, or of a response by a proxy, as one sentence. `retry_after` is its
    header."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = _Problem()
    if not problem.code:
        return Trouble(f"HTTP {status}", f"The gateway answered {path} with status {status}.",
                       "Is this the URL of an Interlock gateway?", BY_HTTP.get(status, ExitStatus.FAILED))
    sentence = problem.detail or problem.title
    wait_s = seconds(retry_after)
    hint = problem.hint or (f"Send it again in {wait_s:.0f} s." if wait_s is not None else problem.hint)
    return Trouble(problem.code, _with_places(sentence, problem.errors),
                   in_verbs(for_people(hint, wait_s)), retry_after_s=wait_s)


def _with_places(sentence: str, places: list[dict[str, Any]]) -> str:
    """Add the invalid places of a request, unless the sentence names each of them."""
    if all(place.get("pointer") and str(place["pointer"]) in sentence for place in places):
        return sentence
    named = "; ".join(f"{place.get('pointer', '')}: {place.get('detail', '')}" for place in places)
    return f"{sentence.removesuffix('.')} ({named})"


def in_verbs(hint: str) -> str:
    """Replace the API's path in a gateway's hint with the verb that lists the same, and fields with options (Y-10)."""
    if hint == PROBLEMS["InvalidPayload"].hint:
        return "Correct it, and send it again."  # `errors` is a field of the reply, which a person does not see.
    listed = _LIST.sub(lambda found: f"`interlock {LISTED[found[1]]}`" if found[1] in LISTED else found[0], hint)
    return _OPTION.sub(lambda found: OPTIONS[found[1]], listed)


def decoded(raw: bytes, kind: type[T], path: str) -> T:
    """Decode a response. Raises Trouble if it did not come from a gateway."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_a_gateway(path, error) from None


def understood(request: RequestSpec[T], raw: bytes) -> T:
    """Decode the response to a request of the library. Raises Trouble if it did not come from a gateway."""
    try:
        return request.read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_a_gateway(request.path, error) from None


def not_a_gateway(path: str, error: Exception) -> Trouble:
    """Return the error that a response is not in a known form."""
    return Trouble("UpstreamError", f"The answer to {path} is not a gateway's: {error}.",
                   "Check the URL, and that both are of the same version.")
