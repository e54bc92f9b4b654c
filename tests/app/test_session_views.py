"""`sessions.json` of an agent: written from the rows, read back if a person edited it, never trusted (N-1)."""

from __future__ import annotations

import itertools
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from engine.conversation import OWNER, Table
from engine.within import Within
from interlock.app.session_views import SessionViews
from interlock.backends.jsonl.view_files import ViewFile
from interlock.backends.memory.clock import ManualClock
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.chats import ChatSettings, InboundMessage
from interlock.protocol import payloads as p
from interlock.protocol.records import IdempotencyRecord
from interlock.session.chat.chat_route import Chat, Naming

pytestmark = pytest.mark.anyio
KEY = "agent:shell:dm:ann"


class ViewStage(Table):
    """A table with sessions in chats, and the views of its agents."""

    def __init__(self, state: Path) -> None:
        super().__init__(RuleSet([Rule(name="all", effect="allow", door="command", type="execute")]))
        self.engine.chats.configure(ChatSettings(naming=Naming("per-peer")))
        self.file = state / "agents/shell/sessions/sessions.json"
        self.directory = state
        self.ticks = ManualClock()
        self.messages = 0
        self.begin_views()

    def begin_views(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        """A gateway starts on the state directory, with the same rows."""
        self.views = SessionViews(self.directory, self.engine, self.ticks, stopwatch)

    async def receive(self, peer: str, text: str = "hello") -> str:
        def remember(_accepted: Any) -> IdempotencyRecord:
            self.messages += 1
            return IdempotencyRecord(tenant_id="default", scope=f"m-{self.messages}", fingerprint="", status=202,
                                     headers={}, body=b"", created_ms=0)

        message = InboundMessage(Chat("irc", "direct", peer=peer), peer, text, [], None, {})
        return (await self.engine.chats.arrive(OWNER, message, remember)).session_id

    async def look(self, times: int = 2) -> list[str]:
        """Let this many periods pass, and return the warnings about the file."""
        with capture_logs() as lines:
            for _ in range(times):
                self.ticks.advance(60_000)
                await self.views.look()
        return [sentence for line in lines if line["log_level"] == "warning"
                for sentence in [line["event"], *line.get("sentences", [])]]

    def view(self) -> dict[str, dict[str, Any]]:
        return json.loads(self.file.read_text())

    def rows(self) -> dict[str, dict[str, Any]]:
        """The view without its marks, which change at each writing."""
        return {key: {name: value for name, value in entry.items() if name != "interlock"}
                for key, entry in self.view().items()}

    async def label(self, label: str, key: str = KEY, **fields: str) -> None:
        """Set fields by the API."""
        record = await self.ledger.session_by_key("default", key)
        assert record is not None
        self.messages += 1
        answered = IdempotencyRecord(tenant_id="default", scope=f"l-{self.messages}", fingerprint="", status=200,
                                     headers={}, body=b"", created_ms=0)
        await self.engine.sessions.patch(OWNER, record.session_id, {"label": label, **fields}, lambda _record: answered)

    def edit(self, key: str = KEY, **fields: Any) -> None:
        view = self.view()
        view[key].update(fields)
        self.put(json.dumps(view))

    def put(self, text: str | bytes) -> None:
        """As an editor writes: beside it, then in its place."""
        draft = self.file.with_name("edited~")
        draft.write_bytes(text.encode() if isinstance(text, str) else text)
        draft.replace(self.file)

    async def entry(self, key: str = KEY) -> dict[str, Any]:
        record = await self.ledger.session_by_key("default", key)
        assert record is not None
        return msgspec.to_builtins(msgspec.json.decode(record.machine, type=LaneState).entry)

    async def audits(self) -> list[dict[str, Any]]:
        records = await self.ledger.audit("default", 0, 1000)
        return [body for one in records if (body := msgspec.json.decode(one.body))["action"] == "session_change"]

    def kept_aside(self) -> list[Path]:
        return sorted(self.file.parent.glob("sessions.json.bad-*"))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ViewStage]:
    table = ViewStage(tmp_path)
    await table.receive("ann")
    await table.receive("bob")
    await table.look()
    yield table
    await table.engine.stop()


