"""Rows 8 and 11: appending to the audit log and verifying it, beside SHA-256 of the same bytes; and as it grows.

Pure computation is measured in processor time, so that other load of the machine does not matter.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from timeit import repeat

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.control_plane.report import Line, Scale
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.audit.audit import FIRST_PREV, checkpoint_line, leaf_hash, record_line, seal, seal_body
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.audit_tree import Frontier, inclusion
from interlock.command.audit.note import origin_of, sign_checkpoint
from interlock.command.canonical import is_plain
from interlock.gateway.audit.checkpoints import compute
from interlock.ports.ledger import AuditAppend, Ledger, WriteBatch
from interlock.protocol.records import AuditDraft, AuditRecord

RECORDS = 50_000
BATCH = 100
ROUNDS = 3
STAGE_TIMES = 2_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PROBES = 50


def draft(number: int) -> AuditDraft:
    """Make a record of the usual kind and size: some 510 bytes."""
    return AuditDraft(
        tenant_id="default", at="2026-11-21T10:28:41.318Z", who={"id": "user:owner", "role": "owner"}, action="approve",
        command_id=f"cmd_{number:026d}", session_id="1ed609aa-5ef8-47eb-9de1-bab76d202fe4",
        approval_id=f"apr_{number:026d}",
        meta={"digest": hashlib.sha256(b"%d" % number).hexdigest(), "door": "tool", "rule": "ask before a tool",
              "to": "granted"},
    )


def speed(scale: Scale) -> list[Line]:
    """Row 8: records/s of SHA-256 alone, of sealing, of a durable append, of verifying, each with its ratio."""
    del scale  # This many records, without a time limit.
    drafts = [draft(number) for number in range(RECORDS)]
    records, sealing = _sealed(drafts)
    hashing = median(_hashing(records) for _ in range(ROUNDS))
    verifying = median(_verifying(records) for _ in range(ROUNDS))
    appending = asyncio.run(_appending(drafts))
    limit = RECORDS / hashing
    return [
        Line("8", "SHA-256 of the records' bytes", limit, "records/s", 1.0),
        Line("8", "verify an export, beside 20,000/s", RECORDS / verifying, "records/s", RECORDS / verifying / 20_000,
             1.0),
        Line("8", "seal, chain and tree, in memory", RECORDS / sealing, "records/s", hashing / sealing, 0.4),
        Line("8", f"append durably, {BATCH} a batch", RECORDS / appending, "records/s", hashing / appending),
        *(Line("8", f"a stage of sealing alone: {name}", 1 / seconds, "records/s", hashing / RECORDS / seconds)
          for name, seconds in _stages(drafts[0], records[0])),
    ]


def _stages(draft: AuditDraft, record: AuditRecord) -> list[tuple[str, float]]:
    """What one record takes at each stage of its sealing, in seconds."""
    tree, digest = Frontier(), bytes.fromhex(record.hash)
    found: dict[str, Callable[[], object]] = {
        "look whether it is plain": lambda: is_plain(draft.meta, 1) and is_plain(draft.who, 1),
        "write its canonical form": lambda: seal_body(draft, 1, FIRST_PREV, None),
        "hash it as a leaf": lambda: leaf_hash(record.body),
        "make the record": lambda: AuditRecord(tenant_id="default", seq=1, hash=record.hash, body=record.body),
        "grow the tree": lambda: tree.grow(digest),
    }
    return [(name, median(repeat(stage, timer=time.process_time, number=STAGE_TIMES, repeat=5)) / STAGE_TIMES)
            for name, stage in found.items()]


def growth(scale: Scale) -> list[Line]:
    """Row 11: what one batch and one proof cost in a log of 1e3 to 1e6 records, against the smallest."""
    return asyncio.run(_growing(scale.most))


def _sealed(drafts: Sequence[AuditDraft]) -> tuple[list[AuditRecord], float]:
    records, prev, tree = list[AuditRecord](), FIRST_PREV, Frontier()
    begin = time.process_time()
    for number, one in enumerate(drafts, 1):
        record = seal(one, number, prev)
        tree.grow(bytes.fromhex(record.hash))
        prev = record.hash
        records.append(record)
    return records, time.process_time() - begin


def _hashing(records: Sequence[AuditRecord]) -> float:
    begin = time.process_time()
    for record in records:
        hashlib.sha256(record.body).digest()
    return time.process_time() - begin


def _verifying(records: Sequence[AuditRecord]) -> float:
    key, tree = Ed25519PrivateKey.generate(), Frontier()
    for record in records:
        tree.grow(bytes.fromhex(record.hash))
    last = checkpoint_line(sign_checkpoint(key, origin_of("gw", "default"), tree.size, tree.root()))
    lines = [*map(record_line, records), last]
    begin = time.process_time()
    report = is_whole(lines, last, key.public_key())
    taken = time.process_time() - begin
    if report is None:
        raise RuntimeError("The log of the measurement does not verify.")
    return taken


async def _appending(drafts: Sequence[AuditDraft]) -> float:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as place:
        ledger = await open_ledger(Path(place) / LEDGER_NAME, SystemClock())
        batches = [WriteBatch([AuditAppend(one) for one in drafts[at : at + BATCH]]) for at in range(0, len(drafts),
                                                                                                     BATCH)]
        begin = time.perf_counter()
        for at in range(0, len(batches), 16):
            await asyncio.gather(*(ledger.commit(batch) for batch in batches[at : at + 16]))
        taken = time.perf_counter() - begin
        await ledger.close()
        return taken


async def _growing(most: int) -> list[Line]:
    lines, first = list[Line](), dict[str, float]()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as place:
        ledger = await open_ledger(Path(place) / LEDGER_NAME, SystemClock())
        size = 0
        for wanted in [one for one in SIZES if one <= most]:
            while size < wanted - PROBES * BATCH // 10:
                count = min(20_000, wanted - PROBES * BATCH // 10 - size)
                await ledger.commit(WriteBatch([AuditAppend(draft(size + i)) for i in range(count)]))
                size += count
            costs = {"append a batch of 10": await _appends(ledger, size)}
            size += PROBES * 10
            costs["prove an inclusion"] = await _proofs(ledger, size)
            for name, cost in costs.items():
                first.setdefault(name, cost)
                lines.append(Line("11", f"{name}, {wanted:,} records", cost * 1e6, "µs", cost / first[name], 1.5,
                                  at_most=True))
        await ledger.close()
    return lines


async def _appends(ledger: Ledger, size: int) -> float:
    taken = list[float]()
    for probe in range(PROBES):
        batch = WriteBatch([AuditAppend(draft(size + probe * 10 + i)) for i in range(10)])
        begin = time.perf_counter()
        await ledger.commit(batch)
        taken.append(time.perf_counter() - begin)
    return quantiles(taken, n=4)[0]


async def _proofs(ledger: Ledger, size: int) -> float:
    taken = list[float]()
    for probe in range(PROBES):
        begin = time.perf_counter()
        await compute(inclusion(probe * (size // PROBES), size), ledger, "default")
        taken.append(time.perf_counter() - begin)
    return quantiles(taken, n=4)[0]
