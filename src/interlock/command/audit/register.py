"""Rows that determine permissions, each bound to the audit log by a digest in the record of its last change (H-5).

Keys, remembered rules, signing keys, tenants and runners are rows of a database, which could be edited. The record of
each change carries a digest of the row from then on, so a row with another digest, or with none, was not written by a
gateway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from interlock.command.audit.audit import leaf_hash
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.records import (
    AuditRecord,
    BrowserLoginRecord,
    DrainRecord,
    KeyRecord,
    PairingRecord,
    RuleRecord,
    RunnerRecord,
    SigningKeyRecord,
    TenantRecord,
)

MARK = b'"row_sha256":"'
"""In the body of each record that binds a row, and of no other: within a string its quotes would be escaped."""
ADOPTED_AT_ONCE = 500
"""Maximum number of rows that one `adopted` record binds."""
ADOPTED = "adopted"

BoundRecord = (KeyRecord | RuleRecord | SigningKeyRecord | TenantRecord | RunnerRecord | PairingRecord | DrainRecord
               | BrowserLoginRecord)

_UNBOUND = frozenset({"label", "last_used_ms", "last_seen_ms", "device_name", "name"})
"""Fields without influence on decisions: free text, which the log must not commit to without a salt (U-4), and times of
use."""
_KINDS: dict[type[msgspec.Struct], tuple[str, str]] = {
    KeyRecord: ("key", "key_id"), RuleRecord: ("rule", "id"), SigningKeyRecord: ("signing_key", "key_id"),
    TenantRecord: ("tenant", "tenant_id"), RunnerRecord: ("runner", "runner_id"),
    PairingRecord: ("pairing", "code_sha256"), BrowserLoginRecord: ("browser_login", "id"),
}
SPOKEN = {"key": "API key", "rule": "remembered rule", "signing_key": "signing key", "tenant": "tenant",
          "runner": "runner", "pairing": "pairing code", "browser_login": "browser session or code", "drain": "drain"}
_PASSING = ("pairing/", "browser_login/", "session/", "frame/")
"""Rows that are deleted once they are used, or are bound by other records later."""


class RegisterRow(NamedTuple):
    """A row as the log names it: `key/key_…`, and its digest, SHA-256 in hex."""

    name: str
    sha256: str


class _Meta(msgspec.Struct, frozen=True):
    row: str = ""
    row_sha256: str = ""
    rows: dict[str, str] = {}
    denials: list[str] = []
    effect: str = ""
    change: str = ""


class _Body(msgspec.Struct, frozen=True):
    action: str
    meta: _Meta


_decoder = msgspec.json.Decoder(_Body)


def row_of(record: BoundRecord) -> RegisterRow:
    """Return the name and digest of a row. Unset fields are omitted, so that a new field changes no digest."""
    if isinstance(record, DrainRecord):
        return drain_row(record.tenant_id, record.drain.scope, record.drain.id or "")
    kind, id_name = _KINDS[type(record)]
    inner: msgspec.Struct = record
    if isinstance(record, RuleRecord):
        inner = record.rule
    elif isinstance(record, SigningKeyRecord):
        inner = record.key
    fields: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(inner).items()
                              if name not in _UNBOUND and value is not None and value is not False and value != []}
    if isinstance(record, RuleRecord):
        fields["rule"] = record.rule.rule
    raw = msgspec.json.encode(fields, order="sorted")
    return RegisterRow(f"{kind}/{getattr(inner, id_name)}", hashlib.sha256(raw).hexdigest())


def drain_row(tenant_id: str, scope: str, name: str) -> RegisterRow:
    """Return the name and digest of a drain. What it stops is its whole meaning, so only its name is bound."""
    row = f"drain/{tenant_id}/{scope}/{name}"
    return RegisterRow(row, hashlib.sha256(row.encode()).hexdigest())


def log_of(record: BoundRecord) -> str:
    """Return the tenant in whose log the changes of a row are recorded."""
    if isinstance(record, TenantRecord):
        return OWNER_TENANT
    if isinstance(record, RuleRecord):
        return record.rule.tenant_id
    return record.key.tenant_id if isinstance(record, SigningKeyRecord) else record.tenant_id


def bound(record: BoundRecord) -> dict[str, str]:
    """Return the members of `meta` that bind a row, for the record of its change."""
    row = row_of(record)
    return {"row": row.name, "row_sha256": row.sha256}


def adopted(records: Sequence[BoundRecord], others: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return `meta` of the `adopted` records that bind the rows of a ledger as they are found, once; one if there are
    none. `others` are further rows by name: sessions, and control frames."""
    rows = {**dict(map(row_of, records)), **others}
    denials = {row_of(one).name for one in records if denies(one)}
    names, metas = list(rows), list[dict[str, Any]]()
    for n in range(0, max(1, len(names)), ADOPTED_AT_ONCE):
        page = names[n : n + ADOPTED_AT_ONCE]
        metas.append({"row": ADOPTED, "row_sha256": "", "rows": {name: rows[name] for name in page},
                      "denials": [name for name in page if name in denials]})
    return metas


