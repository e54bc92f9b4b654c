"""`interlock agents check|add`: what is checked, and one sentence for what cannot be (H-10)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import evidence
from interlock.cli.config.place import Where
from interlock.cli.dispatch import dispatch
from interlock.cli.operations.doctor import examine
from interlock.probe import check as checking

pytestmark = pytest.mark.req("H-10")
MODELLED = Path(__file__).parents[2] / "probe" / "modelled.py"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of its own, and no known agent on PATH."""
    (tmp_path / "state").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    return tmp_path / "state"


def configure(state: Path, word: str, **more: Any) -> None:
    lines = {"adapter": "acp", "command": sys.executable, "args": ["-I", str(MODELLED), word], **more}
    (state / "interlock.toml").write_text(
        "[agents.m]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()))


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = dispatch(arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    return status, printed.err.strip().splitlines()[-1]


def test_a_check_is_printed_and_stored(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(state, "asks")

    assert dispatch(["agents", "check", "m"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "asks: each tool call is held. It asked before each of: shell, write, edit, fetch; each no held.")
    assert evidence.read(state)["m"].verdict == "asks"
    assert (state / evidence.FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_an_agent_that_does_not_ask_before_reading_commands_is_reported(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # It is to find `cat`.
    configure(state, "reads")

    assert dispatch(["agents", "check", "m"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(
        "asks: each tool call is held, except for shell commands that it takes for reading. It asked before each of: ")
    (asking,) = [one for one in examine(Where(state=state, url="http://127.0.0.1:9")) if one.check == "asking of m"]
    assert (asking.ok, asking.found) == (
        True, "it asks before shell commands, but not before those that it takes for reading (cat, ls).")
    configure(state, "reads", mode="other")
    assert not [one for one in examine(Where(state=state, url="http://127.0.0.1:9")) if one.check == "asking of m"]


def test_a_check_is_one_json_document_on_demand(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(state, "never")

    assert dispatch(["agents", "check", "m", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agent_id"], found["verdict"]) == ("m", "command")
    assert found["because"].startswith("It ran shell, write, edit, fetch")


@pytest.mark.parametrize(("believed", "line"), [
    ("declared", "asks: each tool call is held. "), ("required", "command: the whole command is held. ")])
def test_an_agent_that_does_not_use_the_stand_in_is_held_as_its_table_states(
    believed: str, line: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(state, "idle", evidence=believed)

    assert dispatch(["agents", "check", "m"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(line + checking.NOT_ASKED)
    assert ("is believed" in last) is (believed == "declared")


@pytest.mark.parametrize(("name", "sentence"), [
    ("nothing", "error[NotFound]: The config has no agent 'nothing'; it has: m."),
    ("goose", "error[NotFound]: The config has no agent 'goose'; it has: m. "
              "Set it up with: interlock agents add goose"),
    ("shell", "error[Usage]: Agent shell is Interlock's own: its asking is checked by Interlock's tests. "
              "Check an agent of [agents] in the config."),
    ("\x1b[31mx", "error[NotFound]: The config has no agent "),
])
def test_an_unknown_agent_is_reported(
    name: str, sentence: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(state, "asks")

    status, line = refused(["agents", "check", name], capsys)
    assert status != 0
    assert line.startswith(sentence)
    assert "\x1b" not in line


def test_an_agent_that_is_not_installed_is_reported(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(state, "asks", command="no-such-agent")

    assert refused(["agents", "check", "m"], capsys) == (2, (
        "error[Usage]: The program 'no-such-agent' of agent m is not on PATH. "
        "Install it, or correct `command` in [agents.m]."))


@pytest.mark.parametrize(("word", "because"), [
    ("mute", "It did not start: it was not ready within 1 s."),
    ("stuck", "It did not end the turn in which it should use shell."),
    ("dies", "It ended in the turn in which it should use shell."),
])
def test_an_agent_that_never_starts_hangs_or_dies_is_reported(
    word: str, because: str, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TURN_TIMEOUT_S", "CANCEL_TIMEOUT_S", *(["OPEN_TIMEOUT_S"] if word == "mute" else [])):
        monkeypatch.setattr(checking, name, 1.0)
    configure(state, word, evidence="required")

    assert dispatch(["agents", "check", "m"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"command: the whole command is held. {because}"


def test_a_program_that_is_not_an_agent_is_reported(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(state, "asks", args=["-c", "print('hello')"], evidence="required")

    assert dispatch(["agents", "check", "m"]) == 0
    assert "command: the whole command is held. It did not start: " in capsys.readouterr().out


def test_a_stand_in_that_cannot_listen_keeps_the_last_record(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> object:
        raise OSError(24, "Too many open files")
    configure(state, "asks")
    monkeypatch.setattr(checking, "running_model_server", refuse)

    assert refused(["agents", "check", "m"], capsys)[1] == (
        "error[Unavailable]: The model stand-in cannot listen on 127.0.0.1: Too many open files. "
        "Nothing was checked, and the last record was kept.")
    assert evidence.read(state) == {}


@pytest.mark.parametrize(("name", "sentence"), [
    ("nothing", "error[NotFound]: Interlock does not know an agent 'nothing'; it knows: claude, "),
    ("goose", "error[Usage]: The program 'goose' of agent goose is not on PATH. Install it first."),
])
def test_an_agent_that_cannot_be_added_is_refused(
    name: str, sentence: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, line = refused(["agents", "add", name, "--yes"], capsys)

    assert status != 0
    assert line.startswith(sentence)
    assert not (state / "interlock.toml").exists()


def test_adding_needs_confirmation_and_changes_nothing_twice(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin" / "goose").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "goose").chmod(0o755)

    assert dispatch(["agents", "add", "goose"]) == 2
    assert "error[Usage]: Writing the config needs a yes. Use --yes." in capsys.readouterr().err
    assert not (state / "interlock.toml").exists()

    assert dispatch(["agents", "add", "goose", "--yes"]) == 0
    assert "It did not start: " in capsys.readouterr().out
    before = (state / "interlock.toml").read_text()
    assert dispatch(["agents", "add", "goose", "--yes"]) != 0
    assert "The config has an agent goose already; it was not changed." in capsys.readouterr().err
    assert (state / "interlock.toml").read_text() == before
