"""Operations on transcripts, and the continuation of a conversation after them (X-4, X-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from engine.sessions.test_transcript_writer import converse
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.sessions.transcript_desk import Text, TranscriptDesk
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord, TenantRecord
from interlock.protocol.resources import Target

SEAL = ("frames_of", "state_sha256")
"""Members of a record that seal the session; tests/engine/bridge/test_seals.py is about these."""
pytestmark = pytest.mark.anyio


class Place:
    """A table whose transcripts are files, after one conversation."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.table = Table(transcripts=JsonlTranscripts(state, ManualClock()))
        self.session_id = ""

    async def begin(self) -> None:
        await self.table.engine.start()
        self.session_id = await converse(self.table)

    @property
    def desk(self) -> TranscriptDesk:
        assert self.table.engine.transcripts is not None
        return self.table.engine.transcripts

    async def record(self, session_id: str = "") -> SessionRecord:
        found = await self.table.ledger.session(session_id or self.session_id)
        assert found is not None
        return found

    def file(self, session_id: str = "") -> Path:
        return self.state / "agents" / "shell" / "sessions" / f"{session_id or self.session_id}.jsonl"

    async def written(self) -> None:
        """Wait until the ledger has forgotten its lines: till then it gives back what a file has lost."""
        while await self.table.ledger.transcript_pending():
            await asyncio.sleep(0)

    async def texts(self, session_id: str = "") -> list[Any]:
        found = await self.desk.context(await self.record(session_id))
        return [one.get("content") or one.get("summary") for one in found.messages if one["role"] != "toolResult"]

    async def go_on(self, text: str, session_id: str = "") -> None:
        session_id = session_id or self.session_id
        await self.table.execute(text, target=Target(session_id=session_id))
        await self.table.opened(session_id)
        await self.table.started(session_id, "t2")
        await self.table.ended(session_id, turn_id="t2")

    async def audited(self) -> list[dict[str, Any]]:
        records = [msgspec.json.decode(one.body) for one in await self.table.ledger.audit("default", 0, 1_000)]
        metas = [one["meta"] for one in records if one["action"] == "transcript"]
        return [{name: value for name, value in meta.items() if name not in SEAL} for meta in metas]


@pytest.fixture
async def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    await made.begin()
    yield made
    await made.table.engine.stop()
    assert made.table.transcripts is not None
    await made.table.transcripts.close()


@pytest.mark.req("X-6")
async def test_after_a_branch_the_conversation_continues_below_it(place: Place) -> None:
    tree = await place.desk.tree(await place.record())
    first = tree.nodes[0].id
    added = await place.desk.branch(OWNER, await place.record(), first, "did ls", remember)
    assert added.parent_id == first
    assert await place.texts() == ["say hi", "did ls"]
    await place.go_on("and now?")
    assert (await place.texts())[:3] == ["say hi", "did ls", "and now?"]
    after = await place.desk.tree(await place.record())
    assert after.lines[: len(tree.lines)] == tree.lines, "what was there stays"
    assert await place.audited() == [{"op": "branch", "entry": added.entry_id, "target": first}]


@pytest.mark.req("X-6")
async def test_a_label_is_shown_and_removed(place: Place) -> None:
    record = await place.record()
    first = (await place.desk.tree(record)).nodes[0].id
    before = await place.texts()
    await place.desk.label(OWNER, record, first, " start ", remember)
    assert (await place.desk.tree(record)).labels() == {first: "start"}
    await place.desk.label(OWNER, record, first, None, remember)
    assert (await place.desk.tree(record)).labels() == {}
    assert await place.texts() == before, "a label is in nobody's context"
    for wrong in ("", "x" * 201):
        with pytest.raises(Problem, match="InvalidPayload"):
            await place.desk.label(OWNER, record, first, wrong, remember)
    with pytest.raises(Problem, match="NotFound"):
        await place.desk.label(OWNER, record, "nowhere", "x", remember)


@pytest.mark.req("X-6")
async def test_a_fork_is_a_session_of_its_own_that_can_continue(place: Place) -> None:
    whole = place.file().read_bytes
    await place.desk.tree(await place.record())
    before = whole()
    begun = await place.desk.fork(OWNER, await place.record(), None, remember)
    forked = begun.record.session_id
    assert await place.texts(forked) == await place.texts()
    assert place.table.engine.sessions.shown(begun.record).title == "say hi"
    assert msgspec.json.decode(place.file(forked).read_bytes().split(b"\n")[0])["parentSession"] == \
        f"{place.session_id}.jsonl"
    await place.go_on("only here", forked)
    assert "only here" in await place.texts(forked)
    assert whole() == before
    assert await place.audited() == [{"op": "fork", "of": place.session_id, "entries": begun.entries}]


@pytest.mark.req("X-2", "X-6")
async def test_an_import_of_version_1_is_a_session_that_can_continue(place: Place) -> None:
    old = b"\n".join(msgspec.json.encode(one) for one in (
        {"type": "session", "id": "old", "timestamp": "2025-11-01T00:00:00.000Z", "cwd": "/elsewhere"},
        {"type": "message", "timestamp": "2025-11-01T00:00:00.000Z",
         "message": {"role": "user", "content": "long ago", "timestamp": 1}}))
    begun = await place.desk.take_in(OWNER, Target(agent_id="shell"), Text(old), remember)
    assert begun.report is not None
    assert set(begun.report.counts) == {"old_version", "no_line_feed"}
    assert await place.texts(begun.record.session_id) == ["long ago"]
    assert place.table.engine.sessions.shown(begun.record).title == "long ago", "it is named as in a list of sessions"
    with pytest.raises(Problem, match="has not worked yet"):
        await place.table.engine.sessions.compact(OWNER, begun.record.session_id, None, remember)
    await place.go_on("go on", begun.record.session_id)
    assert (await place.texts(begun.record.session_id))[:2] == ["long ago", "go on"]
    with pytest.raises(Problem, match="/content"):
        await place.desk.take_in(OWNER, Target(agent_id="shell"), Text(b"hello"), remember)