@pytest.mark.req("N-1")
async def test_rows_are_shown_in_full_and_to_their_owner_only(stage: ViewStage) -> None:
    view = stage.view()
    assert list(view) == [KEY, "agent:shell:dm:bob"]
    assert (view[KEY]["chatType"], view[KEY]["provider"]) == ("direct", "irc")
    # OpenClaw 2026.2.6 opens the name relative to its working directory, so the path must be absolute.
    assert view[KEY]["sessionFile"] == str(stage.file.parent.resolve() / f"{view[KEY]['sessionId']}.jsonl")
    assert stat.S_IMODE(stage.file.stat().st_mode) == 0o600
    assert {path.name for path in stage.file.parent.iterdir()} == {"sessions.json", ".sessions.json.written"}
    # What changes is there at the next look; what does not is not written again.
    before = stage.file.stat().st_mtime_ns
    await stage.look()
    assert stage.file.stat().st_mtime_ns == before
    newer = await stage.receive("ann", "/new hello again")
    await stage.look()
    assert stage.view()[KEY]["sessionId"] == newer


@pytest.mark.req("N-1")
async def test_the_file_is_written_at_most_once_a_second_and_for_a_fiftieth_of_the_time(stage: ViewStage) -> None:
    async def changes_and(ms: int) -> bool:
        """Whether a change is in the file after this time."""
        before = stage.file.stat().st_mtime_ns
        await stage.receive("ann", "more")
        stage.ticks.advance(ms)
        await stage.views.look()
        return stage.file.stat().st_mtime_ns != before

    assert await changes_and(60_000)
    assert not await changes_and(999)
    assert await changes_and(60_000)
    # Writing that takes a second is followed by 49 of rest.
    now = itertools.count()
    stage.begin_views(lambda: next(now))
    await stage.views.find()
    await stage.views.look()
    assert not await changes_and(48_000)
    assert await changes_and(1_000_000)


@pytest.mark.req("N-1", "I-4")
async def test_an_edit_is_applied_per_field_as_audited_updates(stage: ViewStage) -> None:
    stage.edit(label="work", modelOverride="opus", theirs={"kept": [1]})
    # The row changes meanwhile: fields that the user did not edit are kept.
    session_id = await stage.receive("ann", "and this")
    assert await stage.look() == []
    entry = await stage.entry()
    assert (entry["label"], entry["modelOverride"], entry["unknown"]) == ("work", "opus", {"theirs": {"kept": [1]}})
    assert [(one["who"]["id"], one["meta"]["fields"]) for one in await stage.audits()] == [
        ("user:sessions.json", ["label", "modelOverride", "theirs"])]
    assert stage.view()[KEY]["sessionId"] == session_id
    # An edit is applied once, and the next edit is compared with the last one.
    stage.edit(label=None, theirs=None)
    await stage.look(5)
    assert (await stage.entry())["modelOverride"] == "opus"
    assert "label" not in await stage.entry()
    assert len(await stage.audits()) == 2
    assert "theirs" not in stage.view()[KEY]


@pytest.mark.req("N-1")
async def test_an_old_text_reverts_no_later_change(stage: ViewStage) -> None:
    opened = stage.view()
    await stage.engine.sessions.patch(OWNER, opened[KEY]["sessionId"], {"label": "theirs", "subject": "s"},
                                    lambda _record: IdempotencyRecord(tenant_id="default", scope="p", fingerprint="",
                                                                      status=200, headers={}, body=b"", created_ms=0))
    # The editor had the file open since before, and saves before it was written again.
    opened[KEY]["thinkingLevel"] = "high"
    stage.put(json.dumps(opened))
    assert await stage.look() == []
    entry = await stage.entry()
    assert (entry["label"], entry["subject"], entry["thinkingLevel"]) == ("theirs", "s", "high")


