"""A1, on complete state directories: edits by an attacker who can write everything but lacks the signing key.

The log is rewritten or added to and each copy of a checkpoint removed or replaced by an older one; `audit verify` must
find it, and the next start must sign nothing. Within the bound that a gateway may leave unsigned, only edits that the
threat model names are not found: they are counted separately.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.audit.audit import CHECKPOINT_FACT, FIRST_PREV, seal, write_noted
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.audit_tree import Frontier
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME, verify_ledger_file
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.ledger import AuditAppend, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX
from interlock.protocol.records import AuditDraft

DIRECTORIES = 126
TENANT = "default"
_TRIGGERS = ("audit_never_updated", "audit_never_deleted", "audit_never_replaced")


def _draft(at_ms: int, action: str) -> AuditDraft:
    return AuditDraft(tenant_id=TENANT, at=iso(at_ms), who={"id": "user:ann", "role": "owner"}, action=action)


async def _make(state: Path, dice: random.Random) -> None:
    """Write a log and sign it now and then, as a gateway does that is stopped in the end."""
    ledger = await open_ledger(state / LEDGER_NAME, ManualClock(1000000))
    signer = _signer(ledger, state)
    for _ in range(dice.randrange(2, 5)):
        await ledger.commit(WriteBatch([AuditAppend(_draft(1_000_000, "approve"))] * dice.randrange(1, 6)))
        await signer.sign_tenant(TENANT)
    await ledger.close()


def _signer(ledger: Any, state: Path) -> CheckpointSigner:
    return CheckpointSigner(ledger, load_or_make_key(state), "gw_1", CheckpointFiles(state / CHECKPOINTS_NAME))


async def _start(state: Path) -> bool:
    """Start on a state directory, and return whether its log was signed."""
    ledger = await open_ledger(state / LEDGER_NAME, ManualClock(1000000))
    signer = _signer(ledger, state)
    await signer.sign()
    await ledger.close()
    return signer.signing.reason(TENANT) is None


def write_log(state: Path, keep: int, count: int, step_ms: int = 1) -> None:
    """Keep the first records of a log and forge others up to `count`, chained, under a tree of their own."""
    database = sqlite3.connect(state / LEDGER_NAME)
    for name in _TRIGGERS:
        database.execute(f"DROP TRIGGER IF EXISTS {name}")
    rows = database.execute("SELECT hash FROM audit WHERE seq <= ? ORDER BY seq", (keep,)).fetchall()
    database.execute("DELETE FROM audit WHERE seq > ?", (keep,))
    database.execute("DELETE FROM audit_node")
    tree, prev = Frontier(), rows[-1][0] if rows else FIRST_PREV
    nodes = [grown for (hash_,) in rows for grown in tree.grow(bytes.fromhex(hash_))]
    for seq in range(len(rows) + 1, count + 1):
        forged = seal(_draft(1_000_000 + seq * step_ms, "reject"), seq, prev)
        prev = forged.hash
        nodes += tree.grow(bytes.fromhex(prev))
        database.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (TENANT, seq, prev, forged.body))
    database.executemany("INSERT INTO audit_node VALUES (?, ?, ?, ?)", [(TENANT, *one) for one in nodes])
    database.execute("UPDATE audit_head SET count = ?, last_hash = ?, peaks = ?", (tree.size, prev, tree.peaks))
    database.commit()
    database.close()


def _file(state: Path) -> Path:
    return CheckpointFiles(state / CHECKPOINTS_NAME).path(TENANT)


def keep_checkpoints(state: Path, dice: random.Random) -> None:
    """Leave every checkpoint unchanged."""


def remove_file(state: Path, dice: random.Random) -> None:
    """Remove the file of checkpoints."""
    _file(state).unlink()


def older_file(state: Path, dice: random.Random) -> None:
    """Replace the file of checkpoints by an older one."""
    lines = _file(state).read_bytes().splitlines(keepends=True)
    _file(state).write_bytes(b"".join(lines[: dice.randrange(1, len(lines))]))


def remove_copy(state: Path, dice: random.Random) -> None:
    """Remove the ledger's copy of the last checkpoint."""
    database = sqlite3.connect(state / LEDGER_NAME)
    database.execute("DELETE FROM store WHERE name = ?", (CHECKPOINT_FACT + TENANT,))
    database.commit()
    database.close()


