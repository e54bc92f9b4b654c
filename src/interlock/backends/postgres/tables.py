"""Which statement each write of a batch becomes: what many batches write to one table is one statement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from interlock.backends import rows
from interlock.backends.postgres import statements
from interlock.backends.postgres.texts import held
from interlock.ports.ledger import Fenced, LedgerError, Spent
from interlock.ports.writes import (
    BeginLane,
    ChangeBrowserLogin,
    CountUsage,
    DropBrowserLogins,
    DropControls,
    DropDrain,
    DropPairings,
    DropSpending,
    DropTranscript,
    DropUsage,
    EraseAudit,
    LedgerWrite,
    PutApproval,
    PutBrowserLogin,
    PutCommand,
    PutControl,
    PutDelivery,
    PutDrain,
    PutFact,
    PutFile,
    PutIdempotency,
    PutKey,
    PutPairing,
    PutRule,
    PutRunner,
    PutSession,
    PutSigningKey,
    PutTenant,
    PutTranscript,
    SeeRunner,
    Spend,
    SpendBrowserLogin,
    SpendPairing,
    UseBrowserLogin,
    UseKey,
)

Row = tuple[Any, ...]
Keyed = Iterable[tuple[Hashable, Row]]
Merge = Callable[[Row, Row], Row]


class Op(NamedTuple):
    """A statement, and the rows that a write adds to it. Of rows with one key the last counts, unless `merge` says
    otherwise; a key of None has no other like it."""

    table: str
    sql: str
    rows: Callable[[Any], Keyed]
    merge: Merge = lambda _old, new: new
    every: Callable[[], LedgerError] | None = None
    """Makes what is raised where the statement does not return a row for every row that it was given."""


def _first(old: Row, _new: Row) -> Row:
    return old


def _sum(old: Row, new: Row) -> Row:
    return (*old[:4], old[4] + new[4], old[5] + new[5])


def _count(old: Row, new: Row) -> Row:
    return (*old[:6], *(had + more for had, more in zip(old[6:], new[6:], strict=True)))


def _one(row: Callable[[Any], Row], keys: int = 1) -> Callable[[Any], Keyed]:
    """One row for each write, whose first columns are its key."""

    def rows_of(write: Any) -> Keyed:
        made = row(write)
        return ((made[:keys], made),)

    return rows_of


def _new(row: Callable[[Any], Row]) -> Callable[[Any], Keyed]:
    return lambda write: ((None, row(write)),)


def _command(write: PutCommand) -> Row:
    return (*rows.command_row(write.record), write.record.created_ms)


def _delivery(write: PutDelivery) -> Row:
    return (*rows.delivery_row(write.record), write.record.delivery.created_at)


def _file(write: PutFile) -> Row:
    return (*rows.file_row(write.record), "\n".join(write.record.objects))


def _control(write: PutControl) -> Row:
    record = write.record
    return record.session_id, record.seq, record.message_id, record.body


def _line(write: PutTranscript) -> Row:
    return write.line.session_id, write.line.entry_id, write.line.line


def _dropped_lines(write: DropTranscript) -> Keyed:
    return (((write.session_id, one), (write.session_id, one)) for one in write.entry_ids)


def _erased(write: EraseAudit) -> Keyed:
    return (((write.tenant_id, seq), (write.tenant_id, seq)) for seq in write.seqs)


OPS: dict[type[LedgerWrite], Op] = {
    BeginLane: Op("lane", statements.BEGIN_LANES, _new(lambda write: (write.lane,)),
                  every=lambda: Fenced("A lane is begun that has been taken before.")),
    PutSession: Op("session", statements.PUT_SESSION, _one(lambda write: rows.session_row(write.record))),
    PutCommand: Op("command", statements.PUT_COMMAND, _one(_command)),
    PutApproval: Op("approval", statements.PUT_APPROVAL, _one(lambda write: rows.approval_row(write.record))),
    PutControl: Op("control", statements.PUT_CONTROL, _one(_control, 2)),
    DropControls: Op("control", statements.DROP_CONTROLS, _one(lambda write: (write.session_id, write.seq), 2)),
    PutFile: Op("file", statements.ADD_FILE, _one(_file, 2), _first),
    PutIdempotency: Op("idempotency", statements.ADD_IDEMPOTENCY,
                       _new(lambda write: rows.idempotency_row(write.record))),
    PutRunner: Op("runner", statements.PUT_RUNNER, _one(lambda write: rows.runner_row(write.record))),
    SeeRunner: Op("runner", statements.SEE_RUNNER,
                  _one(lambda write: (write.tenant_id, write.runner_id, write.at_ms), 2)),
    PutPairing: Op("pairing", statements.ADD_PAIRING, _new(lambda write: rows.pairing_row(write.record))),
    SpendPairing: Op("pairing", statements.SPEND_PAIRING,
                     _new(lambda write: (write.tenant_id, write.code_sha256, write.now_ms)),
                     every=lambda: Spent("This code is not known, or no longer good.")),
    DropPairings: Op("pairing", statements.DROP_PAIRINGS, _one(lambda write: (write.now_ms,))),
    PutBrowserLogin: Op("browser_login", statements.ADD_BROWSER_LOGIN,
                        _new(lambda write: rows.browser_login_row(write.record))),
    SpendBrowserLogin: Op("browser_login", statements.SPEND_BROWSER_LOGIN,
                          _new(lambda write: (write.tenant_id, write.id, write.now_ms)),
                          every=lambda: Spent("This browser session or code is not known, or no longer good.")),
    ChangeBrowserLogin: Op("browser_login", statements.CHANGE_BROWSER_LOGIN,
                           _new(lambda write: rows.changed_browser_login_row(write.record)),
                           every=lambda: Spent("This browser session is not known, or no longer good.")),
    UseBrowserLogin: Op("browser_login", statements.USE_BROWSER_LOGIN,
                        _one(lambda write: (write.tenant_id, write.id, write.at_ms), 2)),
    DropBrowserLogins: Op("browser_login", statements.DROP_BROWSER_LOGINS, _one(lambda write: (write.now_ms,))),
    PutKey: Op("api_key", statements.PUT_KEY, _one(lambda write: rows.key_row(write.record))),
    UseKey: Op("api_key", statements.USE_KEY, _one(lambda write: (write.tenant_id, write.key_id, write.at_ms), 2)),
    PutRule: Op("remembered_rule", statements.PUT_RULE, _one(lambda write: rows.rule_row(write.record))),
    PutDrain: Op("drain", statements.PUT_DRAIN, _one(lambda write: rows.drain_row(write.record), 3)),
    DropDrain: Op("drain", statements.DROP_DRAIN, _one(lambda write: (write.tenant_id, write.scope, write.name), 3)),
    PutSigningKey: Op("signing_key", statements.PUT_SIGNING_KEY,
                      _one(lambda write: rows.signing_key_row(write.record))),
    Spend: Op("spending", statements.SPEND, _one(lambda write: rows.spending_row(write.record), 4), _sum),
    DropSpending: Op("spending", statements.DROP_SPENDING, _one(lambda write: (write.before_day,))),
    CountUsage: Op("daily_usage", statements.COUNT_USAGE, _one(lambda write: rows.usage_row(write.record), 6), _count),
    DropUsage: Op("daily_usage", statements.DROP_USAGE, _one(lambda write: (write.before_day,))),
    PutTenant: Op("tenant", statements.PUT_TENANT, _one(lambda write: rows.tenant_row(write.record))),
    PutDelivery: Op("delivery", statements.PUT_DELIVERY, _one(_delivery)),
    PutFact: Op("store", statements.PUT_FACT, _one(lambda write: (write.name, write.value))),
    EraseAudit: Op("audit_personal", statements.ERASE_PERSONAL, _erased),
    PutTranscript: Op("transcript_pending", statements.PUT_PENDING, _one(_line, 2)),
    DropTranscript: Op("transcript_pending", statements.DROP_PENDING, _dropped_lines),
}
TABLES = [*dict.fromkeys(op.table for op in OPS.values())]
"""The order in which every transaction goes through them, so that two seldom wait for each other."""


class TableStatement:
    """One statement that is to run, with its rows."""

    __slots__ = ("op", "rows")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.rows: dict[Hashable, Row] = {}

    def add(self, keyed: Keyed) -> None:
        """Take rows more."""
        for key, row in keyed:
            key = len(self.rows) if key is None else key
            old = self.rows.get(key)
            self.rows[key] = row if old is None else self.op.merge(old, row)

    def columns(self) -> list[list[Any]]:
        """Give the rows as the statement takes them."""
        return columns(self.rows.values())


def controls_apart(steps: Iterable[TableStatement]) -> list[TableStatement] | None:
    """Merge writes of control frames and their confirmations, if no frame is confirmed by the group that writes it."""
    puts, drops = TableStatement(OPS[PutControl]), TableStatement(OPS[DropControls])
    for step in steps:
        (puts if step.op is puts.op else drops).add(step.rows.items())
    upto: dict[Any, int] = {}
    for session_id, seq in drops.rows.values():
        upto[session_id] = max(seq, upto.get(session_id, seq))
    if any(seq <= upto.get(session_id, 0) for session_id, seq, *_ in puts.rows.values()):
        return None
    return [step for step in (puts, drops) if step.rows]


def columns(rows_: Iterable[Row]) -> list[list[Any]]:
    """Turn rows into one list for each column, with every text as PostgreSQL can hold it."""
    return [[held(value) if isinstance(value, str) else value for value in column]
            for column in zip(*rows_, strict=True)]