@pytest.mark.req("N-1")
async def test_an_old_text_changes_only_the_fields_that_were_edited(stage: ViewStage) -> None:
    loaded = stage.view()
    stage.clock.advance(60_000)
    await stage.label("theirs", subject="s")
    begun = await stage.receive("cid", "/new")
    for _ in range(3):
        await stage.receive("bob", "more")
        await stage.look()
    # Saved as it was loaded: nothing was edited.
    stage.put(json.dumps(loaded))
    assert await stage.look(3) == []
    assert (await stage.entry())["label"] == "theirs"
    assert stage.view()["agent:shell:dm:cid"]["sessionId"] == begun, "what began meanwhile was not deleted"
    # Saved with one field changed.
    loaded[KEY]["thinkingLevel"] = "high"
    stage.put(json.dumps(loaded))
    assert await stage.look(3) == []
    entry = await stage.entry()
    assert (entry["label"], entry["subject"], entry["thinkingLevel"]) == ("theirs", "s", "high")
    assert stage.view()["agent:shell:dm:cid"]["sessionId"] == begun


@pytest.mark.req("N-1")
async def test_a_field_that_was_cleared_in_an_old_text_is_cleared(stage: ViewStage) -> None:
    await stage.label("mine")
    await stage.look()
    loaded = stage.view()
    await stage.label("mine", subject="s")
    await stage.look()
    del loaded[KEY]["label"]
    stage.put(json.dumps(loaded))
    assert await stage.look(3) == []
    entry = await stage.entry()
    assert ("label" in entry, entry["subject"]) == (False, "s")


@pytest.mark.req("N-1")
async def test_a_deletion_in_an_old_text_archives_only_sessions_without_later_work(stage: ViewStage) -> None:
    for peer in ("cid", "dan"):
        await stage.receive(peer, "/new")
    stage.clock.advance(60_000)
    await stage.receive("eve", "/new")
    await stage.look()
    loaded = stage.view()
    stage.clock.advance(60_000)
    await stage.label("busy", "agent:shell:dm:dan")
    await stage.look()
    for peer in ("cid", "dan"):
        del loaded[f"agent:shell:dm:{peer}"]
    stage.put(json.dumps(loaded))
    warnings = await stage.look(3)
    assert warnings[1:] == ["agent:shell:dm:dan: It went on after the text was loaded, so it stays."]
    assert (await stage.entry("agent:shell:dm:cid"))["archivedAt"]
    assert "agent:shell:dm:dan" in stage.view()


@pytest.mark.req("N-1")
async def test_a_text_without_its_marks_is_set_aside(stage: ViewStage) -> None:
    stage.put(json.dumps(stage.rows()))
    (warnings,) = await stage.look(3)
    assert "does not say what it was written from" in warnings
    assert len(stage.kept_aside()) == 1
    # One entry that lost its mark stays, and the others are taken.
    view = stage.view()
    del view[KEY]["interlock"]
    view["agent:shell:dm:bob"]["label"] = "bob's"
    stage.put(json.dumps(view))
    assert "what it was written from" in (await stage.look(3))[1]
    assert (await stage.entry("agent:shell:dm:bob"))["label"] == "bob's"


@pytest.mark.req("N-1")
async def test_a_file_of_an_older_gateway_is_read_in_its_form(stage: ViewStage) -> None:
    bare = {key: {**entry, "sessionFile": f"{entry['sessionId']}.jsonl"} for key, entry in stage.rows().items()}
    stage.file.with_name(".sessions.json.written").write_text(json.dumps(bare))
    bare[KEY]["label"] = "offline"
    stage.put(json.dumps(bare))
    stage.begin_views()
    await stage.views.find()
    assert await stage.look(3) == []
    assert (await stage.entry())["label"] == "offline"
    assert stage.view()[KEY]["interlock"]["revision"]


