"""Verification of an audit log's signed votes with the keys that the log itself records as registered (P-4, J-17).

Both are in the log, so a reader needs nothing else: a vote that its person did not sign is found even in a log that the
gateway wrote and signed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from interlock.command.audit.audit_lines import RecordBody, parse_record
from interlock.command.audit.audit_report import AuditReport, Tampering
from interlock.command.signature import Statement, check_signature
from interlock.protocol.clock import parse_iso
from interlock.protocol.problems import Problem, full_sentence
from interlock.protocol.resources import Actor, Passkey, PasskeyAssertion, SigningKey

CONCERNED = (b'"signing_key":"', b'"key_id":"sgk_')
"""A line with one of these registers or revokes a key, or is a vote by one: hardly any other needs parsing."""


UNDER_WAY_MS = 60_000
"""A vote that was cast when its key was revoked may be recorded behind that, by this much at most."""


class _KeyChange(msgspec.Struct):
    signing_key: str
    change: str = ""
    public_key: str = ""
    origin: str = ""


class _SignedVote(msgspec.Struct):
    key_id: str
    decision: Any
    digest: str
    at: str
    signature: str | None = None
    assertion: PasskeyAssertion | None = None


class VoteSignatures:
    """A check that runs while the lines of one log are read. Call `judged` at the end."""

    def __init__(self) -> None:
        self._keys: dict[str, SigningKey] = {}
        self._revoked: dict[str, str] = {}
        """When each revoked key was revoked."""
        self._wrong: tuple[int, str] | None = None

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines unchanged."""
        for line in lines:
            if self._wrong is None and any(mark in line for mark in CONCERNED):
                self._take(line)
            yield line

    def judged(self, report: AuditReport) -> AuditReport:
        """Return the report, or, of an otherwise intact log, the first invalid vote."""
        if not report.ok or self._wrong is None:
            return report
        seq, why = self._wrong
        return msgspec.structs.replace(report, ok=False, seq=seq, kind=Tampering.BAD_SIGNATURE, message=(
            f"Record {seq} is a vote that its person did not sign so: {full_sentence(why)}"))

    @property
    def holds(self) -> bool:
        """Return whether every vote so far has the signature that the log records."""
        return self._wrong is None

    def _take(self, line: bytes) -> None:
        read = parse_record(line)
        if read is None:
            return  # The check of the log itself reports it.
        body = read[1]
        try:
            if body.action == "key_rotate":
                self._change(body, msgspec.convert(body.meta, _KeyChange))
            elif body.action == "vote":
                self._check(body, msgspec.convert(body.meta, _SignedVote))
        except msgspec.ValidationError:
            return
        except Problem as problem:
            self._wrong = body.seq, problem.detail or problem.code

    def _change(self, body: RecordBody, change: _KeyChange) -> None:
        if change.change == "revoked":
            self._revoked.setdefault(change.signing_key, body.at)
        if change.change == "registered":
            kind, _, name = body.who.get("id", "").partition(":")
            self._keys[change.signing_key] = SigningKey(
                key_id=change.signing_key, tenant_id=body.tenant_id, public_key=change.public_key, created_at="",
                owner=Actor(type="agent" if kind == "agent" else "user", id=name),
                passkey=Passkey(credential_id="", origin=change.origin) if change.origin else None)

    def _check(self, body: RecordBody, vote: _SignedVote) -> None:
        """Check a vote's signature, and that its key was not revoked. Raises Problem. A key from before the log began
        is unknown, and its votes are not checked."""
        key, approver = self._keys.get(vote.key_id), body.who.get("id", "")
        revoked_at = self._revoked.get(vote.key_id)
        if revoked_at is not None and not _within(revoked_at, body.at, UNDER_WAY_MS):
            raise Problem("Forbidden", f"Its signing key {vote.key_id} was revoked before, at {revoked_at}")
        if key is not None:
            statement = Statement(body.tenant_id, body.approval_id or "", vote.digest, vote.decision, approver,
                                  vote.key_id, vote.at)
            check_signature(key, approver, statement, vote.signature or vote.assertion)


def _within(one: str, other: str, ms: int) -> bool:
    try:
        return abs(parse_iso(other) - parse_iso(one)) <= ms
    except (ValueError, OverflowError):
        return False
