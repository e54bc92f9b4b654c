"""Requests on the audit log, its proofs and its signing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from interlock.protocol.answers import AuditLine, AuditPage, ConsistencyProof, Erased, InclusionProof, Resumed
from interlock.protocol.api.audit import (
    AUDIT_CHECKPOINT,
    AUDIT_KEY,
    ERASE_AUDIT,
    EXPORT_AUDIT,
    GET_AUDIT_RECORD,
    PROVE_CONSISTENCY,
    PROVE_INCLUSION,
    READ_AUDIT,
    RESUME_SIGNING,
    SHOW_SIGNING,
)
from interlock.protocol.resources import AuditErasureBody, AuditResumeBody
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, Pieces, SingleRequest
from interlock.sdk.requests.base import change, plain, read


def audit(*, since: str | None = None, limit: int | None = None, order: Literal["oldest", "newest"] | None = None,
          actor: str | None = None, action: str | None = None, command: str | None = None, session: str | None = None,
          approval: str | None = None, from_: str | None = None, to: str | None = None) -> RequestSpec[AuditPage]:
    """Return a page of the audit log, oldest first unless `order` reverses it. `from_` and `to` are ISO 8601
    instants. A page of a search may be short, or empty, although `has_more` is true."""
    return read(READ_AUDIT, since=since, limit=limit, order=order, actor=actor, action=action,
                command=command, session=session, approval=approval, to=to, **{"from": from_})


def audit_record(seq: int) -> RequestSpec[AuditLine]:
    """Return one record of the audit log."""
    return read(GET_AUDIT_RECORD, str(seq))


def prove_inclusion(seq: int, *, size: int | None = None) -> RequestSpec[InclusionProof]:
    """Prove that a record is in the tree of `size` records."""
    return read(PROVE_INCLUSION, seq=seq, size=size)


def prove_consistency(first: int, *, second: int | None = None) -> RequestSpec[ConsistencyProof]:
    """Prove that one tree is the beginning of another."""
    return read(PROVE_CONSISTENCY, first=first, second=second)


def erase(*, records: Sequence[int] | None = None, who: str | None = None, idempotency_key: str | None = None
          ) -> RequestSpec[Erased]:
    """Erase the personal data of some records, or of all records that one person caused."""
    body = AuditErasureBody(records=list(records) if records is not None else None, who=who)
    return change(ERASE_AUDIT, body=body, key=idempotency_key)


def resume_signing(size: int, root: str, *, reason: str | None = None, idempotency_key: str | None = None
                   ) -> RequestSpec[Resumed]:
    """Accept the first `size` records of a log that cannot be signed, under this root, and sign the log again."""
    body = AuditResumeBody(size=size, root=root, reason=reason)
    return change(RESUME_SIGNING, body=body, key=idempotency_key)


class AuditMethods(ApiResource[LinkT]):
    """The log, its checkpoints and its proofs."""

    read = SingleRequest(audit)
    record = SingleRequest(audit_record)
    key = SingleRequest(plain(
        AUDIT_KEY,
        "Return the public key that signs the audit log. Compare it with one that came another way."))
    export = Pieces(plain(
        EXPORT_AUDIT,
        "Read the whole log and its signed checkpoint as NDJSON, piece by piece; `interlock audit verify` checks it."))
    checkpoint = SingleRequest(plain(AUDIT_CHECKPOINT, "Return the size of the log, signed now, as a C2SP note."))
    prove_inclusion = SingleRequest(prove_inclusion)
    prove_consistency = SingleRequest(prove_consistency)
    erase = SingleRequest(erase)
    signing = SingleRequest(plain(SHOW_SIGNING, "Return the size of the log, and why it cannot be signed, if so."))
    resume_signing = SingleRequest(resume_signing)
