"""The reason of a refused link, if no frame can carry it: in the upgrade's response, or in the reason of the close
(W-2).

Either way it is a code of the table with one sentence, so that a runner shows a person what an error frame would
have.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from interlock.protocol.codes import MEANINGS, CloseCode, Code
from interlock.protocol.problems import Problem

STATUS: dict[Code, tuple[int, str]] = {
    Code.UNAUTHORIZED: (401, "Unauthorized"),
    Code.VERSION_UNSUPPORTED: (406, "Not Acceptable"),
}
"""HTTP status and title of a refused upgrade."""

CLOSE: dict[Code, int] = {
    Code.UNAUTHORIZED: CloseCode.UNAUTHORIZED,
    Code.VERSION_UNSUPPORTED: CloseCode.VERSION,
}
"""Close code of a link that was refused after it opened."""

MOVED_STATUS = 421
"""HTTP status of an upgrade that belongs to another gateway."""
_BY_STATUS = {status: code for code, (status, _) in STATUS.items()} | {403: Code.UNAUTHORIZED}
_BY_CLOSE = {number: code for code, number in CLOSE.items()}

LINK_DIGITS = 18
"""Maximum digits of a link number: a longer one is not a gateway's."""
DETAIL_CHARS = 300
"""Maximum length of the shown text of an unknown server's response."""


class LinkRefusal(NamedTuple):
    """A code and the details of this case; `detail` may be empty."""

    code: Code
    detail: str

    @property
    def sentence(self) -> str:
        """Return the text for a person: what happened, the details, the remedy."""
        meaning = MEANINGS[self.code]
        detail = f" ({self.detail.rstrip('.')})" if self.detail else ""
        return f"{meaning.sentence.rstrip('.')}{detail}. {meaning.remedy}"


class _RefusalBody(msgspec.Struct):
    error_code: str = ""
    detail: str = ""


def problem(refusal: LinkRefusal) -> bytes:
    """Return `application/problem+json` for a refused upgrade; `error_code` is the code, `code` that of the REST
    table."""
    status, title = STATUS[refusal.code]
    return msgspec.json.encode({
        "type": "about:blank", "title": title, "status": status, "code": title.replace(" ", ""),
        "error_code": refusal.code.value, "detail": refusal.detail, "hint": MEANINGS[refusal.code].remedy,
    })


class _NamedPlace(msgspec.Struct):
    moved_to: str = ""


def moved_problem(closed: Problem, place: str) -> bytes:
    """Return `application/problem+json` for the upgrade of a runner whose tenant is at another gateway, or being moved
    there; `moved_to` is that gateway's address, "" while it is unknown."""
    return msgspec.json.encode({
        "type": "about:blank", "title": closed.kind.title, "status": closed.kind.status, "code": closed.code,
        "detail": closed.detail, "hint": closed.hint, "moved_to": place})


def read_moved(status: int, body: bytes) -> str | None:
    """Return the address of the gateway that a runner's tenant was moved to, if a response to an upgrade names one."""
    if status != MOVED_STATUS:
        return None
    try:
        return msgspec.json.decode(body, type=_NamedPlace).moved_to[:DETAIL_CHARS] or None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_problem(status: int, body: bytes) -> LinkRefusal | None:
    """Parse a response to an upgrade; None if it refuses for another reason, or temporarily.

    A foreign body (a proxy's page) leaves only the status.
    """
    known = _BY_STATUS.get(status)
    try:
        refusal = msgspec.json.decode(body, type=_RefusalBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        refusal = _RefusalBody()
    code = next((one for one in STATUS if one == refusal.error_code), known)
    if known is None or code is None:
        return None
    return LinkRefusal(code, _printable(refusal.detail) or f"HTTP {status}")


def reason(refusal: LinkRefusal) -> str:
    """Return the reason of a close frame; its sender cuts it to fit."""
    return f"{refusal.code.value}: {refusal.detail}"


def read_reason(close_code: int | None, text: str) -> LinkRefusal | None:
    """Parse a close; None for one that is not a refusal. A reason without its code is the detail."""
    code = _BY_CLOSE.get(close_code or 0)
    if code is None:
        return None
    return LinkRefusal(code, _printable(text.removeprefix(f"{code.value}: ")) or f"close code {close_code}")


def outdated(newest: int) -> str:
    """Return the reason of a close by `CloseCode.OUTDATED`. A runner that receives it continues its numbers from
    `newest`."""
    return f"a newer link of this runner is known, number {newest}"


def read_outdated(close_code: int | None, text: str) -> int | None:
    """Return the link number that the gateway knows; None for another close, or if it is not stated."""
    number = text.rpartition(" ")[2] if close_code == CloseCode.OUTDATED else ""
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= LINK_DIGITS else None


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:DETAIL_CHARS].strip()