@pytest.mark.req("N-1", "I-2")
async def test_a_restart_keeps_the_time_of_the_last_change(stage: ViewStage) -> None:
    session_id = await stage.receive("cid", "/new")
    before = await stage.ledger.session(session_id)
    stage.clock.advance(3_600_000)
    shell = await stage.engine.lanes.lane(session_id)
    assert shell is not None

    def closes_and_confirms(lane: Lane) -> None:
        lane.control("session.error", p.SessionError(error_code="X", message="m", fatal=False))

    await shell.call(Within(closes_and_confirms))
    after = await stage.ledger.session(session_id)
    assert before is not None
    assert after is not None
    assert after.updated_ms == before.updated_ms
    await stage.label("mine", "agent:shell:dm:cid")
    changed = await stage.ledger.session(session_id)
    assert changed is not None
    assert changed.updated_ms == stage.clock.now_ms()


@pytest.mark.req("N-1")
async def test_two_edits_before_the_next_write_are_each_applied_once(stage: ViewStage) -> None:
    await stage.look(1)
    stage.edit(label="mine")
    for _ in range(2):  # No time passes, so that nothing is written meanwhile.
        await stage.views.look()
    assert (await stage.entry())["label"] == "mine"
    await stage.engine.sessions.patch(OWNER, stage.view()[KEY]["sessionId"], {"label": "theirs"}, lambda _record:
                                    IdempotencyRecord(tenant_id="default", scope="p", fingerprint="", status=200,
                                                      headers={}, body=b"", created_ms=0))
    stage.edit(subject="s")
    for _ in range(2):
        await stage.views.look()
    entry = await stage.entry()
    assert (entry["label"], entry["subject"]) == ("theirs", "s")


@pytest.mark.req("N-1")
async def test_edits_made_while_no_gateway_ran_are_applied_at_the_start(stage: ViewStage) -> None:
    stage.edit(label="offline")
    stage.begin_views()
    await stage.views.find()
    await stage.look()
    assert (await stage.entry())["label"] == "offline"
    # A file that no one touched is not an edit, though rows have moved on since it was written.
    await stage.receive("bob", "/new")
    stage.begin_views()
    await stage.views.find()
    assert await stage.look() == []
    assert len(await stage.audits()) == 1