def ended(row: RegisterRow) -> dict[str, str]:
    """Return the members of `meta` that record a row's removal, for the record of its end."""
    return {"row": row.name, "row_sha256": ""}


def drains_on_record(tenant_id: str, own: Register, owners: Register) -> list[tuple[str, str]]:
    """Return the drains of a tenant, as (scope, name), that are in force by its log."""
    prefix = f"drain/{tenant_id}/"
    found = {name: digest for name, digest in {**owners.rows, **own.rows}.items() if name.startswith(prefix)}
    places = [name.removeprefix(prefix).partition("/") for name, digest in found.items() if digest]
    return [(scope, name) for scope, _, name in places]


def denies(record: BoundRecord) -> bool:
    """Return whether it is a remembered rule in force that does not allow: without it more would run."""
    return (isinstance(record, RuleRecord) and record.rule.revoked_at is None
            and record.rule.rule.get("effect") != "allow")


def sentence(name: str, how: str) -> str:
    """Return the sentence that a row differs."""
    kind, _, row_id = name.partition("/")
    return f"the stored row of the {SPOKEN.get(kind, kind)} {row_id} {how}"


class Register:
    """The rows by a tenant's log, read in the order of its records."""

    def __init__(self) -> None:
        self.seq = 0
        """Of the last record that was read."""
        self.begun = False
        """Whether the log records which rows existed before rows were bound."""
        self.rows: dict[str, str] = {}
        self.denials: set[str] = set()
        """Remembered rules in force that do not allow."""

    def read(self, records: Iterable[AuditRecord]) -> None:
        """Process further records. One that does not match its hash binds nothing."""
        for record in records:
            if record.seq <= self.seq:  # Two concurrent readers deliver it twice.
                continue
            self.seq = record.seq
            if MARK not in record.body or leaf_hash(record.body) != record.hash:
                continue
            try:
                body = _decoder.decode(record.body)
            except msgspec.MsgspecError:
                continue
            if body.action == ADOPTED:
                self.begun = True
                self.rows.update(body.meta.rows)
                self.denials.update(body.meta.denials)
            elif body.meta.row:
                self.rows[body.meta.row] = body.meta.row_sha256
                if body.meta.change == "remembered" and body.meta.effect not in ("", "allow"):
                    self.denials.add(body.meta.row)
                elif body.meta.change == "revoked":
                    self.denials.discard(body.meta.row)


def differs(row: RegisterRow, own: Register, owners: Register) -> str | None:
    """Return how a row differs from the log of its tenant (`own`), or from what the owner's log adopted; None if it
    does not, or if nothing was adopted yet: rows are bound from the first start of a gateway that does so."""
    if not owners.begun:
        return None
    recorded = own.rows.get(row.name) or owners.rows.get(row.name)
    if recorded is None:
        return "has no audit record: it was not written by a gateway"
    return None if recorded == row.sha256 else "is not the one in the audit record of its last change"


def missing(rows: Iterable[RegisterRow], registers: Iterable[Register]) -> Iterator[str]:
    """Yield the rows that are on record and missing: they were deleted outside a gateway."""
    there, logs = {row.name for row in rows}, list(registers)
    ended_rows = {name for register in logs for name, digest in register.rows.items() if not digest}
    for name in sorted({name for register in logs for name in register.rows} - ended_rows):
        if name not in there and not name.startswith(_PASSING):
            yield name
