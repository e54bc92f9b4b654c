"""Checkpoints are signed in time, only for a consistent log, which grows no further than the limit without one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.audit.audit_records import CLOCK, with_triggers_dropped, write
from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.sqlite.ledger import LEDGER_NAME, SqliteLedger, open_ledger
from interlock.command.audit.audit import CHECKPOINT_FACT, FIRST_PREV, noted_size, seal
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.audit_report import AuditReport, Tampering
from interlock.command.audit.audit_tree import Frontier
from interlock.gateway.audit import checkpoints
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME, verify_ledger_file, verify_tenants
from interlock.gateway.audit.checkpoints import CheckpointRefused, CheckpointSigner
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.ledger import AdvanceFact, AuditAppend, Ledger, LedgerError, PutFact, Receipt, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import AuditDraft, AuditRecord

pytestmark = pytest.mark.anyio


NOTED = CHECKPOINT_FACT + "t1"


def files(state: Path) -> CheckpointFiles:
    return CheckpointFiles(state / CHECKPOINTS_NAME)


def head_path(state: Path, tenant_id: str) -> Path:
    return files(state).path(tenant_id)


def sizes(state: Path, tenant_id: str = "t1") -> list[int]:
    found = [parse_checkpoint_line(line) for line in files(state).lines(tenant_id)]
    return [one.size for one in found if one is not None]


def signer(ledger: Ledger, state: Path, sink: CheckpointSink | None = None) -> CheckpointSigner:
    return CheckpointSigner(ledger, load_or_make_key(state), "gw_1", sink or files(state))


async def check(state: Path) -> AuditReport:
    return await asyncio.to_thread(verify_ledger_file, state)


class Noting(CheckpointFiles):
    """Files of a state directory that note each checkpoint once it is on the disk."""

    def __init__(self, state: Path) -> None:
        super().__init__(state / CHECKPOINTS_NAME)
        self._loop, self._written = asyncio.get_running_loop(), asyncio.Event()

    def append(self, tenant_id: str, line: bytes) -> None:
        super().append(tenant_id, line)
        self._loop.call_soon_threadsafe(self._written.set)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look with each checkpoint whether it is so."""
        async with asyncio.timeout(10):
            while not condition():
                await self._written.wait()
                self._written.clear()


def rewritten(state: Path, count: int, tenant_id: str = "t1") -> None:
    """Replace a tenant's log by `count` forged records, consistent in themselves, as anyone with write access can."""
    forged, prev = list[AuditRecord](), FIRST_PREV
    tree = Frontier()
    for seq in range(1, count + 1):
        draft = AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": "u", "role": "owner"}, action="reject")
        forged.append(seal(draft, seq, prev))
        prev = forged[-1].hash
        tree.grow(bytes.fromhex(prev))
    database = sqlite3.connect(state / LEDGER_NAME)
    for name in ("audit_never_updated", "audit_never_deleted", "audit_never_replaced"):
        database.execute(f"DROP TRIGGER {name}")
    database.execute("DELETE FROM audit WHERE tenant_id = ?", (tenant_id,))
    database.execute("DELETE FROM audit_node WHERE tenant_id = ?", (tenant_id,))
    database.executemany("INSERT INTO audit VALUES (?, ?, ?, ?)",
                         [(tenant_id, one.seq, one.hash, one.body) for one in forged])
    database.execute("UPDATE audit_head SET count = ?, last_hash = ?, peaks = ? WHERE tenant_id = ?",
                     (count, prev, tree.peaks, tenant_id))
    database.commit()
    database.close()


def without_copy(state: Path) -> None:
    """Remove the ledger's copy of the last checkpoint."""
    database = sqlite3.connect(state / LEDGER_NAME)
    database.execute("DELETE FROM store WHERE name = ?", (NOTED,))
    database.commit()
    database.close()


