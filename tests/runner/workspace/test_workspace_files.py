"""The look for files that would configure an agent, on a disk as a hostile repository may have it (H-13)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.agents.workspace_files import READS, FilePlace
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.limits import MAX_FRAME_BYTES
from interlock.runner.workspace.workspace_files import MAX_FILE_BYTES, MAX_FILES, AgentFiles, TooMany, find
from runner.stage import MISBEHAVING, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-13")]
QWEN = READS["qwen"].places
SETTINGS = '{"hooks": {"SessionStart": [{"hooks": [{"command": "touch x"}]}]}}'


def write(place: Path, text: str = SETTINGS) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def seen(found: AgentFiles | None) -> dict[str, p.WorkspaceFile]:
    assert found is not None
    return {file.path: file for file in msgspec.json.decode(found.encoded, type=p.WorkspaceFiles).files}


def looked(workspace: Path, *places: FilePlace, home: str = "", root: Path | None = None) -> AgentFiles | None:
    return find("qwen", places or QWEN, workspace, [str(root or workspace)], home)


def test_an_empty_workspace_has_no_findings_and_costs_little(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/f"
    deep.mkdir(parents=True)
    began = time.perf_counter()
    for _ in range(20):
        assert looked(deep, root=tmp_path) is None
    assert (time.perf_counter() - began) / 20 < 0.02


def test_a_file_is_identified_by_its_content_and_shown_with_its_effect(tmp_path: Path) -> None:
    write(tmp_path / ".qwen/settings.json")
    found = looked(tmp_path)
    file = seen(found)[".qwen/settings.json"]
    assert file.does == ["at SessionStart runs: touch x"]
    assert found == looked(tmp_path)
    write(tmp_path / ".qwen/settings.json", SETTINGS.replace("touch x", "touch y"))
    changed = looked(tmp_path)
    assert found is not None
    assert changed is not None
    assert found.digest != changed.digest


def test_parent_directories_are_checked_up_to_the_repositorys_top(tmp_path: Path) -> None:
    work = tmp_path / "outside/repo/src/deep"
    work.mkdir(parents=True)
    (tmp_path / "outside/repo/.git").mkdir()
    write(tmp_path / "outside/.mcp.json")
    write(tmp_path / "outside/repo/.mcp.json")
    write(tmp_path / "outside/repo/src/.qwen/settings.json")
    assert list(seen(looked(work, root=tmp_path))) == ["../../.mcp.json", "../.qwen/settings.json"]


def test_without_a_repository_parents_are_checked_up_to_the_runners_root(tmp_path: Path) -> None:
    work = tmp_path / "unpacked/src"
    work.mkdir(parents=True)
    write(tmp_path / "unpacked/.mcp.json")
    assert list(seen(looked(work, root=tmp_path))) == ["../.mcp.json"]


def test_the_users_settings_in_their_home_are_not_counted(tmp_path: Path) -> None:
    work = tmp_path / "project"
    work.mkdir()
    write(tmp_path / ".qwen/settings.json")
    assert looked(work, home=str(tmp_path), root=tmp_path) is None
    assert looked(tmp_path, home=str(tmp_path)) is None


def test_a_link_is_followed_and_named_and_its_targets_content_counts(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", write(tmp_path / "elsewhere/settings.json")
    (work / ".qwen").mkdir(parents=True)
    (work / ".qwen/settings.json").symlink_to(outside)
    first = looked(work)
    assert seen(first)[".qwen/settings.json"].leads_to == str(outside)
    outside.write_text("{}")
    second = looked(work)
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


def test_a_linked_directory_is_searched_and_a_loop_ends(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(tmp_path / "elsewhere/evil/hooks.json")
    (work / ".agents").mkdir(parents=True)
    (work / ".agents/plugins").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/again").symlink_to(tmp_path / "elsewhere")
    found = seen(looked(work, *READS["goose"].places))
    assert ".agents/plugins/evil/hooks.json" in found
    assert len(found) <= MAX_FILES


@pytest.mark.parametrize("kind", ["fifo", "directory", "dangling", "large"])
def test_an_unreadable_file_is_asked_about_too(tmp_path: Path, kind: str) -> None:
    place = tmp_path / ".mcp.json"
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
        case "dangling":
            place.symlink_to(tmp_path / "not-there")
        case _:
            place.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    file = seen(looked(tmp_path))[".mcp.json"]
    assert file.unread
    assert file.sha256 == ""


def test_a_changed_large_file_is_asked_about_again(tmp_path: Path) -> None:
    place = tmp_path / ".mcp.json"
    place.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    first = looked(tmp_path)
    os.utime(place, ns=(1, 1))
    second = looked(tmp_path)
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


def test_more_files_than_the_limit_are_refused(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        write(tmp_path / f".qwen/skills/{number}/SKILL.md", "hello")
    with pytest.raises(TooMany, match="workspace_files"):
        looked(tmp_path)


def test_the_report_fits_a_frame_with_any_files(tmp_path: Path) -> None:
    servers = ",".join(f'"s{number}": {{"command": "{"x" * 1_000}"}}' for number in range(30))
    for number in range(MAX_FILES):
        write(tmp_path / f".qwen/extensions/{number}.json", f'{{"mcpServers": {{{servers}}}}}')
    found = looked(tmp_path)
    assert found is not None
    assert len(found.encoded) < MAX_FRAME_BYTES // 2


def test_names_that_are_not_text_or_misleading_are_listed(tmp_path: Path) -> None:
    (tmp_path / ".qwen/skills").mkdir(parents=True)
    with open(os.fsencode(tmp_path / ".qwen/skills") + b"/\xff\xfe.md", "wb") as odd:
        odd.write(b"hello")
    assert len(seen(looked(tmp_path))) == 1


# --- the opening ---
def qwen(**fields: Any) -> AgentSpec:
    """The misbehaving agent as a launcher starts it by a name of the table."""
    return AgentSpec(adapter="acp", command=sys.executable, args=["-I", "-S", str(MISBEHAVING)], **fields)


async def test_the_agent_starts_only_after_the_digest_of_the_same_files_is_granted(tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", '{"mcpServers": {"evil": {"command": "touch", "args": ["x"]}}}')
    async with stage(tmp_path, {"bad": qwen()}) as scene:
        opened = await scene.open("bad")
        error = await scene.next("session.error")
        assert (error.payload.error_code, error.payload.fatal) == (Code.WORKSPACE_NOT_TRUSTED, True)
        assert error.metadata["in_reply_to"] == opened.message_id
        reported = bytes(error.payload.workspace_files)
        read = msgspec.json.decode(reported, type=p.WorkspaceFiles)
        assert (read.agent_id, read.directory) == ("bad", str(tmp_path))
        assert [file.does for file in read.files] == [["starts the MCP server evil: touch x"]]
        await scene.next("session.closed")

        await scene.send("control.session.open", p.SessionOpen(
            session_id=scene.session_id, agent_id="bad", workspace_access="rw", workspace=str(tmp_path),
            trusted_files=AgentFiles(reported, 1).digest))
        await scene.next("session.capabilities")


async def test_files_that_changed_since_the_grant_are_reported_again(tmp_path: Path) -> None:
    place = write(tmp_path / ".mcp.json", "{}")
    async with stage(tmp_path, {"bad": qwen()}) as scene:
        await scene.open("bad")
        first = bytes((await scene.next("session.error")).payload.workspace_files)
        await scene.next("session.closed")
        write(place, '{"mcpServers": {"evil": {"command": "touch"}}}')
        await scene.send("control.session.open", p.SessionOpen(
            session_id=scene.session_id, agent_id="bad", workspace_access="rw", workspace=str(tmp_path),
            trusted_files=AgentFiles(first, 1).digest))
        second = bytes((await scene.next("session.error")).payload.workspace_files)
        assert second != first
        assert scene.all("session.capabilities") == []


async def test_a_config_that_trusts_them_starts_the_agent_at_once(tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", "{}")
    async with stage(tmp_path, {"bad": qwen(workspace_files="trust")}) as scene:
        await scene.open("bad")
        await scene.next("session.capabilities")
