"""Completion: requests of a shell's script, with ids from the gateway, and no output without one (G-7)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.cli import completion
from interlock.cli.completion import BASH, FISH, ZSH, candidates
from interlock.cli.dispatch import dispatch

pytestmark = pytest.mark.req("G-7")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INTERLOCK_KEY", raising=False)
    monkeypatch.setenv("INTERLOCK_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(("words", "expected"), [
    (["app"], ["approve", "approvals"]),
    (["runners", "ro"], ["rotate"]),
    (["run", "shell", "--no-"], ["--no-input"]),
    (["runners", "rotate", "--j"], ["--json"]),
    (["completion", ""], ["bash", "zsh", "fish"]),
    (["frobnicate", ""], []),
])
def test_verbs_and_options_need_no_gateway(words: list[str], expected: list[str]) -> None:
    assert candidates(words) == expected


def test_without_a_gateway_there_are_no_ids_and_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["__complete", "attach", ""]) == 0
    assert capsys.readouterr() == ("", "")
    assert dispatch(["__complete", "sessions", ""]) == 0
    out, err = capsys.readouterr()
    assert "compact" in out.split()
    assert err == ""


def test_ids_are_offered_by_their_prefix_and_without_those_already_typed(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ids(_: object) -> list[str]:
        return ["apr_01K9A", "apr_02B"]

    monkeypatch.setattr(completion, "_ids", ids)
    assert candidates(["approve", ""]) == ["@last", "apr_01K9A", "apr_02B"]
    assert candidates(["approve", "01"]) == ["apr_01K9A"]
    assert candidates(["approve", "apr_02B", "apr"]) == ["apr_01K9A"]
    assert candidates(["approvals", "apr_02B", ""]) == []


@pytest.mark.parametrize(("shell", "script", "place"), [
    ("bash", BASH, ".local/share/bash-completion/completions/interlock"),
    ("zsh", ZSH, ".zfunc/_interlock"),
    ("fish", FISH, ".config/fish/completions/interlock.fish"),
])
def test_a_script_is_printed_or_installed_and_valid_for_its_shell(
    shell: str, script: str, place: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["completion", shell, "--print"]) == 0
    assert capsys.readouterr().out == script
    assert dispatch(["completion", shell, "--install"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(nowhere / place)
    assert "shell" in err
    assert (nowhere / place).read_text() == script
    if found := shutil.which(shell):
        subprocess.run([found, "-n", str(nowhere / place)], check=True)
    assert dispatch(["completion", shell]) == 2
    assert dispatch(["completion", shell, "--print", "--install"]) == 2


def test_bash_offers_the_candidates_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "interlock").write_text("#!/bin/sh\necho \"$# $3\"\necho two\n")
    (tmp_path / "interlock").chmod(0o755)
    code = BASH + 'COMP_WORDS=(interlock runners ro); COMP_CWORD=2; _interlock; printf "%s|" "${COMPREPLY[@]}"'
    asked = subprocess.run(["bash", "-c", code], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True,
                           text=True, check=True)
    assert asked.stdout == "3 ro|two|"


def test_an_unwritable_file_gives_a_sentence(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nowhere / ".zfunc").write_text("in the way")
    assert dispatch(["completion", "zsh", "--install"]) == 1
    err: Any = capsys.readouterr().err
    assert err.startswith("error[NotWritten]: ")
    assert err.count("\n") == 1