async def a_signed_log(state: Path, *counts: int) -> None:
    """Leave a state directory whose log was signed after each of the given numbers of further records."""
    ledger = await open_ledger(state / LEDGER_NAME, CLOCK)
    own = signer(ledger, state)
    for count in counts:
        await write(ledger, count)
        await own.sign_tenant("t1")
    await ledger.close()


async def starts_again(state: Path) -> str | None:
    """Start a signer on a state directory; gives why it cannot sign, None if it can."""
    ledger = await open_ledger(state / LEDGER_NAME, CLOCK)
    own = signer(ledger, state)
    await own.sign()
    await ledger.close()
    return own.signing.reason("t1")


REWRITES: dict[str, Callable[[Path], object]] = {
    "the file removed": lambda state: head_path(state, "t1").unlink(),
    "the file replaced by an older one": lambda state: head_path(state, "t1").write_bytes(
        head_path(state, "t1").read_bytes().splitlines(keepends=True)[0]),
    "the ledger's copy removed": without_copy,
    "the file and the ledger's copy removed": lambda state: (head_path(state, "t1").unlink(), without_copy(state)),
    "the file cut to nothing and the copy removed": lambda state: (head_path(state, "t1").write_bytes(b""),
                                                                   without_copy(state)),
    "neither removed": lambda state: None,
}  # fmt: skip


class MemorySink(CheckpointSink):
    """Checkpoints in lists."""

    def __init__(self) -> None:
        self._lines: dict[str, list[bytes]] = {}

    def append(self, tenant_id: str, line: bytes) -> None:
        self._lines.setdefault(tenant_id, []).append(line)

    def lines(self, tenant_id: str) -> list[bytes]:
        return self._lines.get(tenant_id, [])

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        return self.lines(tenant_id)[-1:]

    def set_aside(self, tenant_id: str) -> None:
        self._lines.pop(tenant_id, None)

    def tenants(self) -> list[str]:
        return sorted(self._lines)


class Away(MemorySink):
    """A sink that can be out of reach."""

    away = False

    def append(self, tenant_id: str, line: bytes) -> None:
        if self.away:
            raise OSError("The bucket is away.")
        super().append(tenant_id, line)


class Late(MemoryLedger):
    """One call of it is late: the first commit of a checkpoint, or the first look at a tree."""

    def __init__(self, late: str) -> None:
        super().__init__()
        self._late: str | None = late
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def _be_late(self, call: str) -> None:
        if call == self._late:
            self._late = None
            self.reached.set()
            await self.released.wait()

    async def commit(self, batch: WriteBatch) -> Receipt:
        if any(isinstance(write, (PutFact, AdvanceFact)) and write.name == NOTED for write in batch.writes):
            await self._be_late("commit")
        return await super().commit(batch)

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        await self._be_late("audit_tree")
        return await super().audit_tree(tenant_id)


async def accepted(state: Path) -> AuditReport:
    """Start on a state directory whose log cannot be signed, and accept it as it is."""
    ledger = await open_ledger(state / LEDGER_NAME, CLOCK)
    own = signer(ledger, state)
    await own.sign()
    assert own.signing.reason("t1") is not None
    size, root = await ledger.audit_tree("t1")

    def resume_record(reason: str) -> list[AuditAppend]:
        return [AuditAppend(AuditDraft(tenant_id="t1", at=iso(0), who={"id": "user:ann", "role": "auditor"},
                                       action="audit_resume", meta={"accepted": size, "root": root.hex(),
                                                                    "unsigned": reason}))]

    with pytest.raises(CheckpointRefused, match="not the one that was accepted"):
        await own.resume("t1", size, bytes(32), resume_record)
    with pytest.raises(CheckpointRefused, match="not the one that was accepted"):
        await own.resume("t1", size + 1, root, resume_record)
    await own.resume("t1", size, root, resume_record)
    assert own.signing.reason("t1") is None
    last = (await ledger.audit("t1", size, 10))[-1]
    assert b'"action":"audit_resume"' in last.body
    with pytest.raises(checkpoints.NotStalled):
        await own.resume("t1", size, root, resume_record)
    await ledger.close()
    assert await starts_again(state) is None
    return await check(state)


