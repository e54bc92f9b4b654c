"""The audit log."""

from __future__ import annotations

from interlock.protocol.answers import (
    AuditKey,
    AuditLine,
    AuditPage,
    ConsistencyProof,
    Erased,
    InclusionProof,
    Resumed,
    SigningState,
)
from interlock.protocol.api.operation import ADMINS, AUDITORS, NDJSON, TEXT, Operation
from interlock.protocol.resources import AuditErasureBody, AuditResumeBody

READ_AUDIT = Operation(
    "readAudit", "GET", "/audit",
    "One page, oldest first, or with `order=newest` newest first. A read from the start is recorded; its following "
    "pages belong to the same read. A page of a search may have fewer records than asked for, or none, while "
    "`has_more` says that there are more.",
    roles=AUDITORS,
    query=("since", "limit", "order", "actor", "action", "command", "session", "approval", "from", "to"),
    answers=AuditPage,
    verb="audit list")
GET_AUDIT_RECORD = Operation(
    "getAuditRecord", "GET", "/audit/records/{seq}",
    "One record, byte by byte. Reading it is recorded.",
    roles=AUDITORS, answers=AuditLine,
    no_verb="`audit export` has each record byte by byte")
AUDIT_KEY = Operation(
    "auditKey", "GET", "/audit/key",
    "The public key that signs this log, and the name that its checkpoints carry. Anyone who relies on it compares "
    "it with one that came another way: the same gateway sends both.",
    roles=AUDITORS, answers=AuditKey, codes=("NotFound",),
    no_verb="`audit export` and the witness's own file carry it; it is compared by hand")
EXPORT_AUDIT = Operation[bytes](
    "exportAudit", "GET", "/audit/export",
    "NDJSON {seq, hash, personal, record} a line, then {checkpoint}.",
    roles=AUDITORS, media=(NDJSON,),
    verb="audit export")
AUDIT_CHECKPOINT = Operation[bytes](
    "auditCheckpoint", "GET", "/audit/checkpoint",
    "How far the log goes, signed now, as a C2SP note.",
    roles=AUDITORS, media=(TEXT,),
    verb="audit witness")
PROVE_INCLUSION = Operation(
    "proveInclusion", "GET", "/audit/proof/inclusion",
    "`size` is that of the newest checkpoint where it is not named.",
    roles=AUDITORS, query=("seq", "size"), answers=InclusionProof, codes=("NotFound",),
    no_verb="`audit verify` checks a whole export")
PROVE_CONSISTENCY = Operation(
    "proveConsistency", "GET", "/audit/proof/consistency",
    "`second` is the size of the newest checkpoint where it is not named.",
    roles=AUDITORS, query=("first", "second"), answers=ConsistencyProof, codes=("NotFound",),
    verb="audit witness")
SHOW_SIGNING = Operation(
    "showSigning", "GET", "/audit/signing",
    "No record is left of it, as a record would change what is shown.",
    roles=AUDITORS, answers=SigningState, codes=("NotFound", "Unavailable"),
    verb="audit resume")
RESUME_SIGNING = Operation(
    "resumeSigning", "POST", "/audit/resume",
    "Accept the log as it is; earlier checkpoints are set aside, and a record says who did it.",
    roles=AUDITORS, body=AuditResumeBody, answers=Resumed, codes=("Conflict", "NotFound", "Unavailable"),
    verb="audit resume")
ERASE_AUDIT = Operation(
    "eraseAudit", "POST", "/audit/erasures",
    "Forget personal data of some records, or of all that one actor caused (U-4).",
    roles=ADMINS, body=AuditErasureBody, answers=Erased,
    verb="audit erase")
