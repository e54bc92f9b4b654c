"""`interlock sessions edit`: what is changed in the editor is changed in the gateway, and nothing else (N-1)."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.test_chats import ChatTable
from gateway.rest.operations.test_session_entries import EngineDesk
from interlock.cli.config.place import Where
from interlock.cli.display.progress import _SoFar
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.sessions import session_edit
from interlock.cli.verb_error import Trouble
from interlock.session.chat.chat_route import Naming
from small_gateway.running import running

pytestmark = pytest.mark.anyio
KEY = "agent:shell:dm:ann"


class Person:
    """A user with an editor and a gateway with three sessions."""

    def __init__(self, room: ChatTable, url: str, state: Path) -> None:
        self.room = room
        self._where = Where(state=state, url=url)
        (state / "owner.key").write_text("ilk_default_owner\n")

    async def edit(self, change: str, agent: str | None = None) -> int:
        """Let the editor run `change` on the view `v`."""
        script = ("import json, sys; path = sys.argv[1]; v = json.load(open(path));" + change
                  + "; isinstance(v, str) or json.dump(v, open(path, 'w')); isinstance(v, str) and "
                    "open(path, 'w').write(v)")
        return await session_edit._edit(GatewayLink(self._where), agent, [sys.executable, "-S", "-c", script],
                                           json=True)

    async def entry(self, name: str = "ann") -> dict[str, Any]:
        record = await self.room.ledger.session_by_key("default", f"agent:shell:dm:{name}")
        assert record is not None
        return self.room.engine.sessions.shown(record).entry


@pytest.fixture
async def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Person]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # Texts that are kept for their writer go with the test.
    room = ChatTable(naming=Naming("per-peer"))
    async with running(60, desk=EngineDesk(room)) as gateway:
        for name, text in (("ann", "hello"), ("bob", "/new"), ("cid", "/new")):
            sent = await gateway.post("/v1/inbound", {"channel": "irc", "chat_type": "direct", "sender": name,
                                                      "text": text, "message_id": name}, key="")
            assert sent.status_code == 202, sent.text
        yield Person(room, gateway.base, tmp_path)


@pytest.mark.req("N-1")
async def test_changed_fields_are_set_and_the_others_stay(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    done = await person.edit(f"v['{KEY}'].update(label='work', theirs=[1], provider=None); v['{KEY}'].pop('chatType');"
                             "v.pop('agent:shell:dm:bob')")
    sent = json.loads(capsys.readouterr().out)
    assert done == ExitStatus.DONE
    assert sent == {"agent_id": "shell", "refused": [], "changed": [
        f"{KEY}: chatType, provider, label, theirs", "agent:shell:dm:bob: archived"]}
    entry = await person.entry()
    assert (entry["label"], entry["theirs"], "chatType" in entry) == ("work", [1], False)
    assert "archivedAt" in await person.entry("bob")
    assert "archivedAt" not in await person.entry("cid")
    # What is archived is not there the next time; what is not known is taken away again with null.
    assert await person.edit(f"v['{KEY}']['theirs'] = None; assert 'agent:shell:dm:bob' not in v") == ExitStatus.DONE
    assert "theirs" not in await person.entry()


@pytest.mark.req("N-1")
async def test_each_refusal_is_one_sentence_and_the_text_is_kept(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    done = await person.edit(f"v['agent:shell:dm:cid'].update(sessionId='x', label='c'); v.pop('{KEY}'); v['new'] = 7")
    captured = capsys.readouterr()
    assert done == ExitStatus.FAILED
    assert json.loads(captured.out) == {
        "agent_id": "shell", "changed": ["agent:shell:dm:cid: label"], "refused": [
            "agent:shell:dm:cid: sessionId: the gateway counts it itself.",
            "new: there is no such session; a message to a key begins one.",
            f"{KEY}: It has work under way, so it stays."]}
    kept = Path(captured.err.partition("kept in ")[2].strip())
    assert json.loads(kept.read_text())["new"] == 7


@pytest.mark.req("N-1")
async def test_an_unreadable_text_changes_nothing(person: Person) -> None:
    with pytest.raises(Trouble, match="Nothing was changed: your text cannot be read: it is not JSON") as trouble:
        await person.edit("v = '{'")
    kept = Path(trouble.value.remedy.removeprefix("It is in ").removesuffix("."))
    assert kept.read_text() == "{"
    with pytest.raises(Trouble, match="ended with status 3, so nothing was changed"):
        await person.edit("sys.exit(3)")
    assert await person.edit("v") == ExitStatus.DONE
    assert await person.edit("v = {}") == ExitStatus.FAILED
    assert "archivedAt" not in await person.entry()


@pytest.mark.req("N-1")
async def test_an_agent_without_sessions_and_a_missing_editor_are_reported(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Trouble, match="No agent 'goose' has sessions"):
        await person.edit("v", agent="goose")
    monkeypatch.setenv("VISUAL", "/nowhere/at/all --wait")
    with pytest.raises(Trouble, match="There is no editor"):
        session_edit._editor()
    monkeypatch.setenv("VISUAL", shlex.join([sys.executable, "-S", "-c", "pass # "]))
    assert session_edit._editor()[:2] == [sys.executable, "-S"]


@pytest.mark.req("N-1", "G-7")
async def test_nothing_is_printed_while_the_editor_uses_the_terminal(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    run = session_edit.subprocess.run

    def watched(*words: Any, **more: Any) -> Any:
        seen.append(_SoFar.suspended)
        return run(*words, **more)

    monkeypatch.setattr(session_edit.subprocess, "run", watched)
    assert await person.edit("v") == ExitStatus.DONE
    assert (seen, _SoFar.suspended) == ([True], False)