def head_is_there(name: str) -> bool:
    """Whether a file of checkpoints is left to set aside."""
    return name not in ("the file removed", "the file and the ledger's copy removed")


@pytest.mark.req("U-2")
async def test_checkpoints_are_signed_at_the_start_and_at_shutdown(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger)
    await write(ledger, 2, "../other tenant")
    stopping = asyncio.Event()
    sink = Noting(tmp_path)
    running = asyncio.create_task(signer(ledger, tmp_path, sink).run(stopping))
    await sink.until(lambda: head_path(tmp_path, "t1").exists() and head_path(tmp_path, "../other tenant").exists())
    await write(ledger, 3)
    assert (await check(tmp_path)).not_yet_signed == 3
    stopping.set()
    await running
    report = await check(tmp_path)
    assert report.ok
    assert report.signature_checked
    assert (report.records, report.not_yet_signed) == (10, 0)
    assert [entry.tenant_id for entry in await asyncio.to_thread(verify_tenants, tmp_path)] == ["../other tenant", "t1"]
    assert sorted(path.parent for path in tmp_path.rglob("*.checkpoints")) == [tmp_path / "audit"] * 2
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.req("U-3")
async def test_checkpoints_follow_the_log_while_the_gateway_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SIGN_EVERY_MS", 1)
    ledger = MemoryLedger()
    stopping = asyncio.Event()
    sink = Noting(tmp_path)
    running = asyncio.create_task(signer(ledger, tmp_path, sink).run(stopping))
    for count in (1, 2, 3):
        await write(ledger, 1)
        await sink.until(lambda count=count: count in sizes(tmp_path))
    stopping.set()
    await running


