"""Why a link was refused, when no frame can carry it: in the upgrade's answer, or in the reason of the close (W-2).

Either way it is a code of the table with one sentence, so that a runner shows a person what an error frame would have.
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
"""HTTP status of an upgrade that another gateway is to be asked for."""
_BY_STATUS = {status: code for code, (status, _) in STATUS.items()} | {403: Code.UNAUTHORIZED}
_BY_CLOSE = {number: code for code, number in CLOSE.items()}

LINK_DIGITS = 18
"""A link number has no more digits: what is longer is not a gateway's word."""
DETAIL_CHARS = 300
"""What a stranger's answer says is shown up to here."""


class LinkRefusal(NamedTuple):
    """A code and what was said of this case; `detail` may be empty."""

    code: Code
    detail: str

    @property
    def sentence(self) -> str:
        """For a person: what happened, what was said, what to do."""
        meaning = MEANINGS[self.code]
        detail = f" ({self.detail.rstrip('.')})" if self.detail else ""
        return f"{meaning.sentence.rstrip('.')}{detail}. {meaning.remedy}"


class _RefusalBody(msgspec.Struct):
    error_code: str = ""
    detail: str = ""


def problem(refusal: LinkRefusal) -> bytes:
    """`application/problem+json` for a refused upgrade; `error_code` is the code, `code` that of the REST table."""
    status, title = STATUS[refusal.code]
    return msgspec.json.encode({
        "type": "about:blank", "title": title, "status": status, "code": title.replace(" ", ""),
        "error_code": refusal.code.value, "detail": refusal.detail, "hint": MEANINGS[refusal.code].remedy,
    })


class _NamedPlace(msgspec.Struct):
    moved_to: str = ""


def moved_problem(closed: Problem, place: str) -> bytes:
    """`application/problem+json` for the upgrade of a runner whose tenant is at another gateway, or on its way there;
    `moved_to` is that gateway's address, "" while it is not known."""
    return msgspec.json.encode({
        "type": "about:blank", "title": closed.kind.title, "status": closed.kind.status, "code": closed.code,
        "detail": closed.detail, "hint": closed.hint, "moved_to": place})


def read_moved(status: int, body: bytes) -> str | None:
    """Return the address of the gateway that a runner's tenant was moved to, if an answer to an upgrade names one."""
    if status != MOVED_STATUS:
        return None
    try:
        return msgspec.json.decode(body, type=_NamedPlace).moved_to[:DETAIL_CHARS] or None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_problem(status: int, body: bytes) -> LinkRefusal | None:
    """Understand an answer to an upgrade; None where it refuses for another reason, or for now only.

    A body that is not ours (a proxy's page) leaves only the status.
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
    """The reason of a close frame; it is cut to fit by anyone who sends it."""
    return f"{refusal.code.value}: {refusal.detail}"


def read_reason(close_code: int | None, text: str) -> LinkRefusal | None:
    """Understand a close; None for one that is not a refusal. A reason without its code is the detail."""
    code = _BY_CLOSE.get(close_code or 0)
    if code is None:
        return None
    return LinkRefusal(code, _printable(text.removeprefix(f"{code.value}: ")) or f"close code {close_code}")


def outdated(newest: int) -> str:
    """The reason of a close by `CloseCode.OUTDATED`. Anyone who still listens numbers on from `newest`."""
    return f"a newer link of this runner is known, number {newest}"


def read_outdated(close_code: int | None, text: str) -> int | None:
    """Which link number the gateway knows; None for another close, or where it does not say."""
    number = text.rpartition(" ")[2] if close_code == CloseCode.OUTDATED else ""
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= LINK_DIGITS else None


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:DETAIL_CHARS].strip()