@pytest.mark.req("X-4")
async def test_a_repair_keeps_the_damaged_file_and_the_conversation_continues(place: Place) -> None:
    record = await place.record()
    await place.written()
    lines = place.file().read_bytes().split(b"\n")
    lines[2] = b"\0" * 99
    place.file().write_bytes(b"\n".join(lines))
    damaged = place.file().read_bytes()
    report = await place.desk.examine(record)
    assert (report.sound, set(report.counts)) == (False, {"nul_run", "unresolved_parent"})
    assert place.file().read_bytes() == damaged, "to look changes nothing"
    repaired = await place.desk.repair(OWNER, record, remember)
    assert repaired.report == report
    assert place.file().with_name(str(repaired.kept)).read_bytes() == damaged
    assert (await place.desk.examine(record)).sound
    await place.go_on("still here?")
    assert (await place.texts())[0] == "say hi"
    assert "still here?" in await place.texts()
    assert (await place.desk.examine(record)).sound
    assert (await place.desk.repair(OWNER, record, remember)).kept is None
    # The audit log has the findings and the outcome; a sound file is not a repair.
    log = await place.audited()
    assert log[0] == {"op": "repair", "step": "begun", "found": report.counts}
    assert (log[1]["op"], log[1]["step"], log[1]["kept"], log[1]["found"]) == (
        "repair", "done", repaired.kept, report.counts)
    assert log[1]["entries"] > 0
    assert len(log) == 2


@pytest.mark.req("X-6")
async def test_a_running_turns_transcript_cannot_be_branched(place: Place) -> None:
    record = await place.record()
    first = (await place.desk.tree(record)).nodes[0].id
    await place.table.execute("busy", target=Target(session_id=place.session_id))
    with pytest.raises(Problem, match="at work"):
        await place.desk.branch(OWNER, record, first, None, remember)
    with pytest.raises(Problem, match="at work"):
        await place.desk.repair(OWNER, record, remember)
    await place.desk.label(OWNER, record, first, "while it works", remember)


DOINGS: dict[str, Callable[[Place, SessionRecord, str], Awaitable[Any]]] = {
    "label": lambda place, record, first: place.desk.label(OWNER, record, first, "start", remember),
    "branch": lambda place, record, first: place.desk.branch(OWNER, record, first, None, remember),
    "fork": lambda place, record, first: place.desk.fork(OWNER, record, first, remember),
    "repair": lambda place, record, first: place.desk.repair(OWNER, record, remember),
    "import": lambda place, record, first: place.desk.take_in(OWNER, Target(agent_id="shell"), Text(OLD), remember),
}
OLD = b"".join(msgspec.json.encode(one) + b"\n" for one in (
    {"type": "session", "version": 3, "id": "old", "timestamp": "2025-11-01T00:00:00.000Z", "cwd": "/elsewhere"},
    {"type": "message", "id": "00000001", "parentId": None, "timestamp": "2025-11-01T00:00:00.000Z",
     "message": {"role": "user", "content": "long ago", "timestamp": 1}}))


@pytest.mark.req("P-1", "X-6")
@pytest.mark.parametrize("verb", DOINGS)
async def test_operations_on_a_transcript_are_decided_by_policy(place: Place, verb: str) -> None:
    await place.table.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0))]))
    record = await place.record()
    first = (await place.desk.tree(record)).nodes[0].id
    before, count = place.file().read_bytes(), len(await place.table.ledger.sessions("default", 10, None))

    def doing() -> Awaitable[Any]:
        return DOINGS[verb](place, record, first)

    place.table.engine.policy = RuleSet([Rule(name="nobody", effect="deny", type=verb)])
    with pytest.raises(Problem, match="rule nobody denies"):
        await doing()
    place.table.engine.policy = RuleSet([Rule(name="two", effect="ask", type=verb, self_approval=True)])
    with pytest.raises(Problem) as held:
        await doing()
    assert (held.value.code, place.file().read_bytes()) == ("ApprovalRequired", before)
    assert len(await place.table.ledger.sessions("default", 10, None)) == count
    assert held.value.approval_id is not None
    await place.table.vote(held.value.approval_id, "grant")
    await doing()
    with pytest.raises(Problem, match="requires an approval"):
        await doing()


@pytest.mark.req("X-2")
async def test_a_file_of_an_old_version_is_migrated_before_it_is_continued(place: Place) -> None:
    await place.table.engine.stop()
    old = b"".join(msgspec.json.encode(one) + b"\n" for one in (
        {"type": "session", "id": "old", "timestamp": "2025-11-01T00:00:00.000Z", "cwd": "/w"},
        {"type": "message", "timestamp": "2025-11-01T00:00:00.000Z",
         "message": {"role": "user", "content": "long ago", "timestamp": 1}}))
    place.file().write_bytes(old)
    place.table.transcripts = JsonlTranscripts(place.state, ManualClock())
    place.table.begin()
    await place.table.engine.start()
    await place.table.reattach(place.session_id, 0)
    await place.table.send(place.session_id, "session.closed", p.SessionClosed(reason="gone"))
    await place.go_on("go on")
    assert (await place.texts())[:2] == ["long ago", "go on"]
    (kept,) = place.file().parent.glob("*.kept-*")
    assert kept.read_bytes() == old
