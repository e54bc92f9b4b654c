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
    "Return one page of the audit log, oldest first, or newest first with `order=newest`. A read from the start is "
    "recorded; its following pages belong to the same read. A page of a search may have fewer records than `limit`, "
    "or none, although `has_more` is true.",
    roles=AUDITORS,
    query=("since", "limit", "order", "actor", "action", "command", "session", "approval", "from", "to"),
    answers=AuditPage,
    verb="audit list")
GET_AUDIT_RECORD = Operation(
    "getAuditRecord", "GET", "/audit/records/{seq}",
    "Return the exact bytes of one record. Reading it is recorded.",
    roles=AUDITORS, answers=AuditLine,
    no_verb="`audit export` has each record byte by byte")
AUDIT_KEY = Operation(
    "auditKey", "GET", "/audit/key",
    "Return the public key that signs this log, and the name on its checkpoints. Compare it with a copy from another "
    "source before relying on it: this gateway sends both the log and the key.",
    roles=AUDITORS, answers=AuditKey, codes=("NotFound",),
    no_verb="`audit export` and the witness's own file carry it; it is compared by hand")
EXPORT_AUDIT = Operation[bytes](
    "exportAudit", "GET", "/audit/export",
    "Export the log as NDJSON: {seq, hash, personal, record} in each line, then {checkpoint}.",
    roles=AUDITORS, media=(NDJSON,),
    verb="audit export")
AUDIT_CHECKPOINT = Operation[bytes](
    "auditCheckpoint", "GET", "/audit/checkpoint",
    "Return a checkpoint of the current log, signed now, as a C2SP note.",
    roles=AUDITORS, media=(TEXT,),
    verb="audit witness")
PROVE_INCLUSION = Operation(
    "proveInclusion", "GET", "/audit/proof/inclusion",
    "Prove that a record is in the log's tree of `size` records.",
    roles=AUDITORS, query=("seq", "size"), answers=InclusionProof, codes=("NotFound",),
    no_verb="`audit verify` checks a whole export")
PROVE_CONSISTENCY = Operation(
    "proveConsistency", "GET", "/audit/proof/consistency",
    "Prove that the log's tree of `first` records is the beginning of the tree of `second`.",
    roles=AUDITORS, query=("first", "second"), answers=ConsistencyProof, codes=("NotFound",),
    verb="audit witness")
SHOW_SIGNING = Operation(
    "showSigning", "GET", "/audit/signing",
    "Return whether the log can be signed, and its current end. This request is not recorded, since a record would "
    "change the end.",
    roles=AUDITORS, answers=SigningState, codes=("NotFound", "Unavailable"),
    verb="audit resume")
RESUME_SIGNING = Operation(
    "resumeSigning", "POST", "/audit/resume",
    "Accept the log as it is and sign it again. Earlier checkpoints are set aside, and a record names who accepted it.",
    roles=AUDITORS, body=AuditResumeBody, answers=Resumed, codes=("Conflict", "NotFound", "Unavailable"),
    verb="audit resume")
ERASE_AUDIT = Operation(
    "eraseAudit", "POST", "/audit/erasures",
    "Erase the personal data of some records, or of all records of one actor (U-4).",
    roles=ADMINS, body=AuditErasureBody, answers=Erased,
    verb="audit erase")