def remove_both(state: Path, dice: random.Random) -> None:
    """Remove the file and the ledger's copy."""
    remove_file(state, dice)
    remove_copy(state, dice)


def older_file_without_copy(state: Path, dice: random.Random) -> None:
    """Replace the file by an older one, and remove the ledger's copy."""
    older_file(state, dice)
    remove_copy(state, dice)


def older_both(state: Path, dice: random.Random) -> None:
    """Replace the file and the ledger's copy by older ones that agree."""
    older_file(state, dice)
    line = _file(state).read_bytes().splitlines(keepends=True)[-1]
    found = parse_checkpoint_line(line)
    assert found is not None
    database = sqlite3.connect(state / LEDGER_NAME)
    database.execute("UPDATE store SET value = ? WHERE name = ?",
                     (write_noted(found.size, line), CHECKPOINT_FACT + TENANT))
    database.commit()
    database.close()


CHECKPOINTS: tuple[Callable[[Path, random.Random], None], ...] = (
    keep_checkpoints, remove_file, older_file, remove_copy, remove_both, older_file_without_copy, older_both)


def _count(state: Path) -> int:
    database = sqlite3.connect(state / LEDGER_NAME)
    count = database.execute("SELECT count(*) FROM audit").fetchone()[0]
    database.close()
    return int(count)


def rewrite(state: Path, dice: random.Random) -> str:
    """Write signed records again, and some more or fewer."""
    count = _count(state)
    write_log(state, dice.randrange(count), max(1, count + dice.randrange(-1, 3)))
    return "rewritten"


def forge_long(state: Path, dice: random.Random) -> str:
    """Append more records than a gateway may leave unsigned."""
    count = _count(state)
    write_log(state, count, count + UNSIGNED_RECORDS_MAX + dice.choice((1, 10, 4_000)))
    return "forged tail, long"


def forge_aged(state: Path, dice: random.Random) -> str:
    """Append a few records whose times are too far apart."""
    count = _count(state)
    write_log(state, count, count + 2 + dice.randrange(5), UNSIGNED_SPAN_MS_MAX + 1)
    return "forged tail, aged"


LOGS: tuple[Callable[[Path, random.Random], str], ...] = (rewrite, forge_long, forge_aged)


def tamper(seed: int, rounds: int) -> dict[str, Any]:
    """Tamper with this many state directories: {directories, found, signed, within_bound, false_alarms, by_kind}.

    `within_bound` are those in which the file and the ledger's copy were both put back to older ones that agree, so
    that a rewritten tail looks unsigned: nothing in the directory contradicts that, a witness or a locked bucket does.
    """
    dice = random.Random(seed)
    found = signed = within = false_alarms = 0
    by_kind: Counter[str] = Counter()
    for turn in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            state = Path(place) / "state"
            state.mkdir()
            asyncio.run(_make(state, dice))
            whole = verify_ledger_file(state)
            false_alarms += not whole.ok
            untouched = Path(place) / "untouched"
            shutil.copytree(state, untouched)
            asyncio.run(_start(untouched))
            false_alarms += not verify_ledger_file(untouched).ok
            checkpoints = CHECKPOINTS[turn % len(CHECKPOINTS)]
            kind = LOGS[turn // len(CHECKPOINTS) % len(LOGS)](state, dice)
            checkpoints(state, dice)
            report = verify_ledger_file(state)
            name = f"{kind}, {checkpoints.__name__.replace('_', ' ')}"
            if report.ok and checkpoints is older_both and kind == "rewritten":
                within += 1
                by_kind[f"{name} → within the bound"] += 1
                continue
            found += not report.ok
            by_kind[f"{name} → {report.kind}"] += 1
            if kind != "forged tail, aged":
                signed += asyncio.run(_start(state))
    return {"directories": rounds, "found": found, "signed": signed, "within_bound": within,
            "false_alarms": false_alarms, "by_kind": dict(sorted(by_kind.items()))}