@pytest.mark.req("N-1")
async def test_an_interrupted_write_is_not_an_edit(stage: ViewStage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.replace

    def ends_after_the_first(self: Path, target: Path) -> Path:
        if target.name != "sessions.json":
            raise OSError("killed here")
        return real(self, target)

    await stage.receive("ann", "more")
    monkeypatch.setattr(Path, "replace", ends_after_the_first)
    with pytest.raises(OSError, match="killed here"):
        await stage.look(1)
    monkeypatch.undo()
    await stage.engine.sessions.patch(OWNER, stage.view()[KEY]["sessionId"], {"label": "later"}, lambda _record:
                                    IdempotencyRecord(tenant_id="default", scope="p", fingerprint="", status=200,
                                                      headers={}, body=b"", created_ms=0))
    stage.begin_views()
    await stage.views.find()
    assert await stage.look() == []
    assert (await stage.entry())["label"] == "later"
    assert stage.view()[KEY]["label"] == "later"


@pytest.mark.req("N-1")
async def test_a_deleted_entry_is_archived_unless_it_works(stage: ViewStage) -> None:
    view = stage.view()
    idle = await stage.receive("cid", "/new")  # A word alone: nothing runs for it.
    await stage.look()
    view = stage.view()
    del view["agent:shell:dm:cid"], view[KEY]
    stage.put(json.dumps(view))
    warnings = await stage.look(3)
    assert warnings == ["not everything in sessions.json was taken", f"{KEY}: It has work under way, so it stays."]
    assert list(stage.view()) == [KEY, "agent:shell:dm:bob"]
    assert (await stage.entry("agent:shell:dm:cid"))["archivedAt"]
    record = await stage.ledger.session(idle)
    assert record is not None


@pytest.mark.req("N-1")
async def test_deleting_the_file_or_its_content_loses_nothing(stage: ViewStage) -> None:
    before = stage.rows()
    stage.file.unlink()
    assert await stage.look() == []
    assert stage.rows() == before
    stage.put("{}")
    assert "nothing was deleted" in (await stage.look(3))[1]
    assert stage.rows() == before
    stage.file.unlink()
    (stage.file.parent / ".sessions.json.written").unlink()
    await stage.look()
    assert stage.rows() == before


@pytest.mark.req("N-1")
@pytest.mark.parametrize("bad", [
    b"", b"{", b"\xff\xfe", b"[1, 2]", b'{"agent:shell:dm:ann": {"label": "a", "label": "b"}}', b"[" * 200_000,
    b"\0" * 4096,
])
async def test_an_unreadable_text_is_set_aside_and_changes_no_row(stage: ViewStage, bad: bytes) -> None:
    before = stage.rows()
    stage.put(bad)
    warnings = await stage.look(3)
    assert len(warnings) == 1
    assert warnings[0].startswith("sessions.json cannot be read: ")
    assert [path.read_bytes() for path in stage.kept_aside()] == [bad]
    assert stage.rows() == before
    assert await stage.audits() == []


@pytest.mark.req("N-1")
async def test_two_invalid_texts_of_one_instant_are_both_kept(stage: ViewStage) -> None:
    for bad in (b"one", b"two"):
        stage.put(bad)
        stage.ticks.at_ms, now = stage.ticks.at_ms, stage.ticks.at_ms
        await stage.look(3)
        stage.ticks.at_ms = now
    assert {path.read_bytes() for path in stage.kept_aside()} == {b"one", b"two"}


@pytest.mark.req("N-1")
async def test_links_and_special_files_are_never_followed(stage: ViewStage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps({KEY: {**stage.view()[KEY], "label": "hostile"}}))
    written = elsewhere.read_bytes()
    before = stage.rows()
    stage.file.unlink()
    stage.file.symlink_to(elsewhere)
    assert "a link" in (await stage.look(3))[0]
    stage.file.unlink()
    stage.file.mkdir()
    assert "not a regular file" in (await stage.look(3))[0]
    stage.file.unlink()
    os.mkfifo(stage.file)
    assert "not a regular file" in (await stage.look(3))[0]
    assert len(stage.kept_aside()) == 3
    assert elsewhere.read_bytes() == written
    assert stage.rows() == before
    assert stage.file.is_file()
    assert not stage.file.is_symlink()


@pytest.mark.req("N-1")
async def test_a_file_in_the_middle_of_a_write_is_left_until_it_is_complete(stage: ViewStage) -> None:
    whole = json.dumps({**stage.view(), KEY: {**stage.view()[KEY], "label": "slow"}}).encode()
    for end in (10, 100, len(whole) - 1):
        stage.file.write_bytes(whole[:end])
        assert await stage.look(1) == []
    stage.file.write_bytes(whole)
    assert await stage.look(3) == []
    assert (await stage.entry())["label"] == "slow"
    assert stage.kept_aside() == []


@pytest.mark.req("N-1")
async def test_a_users_text_is_never_overwritten_unread(stage: ViewStage) -> None:
    file = ViewFile(stage.file.parent)
    known = file.look()
    stage.edit(label="mine")
    assert file.write([b"{}"], known) is None
    assert stage.view()[KEY]["label"] == "mine"
    assert {path.name for path in stage.file.parent.iterdir()} == {"sessions.json", ".sessions.json.written"}
    # Also if rows have changed and the file is due.
    await stage.receive("ann", "more")
    await stage.look(3)
    assert (await stage.entry())["label"] == "mine"
