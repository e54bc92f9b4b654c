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

from engine.conversation import OWNER, ManualClock, Table
from engine.within import Within
from interlock.app.session_views import SessionViews
from interlock.backends.jsonl.view_files import ViewFile
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.chats import ChatSettings, InboundMessage
from interlock.protocol import payloads as p
from interlock.protocol.records import IdempotencyRecord
from interlock.session.chat.chat_route import Chat, Naming

pytestmark = pytest.mark.anyio
KEY = "agent:shell:dm:ann"


class Desk(Table):
    """A table with sessions in chats, and the views of its agents."""

    def __init__(self, state: Path) -> None:
        super().__init__(RuleSet([Rule(name="all", effect="allow", door="command", type="execute")]))
        self.engine.chats.configure(ChatSettings(naming=Naming("per-peer")))
        self.file = state / "agents/shell/sessions/sessions.json"
        self.state = state
        self.ticks = ManualClock()
        self.said = 0
        self.begin_views()

    def begin_views(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        """A gateway starts on the state directory, with the same rows."""
        self.views = SessionViews(self.state, self.engine, self.ticks, stopwatch)

    async def hear(self, peer: str, text: str = "hello") -> str:
        def remember(_told: Any) -> IdempotencyRecord:
            self.said += 1
            return IdempotencyRecord(tenant_id="default", scope=f"m-{self.said}", fingerprint="", status=202,
                                     headers={}, body=b"", created_ms=0)

        message = InboundMessage(Chat("irc", "direct", peer=peer), peer, text, [], None, {})
        return (await self.engine.chats.arrive(OWNER, message, remember)).session_id

    async def look(self, times: int = 2) -> list[str]:
        """Let a second pass that often, and give what was said of the file meanwhile."""
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
        self.said += 1
        told = IdempotencyRecord(tenant_id="default", scope=f"l-{self.said}", fingerprint="", status=200, headers={},
                                 body=b"", created_ms=0)
        await self.engine.sessions.patch(OWNER, record.session_id, {"label": label, **fields}, lambda _record: told)

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
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    table = Desk(tmp_path)
    await table.hear("ann")
    await table.hear("bob")
    await table.look()
    yield table
    await table.engine.stop()


@pytest.mark.req("N-1")
async def test_rows_are_shown_whole_and_for_their_owner_alone(desk: Desk) -> None:
    view = desk.view()
    assert list(view) == [KEY, "agent:shell:dm:bob"]
    assert (view[KEY]["chatType"], view[KEY]["provider"]) == ("direct", "irc")
    # OpenClaw 2026.2.6 opens the name as it stands, from wherever it was started: only a whole path is the same file.
    assert view[KEY]["sessionFile"] == str(desk.file.parent.resolve() / f"{view[KEY]['sessionId']}.jsonl")
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o600
    assert {path.name for path in desk.file.parent.iterdir()} == {"sessions.json", ".sessions.json.written"}
    # What changes is there at the next look; what does not is not written again.
    before = desk.file.stat().st_mtime_ns
    await desk.look()
    assert desk.file.stat().st_mtime_ns == before
    newer = await desk.hear("ann", "/new hello again")
    await desk.look()
    assert desk.view()[KEY]["sessionId"] == newer


@pytest.mark.req("N-1")
async def test_it_is_written_once_a_second_and_for_a_fiftieth_of_the_time_at_most(desk: Desk) -> None:
    async def changes_and(ms: int) -> bool:
        """Whether a change is in the file after so long."""
        before = desk.file.stat().st_mtime_ns
        await desk.hear("ann", "more")
        desk.ticks.advance(ms)
        await desk.views.look()
        return desk.file.stat().st_mtime_ns != before

    assert await changes_and(60_000)
    assert not await changes_and(999)
    assert await changes_and(60_000)
    # Writing that takes a second is followed by 49 of rest.
    now = itertools.count()
    desk.begin_views(lambda: next(now))
    await desk.views.find()
    await desk.views.look()
    assert not await changes_and(48_000)
    assert await changes_and(1_000_000)


@pytest.mark.req("N-1", "I-4")
async def test_an_edit_is_taken_field_by_field_as_audited_updates(desk: Desk) -> None:
    desk.edit(label="work", modelOverride="opus", theirs={"kept": [1]})
    # The row goes on meanwhile: what the person did not touch is not taken back.
    session_id = await desk.hear("ann", "and this")
    assert await desk.look() == []
    entry = await desk.entry()
    assert (entry["label"], entry["modelOverride"], entry["unknown"]) == ("work", "opus", {"theirs": {"kept": [1]}})
    assert [(one["who"]["id"], one["meta"]["fields"]) for one in await desk.audits()] == [
        ("user:sessions.json", ["label", "modelOverride", "theirs"])]
    assert desk.view()[KEY]["sessionId"] == session_id
    # Once taken it is not taken again, and the next edit is held to what the last one said.
    desk.edit(label=None, theirs=None)
    await desk.look(5)
    assert (await desk.entry())["modelOverride"] == "opus"
    assert "label" not in await desk.entry()
    assert len(await desk.audits()) == 2
    assert "theirs" not in desk.view()[KEY]


@pytest.mark.req("N-1")
async def test_an_old_text_takes_nothing_back_that_changed_since(desk: Desk) -> None:
    opened = desk.view()
    await desk.engine.sessions.patch(OWNER, opened[KEY]["sessionId"], {"label": "theirs", "subject": "s"},
                                    lambda _record: IdempotencyRecord(tenant_id="default", scope="p", fingerprint="",
                                                                      status=200, headers={}, body=b"", created_ms=0))
    # The editor had the file open since before, and saves before it was written again.
    opened[KEY]["thinkingLevel"] = "high"
    desk.put(json.dumps(opened))
    assert await desk.look() == []
    entry = await desk.entry()
    assert (entry["label"], entry["subject"], entry["thinkingLevel"]) == ("theirs", "s", "high")


@pytest.mark.req("N-1")
async def test_a_text_that_was_loaded_long_ago_changes_what_was_edited_in_it_alone(desk: Desk) -> None:
    loaded = desk.view()
    desk.clock.advance(60_000)
    await desk.label("theirs", subject="s")
    begun = await desk.hear("cid", "/new")
    for _ in range(3):
        await desk.hear("bob", "more")
        await desk.look()
    # Saved as it was loaded: nothing was edited.
    desk.put(json.dumps(loaded))
    assert await desk.look(3) == []
    assert (await desk.entry())["label"] == "theirs"
    assert desk.view()["agent:shell:dm:cid"]["sessionId"] == begun, "what began meanwhile was not deleted"
    # Saved with one field changed.
    loaded[KEY]["thinkingLevel"] = "high"
    desk.put(json.dumps(loaded))
    assert await desk.look(3) == []
    entry = await desk.entry()
    assert (entry["label"], entry["subject"], entry["thinkingLevel"]) == ("theirs", "s", "high")
    assert desk.view()["agent:shell:dm:cid"]["sessionId"] == begun


@pytest.mark.req("N-1")
async def test_a_field_that_was_cleared_in_an_old_text_is_cleared(desk: Desk) -> None:
    await desk.label("mine")
    await desk.look()
    loaded = desk.view()
    await desk.label("mine", subject="s")
    await desk.look()
    del loaded[KEY]["label"]
    desk.put(json.dumps(loaded))
    assert await desk.look(3) == []
    entry = await desk.entry()
    assert ("label" in entry, entry["subject"]) == (False, "s")


@pytest.mark.req("N-1")
async def test_a_deletion_in_an_old_text_puts_away_only_what_has_not_gone_on_since(desk: Desk) -> None:
    for peer in ("cid", "dan"):
        await desk.hear(peer, "/new")
    desk.clock.advance(60_000)
    await desk.hear("eve", "/new")
    await desk.look()
    loaded = desk.view()
    desk.clock.advance(60_000)
    await desk.label("busy", "agent:shell:dm:dan")
    await desk.look()
    for peer in ("cid", "dan"):
        del loaded[f"agent:shell:dm:{peer}"]
    desk.put(json.dumps(loaded))
    told = await desk.look(3)
    assert told[1:] == ["agent:shell:dm:dan: it went on after the text was loaded, so it stays"]
    assert (await desk.entry("agent:shell:dm:cid"))["archivedAt"]
    assert "agent:shell:dm:dan" in desk.view()


@pytest.mark.req("N-1")
async def test_a_text_without_its_marks_is_set_aside(desk: Desk) -> None:
    desk.put(json.dumps(desk.rows()))
    (told,) = await desk.look(3)
    assert "does not say what it was written from" in told
    assert len(desk.kept_aside()) == 1
    # One entry that lost its mark stays, and the others are taken.
    view = desk.view()
    del view[KEY]["interlock"]
    view["agent:shell:dm:bob"]["label"] = "bob's"
    desk.put(json.dumps(view))
    assert "what it was written from" in (await desk.look(3))[1]
    assert (await desk.entry("agent:shell:dm:bob"))["label"] == "bob's"


@pytest.mark.req("N-1")
async def test_a_file_of_an_older_gateway_is_read_as_it_was_written(desk: Desk) -> None:
    bare = {key: {**entry, "sessionFile": f"{entry['sessionId']}.jsonl"} for key, entry in desk.rows().items()}
    desk.file.with_name(".sessions.json.written").write_text(json.dumps(bare))
    bare[KEY]["label"] = "offline"
    desk.put(json.dumps(bare))
    desk.begin_views()
    await desk.views.find()
    assert await desk.look(3) == []
    assert (await desk.entry())["label"] == "offline"
    assert desk.view()[KEY]["interlock"]["revision"]


@pytest.mark.req("N-1", "I-2")
async def test_a_restart_leaves_the_time_of_the_last_change_alone(desk: Desk) -> None:
    session_id = await desk.hear("cid", "/new")
    before = await desk.ledger.session(session_id)
    desk.clock.advance(3_600_000)
    shell = await desk.engine.lanes.lane(session_id)
    assert shell is not None

    def closes_and_confirms(lane: Lane) -> None:
        lane.control("session.error", p.SessionError(error_code="X", message="m", fatal=False))

    await shell.call(Within(closes_and_confirms))
    after = await desk.ledger.session(session_id)
    assert before is not None
    assert after is not None
    assert after.updated_ms == before.updated_ms
    await desk.label("mine", "agent:shell:dm:cid")
    changed = await desk.ledger.session(session_id)
    assert changed is not None
    assert changed.updated_ms == desk.clock.now_ms()


@pytest.mark.req("N-1")
async def test_two_edits_before_it_is_written_again_are_each_taken_once(desk: Desk) -> None:
    await desk.look(1)
    desk.edit(label="mine")
    for _ in range(2):  # No time passes, so that nothing is written meanwhile.
        await desk.views.look()
    assert (await desk.entry())["label"] == "mine"
    await desk.engine.sessions.patch(OWNER, desk.view()[KEY]["sessionId"], {"label": "theirs"}, lambda _record:
                                    IdempotencyRecord(tenant_id="default", scope="p", fingerprint="", status=200,
                                                      headers={}, body=b"", created_ms=0))
    desk.edit(subject="s")
    for _ in range(2):
        await desk.views.look()
    entry = await desk.entry()
    assert (entry["label"], entry["subject"]) == ("theirs", "s")


@pytest.mark.req("N-1")
async def test_what_was_edited_while_no_gateway_ran_is_taken_at_the_start(desk: Desk) -> None:
    desk.edit(label="offline")
    desk.begin_views()
    await desk.views.find()
    await desk.look()
    assert (await desk.entry())["label"] == "offline"
    # A file that no one touched is not an edit, though rows have moved on since it was written.
    await desk.hear("bob", "/new")
    desk.begin_views()
    await desk.views.find()
    assert await desk.look() == []
    assert len(await desk.audits()) == 1


@pytest.mark.req("N-1")
async def test_an_end_in_the_middle_of_writing_is_no_edit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.replace

    def ends_after_the_first(self: Path, target: Path) -> Path:
        if target.name != "sessions.json":
            raise OSError("killed here")
        return real(self, target)

    await desk.hear("ann", "more")
    monkeypatch.setattr(Path, "replace", ends_after_the_first)
    with pytest.raises(OSError, match="killed here"):
        await desk.look(1)
    monkeypatch.undo()
    await desk.engine.sessions.patch(OWNER, desk.view()[KEY]["sessionId"], {"label": "later"}, lambda _record:
                                    IdempotencyRecord(tenant_id="default", scope="p", fingerprint="", status=200,
                                                      headers={}, body=b"", created_ms=0))
    desk.begin_views()
    await desk.views.find()
    assert await desk.look() == []
    assert (await desk.entry())["label"] == "later"
    assert desk.view()[KEY]["label"] == "later"


@pytest.mark.req("N-1")
async def test_a_deleted_entry_is_put_away_but_none_that_works(desk: Desk) -> None:
    view = desk.view()
    idle = await desk.hear("cid", "/new")  # A word alone: nothing runs for it.
    await desk.look()
    view = desk.view()
    del view["agent:shell:dm:cid"], view[KEY]
    desk.put(json.dumps(view))
    told = await desk.look(3)
    assert told == ["not everything in sessions.json was taken", f"{KEY}: it has work under way, so it stays"]
    assert list(desk.view()) == [KEY, "agent:shell:dm:bob"]
    assert (await desk.entry("agent:shell:dm:cid"))["archivedAt"]
    record = await desk.ledger.session(idle)
    assert record is not None


@pytest.mark.req("N-1")
async def test_deleting_the_file_or_all_that_is_in_it_loses_nothing(desk: Desk) -> None:
    before = desk.rows()
    desk.file.unlink()
    assert await desk.look() == []
    assert desk.rows() == before
    desk.put("{}")
    assert "nothing was deleted" in (await desk.look(3))[1]
    assert desk.rows() == before
    desk.file.unlink()
    (desk.file.parent / ".sessions.json.written").unlink()
    await desk.look()
    assert desk.rows() == before


@pytest.mark.req("N-1")
@pytest.mark.parametrize("bad", [
    b"", b"{", b"\xff\xfe", b"[1, 2]", b'{"agent:shell:dm:ann": {"label": "a", "label": "b"}}', b"[" * 200_000,
    b"\0" * 4096,
])
async def test_a_text_that_cannot_be_read_is_set_aside_and_changes_no_row(desk: Desk, bad: bytes) -> None:
    before = desk.rows()
    desk.put(bad)
    told = await desk.look(3)
    assert len(told) == 1
    assert told[0].startswith("sessions.json cannot be read: ")
    assert [path.read_bytes() for path in desk.kept_aside()] == [bad]
    assert desk.rows() == before
    assert await desk.audits() == []


@pytest.mark.req("N-1")
async def test_two_bad_texts_of_one_instant_are_both_kept(desk: Desk) -> None:
    for bad in (b"one", b"two"):
        desk.put(bad)
        desk.ticks.at_ms, now = desk.ticks.at_ms, desk.ticks.at_ms
        await desk.look(3)
        desk.ticks.at_ms = now
    assert {path.read_bytes() for path in desk.kept_aside()} == {b"one", b"two"}


@pytest.mark.req("N-1")
async def test_links_and_what_is_no_file_are_never_followed(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps({KEY: {**desk.view()[KEY], "label": "hostile"}}))
    written = elsewhere.read_bytes()
    before = desk.rows()
    desk.file.unlink()
    desk.file.symlink_to(elsewhere)
    assert "a link" in (await desk.look(3))[0]
    desk.file.unlink()
    desk.file.mkdir()
    assert "not a regular file" in (await desk.look(3))[0]
    desk.file.unlink()
    os.mkfifo(desk.file)
    assert "not a regular file" in (await desk.look(3))[0]
    assert len(desk.kept_aside()) == 3
    assert elsewhere.read_bytes() == written
    assert desk.rows() == before
    assert desk.file.is_file()
    assert not desk.file.is_symlink()


@pytest.mark.req("N-1")
async def test_a_file_that_is_still_being_written_is_left_until_it_is_whole(desk: Desk) -> None:
    whole = json.dumps({**desk.view(), KEY: {**desk.view()[KEY], "label": "slow"}}).encode()
    for end in (10, 100, len(whole) - 1):
        desk.file.write_bytes(whole[:end])
        assert await desk.look(1) == []
    desk.file.write_bytes(whole)
    assert await desk.look(3) == []
    assert (await desk.entry())["label"] == "slow"
    assert desk.kept_aside() == []


@pytest.mark.req("N-1")
async def test_a_person_s_text_is_never_written_over_unread(desk: Desk) -> None:
    file = ViewFile(desk.file.parent)
    known = file.look()
    desk.edit(label="mine")
    assert file.write([b"{}"], known) is None
    assert desk.view()[KEY]["label"] == "mine"
    assert {path.name for path in desk.file.parent.iterdir()} == {"sessions.json", ".sessions.json.written"}
    # Also where rows have changed, and the file is due.
    await desk.hear("ann", "more")
    await desk.look(3)
    assert (await desk.entry())["label"] == "mine"