@pytest.mark.req("U-3")
async def test_256_records_are_signed_without_waiting_for_the_clock(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    stopping = asyncio.Event()
    await write(ledger, 1)
    sink = Noting(tmp_path)
    own = signer(ledger, tmp_path, sink)
    running = asyncio.create_task(own.run(stopping))
    await sink.until(lambda: sizes(tmp_path) == [1])
    await own.sign_tenant("t1")  # In its turn: by then the ledger has that checkpoint, too.
    await write(ledger, checkpoints.CHECKPOINT_RECORDS - 1)
    assert sizes(tmp_path) == [1]
    await write(ledger, 1)
    await sink.until(lambda: sizes(tmp_path) == [1, 257])
    stopping.set()
    await running


def test_the_signer_checks_often_enough() -> None:
    assert checkpoints.SIGN_EVERY_MS < checkpoints.CHECKPOINT_INTERVAL_MS


@pytest.mark.req("U-2")
async def test_concurrent_requests_for_a_head_all_get_a_valid_one(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 7)
    both = signer(ledger, tmp_path)
    heads = await asyncio.gather(*(both.sign_tenant("t1") for _ in range(5)))
    assert {head.size for head in heads} == {7}
    assert (await check(tmp_path)).not_yet_signed == 0


@pytest.mark.req("U-2")
async def test_a_head_is_never_signed_over_a_log_that_was_rolled_back(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger)
    await signer(ledger, tmp_path).sign()
    older = MemoryLedger()
    await write(older, 3)
    line = head_path(tmp_path, "t1").read_bytes()
    for _ in range(2):
        again = signer(older, tmp_path)
        await again.sign()
        with pytest.raises(CheckpointRefused, match="rolled back or rewritten"):
            await again.sign_tenant("t1")
        assert head_path(tmp_path, "t1").read_bytes() == line
        await write(older, 9, action="reject")
    head_path(tmp_path, "t1").write_bytes(b"{}\n")
    with pytest.raises(CheckpointRefused, match="not a checkpoint"):
        await signer(ledger, tmp_path).sign_tenant("t1")
    head_path(tmp_path, "t1").write_bytes(line.replace(b"\\n5\\n", b"\\n4\\n"))
    with pytest.raises(CheckpointRefused, match="gateway's key"):
        await signer(ledger, tmp_path).sign_tenant("t1")
    other = CheckpointSigner(ledger, load_or_make_key(tmp_path), "gw_2", files(tmp_path))
    with pytest.raises(CheckpointRefused, match="of another log"):
        await other.sign_tenant("t1")


@pytest.mark.req("U-3")
async def test_a_checkpoint_is_never_signed_over_a_tree_that_does_not_fit_its_records(
    tmp_path: Path, ledger: SqliteLedger
) -> None:
    await write(ledger, 3)
    with_triggers_dropped(tmp_path, "UPDATE audit SET hash = replace(hash, substr(hash, 1, 4), 'ffff') WHERE seq = 2")
    with pytest.raises(CheckpointRefused, match="does not fit its records"):
        await signer(ledger, tmp_path).sign_tenant("t1")


@pytest.mark.req("U-3")
async def test_a_checkpoint_that_a_power_cut_tore_costs_nothing_but_itself(
    tmp_path: Path, ledger: SqliteLedger
) -> None:
    await write(ledger, 3)
    await signer(ledger, tmp_path).sign()
    whole = head_path(tmp_path, "t1").read_bytes()
    noted = await ledger.fact(NOTED)
    assert noted is not None
    await write(ledger, 2)
    await signer(ledger, tmp_path).sign()
    await ledger.commit(WriteBatch([PutFact(NOTED, noted)]))  # Which follows the file, so the cut came before it.
    torn = head_path(tmp_path, "t1").read_bytes()[:-5]
    head_path(tmp_path, "t1").write_bytes(torn)
    report = await check(tmp_path)
    assert (report.ok, report.not_yet_signed) == (True, 2)
    await signer(ledger, tmp_path).sign()
    assert sizes(tmp_path) == [3, 5]
    assert head_path(tmp_path, "t1").read_bytes().startswith(whole)
    assert (await check(tmp_path)).not_yet_signed == 0


@pytest.mark.req("U-3")
async def test_no_log_begins_without_a_signed_checkpoint(tmp_path: Path, ledger: SqliteLedger) -> None:
    signer(ledger, tmp_path)
    await write(ledger, 2)
    assert sizes(tmp_path) == [0], "a kill right after the first records leaves a log that can be joined"
    assert (await check(tmp_path)).ok
    await ledger.close()
    assert await starts_again(tmp_path) is None
    assert sizes(tmp_path) == [0, 2]


@pytest.mark.req("U-3")
async def test_a_lost_checkpoint_file_is_replaced_by_the_ledgers_copy(tmp_path: Path) -> None:
    await a_signed_log(tmp_path, 3, 2)
    head_path(tmp_path, "t1").unlink()
    report = await check(tmp_path)
    assert (report.kind, "is missing" in report.message) == (Tampering.HEAD_MISSING, True)
    assert await starts_again(tmp_path) is None
    assert sizes(tmp_path) == [5]
    assert (await check(tmp_path)).ok


@pytest.mark.req("U-2", "U-3", "U-5")
@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("count", [5, 4, 9])
async def test_a_rewritten_log_is_never_signed_even_if_checkpoints_are_removed(
    tmp_path: Path, name: str, count: int
) -> None:
    await a_signed_log(tmp_path, 3, 2)
    rewritten(tmp_path, count)
    REWRITES[name](tmp_path)
    assert not (await check(tmp_path)).ok
    before = files(tmp_path).lines("t1")
    reason = await starts_again(tmp_path)
    assert reason is not None
    assert "interlock audit resume" in reason
    assert files(tmp_path).lines("t1") == before, "nothing was signed"
    assert not (await check(tmp_path)).ok


@pytest.mark.req("U-2", "U-3")
async def test_an_emptied_log_without_checkpoints_is_not_restarted(tmp_path: Path) -> None:
    await a_signed_log(tmp_path, 3)
    rewritten(tmp_path, 0)
    head_path(tmp_path, "t1").unlink()
    assert not (await check(tmp_path)).ok
    assert "was rolled back or rewritten" in (await starts_again(tmp_path) or "")
    assert files(tmp_path).lines("t1") == []


@pytest.mark.req("U-3", "U-5")
async def test_records_forged_after_the_signed_ones_of_a_stopped_gateway_are_not_signed(tmp_path: Path) -> None:
    await a_signed_log(tmp_path, 3)
    ledger = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    await write(ledger, 5_000)  # Anyone who has the file needs no signer to append to it.
    await ledger.close()
    report = await check(tmp_path)
    assert (report.kind, report.seq) == (Tampering.UNSIGNED, 3 + UNSIGNED_RECORDS_MAX + 1)
    assert "5000 records of t1 follow record 3" in (await starts_again(tmp_path) or "")
    assert sizes(tmp_path) == [0, 3]


@pytest.mark.req("U-3", "C-4")
@pytest.mark.parametrize("late", ["commit", "audit_tree"])
async def test_a_late_signer_neither_reverts_a_signature_nor_reports_a_longer_log(
    tmp_path: Path, late: str
) -> None:
    ledger, key = Late(""), load_or_make_key(tmp_path)
    slow, quick = (CheckpointSigner(ledger, key, "gw_1", files(tmp_path / name)) for name in ("a", "b"))
    await write(ledger, 5)
    await slow.sign_tenant("t1")
    await write(ledger, 5)
    ledger._late = late  # pyright: ignore[reportPrivateUsage] - from here on
    signing, reached = asyncio.create_task(slow.sign_tenant("t1")), asyncio.create_task(ledger.reached.wait())
    await asyncio.wait((signing, reached), return_when=asyncio.FIRST_COMPLETED)
    assert reached.done(), "it signed without the call that is late"
    for _ in range(2):
        await write(ledger, UNSIGNED_RECORDS_MAX - 10)
        await quick.sign_tenant("t1")
    ledger.released.set()
    signed = (await signing).size
    assert signed == (10 if late == "commit" else 10 + 2 * (UNSIGNED_RECORDS_MAX - 10))
    assert noted_size(await ledger.fact(NOTED)) == 10 + 2 * (UNSIGNED_RECORDS_MAX - 10)
    await write(ledger, UNSIGNED_RECORDS_MAX)
    assert (await slow.sign_tenant("t1")).size == (await ledger.audit_head("t1"))[0]


@pytest.mark.req("U-3")
async def test_records_wait_for_a_signature_when_the_tail_is_full(tmp_path: Path) -> None:
    ledger, sink = MemoryLedger(), Away()
    CheckpointSigner(ledger, load_or_make_key(tmp_path), "gw_1", sink)
    for _ in range(4):
        await write(ledger, UNSIGNED_RECORDS_MAX - 1)
    signed = [found.size for line in sink.lines("t1") if (found := parse_checkpoint_line(line)) is not None]
    assert max(after - before for before, after in pairwise([*signed, 4 * (UNSIGNED_RECORDS_MAX - 1)])
               ) <= UNSIGNED_RECORDS_MAX
    with pytest.raises(LedgerError, match="at most 1024 records may be unsigned"):
        await write(ledger, UNSIGNED_RECORDS_MAX + 1)


@pytest.mark.req("U-3")
async def test_a_gateway_under_load_never_leaves_more_than_the_bound(tmp_path: Path, ledger: SqliteLedger) -> None:
    own = signer(ledger, tmp_path)
    tails: list[int] = []

    async def grow() -> None:
        receipt = await write(ledger, 30)
        noted = [one.size for line in files(tmp_path).lines("t1") if (one := parse_checkpoint_line(line)) is not None]
        tails.append(max(receipt.audit_seqs) - noted[-1])

    stopping = asyncio.Event()
    running = asyncio.create_task(own.run(stopping))
    await asyncio.gather(*(grow() for _ in range(300)))
    stopping.set()
    await running
    assert max(tails) <= UNSIGNED_RECORDS_MAX
    report = await check(tmp_path)
    assert (report.ok, report.records, report.not_yet_signed) == (True, 9_000, 0)


@pytest.mark.req("U-3")
async def test_an_unavailable_sink_stalls_the_log_within_its_bound_until_it_returns(tmp_path: Path) -> None:
    ledger, sink = MemoryLedger(), Away()
    own = CheckpointSigner(ledger, load_or_make_key(tmp_path), "gw_1", sink)
    resumed: list[str] = []
    own.signing.on_resumed(lambda: resumed.append("t1"))
    await write(ledger, 5)
    sink.away = True
    await own.sign()
    assert own.signing.reason("t1") == "The bucket is away."
    await write(ledger, UNSIGNED_RECORDS_MAX - 5)  # Work in progress continues up to the bound.
    with pytest.raises(LedgerError, match="takes no more records until it can be signed: The bucket is away"):
        await write(ledger, 1)
    sink.away = False
    await write(ledger, 1)
    assert (own.signing.reason("t1"), resumed) == (None, ["t1"])


@pytest.mark.req("U-3")
async def test_checkpoints_that_cannot_be_written_are_reported_with_their_file(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    own = CheckpointSigner(ledger, load_or_make_key(tmp_path), "gw_1", files(tmp_path))
    await write(ledger, 5)
    there = tmp_path / "audit"
    kept = there.rename(tmp_path / "kept")
    there.touch()
    await own.sign()
    assert own.signing.reason("t1") == (
        f"{there} cannot be read or written: File exists. Once it can, signing continues within seconds.")
    there.unlink()
    kept.rename(there)
    await own.sign()
    assert own.signing.reason("t1") is None


@pytest.mark.req("U-3")
async def test_a_log_on_several_gateways_is_signed_by_another_if_the_first_stops(tmp_path: Path) -> None:
    ledger, key = MemoryLedger(), load_or_make_key(tmp_path)
    other, leading = (CheckpointSigner(ledger, key, "gw_1", files(tmp_path / name)) for name in ("b", "a"))

    async def follows() -> bool:
        return False

    other.share(follows)
    await write(ledger, 3)
    await leading.sign()
    await other.sign()
    assert sizes(tmp_path / "b") == [], "what one signs, the other need not"
    await write(ledger, 3)
    for _ in range(checkpoints.LEFT_BEHIND_ROUNDS - 1):
        await other.sign()
    assert sizes(tmp_path / "b") == []
    await other.sign()
    assert sizes(tmp_path / "b") == [3, 6]


@pytest.mark.req("U-3", "U-1")
@pytest.mark.parametrize("name", REWRITES)
async def test_an_accepted_log_is_signed_again_and_records_the_acceptance(tmp_path: Path, name: str) -> None:
    await a_signed_log(tmp_path, 3, 2)
    rewritten(tmp_path, 4)
    REWRITES[name](tmp_path)
    kept = files(tmp_path).lines("t1")
    report = await accepted(tmp_path)
    assert (report.ok, report.records, report.not_yet_signed) == (True, 5, 0), report.message
    aside = list(tmp_path.glob("audit/t1.checkpoints.set-aside-*"))
    assert [path.read_bytes() for path in aside] == ([b"".join(kept)] if head_is_there(name) else [])


@pytest.mark.req("U-3", "U-1")
async def test_a_log_with_forged_records_behind_it_can_be_accepted(tmp_path: Path) -> None:
    await a_signed_log(tmp_path, 3)
    ledger = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    await write(ledger, 5_000)
    await ledger.close()
    assert (await accepted(tmp_path)).records == 5_004
