"""`python -m proof door`: how it judges what it saw, and its short form with the agents that CI has (H-14)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from installed import needs
from interlock import config
from proof import REPOSITORY
from proof.agents.installed_agents import AGENTS, LAB_VARIABLE, OPEN_MODES, Absent, configured, known, section
from proof.agents.matrix_cells import ANSWERS, TOOLS, Cell, Seen, cells, letter, not_exercised, table
from proof.agents.permission_matrix import Drive, Result, driving


@pytest.mark.parametrize(("seen", "shown", "silent"), [
    (Seen(asked=True, granted=True, happened=True), "r", False),
    (Seen(asked=True), "h", False),
    (Seen(), "-", False),
    (Seen(refused=True), "-", False),
    (Seen(happened=True, reported=True), "!", False),
    (Seen(stuck=True), "t", False),
    (Seen(happened=True), "X", True),
    (Seen(asked=True, happened=True), "X", True),
    (Seen(stuck=True, happened=True), "X", True),
])
@pytest.mark.req("H-14")
def test_a_run_must_have_been_granted_or_reported(seen: Seen, shown: str, silent: bool) -> None:
    assert (letter(seen), seen.silent) == (shown, silent)


@pytest.mark.req("H-14")
def test_every_tool_is_tested_with_every_answer_and_leaves_its_own_mark() -> None:
    found = cells("clean", TOOLS, ANSWERS)

    assert {(one.tool, one.answer) for one in found} == {(tool, answer) for tool in TOOLS for answer in ANSWERS}
    assert len({one.mark for one in found}) == len(found)
    for one in found:
        words = " ".join(prompt for prompt, _ in one.prompts("goose", "http://model", REPOSITORY))
        assert one.mark in words


@pytest.mark.req("H-14")
@pytest.mark.parametrize(("agent", "first"), [("qwen", ["read_file"]), ("goose", [])])
def test_an_agent_that_edits_only_read_files_reads_the_file_first(agent: str, first: list[str]) -> None:
    words = [text for text, _ in Cell("clean", "edit", "yes").prompts(agent, "http://model", REPOSITORY)]

    assert [text.split("[[call:")[1].split()[0] for text in words[:-1]] == first
    assert "[[do:edit " in words[-1]


@pytest.mark.req("H-14")
def test_a_program_that_ran_by_itself_is_unreported_unless_a_report_exists() -> None:
    one = Cell("hostile", "shell", "no")

    assert Result("hostile hooks", {one: Seen(asked=True)}, ("hooks",)).silent == [
        "hostile hooks: the repository's hooks"]
    assert Result("clean", {one: Seen(happened=True)}).silent == ["clean: shell, no"]
    assert "X" in table([Result("clean", {one: Seen(happened=True)})], ["shell"], ["no"])


@pytest.mark.req("H-14")
def test_a_tool_that_did_not_run_after_a_grant_is_named() -> None:
    ran, asked, nothing = Seen(asked=True, granted=True, happened=True), Seen(asked=True, granted=True), Seen()

    assert not_exercised({Cell("clean", "shell", "yes"): ran, Cell("clean", "edit", "yes"): asked,
                          Cell("clean", "fetch", "yes"): nothing, Cell("clean", "fetch", "no"): nothing}) == [
        "edit (asked, and did not run)", "fetch (not asked)"]


@pytest.mark.req("H-14")
def test_each_agent_is_configured_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(OPEN_MODES) == set(AGENTS)
    for name in AGENTS:
        program = tmp_path / "bin" / known(name).program
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(LAB_VARIABLE, raising=False)
    for name in AGENTS:
        if name == "claude":
            continue  # It comes with its SDK, which may be absent.
        one, spec = known(name), configured(name, tmp_path / name, tmp_path, "http://127.0.0.1:9")
        written = config.parse(section(name, spec), "interlock.toml").agents[name]
        assert (written.adapter, written.asks, written.mode) == (one.adapter, one.asks, one.mode)
        assert {**written.env, **one.env} == written.env


@pytest.mark.req("H-14")
def test_an_absent_agent_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(LAB_VARIABLE, raising=False)

    with pytest.raises(Absent, match="kimi is not on PATH"):
        configured("kimi", tmp_path, tmp_path, "http://127.0.0.1:9")


@pytest.mark.req("H-14")
def test_an_unknown_agent_gives_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "proof", "door", "--agents", "goose,nothing"], cwd=REPOSITORY,
                          capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "--agents: there is no agent nothing; choose of opencode, " in done.stderr


def attempted(drive: Drive, *tried: Cell) -> str:
    return "".join(letter(drive.attempt(cell)) for cell in tried)


@pytest.mark.req("H-10", "H-12", "H-14")
@pytest.mark.parametrize(("name", "of_server"), [
    needs("goose", "goose", "rh"), needs("claude", "claude", "rh"), needs("gemini", "gemini", "--"),
])  # fmt: skip
def test_a_real_agent_runs_only_granted_tools(name: str, of_server: str) -> None:
    with driving(name, ()) as (drive, _):
        shown = attempted(drive, Cell("clean", "shell", "yes"), Cell("clean", "shell", "no"),
                          Cell("clean", "shell", "no answer"), Cell("clean", "shell", "rule", by_rule=True),
                          Cell("clean", "shell", "rule"), Cell("clean", "MCP tool", "yes"),
                          Cell("clean", "MCP tool", "no"))

    # Gemini CLI does not offer its model the tools of a server in an untrusted workspace.
    assert shown == f"rhhrh{of_server}"
